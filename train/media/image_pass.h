/* train/media/image_pass.h - one axis of a resize of bytes. */
#ifndef TRAIN_MEDIA_IMAGE_PASS_H
#define TRAIN_MEDIA_IMAGE_PASS_H

#include "train/media/image_weights.h"

/* Rows of `bytes` bytes: out has weights->count of them, each a weighted sum of rows of
 * in. */
void image_pass_down(const struct image_weights *weights, const uint8_t *in, size_t bytes,
                     uint8_t *out);

/* `rows` rows of pixels of `channels` bytes, `width` of in, weights->count of out. */
bool image_pass_across(const struct image_weights *weights, const uint8_t *in,
                       size_t rows, size_t width, size_t channels, uint8_t *out,
                       struct error *err);

#endif
