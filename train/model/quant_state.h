/*
 * train/model/quant_state.h - the text beside a matrix of 4 bits in a file, NAME.quant_state.
 * bitsandbytes__nf4: how bitsandbytes made it, as JSON.
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
    enum format
        dtype;  /* what it was, and what its numbers are rounded to: FP32, FP16, BF16 */
    bool twice; /* double quantisation */
    float mean; /* of the factors, with that */
};

/* `name` is named in errors: ERROR_DATA, with the key and what is read. */
bool quant_state_parse(const char *data, size_t len, const char *name,
                       struct quant_state *out, struct error *err);

#endif
