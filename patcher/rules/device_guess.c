/* patcher/rules/device_guess.c - runs the rules with and without the guessed device: the
 * difference depends on it. */
#include "config.h"

#include "patcher/rules/device_guess.h"

#include <string.h>

#include "patcher/rules/rules_context.h"

static bool is_same_edit(const struct finding *a, const struct finding *b)
{
    return a->at.byte == b->at.byte && a->cut == b->cut && b->new_text &&
           strcmp(a->new_text, b->new_text) == 0;
}

/* Return whether one of the findings has the same edit, as safe as this one. */
static bool has_edit(const struct findings *findings, const struct finding *wanted)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->list[i].rule, wanted->rule) == 0 &&
            findings->list[i].apply == APPLY_SAFE &&
            is_same_edit(wanted, &findings->list[i]))
            return true;
    return false;
}

static bool has_error(const struct findings *findings, const struct finding *wanted)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->list[i].rule, wanted->rule) == 0 &&
            findings->list[i].severity == SEVERITY_ERROR &&
            findings->list[i].at.byte == wanted->at.byte)
            return true;
    return false;
}

/* A memory_limit in bytes applies on any device. */
static bool follows_from_limit(const struct rule_context *context,
                               const struct finding *finding)
{
    const char *limit = context->plan->memory_limit;

    return strcmp(finding->rule, "TS301") == 0 && limit && !strchr(limit, '%');
}

/* The patch makes all edits of a group or none. */
static void weaken_group(struct findings *findings, size_t first, int group)
{
    for (size_t i = first; group != 0 && i < findings->count; i++)
        if (findings->list[i].group == group && findings->list[i].apply == APPLY_SAFE)
            findings->list[i].apply = APPLY_UNSAFE;
}

/* Weaken the findings with index `first` or higher that follow from the device.  Return their
 * rules, "TS114, TS115", or NULL. */
static const char *weaken(struct rule_context *context, size_t first,
                          const struct findings *without)
{
    struct findings *findings = context->findings;
    const char *rules = NULL;

    for (size_t i = first; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];
        bool edit = finding->new_text && finding->apply == APPLY_SAFE &&
                    !has_edit(without, finding);
        bool error = finding->severity == SEVERITY_ERROR &&
                     !has_error(without, finding) &&
                     !follows_from_limit(context, finding);

        if (!edit && !error)
            continue;
        if (!rules || !strstr(rules, finding->rule))
            rules = arena_printf(context->arena, "%s%s%s", rules ? rules : "",
                                 rules ? ", " : "", finding->rule);
        if (error)
            finding->severity = SEVERITY_WARNING;
        if (!edit)
            continue;
        finding->apply = APPLY_UNSAFE;
        weaken_group(findings, first, finding->group);
    }
    return rules;
}

static void report_guess(struct rule_context *context, const char *rules)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS208",
            .severity = SEVERITY_INFO,
            .message = arena_printf(context->arena,
                                    "no device is named and this machine has no GPU: "
                                    "findings that depend on the device (%s) are "
                                    "warnings at most, and their edits are not safe",
                                    rules),
            .note =
                "name the device: --device T4, TRAINSPOOL_DEVICE=T4, device = \"T4\" in "
                ".trainspool.toml, or trainspool: {check_device: T4}; use cpu if the "
                "job runs on a CPU" },
        NULL);
}

void rules_run_guessed(struct rule_context *context)
{
    struct rule_context unknown = *context;
    struct findings without;
    size_t first = context->findings->count;
    const char *rules;

    findings_init(&without, context->arena);
    unknown.device = NULL;
    unknown.available = 0;
    unknown.findings = &without;
    rules_run(&unknown);
    rules_run(context);
    rules = weaken(context, first, &without);
    if (rules)
        report_guess(context, rules);
}
