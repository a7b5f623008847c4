/*
 * train/torch_optimizers.h - what the optimizers of transformers and LLaMA-Factory keep
 * for each trained weight, for the estimate of train/torch_memory.h.
 */
#ifndef TRAIN_TORCH_OPTIMIZERS_H
#define TRAIN_TORCH_OPTIMIZERS_H

#include <stdbool.h>

/* Which weights the moments belong to. */
enum torch_moments {
    MOMENTS_OF_ALL,
    /* Of the linear layers of the blocks, a projection of the gradient (m, n) to rank r
     * has moments: r max(m, n) elements, and r min(m, n) for the projection. */
    MOMENTS_LOW_RANK,
    /* Of one block at a time, with a float32 copy of its weights. */
    MOMENTS_OF_BLOCK,
};

struct torch_optimizer {
    const char *name; /* `optim` of transformers, or the key of LLaMA-Factory */
    double moments;   /* bytes per element that has moments, if it is in float32 */
    double matrices;  /* the same for linear layers of the blocks, if different; else 0 */
    /* the same for embeddings, which transformers' Trainer keeps in 32 bits if bitsandbytes
     * keeps 8 (create_optimizer) */
    double embeddings;
    enum torch_moments kind;
    bool paged; /* may be on the host */
    bool
        in_backward; /* updates a weight as soon as it has its gradient, and frees that */
    /* counted from the source of its package, but no run was measured */
    bool unmeasured;
    const char *source;
};

/* Return the row of a name; NULL: the table does not have it.  The default (name NULL) is
 * AdamW of torch. */
const struct torch_optimizer *torch_optimizer_find(const char *name);

#endif
