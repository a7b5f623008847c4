/* patcher/schema/schema_distill.c - a student and its teacher.  What is out of range is
 * TS904's. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

static const struct key rows[] = {
    { TS_USED("teacher_model_name_or_path", KEY_PATH, NULL), .into = TS_INTO(kd.teacher),
      .help = "folder of the teacher, of any architecture that is trained here, with "
              "the tokens of the student. It is frozen, and computed in the format of "
              "its files, which may be float16 or bfloat16" },
    { TS_USED("teacher_adapter_name_or_path", KEY_PATH, NULL),
      .into = TS_INTO(kd.adapter),
      .help = "folder of a LoRA adapter, merged into the teacher as it is loaded" },
    { TS_USED("kd_ratio", KEY_REAL, "0.5"), .max = 1, .into = TS_INTO(kd.ratio),
      .rule = "TS904",
      .help =
          "share of the teacher in the loss: (1 - kd_ratio) of the cross-entropy of the "
          "data, kd_ratio of the distance from the teacher, over the same tokens" },
    { TS_USED("kd_temperature", KEY_REAL, "1.0"), .max = TS_NO_END, .positive = true,
      .into = TS_INTO(kd.temperature), .rule = "TS904",
      .help = "both models' logits are divided by it; the distance is multiplied by its "
              "square" },
    { TS_USED("kd_beta", KEY_REAL, "0.0"), .max = 1, .into = TS_INTO(kd.beta),
      .rule = "TS904",
      .help = "the distance: 0 forward KL (teacher || student), 1 reverse KL, between "
              "them TRL's generalised JSD, with the mixture kd_beta teacher + (1 - "
              "kd_beta) student" },
    { TS_USED("kd_topk", KEY_INT, NULL), .min = 1, .max = 1e6, .into = TS_INTO(kd.topk),
      .help =
          "how many of the teacher's logits are kept at each token, the largest: its "
          "softmax is over these alone, and all other words are 0; the student's stays "
          "over all words. Needs a kd_beta below 1. Not given: all" },
};
const struct keys schema_distill_keys = { "Distillation", rows, TS_COUNT(rows) };
