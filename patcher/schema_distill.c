/*
 * patcher/schema_distill.c - a student and its teacher.
 *
 * Read and checked; trained when stage: distill is.
 */
#include "config.h"

#include "patcher/schema_rows.h"

static const struct key rows[] = {
    TS_TOLD("teacher_model_name_or_path", "TS712", KEY_PATH, NULL,
            "folder of the teacher, frozen; may be float16 or bfloat16"),
    TS_TOLD("teacher_adapter_name_or_path", "TS712", KEY_PATH, NULL,
            "adapter of the teacher"),
    TS_TOLD("kd_ratio", "TS712", KEY_REAL, "0.5", "share of the teacher in the loss"),
    TS_TOLD("kd_temperature", "TS712", KEY_REAL, "1.0", "temperature of both"),
    TS_TOLD("kd_beta", "TS712", KEY_REAL, "0.0", "0 forward KL, 1 reverse, between: JSD"),
    TS_TOLD("kd_topk", "TS712", KEY_INT, NULL, "logits of the teacher that are kept"),
};
const struct keys schema_distill_keys = { "Distillation", rows, TS_COUNT(rows) };
