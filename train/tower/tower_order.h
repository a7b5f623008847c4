/*
 * train/tower/tower_order.h - the order in which an encoder reads the patches of an image:
 * those that become one row, and those of a window, follow each other.
 */
#ifndef TRAIN_TOWER_TOWER_ORDER_H
#define TRAIN_TOWER_TOWER_ORDER_H

#include "train/tower/tower_config.h"

struct tower_order {
    size_t count;     /* patches, and a class token */
    size_t rows;      /* that the projector returns */
    int32_t (*at)[2]; /* row and column of each patch; -1 of a class token */
    uint32_t
        *from; /* which patch of the image it is, in raster order; 0 of a class token */
    uint32_t *to;        /* of each row: which row of the image it is, in raster order */
    size_t windows;      /* 0: there are none */
    int32_t *window_end; /* of each window: the index after its last patch, increasing */
};

/* Order an image of `height` x `width` patches.  ERROR_DATA if this encoder cannot read such
 * an image. */
bool tower_order_make(const struct tower_config *config, size_t height, size_t width,
                      struct tower_order *out, struct error *err);
void tower_order_clear(struct tower_order *order);

/*
 * Fill position(s) of a patch, or of the class token, of an image of this size: the columns
 * of `table`, the learned positions (fp32).  Qwen3-VL interpolates those of a grid between
 * its corners, as F.interpolate(align_corners=True) does, PaddleOCR-VL without, GLM-4V as
 * F.grid_sample(mode="bicubic", padding_mode="border") does, and SigLIP 2 as F.interpolate(
 * antialias=True) does.  Gemma 4 adds those of the column and the row.
 */
void tower_order_position(const struct tower_config *config, const float *table,
                          const struct tower_order *order, size_t index,
                          const size_t size[2], float *out);

/* The learned positions that a patch has a share of, unless they are smoothed. */
struct tower_shares {
    size_t count;
    size_t rows[16]; /* of the table; some may be equal */
    float weights[16];
};

struct tower_shares tower_order_shares(const struct tower_config *config,
                                       const struct tower_order *order, size_t index,
                                       const size_t size[2]);

/* Add the share that a patch has of each learned position of a grid. */
void tower_order_add_shares(const struct tower_config *config,
                            const struct tower_order *order, size_t index,
                            const size_t size[2], float *shares);

/* Fill a row of the table of op_rope: cosines, then sines, of half the columns of a head. */
void tower_order_angles(const struct tower_config *config, const int32_t at[2],
                        float *out);

#endif
