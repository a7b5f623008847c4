/*
 * patcher/rules.c - the catalogue of what is looked at, and the order it is looked at in.
 *
 * Rules decide nothing about precision: they compare what the job says with the facts of
 * the device (precision/device.h) and with what policy_decide makes of it, and propose
 * edits.
 */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/dialect.h"

/* By the digit behind TS. */
static const struct rules *const families[] = {
    ['0' - '0'] = &catalogue_text,      ['1' - '0'] = &catalogue_precision,
    ['2' - '0'] = &catalogue_device,    ['3' - '0'] = &catalogue_memory,
    ['4' - '0'] = &catalogue_optimizer, ['5' - '0'] = &catalogue_saving,
    ['6' - '0'] = &catalogue_renames,   ['7' - '0'] = &catalogue_names,
    ['8' - '0'] = &catalogue_versions,  ['9' - '0'] = &catalogue_distill,
};

size_t rules_count(void)
{
    size_t count = 0;

    for (size_t i = 0; i < TS_COUNT(families); i++)
        count += families[i] ? families[i]->count : 0;
    return count;
}

const struct rule *rules_at(size_t at)
{
    for (size_t i = 0; i < TS_COUNT(families); i++) {
        size_t count = families[i] ? families[i]->count : 0;

        if (at < count)
            return &families[i]->list[at];
        at -= count;
    }
    return NULL;
}

static const struct rules *family_of(char digit)
{
    size_t at = (size_t)(digit - '0');

    return digit >= '0' && at < TS_COUNT(families) ? families[at] : NULL;
}

const struct rule *rules_find(const char *id)
{
    const struct rules *family = strlen(id) == 5 ? family_of(id[2]) : NULL;

    for (size_t i = 0; family && i < family->count; i++)
        if (strcmp(family->list[i].id, id) == 0)
            return &family->list[i];
    return NULL;
}

/* The text, names, renames, then the device, then precision and what follows from it. */
static const char run_order[] = "0762143589";

const char *const rule_targets[3] = { "all", "native", "external" };

static bool is_for(const struct rule *rule, const struct rule_context *context)
{
    return rule->target == RULE_BOTH ||
           (rule->target == RULE_EXTERNAL) == context->plan->external;
}

static void run_family(struct rule_context *context, const struct rules *family)
{
    for (size_t i = 0; family && i < family->count; i++)
        if (family->list[i].run && is_for(&family->list[i], context))
            family->list[i].run(context);
}

static bool is_job(const struct rule_context *context)
{
    const struct entry *marker;

    return context->document->root &&
           dialect_find(context->document, &marker) == DIALECT_NATIVE;
}

void rules_run(struct rule_context *context)
{
    if (!is_job(context))
        return;
    if (context->plan->external && context->options->will_run) {
        rule_not_here(context); /* refused, and nothing of it is read */
        return;
    }
    for (const char *group = run_order; *group; group++)
        run_family(context, family_of(*group));
}
