/*
 * runner/generation/generation_target.h - the model to generate with: a folder, or the
 * result of a job.
 */
#ifndef RUNNER_GENERATION_GENERATION_TARGET_H
#define RUNNER_GENERATION_GENERATION_TARGET_H

#include "runner/job/inspect.h"

struct generation_target {
    bool is_job;
    struct plan plan;   /* for that model only: nothing in it is trained */
    const char *folder; /* the folder of tokenizer and generation_config.json */
    struct inspection inspection;
    struct arena *arena;
};

/* Open the target.  ERROR_DATA with what to do if there is no model. */
bool generation_target_open(struct generation_target *target,
                            const struct machine *machine, const char *operand,
                            struct error *err);
void generation_target_close(struct generation_target *target);

#endif
