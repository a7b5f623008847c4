/*
 * train/model/matrix_layout.h - the layout of matrices in files, and copies of their rows
 * in the layout that matmuls use.
 *
 * A matrix of the model has `rows` outputs with `cols` elements each; a bias is a column
 * of outputs here. In a file it may be transposed, or its rows may have another order
 * (kernels/row_order.h).
 */
#ifndef TRAIN_MODEL_MATRIX_LAYOUT_H
#define TRAIN_MODEL_MATRIX_LAYOUT_H

#include "kernels/row_order.h"
#include "train/model/architecture.h"
#include "train/model/model_config.h"

struct matrix_layout {
    enum storage storage;
    size_t rows, cols; /* of the whole matrix in the model */
    /* of a stack (STORED_EXPERTS), which `rows` counts together; or patches (STORED_PATCHES) */
    size_t matrices;
    struct row_order order;
    size_t item; /* bytes per element */
    /* of a transposed matrix: elements from a column of the model to the next; 0: rows,
     * so there are no others between them; and from a row to the next; 0: 1 */
    size_t pitch, step;
};

/* Return the order of the rows of a linear layer, and of its outputs, in files. */
struct row_order matrix_layout_order(const struct model_config *config,
                                     enum storage storage, size_t rows);
static inline bool matrix_layout_is_stack(enum storage storage)
{
    return storage == STORED_EXPERTS || storage == STORED_EXPERT_PAIRS;
}

/* Set shape[2] to the dimensions of a matrix in files. */
void matrix_layout_shape(const struct matrix_layout *layout, size_t *shape);

/* Copy rows first .. first + count of the model from the bytes of a file, at any
 * address. */
void matrix_layout_gather(const struct matrix_layout *layout, const void *file,
                          size_t first, size_t count, void *rows);
/* Copy rows of the model back to their positions in the file.  Elements between columns
 * are left as they are. */
void matrix_layout_scatter(const struct matrix_layout *layout, const void *rows,
                           size_t first, size_t count, void *file);

#endif
