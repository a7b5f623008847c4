/*
 * train/model/model_watch.h - repeats a micro-batch and checks the output of each
 * operation, which is downloaded from the device, until a value is not finite.
 *
 * Gradients, activations and the scalars of the step are overwritten, as by the next
 * window; weights and moments do not change. Slow, and the same on every backend.
 */
#ifndef TRAIN_MODEL_MODEL_WATCH_H
#define TRAIN_MODEL_MODEL_WATCH_H

#include "train/model/model.h"

enum watch_kind {
    WATCH_NOTHING, /* all values were finite */
    WATCH_WEIGHT,
    WATCH_ACTIVATION,
    WATCH_LOSS,
    WATCH_GRADIENT,
    WATCH_KINDS
};
extern const char *const watch_kind_names[WATCH_KINDS]; /* "weight" ... */

/* The output of an operation, or a parameter. */
struct watch_result {
    const char *operation; /* as in kernels/ops.h; "" for a parameter */
    char tensor[120];      /* a parameter's name, or "q, k, v" */
    int64_t layer;         /* from 0; -1: none */
    enum format format;
    size_t rows, cols;
    double largest; /* absolute value of its finite elements */
    size_t nans, infs;
    size_t row, col; /* position of the first non-finite element */
    /* row in the batch, if the tensor has rows of the batch; otherwise SIZE_MAX */
    size_t batch_row;
};

enum { WATCH_TRAIL = 8 };

struct watch {
    enum watch_kind kind;
    struct watch_result found;               /* the first non-finite tensor */
    struct watch_result before[WATCH_TRAIL]; /* outputs before it, the last one last */
    size_t before_count;
    struct watch_result largest_output; /* the output with the largest value before it */
};

/* Check every parameter and its working copy. */
bool model_watch_weights(struct model *model, struct watch *out, struct error *err);
/* Run forward and backward as model_train with these scalars, as the only micro-batch of
 * its window and without other ranks. */
bool model_watch_batch(struct model *model, const struct batch *batch,
                       const struct step_scalars *scalars, struct watch *out,
                       struct error *err);
/* Run forward as model_evaluate. */
bool model_watch_evaluation(struct model *model, const struct batch *batch,
                            struct watch *out, struct error *err);
/* Check the gradients of the last window.  `out` has room for one entry per trained
 * parameter; *broken is the number of those with a non-finite value, which come first. */
bool model_watch_gradients(struct model *model, struct watch_result *out, size_t *broken,
                           struct error *err);

#endif
