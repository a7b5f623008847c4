/* train/media/image_weights.h - the weights with which a resize adds the pixels of one
 * axis. */
#ifndef TRAIN_MEDIA_IMAGE_WEIGHTS_H
#define TRAIN_MEDIA_IMAGE_WEIGHTS_H

#include "train/media/image_resize.h"

/* out[i] = sum over j < taps[i] of in[first[i] + j] * weight[start[i] + j] */
struct image_weights {
    uint32_t count;         /* of out */
    uint32_t *first, *taps; /* (count) */
    size_t *start;          /* (count) */
    double *real;           /* sum to 1 for each i */
    int32_t *fixed; /* the same times 2^bits, rounded; NULL before image_weights_fix */
    unsigned bits;
};

/* from, to: sizes of the axis, from 1 to IMAGE_SIDE_MAX.  filter: not IMAGE_NEAREST. */
bool image_weights_init(struct image_weights *out, uint32_t from, uint32_t to,
                        enum image_filter filter, struct error *err);
bool image_weights_fix(struct image_weights *weights, enum image_kernel kernel,
                       struct error *err);
void image_weights_clear(struct image_weights *weights);

#endif
