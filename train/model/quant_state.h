/*
 * train/model/quant_state.h - the description of a 4-bit matrix that bitsandbytes stores
 * in the same file as JSON, NAME.quant_state.bitsandbytes__nf4:
 *
 *     {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [2048, 512],
 *      "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.02}
 *
 * bitsandbytes 0.50, functional.py: QuantState.as_dict.
 */
#ifndef TRAIN_MODEL_QUANT_STATE_H
#define TRAIN_MODEL_QUANT_STATE_H

#include "base/error.h"
#include "precision/format.h"

struct quant_state {
    size_t rows, cols;
    enum format dtype; /* of the original, and of dequantized values: FP32, FP16, BF16 */
    bool double_quant;
    /* nested_offset: mean of the factors; 0 without double quantization */
    float absmax_mean;
};

/* `name` is used in errors.  ERROR_DATA names the key and what it must be. */
bool quant_state_parse(const char *data, size_t len, const char *name,
                       struct quant_state *out, struct error *err);

#endif
