/* runner/job/trial.c - asks trainspool-train to read the data, and reports its answer. */
#include "config.h"

#include "runner/job/trial.h"

#include <string.h>

#include "patcher/rules/rules.h"
#include "patcher/rules/suppress.h"

static const char rule_id[] = "TS713";

/* Return whether TS713 already reports what is missing or unreadable. */
static bool is_reported(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->list[i].rule, rule_id) == 0)
            return true;
    return false;
}

/* Return the key that names the data of the run. */
static const char *data_key(const struct plan *plan)
{
    return plan_only_evaluates(plan) && plan->eval_dataset ? "eval_dataset" : "dataset";
}

bool trial_applies(const struct selection *selection, const struct patch *patch)
{
    const struct plan *plan = &patch->plan;

    return patch->has_plan && !patch->rejected && !plan->external && !plan_merges(plan) &&
           plan->model_name_or_path &&
           (plan->dataset || (plan_only_evaluates(plan) && plan->eval_dataset)) &&
           !is_reported(&patch->findings) &&
           suppress_selects(selection->select, NULL, rule_id);
}

static void add_finding(const struct error *why, struct patch *patch)
{
    const struct entry *entry = document_find(&patch->document, data_key(&patch->plan));

    findings_add(&patch->findings,
                 &(struct finding) { .rule = rules_find(rule_id)->id,
                                     .severity = SEVERITY_ERROR,
                                     .apply = APPLY_MANUAL,
                                     .key = data_key(&patch->plan),
                                     .at = entry->value->at,
                                     .cut = entry->value->bytes,
                                     .message = arena_printf(patch->arena,
                                                             "a run would "
                                                             "stop: %s",
                                                             why->text),
                                     .because = "read on this machine" });
}

static void finish(struct patch *patch)
{
    findings_sort(&patch->findings);
    patch->rejected = true;
}

void trial_report(const struct selection *selection, const struct error *why,
                  struct patch *patch)
{
    if (!trial_applies(selection, patch))
        return;
    add_finding(why, patch);
    finish(patch);
}

void trial_add(const struct selection *selection, struct patch *patch,
               struct steps *steps)
{
    struct steps_faults faults;

    *steps = (struct steps) { 0 };
    if (!trial_applies(selection, patch) || steps_can_count(patch->job, steps, &faults))
        return;
    for (size_t i = 0; i < faults.count; i++)
        add_finding(&faults.list[i], patch);
    finish(patch);
}
