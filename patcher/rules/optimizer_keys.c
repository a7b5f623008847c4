/* patcher/rules/optimizer_keys.c - settings that the optimizer of a job does not read:
 * LLaMA-Factory train/trainer_utils.py, transformers trainer_optimizer.py. */
#include "config.h"

#include "patcher/rules/optimizer_keys.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "train/model/optimizer_table.h"

static const char *const adam[] = { "adam_beta1", "adam_beta2", "adam_epsilon", NULL };
static const char *const galore[] = { "galore_target",          "galore_rank",
                                      "galore_update_interval", "galore_scale",
                                      "galore_proj_type",       NULL };
static const char *const apollo[] = {
    "apollo_target",     "apollo_rank",        "apollo_update_interval",
    "apollo_scale",      "apollo_proj",        "apollo_proj_type",
    "apollo_scale_type", "apollo_scale_front", NULL
};

/* Return how the job names its optimizer. */
static const char *optimizer_line(const struct rule_context *context)
{
    int index = context->plan->optimizer;

    if (optimizer_has_key(index))
        return arena_printf(context->arena, "use_%s", optimizer_name(index));
    return arena_printf(context->arena, "optim: %s",
                        optimizer_name(context->plan->optim));
}

/* Report which of the keys are in the job and not among those that are read. */
static void report_unread(struct rule_context *context, const char *const *keys,
                          const char *read, const char *why)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *first = NULL;
    const char *names = "";
    size_t count = 0;

    for (; *keys; keys++) {
        const struct entry *entry = rule_entry(context, *keys);

        if (!entry || strstr(read, *keys))
            continue;
        names = arena_printf(context->arena, "%s%s%s", names, count++ ? ", " : "", *keys);
        if (!first || entry->key->at.byte < first->key->at.byte)
            first = entry;
    }
    if (first)
        propose_key_remark(
            &to,
            &(struct finding) {
                .rule = "TS712",
                .severity = SEVERITY_INFO,
                .message = arena_printf(context->arena, "%s %s no effect %s", names,
                                        count == 1 ? "has" : "have", why) },
            first);
}

/* Several keys may select an optimizer; the first of them in LLaMA-Factory counts. */
static void report_others(struct rule_context *context)
{
    static const char *const keys[] = { "galore", "apollo", "adam_mini", "muon" };
    const struct plan *plan = context->plan;
    const char *name = optimizer_name(plan->optimizer);
    bool keyed = optimizer_has_key(plan->optimizer);
    const char *line =
        plan_adapts(plan) && plan->loraplus_lr_ratio > 0 && !keyed
            ? "with loraplus_lr_ratio"
            : arena_printf(context->arena, "with %s", optimizer_line(context));

    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const char *key = arena_printf(context->arena, "use_%s", keys[i]);
        const char *const one[] = { key, NULL };

        if (rule_is_true(context, key) && (!keyed || strcmp(name, keys[i]) != 0))
            report_unread(context, one, "", line);
    }
    if (keyed && !optimizer_projects(plan) && optimizer_first_name(plan->optim) != 0)
        report_unread(context, (const char *const[]) { "optim", NULL }, "", line);
}

void optimizer_keys_check(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (plan->external)
        return;
    report_unread(context, adam, optimizer_reads(plan),
                  arena_printf(context->arena, "with %s", optimizer_line(context)));
    if (!plan->use_galore)
        report_unread(context, galore, "", "without use_galore: true");
    if (!plan->use_apollo)
        report_unread(context, apollo, "", "without use_apollo: true");
    report_others(context);
}
