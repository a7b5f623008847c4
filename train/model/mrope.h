/* train/model/mrope.h - the positions of text and images in a batch: three numbers each. */
#ifndef TRAIN_MODEL_MROPE_H
#define TRAIN_MODEL_MROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/model/rope_rows.h"

/* An image in place of tokens: its first row of the batch, and its frames, rows and columns,
 * as many as its tokens have (after patches are merged). */
struct mrope_image {
    size_t at;
    int32_t size[ROPE_AXES];
};

/*
 * Set *out to an image whose `grid` counts patches, merge x merge of which are one token.
 * Return the number of its tokens; 0 if the grid is not one: a number below 1, rows or
 * columns that are no multiple of merge, or 2^31 tokens or more.
 */
size_t mrope_image_of(const int32_t grid[ROPE_AXES], int32_t merge,
                      struct mrope_image *out);

/*
 * Fill the positions of a batch of `sequences`, offsets (sequences + 1) from 0 to its rows:
 *   text            p, p, p, and then p + 1
 *   image, at p     p + frame, p + row, p + column of each token, and then p plus the larger
 *                   of its rows and columns
 * p begins at 0 in each sequence.  The images are in order of their rows, each within a
 * sequence.  No position is above that of the row in its sequence.
 * transformers 5.24, Qwen2VLModel.get_rope_index.
 */
void mrope_positions(const int32_t *offsets, size_t sequences,
                     const struct mrope_image *images, size_t count,
                     int32_t (*out)[ROPE_AXES]);

/* Return the position of the next token after `rows` of a sequence: one more than the
 * largest number so far. */
int32_t mrope_next(const int32_t (*positions)[ROPE_AXES], size_t rows);

#endif
