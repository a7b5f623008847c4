/*
 * train/model/shapes.h - the one table of every parameter and every buffer of a run, with its
 * bytes. It needs no backend and no weights: the memory estimate and the real layout are
 * the same arithmetic.
 *
 * One block holds all, piece after piece, each aligned to SHAPES_ALIGNMENT:
 *
 *     weights  gradients  moment1  moment2     trainables, four segments of equal layout,
 *                                              of the moments one rank's shard
 *     copies                                   16-bit working copies of matrices, where
 *                                              products cannot round them from fp32
 *     frozen                                   frozen weights in their storage format
 *     buffers                                  activations and scratch
 *
 * What products can use stacked (q, k, v; gate, up; the A matrices over one input) lies
 * side by side without a gap.  Of the trainables, matrices come first, then the B
 * matrices, then vectors: what is updated alike lies in one piece.
 *
 * Folded adapters: the working copies of the A matrices lie right behind the frozen
 * matrices over the same input, so that [W; A] is one matrix, and x A^T right behind x
 * W^T (g = dy B behind dy) in one buffer.  One product then reads x (writes dx) for both.
 *
 * In 4 bits (quantization_bit, or a base whose files have them so, but for what they
 * leave out): the frozen linear layers of blocks, each in one piece (precision/nf4.h)
 * from a multiple of SHAPES_ALIGNMENT on.  Products read them in the
 * compute format in one buffer, side by side as others lie; nothing is folded behind
 * them.
 *
 * Formats: trainable weights and moments have precision.trainable (fp32 but in the pure
 * modes), gradients are fp32 always.  Frozen matrices have precision.frozen, but the
 * compute format where that is a 16-bit one (autocast would convert them at every use, to
 * the same numbers); frozen vectors are fp32.
 */
#ifndef TRAIN_MODEL_SHAPES_H
#define TRAIN_MODEL_SHAPES_H

#include "train/model/lora.h"
#include "train/model/model_config.h"
#include "train/plan.h"

#define SHAPES_ALIGNMENT \
    ((size_t)256) /* bytes; what CUDA wants, more than a CPU does \ */

/* Linear layers over one input. */
enum stack { STACK_QKV, STACK_O, STACK_GATE_UP, STACK_DOWN, STACKS };

enum part { PART_WEIGHT, PART_BIAS, PART_LORA_A, PART_LORA_B };

struct shape_parameter {
    const char *name; /* as Hugging Face or PEFT name it */
    enum module module;
    enum part part;
    size_t layer;
    size_t rank, rows, cols; /* a vector has rank 1 and 1 row */
    bool trainable, decays;
    bool starts_group; /* begins a group of what lies side by side */
    bool folded;       /* the copy lies among the frozen weights */
    bool quantized; /* kept in 4 bits; the copy lies in BUFFER_WEIGHT, while it is used */
    enum storage stored; /* how the files have it */
    double lr_factor;
    enum format format; /* storage of the weight */
    enum format copy;   /* of the working copy; FORMAT_COUNT: none */
    size_t at;          /* trainable: numbers from the segment's start; frozen: bytes */
    /* bytes from the start of the copies, the frozen weights, the buffer */
    size_t copy_at;
};

/* Letters as in kernels/ops.h.  Outputs of norms and of the activation are not kept: the
 * backward pass makes them again of what is. */
enum buffer {
    /* of each block, kept for the backward pass */
    BUFFER_X_IN,  /* residual stream before the block, fp32 (N, C) */
    BUFFER_RSTD1, /* (1, N); of a layer norm (2, N) */
    BUFFER_QKV,   /* rotated (N, (H + 2K) D); behind it x A^T where folded */
    /* with norms of heads: q and k behind them and rotated (N, (H + K) D); those in
     * QKV are as they were before */
    BUFFER_QK,
    BUFFER_RSTD_Q, /* (N, H) */
    BUFFER_RSTD_K, /* (N, K) */
    BUFFER_ATT,    /* attention's output (N, H D) */
    BUFFER_LSE,    /* (H, N) */
    BUFFER_POST1, /* what attention adds, where that has a norm: before it, fp32 (N, C) */
    BUFFER_RSTD_POST1,
    BUFFER_X_MID, /* residual stream after attention, fp32; parallel: there is none */
    BUFFER_RSTD2,
    /* (N, 2 I), or (N, I) without a gate, and x A^T; the backward pass puts gradients
     * there */
    BUFFER_GATE_UP,
    BUFFER_POST2, /* what the MLP adds, like POST1 */
    BUFFER_RSTD_POST2,
    BUFFER_U_QKV,
    BUFFER_U_O,
    BUFFER_U_GATE_UP,
    BUFFER_U_DOWN, /* x A^T (N, adapters * r), where it is not in the buffers above */
    /* one of each */
    BUFFER_H1,     /* first norm's output (N, C) */
    BUFFER_H2,     /* second norm's output */
    BUFFER_ACT,    /* act(gate) * up, or act(up) (N, I) */
    BUFFER_X_LAST, /* residual stream after the last block */
    BUFFER_RSTD,
    BUFFER_H_LAST,     /* last norm's output */
    BUFFER_DELTA,      /* what a block's half adds to the stream, fp32 (N, C) */
    BUFFER_DELTA_POST, /* the same behind its norm */
    BUFFER_DX,         /* gradient of the stream, fp32 (N, C) */
    /* the same in the compute format, where that is not fp32; behind the one that
     * products read: gradient of x A^T where folded */
    BUFFER_DX_COPY,
    BUFFER_DH, /* gradient of a norm's or attention's output (N, max(C, H D)) */
    BUFFER_DQKV,
    BUFFER_DACT,
    BUFFER_DPOST,      /* gradient of POST1 or POST2, fp32 */
    BUFFER_DPOST_COPY, /* as DX_COPY */
    BUFFER_DLSE,       /* (H, N) scratch of attention's backward pass */
    BUFFER_LORA_G,     /* gradient of x A^T where not folded */
    /* the stream's gradient as products read it where what is added to the stream is
     * dropped; in parallel, what the MLP adds, before */
    BUFFER_DROPPED,
    BUFFER_LORA_X, /* an adapter's input after dropout, or its gradient before */
    BUFFER_WEIGHT, /* frozen weights that are stored otherwise, while they are used */
    BUFFER_BIAS,
    BUFFER_LOGITS,  /* rows of V, and what makes the next begin on a multiple */
    BUFFER_DLOGITS, /* in fp32 in the place of LOGITS, but a distillation wants both */
    BUFFER_GATHERED,
    BUFFER_DGATHERED, /* a chunk of rows */
    BUFFER_LOSSES,    /* of the micro-batches of a window, the newest first */
    BUFFER_ROPE,      /* (places, D): a position is below N, or the room of a slot */
    BUFFER_ROPE_LOCAL,
    BUFFER_TOKENS,
    BUFFER_POSITIONS,
    BUFFER_TARGETS,
    BUFFER_WEIGHTS,   /* of the targets, where some are not 1 */
    BUFFER_OFFSETS,   /* int32 */
    BUFFER_KD_LOSSES, /* of a distillation: as BUFFER_LOSSES, how far from the teacher */
    BUFFER_KEPT,      /* logits of the teacher that are kept (N, k) */
    BUFFER_KEPT_IDS,  /* int32: their words */
    /* of preferences: a row of (P, PREFERENCE_NUMBERS) for each micro-batch of a
     * window, the newest first */
    BUFFER_PAIRS,
    BUFFER_REFERENCE, /* the losses of the model that they are held against (1, N) */
    BUFFER_LABELLED,  /* int32 (1, N) scratch of the classifier */
    BUFFER_NUMBERS,   /* one struct step_numbers */
    BUFFER_CORRECT,   /* of an evaluation (1, N), where its accuracy is asked for */
    BUFFER_KEYS,
    /* of each block, where the plan generates: what lies before the next row of each
     * sequence (slots * room, K D) */
    BUFFER_VALUES,
    BUFFERS
};

struct shape_buffer {
    const char *name;
    enum format format;          /* FORMAT_FP32 for int32 too */
    size_t rows, cols;           /* 0: there is none */
    bool rows_are_n, cols_are_n; /* as many as the batch has rows, not the largest one */
    size_t count;                /* how many: 1, or one a block */
    size_t at, step; /* bytes from the start of the buffers; from one to the next */
    bool activation; /* counted as such, else as workspace */
};

struct shapes {
    struct shape_parameter *parameters;
    size_t count;
    struct shape_buffer buffers[BUFFERS];
    enum format compute; /* FP32, FP16 or BF16 */
    enum format trainable;
    bool
        rounds_in_matmul; /* products round trained weights from fp32: they have no copies */
    struct lora lora;
    bool folded[STACKS];          /* adapters into the matrices they stand by */
    bool quantized, double_quant; /* linear layers of blocks: nf4_layout */
    bool checkpointing;
    /* the largest batch, as it is done: model_pass.c rounds it up */
    size_t rows, sequences;
    size_t slots, slot_rows; /* sequences of the cache, and the rows of each; 0: none */
    uint64_t numbers, trainable_numbers; /* parameters as people count them */
    size_t segment; /* numbers in a trainable segment, with padding */
    size_t vectors_start,
        vector_elements; /* of them, where vectors begin, and how many */
    size_t matrices_end; /* of them, those before the first B matrix or vector */
    /* of them, those that one rank updates, the moments of which it keeps */
    size_t shard;
    size_t moments; /* that the optimizer keeps */
    enum format moment_format;
    size_t weight_bytes, gradient_bytes, moment_bytes; /* of one each */
    size_t copy_bytes, frozen_bytes, buffer_bytes;
    size_t total; /* bytes of the block */
};

/* With precision.fp8, the numbers in both operands of the largest product that is made in
 * 8 bits, which are its bytes; else 0. */
size_t shapes_rounded(const struct plan *plan, const struct model_config *config,
                      size_t rows);

/* Do method, targets and model go together?  ERROR_JOB, the key first. */
bool shapes_check(const struct plan *plan, const struct model_config *config,
                  struct lora *lora, struct error *err);

/* Are frozen linear layers of blocks kept in 4 bits: because the base's files have them
 * so, or as the plan wants it? */
bool shapes_is_quantized(const struct plan *plan, const struct model_config *config);

/* Lay out a run; names and table live in the arena.  rows_max and sequences_max 0: a full
 * batch, per_device_train_batch_size * cutoff_len rows. */
bool shapes_make(const struct plan *plan, const struct model_config *config,
                 size_t rows_max, size_t sequences_max, struct arena *arena,
                 struct shapes *out, struct error *err);

/* The bytes of a run on the plan's device, with what its backend is expected to hold, and
 * between which bounds; of a CPU the block alone, which is exact.
 * limit is left 0 (memory_finish compares).  Errors as shapes_make. */
bool shapes_memory(const struct plan *plan, const struct model_config *config,
                   size_t rows_max, size_t sequences_max, struct memory_use *out,
                   struct error *err);

/* The bytes of a layout, by what they are for. */
void shapes_use(const struct shapes *shapes, struct memory_use *out);

/* The stack of a linear layer of a block; STACKS for others. */
enum stack shapes_stack(enum module module);

/* Columns of x A^T of a stack: its adapters, times r. */
size_t shapes_adapters(const struct lora *lora, enum stack stack);

/*
 * Row p of `table` (rows, head_size): cos(p f) for the head_size / 2 frequencies f, then
 * sin. f[i] = theta^(-2 i / head_size), scaled as the kind says. Su et al., "RoFormer",
 * 2021; linear and llama3 as transformers/modeling_rope_utils.py.
 */
void rope_fill(const struct rope *rope, size_t head_size, float *table, size_t rows);
/* The i-th frequency. */
double rope_frequency(const struct rope *rope, size_t head_size, size_t i);

#endif
