/* train/model/gptq_tensors.h - the tensors that files in the formats of GPTQ and AWQ have
 * for a matrix; their contents are described in gptq_matrix.h. */
#ifndef TRAIN_MODEL_GPTQ_TENSORS_H
#define TRAIN_MODEL_GPTQ_TENSORS_H

#include "train/files/safetensors.h"
#include "train/model/quantized_config.h"

enum { GPTQ_WEIGHT, GPTQ_ZEROS, GPTQ_SCALES, GPTQ_COLUMNS, GPTQ_BIAS, GPTQ_TENSORS };

/* Endings instead of .weight, in this order. */
#define GPTQ_ENDINGS                                        \
    {                                                       \
        ".qweight", ".qzeros", ".scales", ".g_idx", ".bias" \
    }

enum { GPTQ_WORD_BITS = 32 };

/* ERROR_DATA if a tensor of matrix `name`, with `rows` outputs and `cols` inputs, has
 * another dtype or shape.  Codes, zero points and scales must exist; a bias is not checked. */
bool gptq_tensors_fit(const struct quantized_config *how,
                      const struct stored_tensor *const tensors[], const char *name,
                      size_t rows, size_t cols, struct error *err);

#endif
