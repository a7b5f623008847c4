/*
 * patcher/rules/lora_targets.c - compare the names of lora_target with the layers of a
 * model as PEFT does.  A list holds ends of module names; a string is a regular expression
 * for whole names (tuners_utils.py, check_target_module_exists, PEFT 0.15.2).
 */
#include "config.h"

#include "patcher/rules/lora_targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "patcher/document/lookalike.h"
#include "train/model/adapter_targets.h"
#include "train/model/encoder_adapters.h"
#include "train/model/lora_config.h"
#include "train/text/pattern.h"

/* How the value of a key becomes PEFT's target_modules. */
enum reading {
    READ_SPLIT, /* LLaMA-Factory: always a list; "all" alone means all linear layers */
    READ_TRL,   /* a list with one item becomes a string; a string is an expression */
    READ_ANY    /* a script: either */
};

static const char *const keys[] = { "lora_target", "lora_target_modules",
                                    "target_modules" };

struct targets {
    const struct model_config *model;
    const struct entry *entry;
    enum reading reading;
    struct arena *arena;
    const char **names; /* of the list */
    size_t count;
};

static void add_names(struct targets *targets, const struct node *value)
{
    const char *at = value->text;

    if (value->kind == NODE_LIST) {
        targets->names =
            arena_array(targets->arena, value->count + 1, sizeof(*targets->names));
        for (size_t i = 0; i < value->count; i++)
            targets->names[targets->count++] = node_value(value->items[i])->text;
        return;
    }
    targets->names = arena_array(targets->arena, value->len + 1, sizeof(*targets->names));
    while (*(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ",");

        while (len > 0 && at[len - 1] == ' ')
            len--;
        targets->names[targets->count++] = arena_copy(targets->arena, at, len);
        at += len;
    }
}

/* Return whether the list matches a module: a layer, or the blocks around them, which PEFT
 * finds and then rejects. */
static bool is_module(const struct targets *targets, const char *name)
{
    const struct architecture *a = targets->model->architecture;

    for (enum module i = 0; i < MODULES; i++)
        if (architecture_is_named(a, i, name, strlen(name)) ||
            architecture_is_under(a, i, name, strlen(name)))
            return true;
    return false;
}

/* Return whether the expression matches the whole name of a module; true for an expression
 * that cannot be compiled or takes too long here. */
static bool expression_matches(const struct targets *targets, const char *text)
{
    const struct architecture *a = targets->model->architecture;
    const size_t all = MODULES * (size_t)targets->model->layers;
    struct error ignored = { 0 };
    struct pattern *pattern = pattern_compile_whole(text, "lora_target", &ignored);
    bool found = !pattern;
    struct text name;

    text_init(&name, 0);
    for (size_t i = 0; !found && i < all; i++) {
        const enum module module = (enum module)(i % MODULES);
        const size_t layer = i / MODULES;
        bool failed;

        if (!a->paths[module] || (!module_in_block(module) && layer > 0) ||
            !model_config_has(targets->model, module, layer))
            continue;
        architecture_name(a, &(struct module_place) { module, layer, 0 }, &name);
        found = pattern_matches(pattern, name.data, &failed) || failed;
    }
    text_clear(&name);
    pattern_free(pattern);
    return found;
}

/* Return the string that PEFT receives; NULL if it receives a list. */
static const char *string_of(const struct targets *targets)
{
    const struct node *value = node_value(targets->entry->value);

    if (targets->reading == READ_SPLIT)
        return NULL;
    if (value->kind == NODE_SCALAR)
        return value->text;
    return targets->reading == READ_TRL && targets->count == 1 ? targets->names[0] : NULL;
}

/* Return whether all names are known to match, or none can be checked. */
static bool matches(const struct targets *targets)
{
    const char *string = string_of(targets);
    bool all = targets->count > 0;

    if (targets->count == 0)
        return true;
    if (targets->reading == READ_SPLIT && targets->count == 1 &&
        strcmp(targets->names[0], "all") == 0)
        return true;
    if (string &&
        (strcasecmp(string, "all-linear") == 0 || expression_matches(targets, string)))
        return true;
    if (string && targets->reading == READ_TRL)
        return false;
    for (size_t i = 0; i < targets->count; i++)
        all = all && is_module(targets, targets->names[i]);
    return all;
}

static void add_name(struct text *out, const char *name)
{
    text_addf(out, "%s%s", out->len > 0 ? ", " : "", name);
}

/* Return whether no earlier module has the same name, as both c_proj of GPT-2 do. */
static bool is_first(const struct architecture *a, enum module module)
{
    for (enum module i = 0; i < module; i++)
        if (a->paths[i] && module_is_linear(i) && !module_is_of_projector(i) &&
            strcmp(architecture_leaf(a, i), architecture_leaf(a, module)) == 0)
            return false;
    return true;
}

static void add_layers(const struct targets *targets, struct text *out)
{
    const struct architecture *a = targets->model->architecture;

    for (enum module i = 0; i < MODULES; i++)
        if (a->paths[i] && module_is_linear(i) && !module_is_of_projector(i) &&
            is_first(a, i))
            add_name(out, architecture_leaf(a, i));
}

static void report(struct rule_context *context, const struct targets *targets)
{
    const struct proposal to = rule_proposal(context);
    const bool whole = string_of(targets) && targets->reading == READ_TRL;
    struct text missing, found, layers;
    struct finding finding = { .rule = "TS705" };

    text_init(&missing, 0);
    text_init(&found, 0);
    text_init(&layers, 0);
    for (size_t i = 0; i < targets->count; i++)
        add_name(!whole && is_module(targets, targets->names[i]) ? &found : &missing,
                 targets->names[i]);
    add_layers(targets, &layers);
    finding.severity = found.len > 0 ? SEVERITY_WARNING : SEVERITY_ERROR;
    finding.message = arena_printf(
        context->arena, "%s: the model has no layer named %s; its linear layers are %s",
        targets->entry->key->text, rule_printable(context, missing.data), layers.data);
    finding.note = found.len > 0
                       ? arena_printf(context->arena, "PEFT adapts only %s",
                                      rule_printable(context, found.data))
                       : "PEFT stops: Target modules not found in the base model";
    propose_remark(&to, &finding, targets->entry);
    text_clear(&missing);
    text_clear(&found);
    text_clear(&layers);
}

/* Return whether the job adapts a model with new adapters. */
static bool makes_adapters(const struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (rule_is_llamafactory(context))
        return plan_adapts(plan) &&
               (!plan->adapter_name_or_path || plan->create_new_adapter);
    return !rule_is_trl(context) || rule_is_true(context, "use_peft");
}

void lora_targets_check(struct rule_context *context)
{
    struct targets targets = { .model = context->model, .arena = context->arena };

    if (!context->model || !makes_adapters(context))
        return;
    targets.reading = rule_is_llamafactory(context) ? READ_SPLIT
                      : rule_is_trl(context)        ? READ_TRL
                                                    : READ_ANY;
    for (size_t i = 0; i < TS_COUNT(keys) && !targets.entry; i++)
        if (targets.reading != READ_SPLIT || i == 0)
            targets.entry = rule_entry(context, keys[i]);
    if (!targets.entry || node_is_null(targets.entry->value) ||
        strstr(node_value(targets.entry->value)->text, "${"))
        return;
    add_names(&targets, node_value(targets.entry->value));
    if (!matches(&targets))
        report(context, &targets);
}

/* Return the names in a list that no layer of a trained encoder has. */
static const char *outside_encoder(const struct rule_context *context, const char *names)
{
    const char *out = "";

    if (!plan_trains_encoder(context->plan))
        return names;
    while (*names) {
        const size_t skip = strspn(names, ", "), len = strcspn(names + skip, ", ");

        if (len > 0 &&
            !encoder_adapters_named(&context->model->encoder, names + skip, len))
            out = arena_printf(context->arena, "%s%s%.*s", out, *out ? "," : "", (int)len,
                               names + skip);
        names += skip + len;
    }
    return out;
}

void lora_targets_check_skipped(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct plan *plan = context->plan;
    const char *key, *names = adapter_targets_names(plan, &key);
    const struct entry *entry = document_find(context->document, key);
    struct target_list list;
    struct text skipped, known;

    if (!entry || !plan_adapts(plan) || strcmp(names, "all") == 0 ||
        lora_config_is_pattern(names))
        return;
    list = adapter_targets_of_job(context->model->architecture, plan, key);
    text_init(&skipped, 0);
    text_init(&known, 0);
    adapter_targets_add_skipped(&list, outside_encoder(context, names), &skipped);
    adapter_targets_add_known(&list, &known);
    if (skipped.len > 0) {
        const char *lookalike = lookalike_in_node(entry->value, context->arena);

        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS705",
                .severity = SEVERITY_WARNING,
                .message = arena_printf(
                    context->arena, "%s: the model has no layer named %s; there are %s",
                    key, rule_printable(context, skipped.data), known.data),
                .note = lookalike ? lookalike
                                  : "only the other names are adapted, as "
                                    "PEFT does" },
            entry);
    }
    text_clear(&skipped);
    text_clear(&known);
}

/* LLaMA-Factory keeps the head of a reward model next to its value head, which reads the same
 * states; the loss does not depend on it. */
void lora_targets_check_unread(struct rule_context *context)
{
    const struct target_list list = adapter_targets_of_saved(context->model);
    const struct entry *entry = document_find(context->document, list.key);
    const struct proposal to = rule_proposal(context);
    struct text unread;

    if (!entry || !plan_adapts(context->plan) || !context->plan->additional_target)
        return;
    text_init(&unread, 0);
    adapter_targets_add_unread(&list, context->plan->additional_target, &unread);
    if (unread.len > 0)
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS705",
                .severity = SEVERITY_WARNING,
                .message = arena_printf(
                    context->arena,
                    "%s: %s would not change: a reward model computes scores, not logits",
                    list.key, rule_printable(context, unread.data)),
                .note =
                    "remove it; the layer that computes the scores is always trained" },
            entry);
    text_clear(&unread);
}
