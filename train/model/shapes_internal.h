/*
 * train/model/shapes_internal.h - private declarations of shapes*.c: the dimensions in
 * their tables, and the state while a layout is built.
 */
#ifndef TRAIN_MODEL_SHAPES_INTERNAL_H
#define TRAIN_MODEL_SHAPES_INTERNAL_H

#include "train/model/shapes.h"

#define SHAPES_ALIGN_ELEMENTS (SHAPES_ALIGNMENT / 2) /* aligned in every format */

/* Dimensions of parameters and buffers. */
enum dim {
    DIM_NONE,
    DIM_ONE,
    DIM_N,            /* rows of the largest batch */
    DIM_OFFSETS,      /* sequences of the largest batch + 1 */
    DIM_CHUNK_STARTS, /* of attention in chunks: their number in the largest batch + 1 */
    DIM_QUERY_SCALES, /* 2, or 0 if queries are not scaled by position */
    DIM_V,
    DIM_EMBEDDINGS,
    DIM_V_ROW, /* elements from one row of logits to the next: V, or more */
    DIM_C,
    DIM_I,
    DIM_GATE_UP,
    DIM_H,
    DIM_MLP, /* columns of the widest MLP that is not an expert's; 0: there is none */
    DIM_SHARED_I,
    DIM_SHARED_GATE_UP,
    DIM_ROUTER_ROW, /* 1; 0 without a module */
    DIM_EXPERTS,
    DIM_EXPERT_I,
    DIM_EXPERT_STARTS, /* experts + 1 */
    DIM_CHOSEN,        /* experts of a row; as factors of the next: 0 without experts */
    DIM_CHOSEN_C,
    DIM_CHOSEN_I,
    DIM_CHOSEN_GATE_UP,
    /* C, with folded adapters, if the output of the shared MLP has a factor */
    DIM_SHARED_C,
    DIM_SHARED, /* 1 in that case */
    DIM_SHARED_2,
    DIM_SHARED_4,
    /* C, and 1, if MLP and experts have norms of their own; experts of a row whose weights
     * have factors; the gradient of C, as POST_DX and POST_COPY */
    DIM_BRANCH,
    DIM_BRANCH_STATS,
    DIM_SCALED,
    DIM_BRANCH_DX,
    DIM_BRANCH_COPY,
    DIM_BALANCE_WINDOW, /* DIM_WINDOW with a load balancing loss */
    DIM_Q,
    DIM_KV,
    DIM_QKV,
    DIM_QK,    /* q and k, or all of QKV, in a separate buffer; 0: none */
    DIM_K,     /* key heads, if they have norms; 1 if one norm covers all; times STATS */
    DIM_SINKS, /* query heads, if attention has sinks */
    DIM_HEADS, /* the same for query heads */
    DIM_VALUE_NORMS, /* key heads, if v has norms */
    DIM_Q_NORM,      /* columns of a norm of q, and of one of k */
    DIM_K_NORM,
    DIM_P,      /* learned positions */
    DIM_Q_GATE, /* H D, twice with a gate */
    /* linear attention: columns of q, k and v together, taps of their convolution, columns
     * and heads of the values, columns of one, values of their state.  Short convolutions:
     * columns, taps; columns of the output as values */
    DIM_CONV,
    DIM_FILTERED, /* DIM_CONV, if the output of the convolution has a buffer of its own */
    DIM_TAPS,
    DIM_VALUES,
    DIM_VALUE_HEADS,
    DIM_VALUE,
    DIM_STATE,
    DIM_BETA,    /* heads of the values, of linear attention alone */
    DIM_SCAN_IN, /* state space models: columns of their first layer, of their output */
    DIM_SCANNED,
    DIM_SCAN_SUMS,
    DIM_IN_QKV, /* DIM_CONV, and with the gates if one matrix has both */
    DIM_IN_B,   /* heads of the values, and twice with the decays */
    /* latent attention: columns of the latents, of their layers, of the parts of heads */
    DIM_Q_RANK,
    DIM_KV_RANK,
    DIM_LATENTS,
    DIM_KV_A,
    DIM_Q_B,
    DIM_KV_B,
    DIM_EXPANDED,
    DIM_WHOLE,     /* 3 H D */
    DIM_O_IN,      /* of the input of o: H D, or those of values that are narrower */
    DIM_CHUNKS,    /* of the largest batch */
    DIM_DCHUNKS,   /* the same on a GPU */
    DIM_SLOTS,     /* sequences of the cache, */
    DIM_CONV_ROWS, /* and rows of each that its convolution reads again, of all */
    DIM_ATT,       /* columns of the output of attention, of either kind */
    DIM_GATED,     /* the same if it is multiplied by a gate */
    DIM_STATS,     /* values that a norm keeps per row: 1; layer norm 2 */
    DIM_MID,       /* C; 0 in parallel blocks */
    DIM_INPUT, /* columns of the input of each layer; and of all; layers that have one */
    DIM_INPUTS,
    DIM_INPUT_LAYERS,
    DIM_INPUT_C, /* C, and DIM_STATS, if layers have inputs */
    DIM_INPUT_STATS,
    DIM_SHARED_KEYS, /* keys and values that other layers use */
    DIM_C_2,         /* C; 0 if blocks have one norm */
    DIM_STATS_2,     /* DIM_STATS; 0 if blocks have one norm */
    DIM_BARE,        /* the most columns of a norm without parameters */
    DIM_ROTARY,      /* columns of a head that are rotated */
    /* the same in layers with a window, if their rotation differs */
    DIM_ROTARY_LOCAL,
    DIM_WIDE,           /* max(C, H D) */
    DIM_CHUNK,          /* rows of a classifier chunk */
    DIM_DCHUNK,         /* rows of gradients of logits; 0 if these overwrite the logits */
    DIM_WINDOW,         /* micro-batches of an optimizer step */
    DIM_STEP_SCALARS,   /* a struct step_scalars, in fp32 */
    DIM_CORRECT,        /* N, or 0 */
    DIM_POSITIONS,      /* positions: N, or more if generated sequences are longer */
    DIM_CACHE,          /* rows of the cache, of all sequences */
    DIM_KD_WINDOW,      /* DIM_WINDOW in a distillation */
    DIM_TEACHER_LOGITS, /* teacher logits kept per row */
    DIM_HEAD,           /* rows of the head: V, or 1 of a reward model */
    DIM_SCORES,         /* N with such a head */
    DIM_PAIR_WINDOW,    /* DIM_WINDOW with preferences */
    DIM_PAIRS,          /* values per pair, for the pairs of the largest batch */
    DIM_REFERENCE,      /* N, if preferences have a reference */
    DIM_ADVANTAGES,     /* 2 of sampled answers: advantages and factors */
    DIM_OLD,            /* N, if steps after the first one use the same answers */
    DIM_U_QKV,
    DIM_U_Q_B,
    DIM_U_KV_B,
    DIM_U_O,
    DIM_U_GATE_UP,
    DIM_U_EXPERT_GATE_UP,
    DIM_U_EXPERT_DOWN,
    DIM_U_ROUTER,
    DIM_U_SCAN_OUT,
    DIM_U_DOWN, /* adapters over one input, times r */
    DIM_U_INPUT_GATE,
    DIM_U_INPUT_OUT,
    DIM_U_LAYER_INPUTS,
    DIM_LORA_G, /* the widest of the adapters that are not folded */
    DIM_Z_QKV,
    DIM_Z_Q_B,
    DIM_Z_KV_B,
    DIM_Z_O,
    DIM_Z_SCAN_OUT,
    DIM_Z_GATE_UP,
    DIM_Z_DOWN,
    DIM_Z_INPUT_GATE,
    DIM_Z_INPUT_OUT,
    DIM_Z_LAYER_INPUTS,
    DIM_DORA_G,    /* the widest of them */
    DIM_DORA_NORM, /* all of them */
    DIM_ROTATIONS, /* elements of those of a block */
    DIM_ROTATION_SCRATCH,
    DIM_ROTATED,  /* the widest input that is rotated */
    DIM_DROTATED, /* the widest inputs of a stack */
    DIM_QKV_U,
    DIM_GATE_UP_U, /* with folded adapters and padding */
    DIM_POST,      /* C, if attention and MLP outputs have a norm */
    DIM_POST_STATS,
    DIM_EMBED_NORM, /* C, if the embeddings have a norm */
    DIM_EMBED_STATS,
    DIM_POST_DX, /* and their gradient, with folded adapters */
    DIM_POST_COPY,
    DIM_DX,     /* C, with folded adapters if matmuls read it */
    DIM_LORA_X, /* widest adapter input under dropout */
    /* C, with folded adapters; 0: no dropout and no factor before the residual */
    DIM_DROPPED,
    DIM_COPY,       /* the same if the compute format is not fp32 */
    DIM_ROUNDED_DY, /* bytes / 4 of rooms for matrices in 8 bits */
    DIM_ROUNDED_W,
    DIM_ROUNDED_X, /* of a block */
    /* cross-attention, 0 without: columns of a head, of q, of k and v, of k; query and key
     * heads; C; 1; sequences of rows that see the same images, at most, + 1 */
    DIM_CROSS_NORM,
    DIM_CROSS_Q,
    DIM_CROSS_KV,
    DIM_CROSS_K,
    DIM_CROSS_HEADS,
    DIM_CROSS_KEYS,
    DIM_CROSS_C,
    DIM_CROSS_ONE,
    DIM_CROSS_DROWS, /* rows of features whose gradients are needed */
    DIM_CROSS_PARTS,
    DIM_CROSS_CACHE, /* rows of images of all slots of generation */
    DIM_ADAPTER_ROWS, /* N, or the rows of images if they are more and adapters read them */
    DIM_U_CROSS_KV,
    DIM_PROJECTOR_NORM,   /* of a projector: columns of its norm, and inputs and output */
    DIM_PROJECTOR_IN,     /* of its layers; 0: it is not trained */
    DIM_PROJECTOR_MERGED, /* after a layer that merges patches; 0: there is none */
    DIM_PROJECTOR_FIRST,
    DIM_PROJECTOR_INNER,
    DIM_PROJECTOR_MIDDLE, /* the same, of a second norm; 0: there is none */
    DIM_PROJECTOR_GATED,
    DIM_PROJECTOR_GATES, /* two parts next to each other */
    DIM_PROJECTOR_LAST,
    DIM_MEDIA_NORMED, /* rows of features that its norm reads; and values that it keeps */
    DIM_MEDIA_STATS,
    DIM_MEDIA_MIDDLE_STATS,
    DIM_MEDIA,      /* rows of features of the largest batch, of images and sounds */
    DIM_MEDIA_DEEP, /* those that are added after the first layers, of all of these */
    DIM_ROPE_ROWS,  /* N, if images have positions of three dimensions */
    DIM_BLOCK_ROWS, /* N, if the rows of an image see each other */
    DIM_DACT,       /* I, or 0 if the gradient of the activation overwrites it */
    DIM_WEIGHT,
    DIM_BIAS, /* elements to convert at a time */
    DIMS
};

/* The rows and columns of a module's weight; norms have one row. */
struct module_dims {
    enum dim rows, cols;
};

/* Adjacent parameters, in the order of the layout; each group starts aligned. */
struct shape_group {
    enum part part;
    enum module first, last;
};

struct shape_groups {
    const struct shape_group *list;
    size_t count;
};

/* shapes_groups.c */
extern const struct module_dims shapes_module_dims[MODULES];
extern const struct shape_groups shapes_groups_before, shapes_groups_of_block,
    shapes_groups_after;

/* State while a layout is built. */
struct shapes_builder {
    const struct plan *plan;
    const struct model_config *config;
    struct arena *arena;
    struct shapes *out;
    size_t dims[DIMS];
    size_t media_rows;
    bool large_chunks; /* of the classifier: there is room for them */
    size_t trainable_at, frozen_at, copies_at; /* offsets of the next parameter */
    size_t blocks_at;  /* of the next frozen matrix of sharded blocks */
    size_t scratch_at; /* offset in BUFFER_WEIGHT */
    bool overflow;
};

/* Return the format in memory: TF32 is stored as FP32. */
static inline enum format shapes_stored(enum format format)
{
    return format == FORMAT_TF32 || format >= FORMAT_COUNT ? FORMAT_FP32 : format;
}

/* Return a * b; if it overflows, return 0 and set m->overflow. */
size_t shapes_times(struct shapes_builder *m, size_t a, size_t b);
/* Return the last module of a stack. */
enum module shapes_stack_last(enum stack stack);
/* Return the dimension of a module's input. */
enum dim shapes_inputs(enum module module);
/* Return the columns of gate and up, or of up alone, of an MLP of that size. */
size_t shapes_gate_up_columns(const struct model_config *c, size_t size);
/* Return the rows that buffers have for a batch of that many. */
size_t shapes_rows(const struct plan *plan, size_t rows);
/* shapes_latent.c: set the dimensions of latent attention, after those of other attention,
 * and return the elements of its largest matrix besides those of its inputs. */
void shapes_latent_dims(struct shapes_builder *m);
size_t shapes_latent_widest(struct shapes_builder *m);
/* shapes_media.c: set the dimensions of rows of images and sounds, for a batch of `rows`. */
void shapes_media_dims(struct shapes_builder *m, size_t rows);
/* Decide whether the model has its projector, and set its dimensions. */
void shapes_projector_dims(struct shapes_builder *m);
/* Return whether it has this part of a module, and whether a module is trained. */
bool shapes_projector_has(const struct shapes_builder *m, enum module module,
                          enum part part);
/* Return the elements of a row of logits, with padding. */
size_t shapes_logits_row(const struct device *device, size_t vocabulary);
/* Return the rows of a chunk of the classifier: as few chunks as the limits allow, all of
 * about equal size.  row: elements per row. */
size_t shapes_chunk_rows(const struct device *device, bool large, size_t row,
                         size_t rows);
/*
 * Return the bytes up to which a run takes memory only to be faster: half of what it may
 * use, so that two such runs fit; 0: none.  What is free now does not matter, because the
 * chunks of the classifier are part of what makes the bits of a run.
 */
uint64_t shapes_room(const struct plan *plan);
/* The same for what does not change the bits: also at most three quarters of what is free
 * now, if that is known, so that it keeps no job from a card that others use, too. */
uint64_t shapes_room_to_keep(const struct plan *plan);
void shapes_add_parameters(struct shapes_builder *m);
void shapes_add_buffers(struct shapes_builder *m);
/* Return the size of the blocks of a PART_OFT_R. */
size_t shapes_rotation_size(const struct shape_parameter *p);
/* shapes_rotation.c: set the dimensions of orthogonal adapters, after the parameters are
 * known; ERROR_JOB if a layer has no blocks of more than one column. */
bool shapes_rotation_dims(struct shapes_builder *m, struct error *err);
/* shapes_check.c: return whether all adapted layers have as many singular values as the
 * adapters that start with them have ranks; otherwise ERROR_JOB. */
bool shapes_check_pissa(const struct shapes_builder *m, struct error *err);
/* shapes_dims.c: set the dimensions of the model's layers. */
void shapes_dims_model(struct shapes_builder *m, const struct model_config *c);
/* shapes_segments.c: place this rank's weights and gradients, after the parameters. */
void shapes_place_weights(struct shapes_builder *m);
void shapes_place_gradients(struct shapes_builder *m);
/* shapes_moments.c: place the moments, after the trained parameters. */
void shapes_place_moments(struct shapes_builder *m);
/* Return whether a target of projections names a layer of the model. */
bool shapes_check_projections(const struct shapes_builder *m, struct error *err);
/* Return the multiple of elements at which groups and shards start. */
size_t shapes_trained_alignment(const struct shapes_builder *m);
/* Regions of the segments, in order: see the header of shapes.h. */
enum region { REGION_MATRICES, REGION_LORA_B, REGION_VECTORS };
enum region shapes_region(const struct shape_parameter *p);
/* shapes_windows.c: return whether a parameter of sharded blocks is read from a window. */
bool shapes_is_gathered(const struct shapes_builder *m, const struct shape_parameter *p);
/* Place this rank's shard of the blocks, and the windows, after the frozen weights. */
void shapes_place_windows(struct shapes_builder *m);

#endif
