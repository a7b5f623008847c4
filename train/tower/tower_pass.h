/*
 * train/tower/tower_pass.h - the operations of an encoder over one image, or one window of a
 * sound, whose input is already in the backend's memory.
 */
#ifndef TRAIN_TOWER_TOWER_PASS_H
#define TRAIN_TOWER_TOWER_PASS_H

#include "base/heartbeat.h"
#include "kernels/backend.h"
#include "train/tower/tower_adapters.h"

enum tower_buffer {
    TOWER_INPUT,  /* patches, or frames */
    TOWER_TAPS_1, /* of the convolutions: kernels/ops_media.h */
    TOWER_TAPS_2,
    TOWER_TAPS_3,
    TOWER_TIME_TAPS,      /* of that in each block of a Conformer */
    TOWER_DISTANCE_TABLE, /* its biases, (heads, 2 * distances) */
    TOWER_UNFOLDED,       /* input of a convolution's matmul */
    TOWER_FILTERED,
    TOWER_CONVOLVED, /* output of the first */
    TOWER_CONVOLVED_2,
    TOWER_PLACES, /* learned positions of each row, or the class token; later, means */
    TOWER_PLACES_LAST,    /* of tiles, added before the global layers */
    TOWER_ANGLES,         /* of op_rope, a row each */
    TOWER_ANGLE_ROWS,     /* 0, 1, 2, ... */
    TOWER_OFFSETS,        /* of all rows as one sequence, then of windows */
    TOWER_REACH,          /* the same: where the keys of a row end */
    TOWER_WINDOW_OFFSETS, /* with tiles: of the rows of the image as one sequence */
    TOWER_OTHER_OFFSETS,  /* with tiles: the same of the other rows */
    TOWER_WINDOW_REACH,
    TOWER_INPUT_NORMED, /* TOWER_INPUT after its norm, which reads fp32 */
    TOWER_X,            /* the residual stream */
    TOWER_H,            /* after a norm; then the output of attention */
    TOWER_HEADS,        /* queries, keys, values */
    TOWER_LSE,
    TOWER_STATS,
    TOWER_INNER,
    TOWER_GATED,
    TOWER_DELTA,
    TOWER_READ, /* rows that the projector reads */
    TOWER_MERGED,
    TOWER_MIDDLE,
    TOWER_EXPANDED, /* gate, up of the projector */
    TOWER_EXPANDED_GATED,
    TOWER_MIDDLE_WIDE, /* TOWER_MIDDLE in fp32 */
    TOWER_PROJECTED,
    TOWER_STACKED, /* the rows of DeepStack, one merger after the other */
    TOWER_ADAPTED, /* rows between the two matrices of an adapter */
    TOWER_DROPPED, /* elements: its input after dropout, and the gradient of that */
    /* of the backward pass */
    /* the residual stream before each block, and after the last; with tiles, also before the norm
     * that the global blocks follow */
    TOWER_KEPT,
    TOWER_NORMED,   /* after the second norm of a block */
    TOWER_ATTENDED, /* the output of attention */
    TOWER_STATS_2,
    TOWER_SINCE, /* as TOWER_REACH: where the rows that see a key begin */
    TOWER_WINDOW_SINCE,
    TOWER_TAPS_USED, /* of the second convolution: uses of op_unfold_backward */
    TOWER_CONV_X,    /* the convolutions before their activations */
    TOWER_CONV_X_2,
    TOWER_PLACE_ROWS,    /* which learned position each row has */
    TOWER_PLACE_WEIGHTS, /* or how much of each, if they are interpolated */
    TOWER_DREAD,         /* gradients, of what has the name without D */
    TOWER_DSTACKED,
    TOWER_DX,
    TOWER_DOUT, /* TOWER_DX in the format of matmuls */
    TOWER_DHEADS,
    TOWER_DATTENTION, /* scratch of op_attention_backward */
    TOWER_DKEYS,      /* of keys and values that two parts of attention read */
    TOWER_DMIDDLE,
    TOWER_BUFFERS
};

/* Most rows of the second convolution that read a row of the first: 3 taps, a stride of 2. */
enum { TOWER_USES = 2 };

/* Frames of a Conformer, and what is left of them after each of its convolutions. */
enum { CONFORMER_STAGES = 4 };

struct tower_tiles; /* train/tower/tower_tiles.h */

/* What a pass is over. */
struct tower_size {
    size_t frames;  /* of the window, as far as the rows depend on them; 0: an image */
    size_t rows;    /* of the encoder, including a class token and the padding of tiles */
    size_t windows; /* in which layers attend */
    size_t read;    /* rows that the projector returns */
    size_t stages[CONFORMER_STAGES]; /* of a Conformer: frames, ... */
    bool trains;                     /* a backward pass follows */
    size_t rank;                     /* of adapters; 0: there are none */
    bool drops;                      /* they have dropout */
};

/* Return the shape of a buffer, without data; int32 are counted as FORMAT_FP32. */
struct tensor tower_buffer_shape(const struct tower_config *config, enum format compute,
                                 bool project, const struct tower_size *size,
                                 enum tower_buffer buffer);

struct tower_pass {
    const struct tower_config *config;
    const struct tower_parameters *parameters;
    char *block;                  /* of the parameters, unless there are `weights` */
    const struct tensor *weights; /* of each parameter of the list; or NULL */
    struct backend *be;
    enum format compute;
    bool project;
    bool
        gated; /* a block multiplies its outputs by its gates, which weights do not contain */
    struct heartbeat *heartbeat; /* ticks in the blocks; or NULL */
    /* of each parameter of the list, fp32.  NULL: they are frozen */
    const struct tensor *gradients;
    const struct tower_adapters *adapters; /* NULL: there are none */
    size_t number;                         /* of the window, piece or crop of an item */
    /* elements of layers outside the blocks, and of an image in tiles, its tiles */
    const float *const *host;
    const struct tower_tiles *tiles;
    struct tower_size size;
    void *buffers[TOWER_BUFFERS]; /* in the backend's memory */
};

struct tensor tower_pass_buffer(const struct tower_pass *pass, enum tower_buffer buffer);

/* Compute from TOWER_INPUT, with the positions, angles, offsets and taps that the encoder has,
 * to the rows that the projector reads; and those of DeepStack.  Return false if the
 * heartbeat ends it. */
bool tower_forward(const struct tower_pass *pass);
/* The rows that the projector reads: (size.read, row_width). */
struct tensor tower_rows_read(const struct tower_pass *pass);
/* From these to the rows that a trained projector reads, or to TOWER_PROJECTED. */
struct tensor tower_encoded(const struct tower_pass *pass);
struct tensor tower_project(const struct tower_pass *pass);

/*
 * After tower_forward of a size that trains: add the gradients of the encoder's parameters, for
 * those of the rows that the projector reads and of DeepStack, in TOWER_DREAD and
 * TOWER_DSTACKED.  The operations within a block are computed again.  Return false if the
 * heartbeat ends it.
 */
bool tower_backward_pass(const struct tower_pass *pass);

#endif
