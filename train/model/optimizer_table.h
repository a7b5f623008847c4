/*
 * train/model/optimizer_table.h - the optimizers: names in job files, moments, and the
 * update of a range of weights. Everything that depends on the optimizer asks this table.
 */
#ifndef TRAIN_MODEL_OPTIMIZER_TABLE_H
#define TRAIN_MODEL_OPTIMIZER_TABLE_H

#include "train/plan.h"

struct backend;

/* Tensors that an optimizer keeps for each trained parameter. */
enum moment { MOMENT_1, MOMENT_2, MOMENT_3, MOMENT_4, MOMENT_5, MOMENTS_MAX };

/* What a moment has; the layout is that of the weights. */
enum moment_kind {
    MOMENT_AS_WEIGHT, /* an element per weight, in the format of the trained weights */
    /* a code of 8 bits per weight (precision/dynamic_map.h); fp32 for parameters without
     * codes: embeddings, parameters of few elements, and those that do not begin a block */
    MOMENT_CODES,
    MOMENT_ABSMAX, /* fp32 for each block of codes */
    MOMENT_ROWS,   /* fp32 for each row of a matrix */
    MOMENT_COLUMNS,
    MOMENT_VECTORS, /* fp32 for each weight of a vector; none of a matrix */
    /* an element per weight, in the format of the trained weights, of parameters without
     * orthogonal updates: optimizer_muon.h */
    MOMENT_NOT_MUON,
    MOMENT_MEANS,   /* fp32 for each block of optimizer_mini.h */
    MOMENT_SCRATCH, /* of orthogonal updates, in the format of matmuls; not a state */
    /* fp32 for each element of a projected gradient (optimizer_projected.h); an element per
     * weight, in the format of the trained weights, of other parameters */
    MOMENT_PROJECTED,
    MOMENT_PROJECTION,        /* fp32 for each element of the projection */
    MOMENT_NORM,              /* one fp32 for each projected parameter */
    MOMENT_PROJECTED_SCRATCH, /* fp32, of projected updates; not a state */
};

/* bitsandbytes: optim/optimizer.py, min_8bit_size */
enum { MOMENT_CODES_LEAST = 4096 };

/* Consecutive weights that are updated alike, as tensors of one row. */
struct optimizer_update {
    const struct plan *plan;
    struct tensor w, grad, copy; /* rows of their own, unless the optimizer is `whole` */
    struct tensor moments[MOMENTS_MAX]; /* those that the parameter has */
    double lr_factor, decay;
    uint64_t first; /* index of the first weight in the segment, train/model/shapes.h */
    struct step_scalars *scalars;
};

/* How torch.optim has the optimizer of a name. */
enum torch_variant {
    TORCH_OTHER, /* it does not, or with other moments */
    TORCH_PLAIN,
    TORCH_FUSED, /* with fused=True */
};

/* One setting of a parameter group in a state_dict of torch.optim. */
struct torch_setting {
    const char *name; /* NULL ends the list */
    enum {
        TORCH_REAL,  /* the double of the plan at offset `from` */
        TORCH_BETAS, /* (adam_beta1, adam_beta2) */
        TORCH_ZERO,  /* the integer 0 */
        TORCH_FALSE,
        TORCH_NONE,
        TORCH_IS_FUSED, /* True for TORCH_FUSED, else None */
    } value;
    size_t from;
};

struct optimizer {
    size_t moments; /* up to MOMENTS_MAX */
    enum moment_kind kinds[MOMENTS_MAX];
    /* of their tensors in a checkpoint; scratch has none */
    const char *suffixes[MOMENTS_MAX];
    bool divides;      /* by a moment, plus adam_epsilon */
    const char *reads; /* of adam_beta1, adam_beta2 and adam_epsilon; NULL: all */
    /* an update reads a whole parameter, which ranks do not divide then */
    bool whole;
    /* the run evaluates and saves the average of the weights, which is MOMENT_3;
     * MOMENT_2 also starts as the weights */
    bool averages;
    /* offset in the plan of struct projection_settings; 0: it does not project gradients */
    size_t projection;
    /* moved per float32 weight: it, its gradient and its moments are read, all but the
     * gradient written */
    size_t update_bytes;
    /* of its parameter groups, besides lr, initial_lr, weight_decay and params */
    const struct torch_setting *torch_settings;
    void (*update)(struct backend *be, const struct optimizer_update *update);
};

/* All names that a job may give as `optim`; NULL ends the list.  plan.optimizer is an
 * index into it. */
extern const char *const optimizer_names[];

/* Optimizers that have a key of their own, use_NAME, and no name in `optim`. */
extern const char *const optimizer_keys[];

/* Return the index of a name, or of an optimizer with a key, or -1. */
int optimizer_find(const char *name);
/* Return the first name of the same optimizer, as an index. */
int optimizer_first_name(int index);
/* Return whether the library that the name comes from also keeps its moments in the
 * format that we do. */
bool optimizer_is_exact(int index);
/* Return whether the moments move to host memory if they do not fit on a GPU. */
bool optimizer_is_paged(int index);
enum torch_variant optimizer_torch_variant(int index);
const struct optimizer *optimizer_of(const struct plan *plan);
/* Return the name of an index, and whether it is one of optimizer_keys. */
const char *optimizer_name(int index);
bool optimizer_has_key(int index);
/* Return which of adam_beta1, adam_beta2 and adam_epsilon have an effect, separated by
 * spaces. */
const char *optimizer_reads(const struct plan *plan);
/* Return how gradients are projected; NULL: they are not. */
const struct projection_settings *optimizer_projects(const struct plan *plan);
/* Return whether some of its moments are codes, in blocks that ranks do not divide. */
bool optimizer_has_codes(const struct optimizer *optimizer);

#endif
