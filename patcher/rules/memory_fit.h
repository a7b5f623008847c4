/*
 * patcher/rules/memory_fit.h - the mildest change with which a job fits into memory, and what is
 * left to a person where none does.  Looks, never edits.
 */
#ifndef PATCHER_RULES_MEMORY_FIT_H
#define PATCHER_RULES_MEMORY_FIT_H

#include "train/model/model_config.h"
#include "train/plan.h"

/* A job that is to fit. */
struct memory_fit_case {
    const struct plan *plan; /* of an external job with its precision decided */
    const struct model_config *model;
    const struct device *device;
    uint64_t available; /* bytes; above 0 */
    bool whole_batch;   /* its loss does not allow the batch to be split (TS310) */
    /* what the job keeps as it is */
    struct {
        bool checkpointing, batch, frozen, eval_batch;
    } kept;
};

/* Changes, in the order in which they are tried; zeros leave things as they are. */
struct memory_fit {
    bool checkpointing;          /* on */
    int64_t batch, accumulation; /* their product is what it was */
    bool frozen;                 /* frozen weights in the compute format */
    int64_t eval_batch;
};

/* The bytes of the job with a change made: of training or of evaluation, whichever takes
 * more (`evaluation` tells; NULL: not asked).  False where nobody can tell. */
bool memory_fit_estimate(const struct memory_fit_case *the, const struct memory_fit *fit,
                         struct memory_use *use, bool *evaluation);

/*
 * The first of these that fits on what is expected:
 *     checkpointing
 *     and the largest divisor of the batch, accumulation multiplied by the same factor
 *     with frozen weights in the compute format, and the largest divisor again
 * and then each that it fits without is taken back.  An evaluation that does not fit has
 * its own batch made smaller.  What is kept is not changed.  False where none fits.
 */
bool memory_fit_find(const struct memory_fit_case *the, struct memory_fit *out);
/* The same with the batch alone. */
bool memory_fit_split(const struct memory_fit_case *the, struct memory_fit *out);

/* What would fit, each by itself on top of all the changes above, kept or not; 0: nothing
 * of the kind. */
struct last_resort {
    int64_t cutoff_len, rank;
    int bits;       /* quantization_bit */
    bool lora;      /* instead of full or freeze */
    uint64_t limit; /* that memory_limit, which is lower than what is free, could be */
    const struct device_row *card; /* the smallest known on which the job fits as it is */
};
void memory_fit_last_resort(const struct memory_fit_case *the, struct last_resort *out);

#endif
