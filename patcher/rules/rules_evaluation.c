/* patcher/rules/rules_evaluation.c - data and metrics of an evaluation. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "train/criterion.h"

/* The trainer rejects the same (train/run.c), but only when the job starts. */
static void report_criterion(struct rule_context *context)
{
    struct error why = { 0 };
    struct finding finding = { .rule = "TS514", .severity = SEVERITY_ERROR };
    const char *key;

    if (criterion_check(context->plan, &key, &why))
        return;
    finding.message = arena_strdup(context->arena, why.text);
    rule_report(context, &finding, key);
}

/* The Trainer passes only lr_scheduler_kwargs to the schedule, so its mode does not follow
 * from the metric. */
static void report_plateau(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool greater = criterion_is_better(plan, 1, 0);
    struct finding finding = { .rule = "TS514", .severity = SEVERITY_WARNING };

    if (!plan_trains(plan) || plan->schedule != SCHEDULE_REDUCE_ON_PLATEAU ||
        greater == (plan->plateau.mode == PLATEAU_MAX))
        return;
    finding.message = arena_printf(
        context->arena,
        "reduce_lr_on_plateau has mode: %s, but a %s %s is better: it reduces the rate "
        "while the metric improves",
        greater ? "min" : "max", greater ? "higher" : "lower", criterion_name(plan));
    finding.note = arena_printf(context->arena, "set mode: %s in lr_scheduler_kwargs",
                                greater ? "max" : "min");
    rule_report(context, &finding, "lr_scheduler_type");
}

/* No text contains <<answer>>, so every answer would be missed. */
static void report_tag(struct rule_context *context)
{
    const char *tag = context->plan->answer_tag;
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "answer_tag");

    if (tag && entry && strpbrk(tag, "<>/"))
        propose_remark(&to,
                       &(struct finding) {
                           .rule = "TS514",
                           .severity = SEVERITY_ERROR,
                           .message = "answer_tag must be the name of the tag, without < "
                                      "and >",
                           .note = "answer_tag: answer matches <answer>..</answer>" },
                       entry);
}

static void rule_unused_metric(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS514", .severity = SEVERITY_WARNING };

    if (plan->external)
        return;
    report_criterion(context);
    report_plateau(context);
    report_tag(context);
    if (!plan->predict_with_generate || plan->generation.on || plan_prefers(plan))
        return; /* TS909 reports preference pairs */
    finding.message = plan->stage == STAGE_PT
                          ? "predict_with_generate has no effect: it answers questions, "
                            "and plain text (stage: pt) has none"
                          : "predict_with_generate has no effect: it answers questions "
                            "during evaluations, and the job has none";
    finding.note = plan->stage == STAGE_PT ? "remove it, or train with stage: sft"
                                           : "set eval_strategy: steps to enable "
                                             "evaluations";
    rule_report(context, &finding, "predict_with_generate");
}

static void rule_eval_data(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *key;
    struct finding finding = { .rule = "TS507", .severity = SEVERITY_ERROR };

    /* a script passes its own eval_dataset to Trainer */
    if (plan->external && !rule_is_llamafactory(context) && !rule_is_trl(context) &&
        !plan->eval_dataset && !(plan->val_size > 0))
        return;
    /* sft.py and the others evaluate on dataset_test_split of the dataset */
    if (rule_is_trl(context) && !profile_find(context->view, "val_size"))
        return;
    if (plan->eval_dataset && plan->val_size > 0) {
        finding.message = "eval_dataset and val_size are both given: evaluation samples "
                          "must come from one of them";
        finding.note = "remove one of them";
        rule_report(context, &finding, "val_size");
    } else if (!plan->eval_dataset && !(plan->val_size > 0) &&
               rule_evaluates(context, &key)) {
        finding.message =
            arena_printf(context->arena,
                         "%s asks for an evaluation, but there is no data for it", key);
        finding.note = "name the data in eval_dataset, or set val_size: 0.1 to use a "
                       "tenth of dataset";
        rule_report(context, &finding, key);
    }
}

static const struct rule rows[] = {
    { .id = "TS507",
      .title = "evaluation without data, or with two sources",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_eval_data,
      .explain =
          "eval_strategy, eval_on_start, do_eval, do_predict and load_best_model_at_end "
          "ask for an evaluation. It needs samples that are not trained on: either a "
          "separate file, eval_dataset, or a part of dataset, val_size (0.1 is a tenth, "
          "100 is a hundred samples, selected by seed). LLaMA-Factory and trainspool "
          "reject both at once, because it would be unclear what was evaluated. A script of "
          "the Trainer loads its data in Python, so nothing is reported about it unless "
          "the job names data.",
      .source =
          "LLaMA-Factory hparams/parser.py and data_args.py; train/dataset/dataset.c" },
    { .id = "TS514",
      .title = "metric that no evaluation computes",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_unused_metric,
      .explain =
          "load_best_model_at_end, early_stopping_steps and lr_scheduler_type: "
          "reduce_lr_on_plateau use metric_for_best_model. "
          "Every evaluation computes the loss; accuracy requires compute_accuracy (of "
          "tokens) or predict_with_generate (of answers), and answer_rate requires the "
          "latter. Metrics computed by Python code, such as rouge, are not supported. "
          "early_stopping_steps counts evaluations, so it requires an evaluation.\n\n"
          "predict_with_generate in a job without evaluation, or with plain text, is a "
          "warning: no answers are generated. answer_tag is the name of a tag, such as "
          "answer for <answer>..</answer>; with brackets no answer would ever be found. "
          "save_strategy: best saves after evaluations, and reduce_lr_on_plateau reduces "
          "the learning rate after them, so both require them, too.",
      .source = "train/criterion.c; transformers trainer_callback.py: "
                "EarlyStoppingCallback" },
};

const struct rules rules_evaluation = { rows, TS_COUNT(rows) };
