/*
 * train/model/gptq_matrix.h - matrices that files have in the formats of GPTQ and AWQ, as
 * kernels read them (precision/affine.h), without changing a value.
 *
 * For a layer NAME with `in` columns and `out` rows, and codes of `bits` bits, a file has
 *
 *     NAME.qweight  int32 words of codes.  GPTQ: (in bits / 32, out), each column of words
 *                   the codes of a row, one after another, the first in the lowest bits;
 *                   AWQ: (in, out / 8), each word the codes of 8 rows, in AWQ_ORDER
 *     NAME.qzeros   zero points of the groups, packed along the rows of the layer:
 *                   (groups, out bits / 32)
 *     NAME.scales   (groups, out), of 16 or 32 bits
 *     NAME.g_idx    GPTQ: int32 (in), the group of each column; if it is missing, groups
 *                   are adjacent columns
 *     NAME.bias     zeros, if the model has none: optimum gave one to each layer
 *
 * Checkpoints in the format gptq have zero points less 1, modulo 2^bits.  Sources:
 * AutoGPTQ 0.7.1, qlinear_cuda.py; gptqmodel 7.7.0, utils/model_dequant.py; AutoAWQ 0.2.9,
 * utils/packing_utils.py.
 */
#ifndef TRAIN_MODEL_GPTQ_MATRIX_H
#define TRAIN_MODEL_GPTQ_MATRIX_H

#include "train/model/gptq_tensors.h"

struct gptq_matrix {
    const char *name; /* of the weight, for errors */
    const struct quantized_config *how;
    /* a bias may be missing, and so may columns */
    const struct stored_tensor *tensors[GPTQ_TENSORS];
    size_t rows, cols;
};

/* ERROR_DATA if a tensor has another dtype or shape, a column a group that does not exist,
 * or the bias an element that is not 0. */
bool gptq_matrix_check(const struct gptq_matrix *m, struct error *err);

/* Unpack a matrix that was checked to memory of affine_layout, whose bytes are 0.  Return
 * whether there are groups that are not adjacent columns. */
bool gptq_matrix_unpack(const struct gptq_matrix *m, void *data);

#endif
