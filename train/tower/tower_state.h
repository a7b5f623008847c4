/* train/tower/tower_state.h - an encoder's memory, shared by the files of tower.h. */
#ifndef TRAIN_TOWER_TOWER_STATE_H
#define TRAIN_TOWER_TOWER_STATE_H

#include "train/tower/tower.h"
#include "train/tower/tower_conformer.h"
#include "train/tower/tower_order.h"
#include "train/tower/tower_pass.h"
#include "train/tower/tower_tiles.h"

struct tower {
    struct arena *arena;
    struct tower_config config;
    struct tower_parameters parameters;
    struct tower_pass pass;
    bool trains;
    struct tensor *gradients; /* of each parameter; in one block, or the model's */
    /* of a model that trains it, by parameter: as matmuls read them, and of layers on the
     * host, the weights; NULL: they are in the pass's block */
    struct tensor *weights;
    void *gradient_block;
    const struct tower_row_gradients *given; /* of the item that passes back */
    /* in fp32, of layers outside the blocks; NULL: there is none */
    float *host[TOWER_LAYERS];
    void *work; /* the buffers of a pass */
    size_t work_bytes;
};

/* Download a tensor of the encoder in the format `to`, when all that computes it is done. */
bool tower_download(const struct tower *tower, struct tensor from, enum format to,
                    void *out, struct error *err);
/* Upload rows of fp32 in the format of `to`. */
void tower_upload_rows(const struct tower *tower, struct tensor to, const float *values);
/* Upload what a pass over a window of a sound reads, or over an image; the sizes of the pass
 * are set. */
void tower_upload_window(const struct tower *tower, const float *frames);
/* The same over a piece of a sound, whose frames are all given. */
void tower_upload_piece(const struct tower *tower, const struct conformer_piece *piece,
                        const float *values);
void tower_upload_image(const struct tower *tower, const struct media_input *input,
                        const struct tower_order *order);
void tower_upload_tiles(const struct tower *tower, const struct media_input *input,
                        const struct tower_tiles *tiles);

#endif
