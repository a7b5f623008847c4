/* patcher/rules_evaluation.c - what an evaluation is asked for, and whether it is
 * taken. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "train/criterion.h"

/* The trainer refuses the same (train/run.c), but only when its turn has come. */
static void tell_criterion(struct rule_context *context)
{
    struct error why = { 0 };
    struct finding finding = { .rule = "TS514", .severity = SEVERITY_ERROR };
    const char *key;

    if (criterion_check(context->plan, &key, &why))
        return;
    finding.message = arena_strdup(context->arena, why.text);
    rule_tell(context, &finding, key);
}

/* <<answer>> is in no text, so that every answer would be missed. */
static void tell_tag(struct rule_context *context)
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

void rule_metric(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS514", .severity = SEVERITY_WARNING };

    if (plan->external)
        return;
    tell_criterion(context);
    tell_tag(context);
    if (!plan->predict_with_generate || plan->generation.on || plan->stage == STAGE_DPO)
        return; /* of pairs TS909 tells */
    finding.message = plan->stage == STAGE_PT
                          ? "predict_with_generate answers questions, and plain text "
                            "(stage: pt) has none: it has no effect"
                          : "predict_with_generate answers questions at evaluations, "
                            "and there are none: it has no effect";
    finding.note = plan->stage == STAGE_PT ? "take it out, or train with stage: sft"
                                           : "eval_strategy: steps evaluates";
    rule_tell(context, &finding, "predict_with_generate");
}
