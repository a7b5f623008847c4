/*
 * train/model/quantised_config.h - quantization_config of a config.json: a base whose files
 * have the linear layers of its blocks in 4 bits, as bitsandbytes wrote them.
 *
 * Read are nf4 in blocks of 64 numbers, with double quantisation or without.  A base in 8
 * bits, in fp4, or of another method is refused.
 */
#ifndef TRAIN_MODEL_QUANTISED_CONFIG_H
#define TRAIN_MODEL_QUANTISED_CONFIG_H

#include "base/arena.h"
#include "base/json.h"

struct quantised_config {
    bool on;
    bool twice;               /* factors in 8 bits: bnb_4bit_use_double_quant */
    const char *const *plain; /* llm_int8_skip_modules: what is left as it was */
    size_t plains;
};

/* What the root of a config.json says; where that is nothing, `out` is off.  `file` is
 * named in errors, names lie in the arena.  ERROR_DATA with the key and the remedy. */
bool quantised_config_read(const json_t *root, const char *file, struct arena *arena,
                           struct quantised_config *out, struct error *err);

/*
 * Is the layer of this weight left as it was: does one of the names stand in it, up to a
 * dot or its end?  transformers 4 looked for a name anywhere, 5 looks at the beginning
 * and at the end.
 */
bool quantised_config_is_plain(const struct quantised_config *config, const char *weight);

#endif
