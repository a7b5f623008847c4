/* patcher/catalogue_renames.c - TS6xx: renamed and removed keys. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS601",
      .title = "evaluation_strategy is now eval_strategy",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "Renamed in transformers 4.41 and gone in 5. The value, its comment and its "
          "place stay.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },
    { .id = "TS602",
      .title = "per_gpu_*_batch_size is now per_device_*_batch_size",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain = "The name of the days when every device was a GPU, gone from "
                 "transformers 5. The "
                 "value, its comment and its place stay.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },
    { .id = "TS604",
      .title = "no_cuda is now use_cpu",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "An old name with the same meaning, gone from transformers 5: there an old job "
          "stops at it. The value, its comment and its place stay.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },
    { .id = "TS609",
      .title = "push_to_hub_token and push_to_hub_model_id have new names",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "hub_token and hub_model_id. The value stays, and a token is never shown.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },

};
const struct rules catalogue_renames = { rows, TS_COUNT(rows) };
