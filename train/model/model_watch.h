/*
 * train/model/model_watch.h - a micro-batch done again under the eyes of somebody: what each
 * operation writes is fetched from the device and looked at, until a number is not
 * finite.
 *
 * Gradients, activations and the numbers of the step are overwritten, which the next
 * window does too; weights and moments stay as they are.  Slow, and the same on every
 * backend.
 */
#ifndef TRAIN_MODEL_MODEL_WATCH_H
#define TRAIN_MODEL_MODEL_WATCH_H

#include "train/model/model.h"

enum watch_kind {
    WATCH_NOTHING, /* all of it was finite */
    WATCH_WEIGHT,
    WATCH_ACTIVATION,
    WATCH_LOSS,
    WATCH_GRADIENT,
    WATCH_KINDS
};
extern const char *const watch_kind_names[WATCH_KINDS]; /* "weight" ... */

/* What one operation wrote, or one parameter as it is. */
struct watch_look {
    const char *operation; /* as in kernels/ops.h; "" for a parameter */
    char tensor[120];      /* a parameter's name, or "q, k, v" */
    int64_t layer;         /* from 0; -1: of none */
    enum format format;
    size_t rows, cols;
    double largest; /* of its finite numbers, without sign */
    size_t nans, infs;
    size_t row, col;  /* of the first that is not finite */
    size_t batch_row; /* of the batch, where it has that; else SIZE_MAX */
};

enum { WATCH_TRAIL = 8 };

struct watch {
    enum watch_kind kind;
    struct watch_look found; /* the first that is not finite */
    struct watch_look
        before[WATCH_TRAIL]; /* what was written before it, the last one last */
    size_t before_count;
    struct watch_look most; /* with the largest number of all before it */
};

/* How many operations of a backend are looked at. */
extern const size_t model_watch_operations;

/* Every parameter, and its working copy. */
bool model_watch_weights(struct model *model, struct watch *out, struct error *err);
/* Forward and backward, as model_train with these numbers, alone in its window and
 * without other ranks. */
bool model_watch_batch(struct model *model, const struct batch *batch,
                       const struct step_numbers *numbers, struct watch *out,
                       struct error *err);
/* Forward alone, as model_evaluate. */
bool model_watch_evaluation(struct model *model, const struct batch *batch,
                            struct watch *out, struct error *err);
/* Gradients as the last window left them: `out` has room for one look a trained
 * parameter. How many of them have a number that is not finite; those come first. */
bool model_watch_gradients(struct model *model, struct watch_look *out, size_t *broken,
                           struct error *err);

#endif
