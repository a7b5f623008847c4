/* patcher/rules/memory_fit.h - the smallest change that makes a job fit into memory, and
 * suggestions if there is none.  It does not edit. */
#ifndef PATCHER_RULES_MEMORY_FIT_H
#define PATCHER_RULES_MEMORY_FIT_H

#include "patcher/profiles/profile.h"
#include "train/model/model_config.h"
#include "train/estimate.h"
#include "train/plan.h"

/* A job to fit. */
struct memory_fit_case {
    const struct plan *plan; /* of an external job: with its precision decided */
    const struct model_config *model;
    const struct device *device;
    uint64_t available;               /* bytes, above 0 */
    const struct estimate_data *data; /* NULL: unknown */
    bool whole_batch; /* its loss does not allow splitting the batch (TS310) */
    /* settings that the job keeps */
    struct {
        bool checkpointing, batch, frozen, eval_batch;
    } kept;
};

/* Changes, in the order in which they are tried; zeros change nothing. */
struct memory_fit {
    bool checkpointing;          /* turn it on */
    int64_t batch, accumulation; /* their product is unchanged */
    bool frozen;                 /* frozen weights in the compute format */
    int64_t eval_batch;
};

/* Estimate the bytes of the job with a change: for training or evaluation, whichever
 * takes more (*evaluation, unless NULL, reports which).  Return false if no estimate is
 * possible. */
bool memory_fit_estimate(const struct memory_fit_case *request,
                         const struct memory_fit *fit, struct memory_use *use,
                         bool *evaluation);

/*
 * Find the first of these that is expected to fit:
 *     checkpointing
 *     and the largest divisor of the batch, accumulation multiplied by the same factor
 *     with frozen weights in the compute format, and the largest divisor again
 * then revert each change without which the job still fits.  An evaluation that does not
 * fit gets a smaller batch.  Kept settings do not change.  Return false if none fits.
 */
bool memory_fit_find(const struct memory_fit_case *request, struct memory_fit *out);
/* The same, with the batch alone. */
bool memory_fit_split(const struct memory_fit_case *request, struct memory_fit *out);
/* Find a smaller job than this one, whether or not this one is expected to fit: a smaller
 * micro batch, checkpointing, or both; the first that is expected to fit. */
bool memory_fit_reduce(const struct memory_fit_case *request, struct memory_fit *out);

/* Return whether this program trains an external job. */
bool memory_fit_trainer_is(const struct plan *plan, enum trainer trainer);
/* Return whether the program loads the model in the format that bf16 and fp16 ask for, as
 * trainspool and LLaMA-Factory do; in others dtype decides. */
bool memory_fit_casts(const struct plan *plan);
/* Return the plan with all these changes that the job allows. */
struct plan memory_fit_smallest(const struct memory_fit_case *request);

/* Further changes; each of them makes the job fit when added to all the changes above,
 * including those of kept settings. 0: no value does. */
struct last_resort {
    int64_t cutoff_len, rank;
    int bits;  /* quantization_bit */
    bool lora; /* instead of full or freeze */
    /* a sufficient memory_limit, if the current one is below the free memory */
    uint64_t limit;
    /* the smallest known card on which the unchanged job fits */
    const struct device_row *card;
};
void memory_fit_last_resort(const struct memory_fit_case *request,
                            struct last_resort *out);

#endif
