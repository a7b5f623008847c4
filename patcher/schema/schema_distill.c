/* patcher/schema/schema_distill.c - keys of distillation.  TS904 reports values out of
 * range. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

static const struct key rows[] = {
    { TS_USED("teacher_model_name_or_path", KEY_PATH, NULL), .into = TS_FIELD(kd.teacher),
      .help = "folder of the teacher model, which must have the same tokens as the "
              "student",
      .manual = "The teacher may be of any supported architecture. It is frozen and "
                "computed in the format of its files, which may be float16 or "
                "bfloat16." },
    { TS_USED("teacher_adapter_name_or_path", KEY_PATH, NULL),
      .into = TS_FIELD(kd.adapter),
      .help = "folder of a LoRA adapter that is merged into the teacher when it is "
              "loaded" },
    { TS_USED("kd_ratio", KEY_REAL, "0.5"), .max = 1, .into = TS_FIELD(kd.ratio),
      .rule = "TS904",
      .help = "weight of the teacher in the loss; the cross-entropy of the data "
              "has weight 1 - kd_ratio, over the same tokens" },
    { TS_USED("kd_temperature", KEY_REAL, "1.0"), .max = TS_NO_MAX, .positive = true,
      .into = TS_FIELD(kd.temperature), .rule = "TS904",
      .help = "divisor of the logits of both models; the distance is multiplied by "
              "its square" },
    { TS_USED("kd_beta", KEY_REAL, "0.0"), .max = 1, .into = TS_FIELD(kd.beta),
      .rule = "TS904",
      .help = "distance from the teacher: 0 is forward KL(teacher || student), 1 "
              "is reverse KL, and values in between are TRL's generalized JSD",
      .manual = "The mixture of the JSD is kd_beta teacher + (1 - kd_beta) student." },
    { TS_USED("kd_topk", KEY_INT, NULL), .min = 1, .max = 1e6, .into = TS_FIELD(kd.topk),
      .help = "number of the teacher's largest logits to keep for each token; the "
              "default keeps all",
      .manual = "The teacher's softmax is over the kept logits only, and all other "
                "tokens have probability 0; the student's softmax is over the whole "
                "vocabulary. Requires kd_beta below 1." },
};
const struct keys schema_distill_keys = { "Distillation", rows, TS_COUNT(rows) };
