/*
 * train/model/quantized_config.h - quantization_config of a config.json: a base model
 * whose files store the linear layers of its blocks in few bits.
 *
 * bitsandbytes: only nf4 in blocks of 64 elements, with or without double quantization. A
 * base in 8 bits, or in fp4, is rejected.  GPTQ: 2, 3, 4 or 8 bits, in the formats gptq
 * and gptq_v2.  AWQ: 4 bits with zero points, in the order of version gemm.  Other methods
 * are rejected.
 *
 * Weights that are dequantized when they are loaded: packed_config.h.
 */
#ifndef TRAIN_MODEL_QUANTIZED_CONFIG_H
#define TRAIN_MODEL_QUANTIZED_CONFIG_H

#include "base/arena.h"
#include "base/json.h"
#include "precision/affine.h"

enum quantizer { QUANTIZER_BITSANDBYTES, QUANTIZER_GPTQ, QUANTIZER_AWQ, QUANTIZERS };

struct quantized_config {
    bool enabled;
    enum quantizer by;
    bool double_quant; /* factors in 8 bits: bnb_4bit_use_double_quant */
    /* of GPTQ and AWQ: bits of a code in the files, codes and groups in memory, and
     * whether files have zero points less 1 */
    unsigned bits;
    struct affine affine;
    bool less_one;
    bool sorts;                 /* desc_act: files must say which group a column has */
    const char *const *skipped; /* layers that are not quantized */
    size_t skipped_count;
    const char *const *only; /* ends of the layers that are; none: all */
    size_t only_count;
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

/* Return the bits of a code in the files. */
unsigned quantized_config_bits(const struct quantized_config *config);

/* Return the name of the method as people write it, "GPTQ". */
const char *quantizer_name(enum quantizer by);

#endif
