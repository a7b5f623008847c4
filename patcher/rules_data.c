/* patcher/rules_data.c - data sets that are mixed. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

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

void rule_shares(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *const lists[] = { plan->dataset, plan->eval_dataset };

    for (size_t i = 0; plan->interleave_probs && i < 2; i++) {
        struct error err = { 0 };

        if (!lists[i] || dataset_mix_check(plan, count_names(lists[i]), &err))
            continue;
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS715",
                      .severity = SEVERITY_ERROR,
                      .message = arena_strdup(context->arena, err.text),
                      .note = i == 0 ? "one number for each name in dataset"
                                     : "one number for each name in eval_dataset, too" },
                  "interleave_probs");
        return;
    }
}
