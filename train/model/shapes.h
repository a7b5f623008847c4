/*
 * train/model/shapes.h - the only table of every parameter and every buffer of a run,
 * with its bytes. It needs no backend and no weights: the memory estimate and the real
 * layout use the same arithmetic.
 *
 * One block holds everything, in this order, each piece aligned to SHAPES_ALIGNMENT:
 *
 *     weights  gradients  moment1  moment2     trainable parameters, segments of equal
 *                                              layout; of the moments one rank's shard, of
 *                                              sharded gradients the same and lanes, of
 *                                              sharded weights the same and those that
 *                                              have no copy
 *     copies                                   16-bit working copies of matrices, unless
 *                                              matmuls can round them from fp32
 *     frozen                                   frozen weights in their storage format; of
 *                                              sharded blocks one rank's shard, and windows
 *     buffers                                  activations and scratch
 *
 * Matrices that one matmul can use together (q, k, v; gate, up; the A matrices over one
 * input) are adjacent, without a gap. In the trainable segments, matrices come first,
 * then the B matrices, then vectors: parameters with the same kind of update are
 * contiguous.
 *
 * Folded adapters: the working copies of the A matrices directly follow the frozen
 * matrices over the same input, so [W; A] is one matrix, and x A^T directly follows x W^T
 * (g = dy B follows dy) in one buffer. One matmul then reads x (writes dx) for both.
 *
 * Experts: each has its own parameters, as files have them.  Those of a layer are adjacent
 * in the order of the experts (gate and up of one expert, then of the next), so they are a
 * stack for a grouped matmul.
 *
 * Stored in 4 bits (with quantization_bit, or if the base's files are in 4 or 8 bits):
 * the frozen linear layers of the blocks, except those that the files do not quantize,
 * each in one piece (precision/nf4.h, or affine.h) aligned to SHAPES_ALIGNMENT. Matmuls
 * read them in the compute format from one buffer, where they are adjacent as above;
 * nothing is folded after them.
 *
 * Formats: trainable weights and most moments have precision.trainable (fp32 except in the
 * pure modes; struct shape_moment); gradients are always fp32. Frozen matrices have
 * precision.frozen, or the compute format if that has 16 bits (autocast would convert them
 * at every use, to the same values); frozen vectors are fp32.
 */
#ifndef TRAIN_MODEL_SHAPES_H
#define TRAIN_MODEL_SHAPES_H

#include "train/model/lora.h"
#include "train/model/model_config.h"
#include "train/model/optimizer_table.h"
#include "train/plan.h"

#define SHAPES_ALIGNMENT ((size_t)256) /* bytes: CUDA requires it, CPUs less */

/* Linear layers that read the same input. */
enum stack {
    STACK_QKV,
    STACK_Q_B, /* of latent attention */
    STACK_KV_B,
    STACK_O,
    STACK_SCAN_OUT,
    STACK_GATE_UP,
    STACK_DOWN,
    STACK_INPUT_GATE, /* of inputs for each layer */
    STACK_INPUT_OUT,
    STACK_LAYER_INPUTS, /* the only one outside the blocks */
    STACK_EXPERT_GATE_UP,
    STACK_EXPERT_DOWN,
    STACK_ROUTER,
    STACK_CROSS_KV, /* keys and values of cross-attention */
    STACKS
};

enum part {
    PART_WEIGHT,
    PART_BIAS,
    PART_LORA_A,
    PART_LORA_B,
    PART_LORA_MAGNITUDE,
    PART_OFT_R /* train/model/rotation.h */
};

/* A moment of a trained parameter. */
struct shape_moment {
    size_t at; /* bytes from the start of the moment, of all ranks */
    /* weights per element: 1, or a block; 0: elements do not belong to weights, and the
     * parameter is updated as a whole */
    size_t each;
    size_t count; /* elements; 0: the parameter has none */
    enum format format;
};

struct shape_parameter {
    const char *name; /* as Hugging Face or PEFT name it */
    enum module module;
    enum part part;
    size_t layer, expert;                /* or the number of an encoder's tensor */
    const struct encoder_tensor *tensor; /* of an encoder; or NULL */
    size_t rank, rows, cols;             /* a vector has rank 1 and 1 row */
    bool trainable, decays;
    bool starts_group; /* first of a group of adjacent parameters */
    bool folded;       /* the copy is among the frozen weights */
    bool quantized; /* kept in few bits; the copy is in BUFFER_WEIGHT while it is used */
    enum storage stored; /* how the files store it */
    size_t matrices;     /* struct matrix_layout */
    double lr_factor;
    enum format format; /* storage of the weight */
    enum format copy;   /* of the working copy; FORMAT_COUNT: none */
    size_t at;      /* trainable: elements from the start of the segment; frozen: bytes */
    size_t grad_at; /* trainable: elements from the start of the gradients */
    /* trainable: elements from the start of the weights, unless sharded: each rank then
     * has those of its shard only, and matmuls read the copy */
    size_t weight_at;
    bool sharded;
    bool gathered;    /* the weight, or the copy, is in the window of its block */
    size_t window_at; /* bytes from the start of that window */
    /* bytes from the start of the copies, the frozen weights or the buffer */
    size_t copy_at;
    struct shape_moment moments[MOMENTS_MAX];
};

/* Letters as in kernels/ops.h. */
enum buffer {
    /* one per block, kept for the backward pass */
    BUFFER_X_IN,  /* residual before the block, fp32 (N, C) */
    BUFFER_RSTD1, /* (1, N); layer norm (2, N) */
    BUFFER_QKV,   /* rotated (N, (H + 2K) D); followed by x A^T if folded */
    /* with head norms: q and k after norms and rotation (N, (H + K) D); those in QKV are
     * the inputs of the norms */
    BUFFER_QK,
    BUFFER_RSTD_Q,      /* (N, H) */
    BUFFER_RSTD_K,      /* (N, K) */
    BUFFER_RSTD_VALUES, /* the same of v, which then is in QK, too */
    BUFFER_CONV,        /* linear attention: q, k and v after the convolution */
    BUFFER_DECAY,
    BUFFER_BETA,   /* of each head and row, fp32 */
    BUFFER_RSTD_V, /* of the norm of its output */
    /* latent attention: the latents after their norms; q, k and v of whole heads, each (N,
     * H D) */
    BUFFER_LATENTS,
    BUFFER_HEADS,
    BUFFER_SCAN, /* output of a state space model */
    BUFFER_ATT,  /* attention output (N, H D) */
    BUFFER_LSE,  /* (H, N) */
    /* cross-attention: q after its norm (N, H D); k and v of the rows of images (M, 2 K D), k
     * after its norm (M, K D); outputs of attention and of the MLP before their gates, fp32
     * (N, C) */
    BUFFER_CROSS_Q,
    BUFFER_RSTD_CROSS_Q, /* (N, H) */
    BUFFER_CROSS_KV,
    BUFFER_CROSS_K,
    BUFFER_RSTD_CROSS_K, /* (M, K) */
    BUFFER_CROSS_ATT,
    BUFFER_CROSS_MLP,
    BUFFER_POST1, /* output of attention before its norm, if it has one, fp32 (N, C) */
    BUFFER_RSTD_POST1,
    BUFFER_X_MID, /* residual after attention, fp32; absent in parallel blocks */
    BUFFER_RSTD2,
    /* (N, 2 I), or (N, I) without a gate, and x A^T; the backward pass overwrites it with
     * gradients */
    BUFFER_GATE_UP,
    BUFFER_POST2, /* output of the MLP, like POST1 */
    BUFFER_RSTD_POST2,
    /* with inputs for each layer of P columns: the residual after the MLP (N, C), what
     * multiplies the input (N, P), and what is added (N, C), like POST1 */
    BUFFER_INPUT_X,
    BUFFER_INPUT_GATE,
    BUFFER_POST3,
    BUFFER_RSTD_POST3,
    /* experts, with M = k N chosen pairs of a row and an expert: rows of the layout are
     * rows of the batch, so a buffer of pairs has k times the columns */
    BUFFER_ROUTED,       /* probabilities, fp32 (N, E) */
    BUFFER_PAIR_WEIGHTS, /* fp32 (N, k) */
    BUFFER_PAIR_EXPERTS, /* int32 (N, k), as the next two */
    BUFFER_PAIR_ORDER,
    BUFFER_PAIR_SLOTS,
    BUFFER_PAIR_FACTORS,   /* PAIR_WEIGHTS times learned factors, if there are any */
    BUFFER_EXPERT_STARTS,  /* int32 (1, E + 1) */
    BUFFER_EXPERT_GATE_UP, /* (M, 2 I) of the experts; overwritten like GATE_UP */
    BUFFER_EXPERT_OUT,     /* (M, C), before the weights; overwritten like GATE_UP */
    /* if both have norms: outputs of the MLP and of the experts before them, fp32 (N, C) */
    BUFFER_MLP_OUT,
    BUFFER_RSTD_MLP,
    BUFFER_EXPERTS_OUT,
    BUFFER_RSTD_EXPERTS,
    /* of the MLP next to them, like those of one expert that all rows choose */
    BUFFER_SHARED_OUT,    /* (N, C), overwritten like GATE_UP */
    BUFFER_SHARED_WEIGHT, /* fp32, twice (N, 1) */
    BUFFER_SHARED_SLOTS,  /* int32 (N, 1) */
    BUFFER_U_EXPERT_GATE_UP,
    BUFFER_U_EXPERT_DOWN,
    BUFFER_U_ROUTER,
    BUFFER_U_SCAN_OUT,
    BUFFER_U_QKV,
    BUFFER_U_Q_B,
    BUFFER_U_KV_B,
    BUFFER_U_CROSS_KV, /* (M, adapters * r), of the rows of images */
    BUFFER_U_O,
    BUFFER_U_GATE_UP,
    BUFFER_U_DOWN, /* x A^T (N, adapters * r), unless it is in the buffers above */
    BUFFER_U_INPUT_GATE,
    BUFFER_U_INPUT_OUT,
    BUFFER_Z_QKV, /* of weight-decomposed adapters: see model_dora.c */
    BUFFER_Z_Q_B,
    BUFFER_Z_KV_B,
    BUFFER_Z_O,
    BUFFER_Z_SCAN_OUT,
    BUFFER_Z_GATE_UP,
    BUFFER_Z_DOWN,
    BUFFER_Z_INPUT_GATE,
    BUFFER_Z_INPUT_OUT,
    BUFFER_Z_LAYER_INPUTS, /* one */
    /* one of each, or one per block if shapes.keeps */
    BUFFER_H1, /* output of the first norm (N, C) */
    BUFFER_H2, /* output of the second norm */
    /* act(gate) * up, or act(up) (N, I); if it is not kept, the backward pass writes its
     * gradient here, and then it again */
    BUFFER_ACT,
    /* one of each */
    BUFFER_U_LAYER_INPUTS,
    /* the inputs of all L layers (N, L P), which their gradients overwrite; the outputs of
     * the matrix from the embeddings, and of their norms the scales (N, L) */
    BUFFER_INPUTS,
    BUFFER_PROJECTED,
    BUFFER_RSTD_INPUTS,
    BUFFER_INPUT_ACT, /* (N, P); overwritten like ACT */
    /* keys and values that other layers use (N, 2 K D): of layers with a window, and of
     * those without one */
    BUFFER_SHARED_KEYS,
    BUFFER_ROUTER_LOGITS, /* fp32 (N, E) */
    BUFFER_EXPERT_H,      /* input of the router, or of the experts, with its own norm */
    BUFFER_EXPERT_X,      /* input of the experts (M, C) */
    BUFFER_EXPERT_ACT,    /* (M, I); overwritten like ACT */
    BUFFER_SHARED_IDS,    /* int32, scratch of the routing to one expert */
    BUFFER_NORMED, /* output of linear attention after its norm; then its gradient */
    /* output of attention times its gate; of latent attention, without the columns that
     * pad its heads, whose gradient, with them, is in NORMED */
    BUFFER_GATED,
    BUFFER_EXPANDED, /* latent attention: parts of heads, or their gradients */
    BUFFER_ROTATED,  /* the rotated input of a layer */
    BUFFER_X_LAST,   /* residual after the last block */
    BUFFER_EMBEDDED, /* embeddings before their norm, if they have one, fp32 (N, C) */
    BUFFER_RSTD_EMBED,
    BUFFER_RSTD,
    BUFFER_H_LAST, /* output of the last norm */
    /* output of attention or MLP, to be added to the residual, fp32 (N, C) */
    BUFFER_DELTA,
    BUFFER_DELTA_POST, /* the same after its norm */
    BUFFER_DX,         /* gradient of the residual, fp32 (N, C) */
    /* the same in the compute format, if that is not fp32; in the one that matmuls read,
     * the gradient of x A^T follows if folded */
    BUFFER_DX_COPY,
    BUFFER_DH, /* gradient of the output of a norm or of attention (N, max(C, H D)) */
    BUFFER_DQKV,
    BUFFER_DACT,
    BUFFER_DSHARED_KEYS, /* gradients of SHARED_KEYS, fp32 */
    BUFFER_DHEADS,       /* gradients of HEADS and LATENTS */
    BUFFER_DLATENTS,
    BUFFER_DCROSS_KV, /* gradients of CROSS_KV */
    /* gradients of MEDIA_ROWS, if a projector or an encoder is trained: of one layer, and of
     * all, fp32 (M, C) */
    BUFFER_DCROSS_ROWS,
    BUFFER_DCROSS_SUM,
    BUFFER_DCONV, /* gradient of CONV; then of DECAY and BETA */
    BUFFER_DDECAY,
    BUFFER_DBETA,
    BUFFER_STATES,
    BUFFER_DSTATES,    /* scratch of op_delta_backward, or op_scan_backward */
    BUFFER_SCAN_SUMS,  /* the same */
    BUFFER_DEMBED,     /* gradient of EMBEDDED, fp32 */
    BUFFER_DPOST,      /* gradient of POST1 or POST2, fp32 */
    BUFFER_DPOST_COPY, /* like DX_COPY */
    BUFFER_DBRANCH,    /* gradient of MLP_OUT or EXPERTS_OUT, like the two above */
    BUFFER_DBRANCH_COPY,
    BUFFER_DROUTER,       /* gradient of the router's logits (N, E) */
    BUFFER_DPAIR_WEIGHTS, /* fp32 (N, k) */
    BUFFER_DEXPERT,       /* gradient of EXPERT_OUT, then of EXPERT_X (M, C) */
    BUFFER_DLSE,          /* (H, N) scratch of the attention backward pass */
    BUFFER_LORA_G,        /* gradient of x A^T if not folded */
    BUFFER_DORA_G,        /* gradient of a BUFFER_Z */
    BUFFER_DROTATED, /* gradients of the rotated inputs of a stack, one after another */
    /* gradient of the residual after dropout or a factor, as matmuls read it; in parallel
     * blocks, the output of the MLP before it is added */
    BUFFER_DROPPED,
    BUFFER_LORA_X, /* input of an adapter after dropout, or its gradient before dropout */
    BUFFER_ROUNDED_DY, /* rooms for matrices in 8 bits: see enum rounded */
    BUFFER_ROUNDED_W,  /* one per block */
    BUFFER_ROUNDED_X,  /* one per block */
    /* frozen weights that are stored in another format, while they are used */
    BUFFER_WEIGHT,
    BUFFER_BIAS,
    BUFFER_LOGITS, /* V columns, padded so that each row starts aligned */
    /* fp32: shares the memory of LOGITS, except in a distillation, which needs both */
    BUFFER_DLOGITS,
    BUFFER_GATHERED,
    BUFFER_DGATHERED, /* a chunk of rows */
    BUFFER_LOSSES,    /* of the micro-batches of a window, newest first */
    BUFFER_ROPE,      /* (positions, D): a position is below N or the rows of a slot */
    BUFFER_ROPE_LOCAL,
    BUFFER_ONES, /* the weight of norms that have none */
    BUFFER_TOKENS,
    BUFFER_POSITIONS,
    BUFFER_TARGETS,
    BUFFER_WEIGHTS,      /* of the targets, if not all are 1 */
    BUFFER_OFFSETS,      /* int32 */
    BUFFER_CHUNK_STARTS, /* like BUFFER_OFFSETS, of the chunks of attention */
    BUFFER_QUERY_SCALES, /* (positions, 2): the scale and 0, a table of op_rope */
    /* distillation: like BUFFER_LOSSES, the distance from the teacher */
    BUFFER_KD_LOSSES,
    BUFFER_TEACHER_LOGITS, /* teacher logits that are kept (N, k) */
    BUFFER_TEACHER_IDS,    /* int32: their token ids */
    /* preferences: (P, PREFERENCE_VALUES) for each micro-batch of a window, newest
     * first */
    BUFFER_PAIRS,
    BUFFER_REFERENCE,    /* losses of the reference model (1, N) */
    BUFFER_ADVANTAGES,   /* of sampled answers, and their factors (2, sequences + 1) */
    BUFFER_OLD,          /* losses of the model that sampled them (1, N) */
    BUFFER_DSCORES,      /* gradient of the scores of a reward model (N, 1) */
    BUFFER_LABELED_ROWS, /* int32 (1, N), scratch of the classifier */
    /* pairs of each expert in all layers, int32 (window, E), and the sums of the
     * probabilities, fp32: of the micro-batches of a window, newest first, if there is a
     * load balancing loss */
    BUFFER_EXPERT_COUNTS,
    BUFFER_EXPERT_SUMS,
    BUFFER_STEP_SCALARS, /* one struct step_scalars */
    BUFFER_CORRECT,      /* of an evaluation (1, N), if its accuracy is requested */
    /* of images and sounds: rows of features (M, C), those of DeepStack (layers * M, C),
     * which rows of the batch they belong to, int32 (1, M); struct op_attention's reach and
     * since, int32 (1, N) */
    BUFFER_MEDIA_ROWS,
    /* of a projector: its input, fp32 (rows of the norm); these are not read without a norm;
     * its statistics; the gradient of the input; the input of its first layer (M, in); of its
     * second, if the first merges patches (M, merged); what is before and after the activation
     * (M, inner); with a second norm, the input of that in fp32, its statistics and its
     * gradient; gates and their other factors, adjacent, and their products (M, gated) */
    BUFFER_MEDIA_X,
    BUFFER_RSTD_MEDIA,
    BUFFER_DMEDIA_X,
    BUFFER_MEDIA_IN,
    BUFFER_MEDIA_MERGED,
    BUFFER_MEDIA_INNER,
    BUFFER_MEDIA_ACT,
    BUFFER_MEDIA_MIDDLE,
    BUFFER_RSTD_MEDIA_MIDDLE,
    BUFFER_DMEDIA_MIDDLE,
    BUFFER_MEDIA_GATES,
    BUFFER_MEDIA_GATED,
    BUFFER_MEDIA_DEEP,
    BUFFER_MEDIA_AT,
    /* of cross-attention (model_cross.c): whether rows see an image, int32 (1, N); offsets of
     * the sequences of rows that see the same images, and of these images' rows; reach (1, N)
     * and since (1, M) */
    BUFFER_CROSS_SEEN,
    BUFFER_CROSS_OFFSETS,
    BUFFER_CROSS_KEY_OFFSETS,
    BUFFER_CROSS_REACH,
    BUFFER_CROSS_SINCE,
    BUFFER_REACH,
    BUFFER_SINCE,
    /* a row of angles for each row of the batch, and 0 .. N - 1, int32 */
    BUFFER_ROPE_ROWS,
    BUFFER_ROPE_AT,
    BUFFER_DORA_NORM, /* one per block: norms of the rows of adapted weights */
    BUFFER_ROTATIONS, /* one per block: those of its layers */
    BUFFER_ROTATION_SCRATCH,
    /* one per block with cross-attention, if the plan generates: keys after their norm, and
     * values, of the images of each prompt (slots * M, K D) */
    BUFFER_CROSS_KEYS,
    BUFFER_CROSS_VALUES,
    BUFFER_KEYS,
    /* one per block with keys of its own, if the plan generates: keys and values of the
     * previous rows of each sequence (slots * slot_rows, K D) */
    BUFFER_VALUES,
    /* the same of linear attention: the last rows that the convolution reads, the states */
    BUFFER_CONV_STATE,
    BUFFER_DELTA_STATE,
    BUFFERS
};

/*
 * With fp8: matrices that two matmuls read in 8 bits, each the other's transpose.  If
 * there is memory, they are rounded once (struct rounded_matrix).
 */
enum rounded {
    ROUNDED_DY, /* gradients of the outputs of a stack's layers */
    ROUNDED_W,  /* weights: once for all micro-batches of a step, frozen ones once */
    ROUNDED_X,  /* inputs of a stack, if the backward pass does not compute them again */
    ROUNDEDS
};

struct shape_buffer {
    const char *name;
    enum format format; /* FORMAT_FP32 also for int32 */
    size_t rows, cols;  /* 0: does not exist */
    /* sized by the rows of the batch, not of the largest batch */
    bool rows_are_n, cols_are_n;
    size_t count; /* instances: 1, or one per block, or per block of a kind */
    /* by layer, its instance; NULL: the layer's number */
    const size_t *index;
    size_t at, step; /* bytes from the start of the buffers; bytes per instance */
    bool activation; /* counted as activations, otherwise as workspace */
};

/*
 * Sharded gradients (ZeRO stage 2): a rank keeps the sums of its shard. The backward pass
 * writes each level into a lane, from which the gradients are reduced before the next
 * level but one overwrites it: the blocks alternate between two lanes, head and
 * embeddings share one. B matrices and vectors, which are small, have the tail.
 */
enum lane { LANE_ROOT, LANE_EVEN, LANE_ODD, LANE_TAIL, LANES };

/*
 * Sharded blocks (ZeRO stage 3): a rank keeps its part of the matrices of all blocks.  A
 * pass gathers those of a block into a window, where matmuls read them; the blocks
 * alternate between two windows.  A window has the trained matrices in the format that
 * matmuls read, then the frozen ones with the copies of folded adapters.  The trained ones
 * are divided as their segments are, the frozen ones in equal pieces of bytes.
 */
enum { SHAPES_WINDOWS = 2 };

struct shapes {
    struct shape_parameter *parameters;
    size_t count;
    struct shape_buffer buffers[BUFFERS];
    enum format compute; /* FP32, FP16 or BF16 */
    enum format trainable;
    bool rounds_in_matmul; /* trained weights from fp32, so there are no copies */
    struct lora lora;
    bool folded[STACKS];          /* adapters are folded into their base matrices */
    bool quantized, double_quant; /* linear layers of blocks: see nf4_layout */
    struct affine affine;         /* or integer codes: see affine_layout */
    bool checkpointing;
    /* rows of features are those of the encoder: the model has its projector, which is
     * trained, or an adapter that is merged has trained it, or it returns the gradients of
     * these rows */
    bool projects, trains_projector, trains_encoder;
    /* the input of this stack's matmuls, which is the output of a norm or an activation, is
     * kept for the backward pass; otherwise that recomputes it, to the same bits */
    bool keeps[STACKS];
    size_t rotation_elements; /* of the rotations of the layer that has the most */
    bool rounds_once[ROUNDEDS];
    /* the largest batch, after padding (model_pass.c) */
    size_t rows, sequences;
    size_t slots, slot_rows; /* sequences of the cache, and rows per sequence; 0: none */
    /* elements of all parameters, and of the trainable ones */
    uint64_t elements, trainable_elements;
    size_t segment; /* elements of a trainable segment, with padding */
    /* in a segment: start of the vectors, and their elements */
    size_t vectors_start, vector_elements;
    /* in a segment: end of the matrices that come before B matrices and vectors */
    size_t matrices_end;
    /* elements that one rank updates and keeps the moments of */
    size_t shard;
    /* in a segment: from which element on the matrices of each level of the backward pass
     * are; levels + 1, the last is matrices_end */
    size_t *level_starts;
    /* with sharded gradients: elements of the segment between its matrices, of none */
    struct shape_gap {
        size_t at, count;
    } * gaps;
    size_t gap_count;
    /* by layer, its number among those with, and without, linear attention; NULL: no layer
     * has it */
    size_t *mixer_index;
    size_t linear_layers;
    size_t
        *cross_index; /* by layer, its number among those with cross-attention; or NULL */
    /* with layers that use the keys of others: by layer, the one whose keys it uses; and 0
     * if it has a window, otherwise 1.  NULL: no layer does */
    size_t *key_index, *key_room;
    size_t levels;
    bool shards_gradients, shards_weights, shards_blocks;
    /* elements from the start of the gradients; without lanes the tail is at
     * matrices_end */
    size_t lanes[LANES];
    /* sharded blocks.  Of the frozen matrices of all blocks: from which byte on those of
     * each block are; layers + 1, the last is their end */
    size_t *frozen_starts;
    size_t frozen_shard; /* bytes of them that one rank keeps */
    /* bytes from the start of the frozen weights */
    size_t frozen_shard_at, windows_at;
    size_t window_bytes;
    size_t
        window_frozen; /* in a window: start of the frozen matrices; 0: none is trained */
    size_t moments;    /* how many the optimizer keeps */
    size_t *moment_starts[MOMENTS_MAX]; /* bytes, from which each rank has its part */
    size_t moment_bytes[MOMENTS_MAX], moments_bytes; /* of the largest part; their sum */
    size_t weight_bytes, gradient_bytes;             /* of one segment */
    bool offloads; /* moments are in a block of their own, in host memory */
    size_t copy_bytes, frozen_bytes, buffer_bytes;
    size_t total; /* bytes of the block */
};

/* With precision.fp8: the elements (= bytes) of both operands of the largest matmul in 8
 * bits; otherwise 0. */
size_t shapes_fp8_bytes(const struct plan *plan, const struct model_config *config,
                        size_t rows);

/* Return whether method, targets and model are compatible; otherwise ERROR_JOB, which
 * starts with the key. */
bool shapes_check(const struct plan *plan, const struct model_config *config,
                  struct lora *lora, struct error *err);

/* Return the rows of the longest sequence of a batch, as far as the plan knows: a sampled
 * answer ends with its slot. */
size_t shapes_sequence_rows(const struct plan *plan, const struct model_config *config);
/* Return the rows of a slot of generation: a prompt and its answer, as far as the model has
 * positions. */
size_t shapes_slot_rows(const struct plan *plan, const struct model_config *config);
/* Return the rows that generation runs at once, besides those of a prompt; 0: it is
 * off. */
size_t shapes_generation_rows(const struct plan *plan, const struct model_config *config);

/* Return whether frozen linear layers of blocks are kept in 4 bits, because the base's
 * files have them in 4 bits or because the plan requests it. */
bool shapes_is_quantized(const struct plan *plan, const struct model_config *config);
/* Return the bytes of a quantized matrix. */
size_t shapes_quantized_bytes(const struct shapes *shapes, size_t rows, size_t cols);

/* The largest batch.  rows and sequences 0: a full batch of per_device_train_batch_size *
 * cutoff_len rows.  media_rows: rows of features of images and sounds among them. */
struct shapes_batch {
    size_t rows, sequences, media_rows;
};

/* Return whether a run trains the projector; and whether it reads rows of the encoder, which
 * it does then, and if it trains the encoder. */
bool shapes_trains_projector(const struct plan *plan, const struct model_config *config);
bool shapes_projects(const struct plan *plan, const struct model_config *config);
/* Return whether it trains the encoder, or adapters in it. */
bool shapes_trains_encoder(const struct plan *plan, const struct model_config *config);

/* Lay out a run; names and table are allocated from the arena. */
bool shapes_make_for(const struct plan *plan, const struct model_config *config,
                     const struct shapes_batch *largest, struct arena *arena,
                     struct shapes *out, struct error *err);
/* The same for batches of text. */
static inline bool shapes_make(const struct plan *plan, const struct model_config *config,
                               size_t rows_max, size_t sequences_max, struct arena *arena,
                               struct shapes *out, struct error *err)
{
    const struct shapes_batch largest = { .rows = rows_max, .sequences = sequences_max };

    return shapes_make_for(plan, config, &largest, arena, out, err);
}

/* Estimate the bytes of a run on the plan's device, including what its backend is
 * expected to hold, with bounds; on a CPU only the block, which is exact.  limit is left
 * 0 (memory_finish compares).  Errors as for shapes_make. */
bool shapes_memory_for(const struct plan *plan, const struct model_config *config,
                       const struct shapes_batch *largest, struct memory_use *out,
                       struct error *err);
/* The same for batches of text. */
static inline bool shapes_memory(const struct plan *plan,
                                 const struct model_config *config, size_t rows_max,
                                 size_t sequences_max, struct memory_use *out,
                                 struct error *err)
{
    const struct shapes_batch largest = { .rows = rows_max, .sequences = sequences_max };

    return shapes_memory_for(plan, config, &largest, out, err);
}

/* Return the bytes of a layout by purpose. */
void shapes_use(const struct shapes *shapes, struct memory_use *out);

/* Return the level of a matrix: 0 of the embeddings, layer + 1 of a block, the highest of
 * the head. */
size_t shapes_level(const struct shapes *shapes, const struct shape_parameter *p);
/* Return the lane of a level. */
enum lane shapes_lane(const struct shapes *shapes, size_t level);

/* Return where the window of a block starts: an element of the segments, a byte of the
 * frozen matrices. */
size_t shapes_window_element(const struct shapes *shapes, size_t layer);
size_t shapes_window_byte(const struct shapes *shapes, size_t layer);

/* Return where a room starts in a buffer of rooms for matrices in 8 bits: it is number
 * `index`, after at least as many `bytes` of other matrices. */
size_t shapes_room_at(size_t index, size_t bytes);

/* Return the stack of a linear layer of a block; STACKS for other modules. */
enum stack shapes_stack(enum module module);

/* Return the columns of x A^T of a stack: its adapters, times r. */
size_t shapes_adapters(const struct lora *lora, enum stack stack);

#endif
