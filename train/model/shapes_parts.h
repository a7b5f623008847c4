/*
 * train/model/shapes_parts.h - what the files shapes*.c share: the dimensions that rows of
 * their tables are counted in, and a layout in the making.
 */
#ifndef TRAIN_MODEL_SHAPES_PARTS_H
#define TRAIN_MODEL_SHAPES_PARTS_H

#include "train/model/shapes.h"

/* What rows and columns of parameters and buffers are counted in. */
enum dim {
    DIM_NONE,
    DIM_ONE,
    DIM_N,       /* rows of the largest batch */
    DIM_OFFSETS, /* its sequences, and one */
    DIM_V,
    DIM_V_ROW, /* numbers from one row of logits to the next: V, or more */
    DIM_C,
    DIM_I,
    DIM_GATE_UP,
    DIM_H,
    DIM_D,
    DIM_Q,
    DIM_KV,
    DIM_QKV,
    DIM_QK,     /* q and k apart from what they are made of; 0: they are not */
    DIM_K,      /* key heads, likewise */
    DIM_HEADS,  /* query heads, likewise */
    DIM_P,      /* positions that are learned */
    DIM_STATS,  /* what a norm keeps of a row: 1, or 2 of a layer norm */
    DIM_MID,    /* C; 0 where the stream has no middle */
    DIM_ROTARY, /* columns of a head that are turned */
    /* the same in layers with a window, where they are turned otherwise */
    DIM_ROTARY_LOCAL,
    DIM_WIDE,        /* max(C, H D) */
    DIM_CHUNK,       /* rows of a classifier chunk */
    DIM_DCHUNK,      /* 0 where gradients of logits take their place */
    DIM_WINDOW,      /* micro-batches of an optimizer step */
    DIM_NUMBERS,     /* a struct step_numbers, in fp32 */
    DIM_CORRECT,     /* N, or 0 */
    DIM_POSITIONS,   /* positions: N, or more where sequences grow longer */
    DIM_CACHE,       /* rows of all sequences that grow */
    DIM_KD_WINDOW,   /* DIM_WINDOW of a distillation */
    DIM_KEPT,        /* logits of a teacher that are kept */
    DIM_PAIR_WINDOW, /* DIM_WINDOW of preferences */
    DIM_PAIRS,       /* what is told of the pairs of the largest batch */
    DIM_REFERENCE,   /* N, where preferences have a reference */
    DIM_U_QKV,
    DIM_U_O,
    DIM_U_GATE_UP,
    DIM_U_DOWN, /* adapters over one input, times r */
    DIM_LORA_G, /* the widest of these that are not folded */
    DIM_QKV_U,
    DIM_GATE_UP_U, /* with folded adapters, and what pads a row */
    DIM_POST,      /* C, where what is added to the stream has a norm */
    DIM_POST_STATS,
    DIM_POST_DX, /* and its gradient, with folded adapters likewise */
    DIM_POST_COPY,
    DIM_DX,     /* C, and folded adapters where products read it */
    DIM_LORA_X, /* widest input under dropout */
    /* C, and folded adapters; 0: what is added to the stream is not dropped */
    DIM_DROPPED,
    DIM_COPY, /* the same where the compute format is not fp32 */
    DIM_WEIGHT,
    DIM_BIAS, /* numbers to convert at a use */
    DIMS
};

/* Everything the layout is made from. */
struct shapes_builder {
    const struct plan *plan;
    const struct model_config *config;
    struct arena *arena;
    struct shapes *out;
    size_t dims[DIMS];
    size_t room;
    size_t numbers, frozen, copies; /* where the next one goes */
    size_t widened;                 /* and where in BUFFER_WEIGHT */
    bool overflow;
};

/* The storage a format has: TF32 is FP32 in memory. */
static inline enum format shapes_stored(enum format format)
{
    return format == FORMAT_TF32 || format >= FORMAT_COUNT ? FORMAT_FP32 : format;
}

/* A product of sizes; 0, and m->overflow, where it is too large to add up. */
size_t shapes_times(struct shapes_builder *m, size_t a, size_t b);
/* The last module a stack may have. */
enum module shapes_stack_last(enum stack stack);
/* What a module's input is counted in. */
enum dim shapes_inputs(enum module module);
void shapes_add_parameters(struct shapes_builder *m);
void shapes_add_buffers(struct shapes_builder *m);

#endif
