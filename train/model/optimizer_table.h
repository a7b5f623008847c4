/*
 * train/model/optimizer_table.h - the optimizers: names in job files, moments, and the
 * update of a range of weights. Everything that depends on the optimizer asks this table.
 */
#ifndef TRAIN_MODEL_OPTIMIZER_TABLE_H
#define TRAIN_MODEL_OPTIMIZER_TABLE_H

#include "train/plan.h"

struct backend;

/* Tensors that an optimizer keeps for each trained weight. */
enum moment { MOMENT_1, MOMENT_2, MOMENTS_MAX };

/* Moments have the format of the trained weights. */
#define MOMENT_AS_WEIGHT FORMAT_COUNT

/* Consecutive weights that are updated alike, as tensors of one row. */
struct optimizer_update {
    const struct plan *plan;
    struct tensor w, grad, copy;
    struct tensor moments[MOMENTS_MAX]; /* those that the optimizer has */
    double lr_factor, decay;
    uint64_t first; /* index of the first weight in the segment, train/model/shapes.h */
    struct step_scalars *scalars;
};

struct optimizer {
    size_t moments; /* up to MOMENTS_MAX */
    enum format moment_format;
    const char *suffixes[MOMENTS_MAX]; /* of their tensors in a checkpoint */
    bool divides;                      /* by a moment, plus adam_epsilon */
    /* moved per float32 weight: it, its gradient and its moments are read, all but the
     * gradient written */
    size_t update_bytes;
    void (*update)(struct backend *be, const struct optimizer_update *update);
};

/* All names that a job may give as `optim`; NULL ends the list.  plan.optimizer is an
 * index into it. */
extern const char *const optimizer_names[];

/* Return the index of a name, or -1. */
int optimizer_find(const char *name);
/* Return the first name of the same optimizer, as an index. */
int optimizer_first_name(int index);
/* Return whether the library that the name comes from also keeps its moments in the
 * format that we do. */
bool optimizer_is_exact(int index);
const struct optimizer *optimizer_of(const struct plan *plan);
/* Return the format of the moments if trained weights have format `trainable`. */
enum format optimizer_moment_format(const struct optimizer *optimizer,
                                    enum format trainable);

#endif
