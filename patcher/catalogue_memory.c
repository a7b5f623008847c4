/* patcher/catalogue_memory.c - TS3xx: memory and batch. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS301",
      .title = "the job will not fit into memory",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_memory,
      .explain = "The estimate counts weights, 16-bit copies, gradients, both moments, "
                 "activations and "
                 "workspace, as the trainer will lay them out, against memory_limit (95 "
                 "% of what is "
                 "free).\n\n"
                 "`--unsafe` does, until it fits: checkpointing on (computes each layer "
                 "twice, about "
                 "20 to 30 % slower), then a smaller micro batch with more accumulation, "
                 "which keeps the "
                 "effective batch exactly (TS302). If nothing helps it is an error: "
                 "use lora or a smaller model, or shorten cutoff_len where it is the "
                 "activations that do not fit. Learning rate and effective batch are "
                 "never touched.",
      .source = "train/shapes.h; arXiv 2205.05198 for activations" },
    { .id = "TS302",
      .title = "a smaller micro batch with more accumulation",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "The largest divisor of per_device_train_batch_size that fits; accumulation is "
          "multiplied by the same factor, so that batch times accumulation stays what it "
          "was. The loss is divided by the trained tokens of the whole window, so the "
          "result is the same but for rounding.",
      .source =
          "transformers PR #33281: a batch that shrank by 0.9 and changed the training" },
    { .id = "TS303",
      .title = "two keys contradict each other about checkpointing",
      .severity = SEVERITY_ERROR,
      .run = rule_checkpointing,
      .explain =
          "gradient_checkpointing is Hugging Face's key (preset: off), "
          "disable_gradient_checkpointing LLaMA-Factory's (preset: on). Without either, "
          "checkpointing is on here. Keep the one you mean. Neither has to do with the "
          "loss scaler's error.",
      .source = "LLaMA-Factory model_args.py; TrainingArguments" },
    { .id = "TS307",
      .title = "an 8-bit or paged Adam",
      .severity = SEVERITY_WARNING,
      .run = rule_optimizer,
      .target = RULE_NATIVE,
      .explain =
          "Moments are float32 here: 8 bytes a trained weight. With lora that is little. "
          "The file stays as it is; `plan` shows the memory.",
      .source = "train/optimizer.c" },

};
const struct rules catalogue_memory = { rows, TS_COUNT(rows) };
