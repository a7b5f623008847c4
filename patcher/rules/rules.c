/*
 * patcher/rules/rules.c - the list of rule files, and the order that rules run in.
 *
 * Rules decide nothing about precision: they compare the job with what the device can do
 * (precision/device.h) and with the result of policy_decide, and propose edits.
 */
#include "config.h"

#include "patcher/rules/rules.h"

#include <string.h>

#include "base/size.h"
#include "patcher/script/script.h"

/* One line per file: rules_NAME.c exports rules_NAME. */
#define RULE_FILES(X)   \
    X(batch)            \
    X(bitsandbytes)     \
    X(checkpointing)    \
    X(clipping)         \
    X(data)             \
    X(device)           \
    X(disk)             \
    X(distill)          \
    X(evaluation)       \
    X(external_float16) \
    X(float16)          \
    X(formats)          \
    X(heal)             \
    X(host)             \
    X(keys)             \
    X(launch)           \
    X(loop)             \
    X(media)            \
    X(memory)           \
    X(methods)          \
    X(missing)          \
    X(mode)             \
    X(model)            \
    X(names)            \
    X(optimizer)        \
    X(output)           \
    X(packages)         \
    X(paths)            \
    X(precision)        \
    X(preference)       \
    X(previous_run)     \
    X(quantized)        \
    X(queue)            \
    X(ranks)            \
    X(adapter)          \
    X(reading)          \
    X(reinforcement)    \
    X(refused)          \
    X(renames)          \
    X(resume)           \
    X(saving)           \
    X(scaler)           \
    X(script)           \
    X(slurm)            \
    X(suppress_unused)  \
    X(text)             \
    X(torch_state)      \
    X(trainer)          \
    X(trainer_file)     \
    X(unsupported)      \
    X(variables)        \
    X(versions)

#define DECLARE(name) extern const struct rules rules_##name;
#define LIST(name)    &rules_##name,

RULE_FILES(DECLARE)

static const struct rules *const files[] = { RULE_FILES(LIST) };

/* TS000 to TS999. */
#define NUMBERS 1000

/* Return the digits of an ID, or NUMBERS if it has another form. */
static size_t number_of(const char *id)
{
    size_t number = 0;

    if (strlen(id) != 5 || strncmp(id, "TS", 2) != 0 || strspn(id + 2, "0123456789") != 3)
        return NUMBERS;
    for (size_t i = 2; i < 5; i++)
        number = 10 * number + (size_t)(id[i] - '0');
    return number;
}

/* Index the rules by number; numbers without a rule are NULL. */
static void sort_rules(const struct rule *sorted[NUMBERS])
{
    memset(sorted, 0, NUMBERS * sizeof(*sorted));
    for (size_t i = 0; i < TS_COUNT(files); i++)
        for (size_t j = 0; j < files[i]->count; j++)
            sorted[number_of(files[i]->list[j].id)] = &files[i]->list[j];
}

size_t rules_count(void)
{
    size_t count = 0;

    for (size_t i = 0; i < TS_COUNT(files); i++)
        count += files[i]->count;
    return count;
}

const struct rule *rules_at(size_t at)
{
    const struct rule *sorted[NUMBERS];

    sort_rules(sorted);
    for (size_t i = 0; i < NUMBERS; i++)
        if (sorted[i] && at-- == 0)
            return sorted[i];
    return NULL;
}

const struct rule *rules_find(const char *id)
{
    for (size_t i = 0; i < TS_COUNT(files); i++)
        for (size_t j = 0; j < files[i]->count; j++)
            if (strcmp(files[i]->list[j].id, id) == 0)
                return &files[i]->list[j];
    return NULL;
}

/* First digits of the IDs: text, names, renames, then the device, then precision and what
 * depends on it.  TS812 comes last: it adds what no other rule reports. */
static const char run_order[] = "0762143598";

const char *const rule_targets[3] = { "all", "native", "external" };

/* Return whether a rule applies to a script: not those about YAML, nor those about the
 * Trainer of transformers if the script has a loop of its own. */
static bool applies_to_script(const struct rule *rule, const struct rule_context *context)
{
    static const char *const of_trainer[] = { "TS309", "TS409", "TS510", "TS810" };

    if (rule->id[2] == '0')
        return false;
    for (size_t i = 0; i < TS_COUNT(of_trainer); i++)
        if (strcmp(rule->id, of_trainer[i]) == 0)
            return !script_facts_of(context->document)->is_loop;
    return true;
}

/* Return whether a rule is about training only: those of optimizers (TS4..), of second
 * models (TS9..), and these. */
static bool is_of_training(const struct rule *rule)
{
    static const char *const of_training[] = {
        "TS105", "TS106", "TS108", "TS109", "TS110", "TS112", "TS113", "TS122", "TS123",
        "TS126", "TS127", "TS302", "TS303", "TS304", "TS305", "TS306", "TS307", "TS309",
        "TS310", "TS311", "TS312", "TS313", "TS501", "TS502", "TS503", "TS504", "TS505",
        "TS506", "TS508", "TS509", "TS511", "TS512", "TS513",
    };

    if (rule->id[2] == '4' || rule->id[2] == '9')
        return true;
    for (size_t i = 0; i < TS_COUNT(of_training); i++)
        if (strcmp(rule->id, of_training[i]) == 0)
            return true;
    return false;
}

static bool applies(const struct rule *rule, const struct rule_context *context)
{
    if (plan_only_evaluates(context->plan) && is_of_training(rule))
        return false;
    if (context->document->script && !applies_to_script(rule, context))
        return false;
    if (profile_at(context->view->trainer)->rules &&
        !profile_has_rule(context->view->trainer, rule->id))
        return false;
    return rule->target == RULE_BOTH ||
           (rule->target == RULE_EXTERNAL) == context->plan->external;
}

void rules_run(struct rule_context *context)
{
    const struct rule *sorted[NUMBERS];

    if (context->plan->external && context->options->will_run) {
        rules_find("TS707")->run(context); /* refused: no other rule matters */
        return;
    }
    sort_rules(sorted);
    for (const char *digit = run_order; *digit; digit++)
        for (size_t i = 100 * (size_t)(*digit - '0'), end = i + 100; i < end; i++)
            if (sorted[i] && sorted[i]->run && applies(sorted[i], context))
                sorted[i]->run(context);
}
