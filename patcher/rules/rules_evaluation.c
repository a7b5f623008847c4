/* patcher/rules/rules_evaluation.c - data and metrics of an evaluation. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "train/criterion.h"

/* The trainer refuses the same (train/run.c), but only when its turn has come. */
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

/* <<answer>> is in no text, so that every answer would be missed. */
static void report_tag(struct rule_context *context)
{
    const char *tag = context->plan->answer_tag;
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "answer_tag");

    if (tag && entry && strpbrk(tag, "<>/"))
        propose_remark(
            &to,
            &(struct finding) { .rule = "TS514",
                                .severity = SEVERITY_ERROR,
                                .message =
                                    "answer_tag is the tag's name alone, without < and >",
                                .note = "answer_tag: answer finds <answer>..</answer>" },
            entry);
}

static void rule_unused_metric(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS514", .severity = SEVERITY_WARNING };

    if (plan->external)
        return;
    report_criterion(context);
    report_tag(context);
    if (!plan->predict_with_generate || plan->generation.on || plan->stage == STAGE_DPO)
        return; /* of pairs TS909 tells */
    finding.message = plan->stage == STAGE_PT
                          ? "predict_with_generate answers questions, and plain text "
                            "(stage: pt) has none: it has no effect"
                          : "predict_with_generate answers questions at evaluations, "
                            "and there are none: it has no effect";
    finding.note = plan->stage == STAGE_PT ? "take it out, or train with stage: sft"
                                           : "eval_strategy: steps evaluates";
    rule_report(context, &finding, "predict_with_generate");
}

static void rule_eval_data(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *key;
    struct finding finding = { .rule = "TS507", .severity = SEVERITY_ERROR };

    if (plan->eval_dataset && plan->val_size > 0) {
        finding.message = "eval_dataset and val_size are both given: samples to "
                          "evaluate on come from one of them";
        finding.note = "take one away";
        rule_report(context, &finding, "val_size");
    } else if (!plan->eval_dataset && !(plan->val_size > 0) &&
               rule_evaluates(context, &key)) {
        finding.message =
            arena_printf(context->arena,
                         "%s asks for an evaluation, and there are no data for it", key);
        finding.note = "eval_dataset names some; val_size: 0.1 keeps a tenth of dataset";
        rule_report(context, &finding, key);
    }
}

static const struct rule rows[] = {
    { .id = "TS507",
      .title = "an evaluation without data, or with two kinds",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_eval_data,
      .explain =
          "eval_strategy, eval_on_start, do_eval, do_predict and load_best_model_at_end "
          "ask for an evaluation. It needs samples that are not trained on: either a "
          "file of their own, eval_dataset, or a share of dataset, val_size (0.1 is a "
          "tenth, 100 is a hundred samples, drawn by seed). Both at once is refused by "
          "LLaMA-Factory and here: nobody could say what was evaluated.",
      .source =
          "LLaMA-Factory hparams/parser.py and data_args.py; train/dataset/dataset.c" },
    { .id = "TS514",
      .title = "a metric that no evaluation takes",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_unused_metric,
      .explain =
          "load_best_model_at_end and early_stopping_steps go by metric_for_best_model. "
          "Every evaluation takes the loss; accuracy wants compute_accuracy (of tokens) "
          "or predict_with_generate (of answers), and answer_rate the second. Metrics "
          "that Python code makes, as rouge, are not taken here. early_stopping_steps "
          "counts evaluations, so it wants some.\n\n"
          "predict_with_generate in a job that is not evaluated, or of plain text, is a "
          "warning: nothing is answered. answer_tag is the name of a tag, as answer for "
          "<answer>..</answer>; with brackets no answer would ever be found.",
      .source = "train/criterion.c; transformers trainer_callback.py: "
                "EarlyStoppingCallback" },
};

const struct rules rules_evaluation = { rows, TS_COUNT(rows) };
