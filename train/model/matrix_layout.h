/*
 * train/model/matrix_layout.h - the layout of matrices in files, and copies of their rows
 * in the layout that matmuls use.
 *
 * A matrix of the model has `rows` outputs with `cols` elements each; a bias is a column
 * of outputs here. In a file it may be transposed, or its rows may be ordered by key head:
 * there, the query heads that share a key head come first, then that key head and its
 * value head; here, all of q, then k, then v.  Or each query head is followed by its gate;
 * here, all of q come before all gates.
 */
#ifndef TRAIN_MODEL_MATRIX_LAYOUT_H
#define TRAIN_MODEL_MATRIX_LAYOUT_H

#include "train/model/architecture.h"

struct matrix_layout {
    enum storage storage;
    size_t rows, cols; /* of the whole matrix in the model */
    size_t heads;      /* if rows are moved: those of q, and of k and v */
    size_t kv_heads;
    size_t item; /* bytes per element */
    /* of a transposed matrix: elements from a column of the model to the next; 0: rows,
     * so there are no others between them */
    size_t pitch;
};

/* Copy rows first .. first + count of the model from the bytes of a file, at any
 * address. */
void matrix_layout_gather(const struct matrix_layout *layout, const void *file,
                          size_t first, size_t count, void *rows);
/* Copy rows of the model back to their positions in the file.  Elements between columns
 * are left as they are. */
void matrix_layout_scatter(const struct matrix_layout *layout, const void *rows,
                           size_t first, size_t count, void *file);

#endif
