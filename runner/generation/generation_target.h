/* runner/generation/generation_target.h - the model that is asked for: a folder, or what a job
 * made. */
#ifndef RUNNER_GENERATION_GENERATION_TARGET_H
#define RUNNER_GENERATION_GENERATION_TARGET_H

#include "runner/job/inspect.h"

struct generation_target {
    bool is_job;
    struct plan plan;   /* of that model alone: nothing in it is trained */
    const char *folder; /* of tokenizer and generation_config.json */
    struct inspection inspection;
    struct arena *arena;
};

/* ERROR_DATA where there is no model, with what to do. */
bool generation_target_open(struct generation_target *target,
                            const struct machine *machine, const char *operand,
                            struct error *err);
void generation_target_close(struct generation_target *target);

#endif
