/* patcher/rules/rules_data.c - data sets that are streamed or mixed. */
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

/* ---- TS715: shares that do not fit ---- */

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
                        .note = i == 0
                                    ? "one number for each name in dataset"
                                    : "one number for each name in eval_dataset, too" },
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
                        "a stream has no length, so nobody knows when the training "
                        "ends: max_steps is not given",
                    .note = "max_steps: samples x num_train_epochs / effective batch" },
                "streaming");
}

static const struct rule rows[] = {
    { .id = "TS508",
      .title = "a stream of data without max_steps",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_EXTERNAL,
      .run = rule_endless_stream,
      .explain =
          "A data set that is streamed is never counted, so epochs cannot be turned "
          "into steps, and neither the end nor the learning rate's schedule is known. "
          "LLaMA-Factory asks for max_steps. samples times epochs, divided by batch "
          "times accumulation times devices, is what it should be. Here data are "
          "counted before they are learnt, streamed or not, so a run of trainspool's "
          "own knows its end.",
      .source = "LLaMA-Factory hparams/parser.py; train/dataset/dataset.c" },
    { .id = "TS715",
      .title = "shares that do not fit the data sets",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_mix_weights,
      .explain =
          "interleave_probs says how often each data set of dataset has its turn with "
          "mix_strategy interleave_under, interleave_over or interleave_once: as many "
          "numbers as names, from 0 to 1, which add up to 1. With concat it has no "
          "meaning, and LLaMA-Factory refuses it. Where all data sets are to be "
          "exhausted (over, once) none may be 0. If there is eval_dataset, it is mixed "
          "with the same shares and must have as many names.",
      .source = "LLaMA-Factory hparams/data_args.py; numpy Generator.choice" },
};

const struct rules rules_data = { rows, TS_COUNT(rows) };
