/*
 * train/model/quantized_config.h - quantization_config of a config.json: a base model
 * whose files store the linear layers of its blocks in 4 bits, in bitsandbytes' format.
 *
 * Only nf4 in blocks of 64 elements is supported, with or without double quantization. A
 * base in 8 bits, in fp4, or of another method is rejected.
 */
#ifndef TRAIN_MODEL_QUANTIZED_CONFIG_H
#define TRAIN_MODEL_QUANTIZED_CONFIG_H

#include "base/arena.h"
#include "base/json.h"

struct quantized_config {
    bool enabled;
    bool double_quant;          /* factors in 8 bits: bnb_4bit_use_double_quant */
    const char *const *skipped; /* llm_int8_skip_modules: layers that are not quantized */
    size_t skipped_count;
};

/* Parse the root of a config.json; without a quantization_config, `out` is off.  `file`
 * is used in errors; names are copied to the arena.  ERROR_DATA names the key and the
 * remedy. */
bool quantized_config_read(const json_t *root, const char *file, struct arena *arena,
                           struct quantized_config *out, struct error *err);

/*
 * Return whether the layer of this weight is not quantized: one of the skipped names
 * occurs in its name, followed by a dot or the end. transformers 4 searched for the names
 * anywhere, 5 searches at the beginning and at the end.
 */
bool quantized_config_skips(const struct quantized_config *config, const char *weight);

#endif
