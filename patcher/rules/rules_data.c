/* patcher/rules/rules_data.c - datasets that are streamed or mixed. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_mix.h"

static size_t count_names(const char *names)
{
    size_t count = 0;

    while (*names) {
        size_t len = strcspn(names, ",");

        count += strspn(names, " \t") < len;
        names += len + (names[len] == ',');
    }
    return count;
}

static void rule_mix_weights(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *const lists[] = { plan->dataset, plan->eval_dataset };

    for (size_t i = 0; plan->interleave_probs && i < 2; i++) {
        struct error err = { 0 };

        if (!lists[i] || dataset_mix_check(plan, count_names(lists[i]), &err))
            continue;
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS715",
                        .severity = SEVERITY_ERROR,
                        .message = arena_strdup(context->arena, err.text),
                        .note = i == 0 ? "interleave_probs must have one number for each "
                                         "name in dataset"
                                       : "interleave_probs must also have one number for "
                                         "each name in eval_dataset" },
                    "interleave_probs");
        return;
    }
}

static void rule_endless_stream(struct rule_context *context)
{
    if (!rule_is_true(context, "streaming") || context->plan->max_steps > 0)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS508",
                    .severity = SEVERITY_ERROR,
                    .message =
                        "streaming requires max_steps: a streamed dataset has no length, "
                        "so the end of training is unknown",
                    .note = "set max_steps to samples x num_train_epochs / effective "
                            "batch" },
                "streaming");
}

static const struct rule rows[] = {
    { .id = "TS508",
      .title = "streaming without max_steps",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_EXTERNAL,
      .run = rule_endless_stream,
      .explain =
          "A streamed dataset is not counted, so epochs cannot be converted to steps, "
          "and neither the end of the run nor the learning-rate schedule is known. "
          "LLaMA-Factory requires max_steps. Set it to samples times epochs, divided by "
          "batch times accumulation times devices. A native run counts the data before "
          "training, streamed or not, so its end is known.",
      .source = "LLaMA-Factory hparams/parser.py; train/dataset/dataset.c" },
    { .id = "TS715",
      .title = "mixing probabilities do not match the datasets",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_mix_weights,
      .explain =
          "interleave_probs gives the probability of each dataset in dataset with "
          "mix_strategy interleave_under, interleave_over or interleave_once: as many "
          "numbers as names, from 0 to 1, with a sum of 1. With concat it has no "
          "meaning, and LLaMA-Factory rejects it. If all datasets must be exhausted "
          "(over, once), none may be 0. eval_dataset, if given, is mixed with the same "
          "probabilities and must have as many names.",
      .source = "LLaMA-Factory hparams/data_args.py; numpy Generator.choice" },
};

const struct rules rules_data = { rows, TS_COUNT(rows) };
