/*
 * kernels/tensor.h - a matrix: data, format, shape.
 *
 * Every operand of every operation is a matrix of `rows` rows of `cols` elements, with
 * `stride` elements from one row to the next (stride >= cols; a slice of a wider matrix
 * has a larger stride).  A vector is one row.  The data is in the memory of a backend and
 * is not owned.
 */
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "precision/format.h"

struct tensor {
    void *data; /* NULL: absent, if an operation allows it */
    enum format format;
    size_t rows, cols, stride;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Contiguous. */
struct tensor tensor_of(void *data, enum format format, size_t rows, size_t cols);
/* `cols` columns from column `first` on; shares the data. */
struct tensor tensor_columns(struct tensor whole, size_t first, size_t cols);
/* `rows` rows from row `first` on; shares the data. */
struct tensor tensor_rows(struct tensor whole, size_t first, size_t rows);
size_t tensor_bytes(struct tensor tensor); /* of a contiguous one */

#ifdef __cplusplus
}
#endif

#endif
