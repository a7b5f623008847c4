/*
 * train/model/stored.h - matrices as files have them, and rows of them as products want them.
 *
 * A matrix of the model has `rows` outputs of `cols` numbers; a bias is a column of
 * outputs here.  In a file it may be transposed, or its rows may go head by head: row
 * (3 h + part) D + d there is row (part H + h) D + d here, part 0 to 2 for q, k, v.
 */
#ifndef TRAIN_MODEL_STORED_H
#define TRAIN_MODEL_STORED_H

#include "train/model/architecture.h"

struct matrix_layout {
    enum storage storage;
    size_t rows, cols; /* of the whole matrix here */
    size_t heads;      /* of STORED_HEADS: q, k and v have that many each */
    size_t item;       /* bytes a number */
};

/* Rows first .. first + count of the model out of all of a file's bytes, at any
 * address. */
void matrix_layout_gather(const struct matrix_layout *layout, const void *file,
                          size_t first, size_t count, void *rows);
/* And back to where they belong in the file. */
void matrix_layout_scatter(const struct matrix_layout *layout, const void *rows,
                           size_t first, size_t count, void *file);

#endif
