/* patcher/rules/fp16_need.h - what else must change in a job for fp16: true. */
#ifndef PATCHER_RULES_FP16_NEED_H
#define PATCHER_RULES_FP16_NEED_H

#include "patcher/rules/rules.h"

/* What fp16: true requires of a job that does not compute in fp16 yet. */
struct fp16_need {
    bool
        possible; /* false: the scaler stops the run, and no line of the job prevents it */
    bool sure;    /* false: it depends on an unknown version or on unknown files */
    /* value that model_dtype then requires; DTYPE_AUTO: unchanged */
    enum dtype dtype;
    const char *remedy; /* if not possible or not sure: what to do instead */
};

struct fp16_need fp16_need_of(const struct rule_context *context);

#endif
