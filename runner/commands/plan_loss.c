/* runner/commands/plan_loss.c - what `plan` shows about the loss. */
#include "config.h"

#include "runner/commands/plan_loss.h"

#include <inttypes.h>

#include "base/file.h"
#include "patcher/rules/teacher.h"
#include "runner/job/plan_rewards.h"
#include "runner/output/report.h"

/* Add the teacher of a distillation and its share of the loss. */
static void add_teacher(struct text *out, const struct plan *plan)
{
    const struct distillation_settings *kd = &plan->kd;
    char bytes[16];

    if (plan->stage != STAGE_DISTILL || plan->external)
        return;
    text_adds(out, "  teacher     ");
    report_visible(out, kd->teacher ? kd->teacher : kd->logits ? kd->logits : "none");
    if (kd->teacher && kd->config) {
        memory_text(plan->teacher_bytes, bytes);
        text_addf(out, ", %s, %s of weights", format_dtype(kd->format), bytes);
    }
    if (kd->teacher && kd->logits)
        text_addf(out, ", %s",
                  file_exists(kd->logits) ? "from the file of its logits"
                                          : "which writes its logits first");
    text_addf(out, "\n              %g of the loss, temperature %g, beta %g", kd->ratio,
              kd->temperature, kd->beta);
    if (kd->topk > 0)
        text_addf(out, ", the %" PRId64 " largest logits", kd->topk);
    text_addc(out, '\n');
}

/* Add the loss of a token if it is not cross-entropy. */
static void add_token_loss(struct text *out, const struct plan *plan)
{
    if (plan->external || plan->token_loss == TOKEN_LOSS_PLAIN)
        return;
    text_adds(out, "  loss        cross-entropy times ");
    if (plan->anchor > 0)
        text_addf(out,
                  "the probability of the token, plus %g times the divergence from the "
                  "teacher (ASFT)\n",
                  plan->anchor);
    else if (plan->token_loss == TOKEN_LOSS_DFT)
        text_adds(out, "the probability of the token (DFT)\n");
    else
        text_addf(out, "(entropy / 3)^%g (EAFT)\n", plan->eaft_alpha);
}

/* Add the loss and the reference model of preference training. */
static void add_preference(struct text *out, const struct plan *plan)
{
    const struct preference *preference = &plan->preference;

    if (!plan_prefers(plan) || plan->external)
        return;
    if (preference->loss == PREFERENCE_REWARD) {
        text_adds(out, "  reward      the difference of the scores of each pair");
        if (preference->center > 0)
            text_addf(out, ", plus %g x the square of their sum", preference->center);
        text_addc(out, '\n');
        return;
    }
    text_addf(out, "  preference  %s, beta %g", ref_model_loss(plan), preference->beta);
    if (preference->loss == PREFERENCE_SIMPO)
        text_addf(out, ", gamma %g", preference->simpo_gamma);
    if (preference->loss == PREFERENCE_KTO)
        text_addf(out, ", weights %g (good) and %g (bad)", preference->chosen_weight,
                  preference->rejected_weight);
    if (preference->label_smoothing > 0)
        text_addf(out, ", label smoothing %g", preference->label_smoothing);
    if (preference->ftx > 0)
        text_addf(out, ", plus %g x cross-entropy of the %s answer", preference->ftx,
                  preference->loss == PREFERENCE_KTO ? "good" : "chosen");
    text_adds(out, "\n              ");
    plan_reference_text(out, plan);
    text_addc(out, '\n');
}

void plan_loss_add(struct text *out, const struct plan *plan)
{
    add_teacher(out, plan);
    add_token_loss(out, plan);
    add_preference(out, plan);
}
