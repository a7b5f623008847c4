/* patcher/rules_names.c - what values name: adapters, templates, devices, layers,
 * paths. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/file.h"
#include "base/size.h"
#include "base/nearest.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"
#include "precision/probe.h"
#include "train/model/shapes.h"
#include "train/chat/template.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- TS707: what is known, and not done here ---- */

static void several_adapters(struct rule_context *context)
{
    static const struct {
        const char *key, *message;
    } of[] = {
        { "adapter_name_or_path", "only one adapter can be started from" },
        { "teacher_adapter_name_or_path", "only one adapter can be merged into it" },
        { "ref_model_adapters", "only one adapter can be merged into it" },
    };

    for (size_t i = 0; i < TS_COUNT(of); i++) {
        const struct entry *entry = rule_entry(context, of[i].key);

        if (entry && strchr(node_value(entry->value)->text, ','))
            rule_tell(context,
                      &(struct finding) { .rule = "TS707",
                                          .severity = SEVERITY_ERROR,
                                          .message = of[i].message },
                      of[i].key);
    }
}

/* LLaMA-Factory's DataArguments refuses them, too. */
static void opposites(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct entry *prompt = rule_entry(context, "train_on_prompt"),
                       *history = rule_entry(context, "mask_history");
    bool later = prompt && history && prompt->key->at.byte > history->key->at.byte;

    if (plan->train_on_prompt && plan->mask_history)
        rule_tell(context,
                  &(struct finding) { .rule = "TS707",
                                      .severity = SEVERITY_ERROR,
                                      .message = "train_on_prompt trains on the "
                                                 "questions, too, and mask_history on "
                                                 "the last answer alone: they are "
                                                 "opposites",
                                      .note = "keep one of the two" },
                  later ? "train_on_prompt" : "mask_history");
}

/* What another program trains is looked at and mended here, and no more. */
static void not_trained_here(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");

    if (!context->plan->external || !context->options->will_run)
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS707",
            .severity = SEVERITY_ERROR,
            .message = "target: external is a job of another program: it is checked and "
                       "patched here, and that program trains it",
            .note = "start that program yourself; target: native trains here" },
        node_find(node_value(block->value), "target"));
}

/* llama-3 is llama3, and chatmll chatml; llama4 is no llama3. */
static bool is_like(const char *written, const char *name)
{
    const char *digits = "0123456789";
    const char *a = written + strcspn(written, digits);
    const char *b = name + strcspn(name, digits);

    return nearest_folded(written, name) ||
           (nearest_distance(written, name, 1) <= 1 && strcmp(a, b) == 0);
}

/* A name that training would not know either. */
static void unknown_template(struct rule_context *context)
{
    const char *wanted = context->plan->template_name, *names = "", *name, *near = NULL;

    if (!wanted || context->plan->external || template_find(wanted))
        return;
    for (size_t i = 0; (name = template_name(i)); i++) {
        names = arena_printf(context->arena, "%s%s%s", names, i > 0 ? ", " : "", name);
        if (!near && is_like(wanted, name))
            near = name;
    }
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS707",
            .severity = context->options->will_run ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message =
                arena_printf(context->arena, "there is no template %s here%s%s%s",
                             rule_visible(context, wanted), near ? "; did you mean " : "",
                             near ? near : "", near ? "?" : ""),
            .note = arena_printf(context->arena, "there are %s", names) },
        "template");
}

/* A job that says it trains nothing, or only that it answers: in LLaMA-Factory, whose
 * default is do_train: false, that is another run.  (do_eval alone is what jobs of scripts
 * have that train whatever do_train says.) */
static void no_training(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool says_no = plan->do_train == CHOICE_NO;

    if (plan->do_train == CHOICE_YES || plan_merges(plan) ||
        (!says_no && !rule_is_true(context, "do_predict")))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS707",
            .severity = SEVERITY_ERROR,
            .message = says_no
                           ? "do_train: false asks for no training, and a run here is one"
                           : "do_predict without do_train: true asks for answers alone, "
                             "and a run here trains",
            .note = "trainspool generate asks a model; a job with export_dir and an "
                    "adapter, and without dataset, merges; do_train: true, or no such "
                    "line, trains" },
        says_no ? "do_train" : "do_predict");
}

void rule_not_here(struct rule_context *context)
{
    not_trained_here(context);
    if (!context->plan->external) {
        no_training(context);
        several_adapters(context);
        opposites(context);
        rule_quantised_here(context);
        rule_preference_here(context);
    }
    unknown_template(context);
}

/* ---- TS705: the device that is wanted, and layers that the model has not ---- */

/* "gpu", "GPU 1", "0,1", "cuda1": as they are written here; or NULL. */
static const char *meant_device(struct rule_context *context, const char *wanted)
{
    static const char *const others[] = { "cuda", "gpu", "nvidia" };
    static const char *const words[] = { "auto", "cpu", "cuda" };
    const char *number = wanted;

    for (size_t i = 0; i < TS_COUNT(others); i++) {
        size_t len = strlen(others[i]);

        if (number == wanted && strncasecmp(wanted, others[i], len) == 0)
            number += len;
    }
    if (number > wanted && *number == 0)
        return "cuda";
    number += strspn(number, " :_-");
    if (*number && number[strspn(number, "0123456789,")] == 0) {
        const char *device = arena_printf(context->arena, "cuda:%s", number);

        return probe_named(device) > 0 ? device : NULL;
    }
    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (nearest_distance(wanted, words[i], 1) <= 1)
            return words[i];
    return NULL;
}

static void wanted_device(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *entry =
        block ? node_find(node_value(block->value), "device") : NULL;
    const char *wanted = entry ? node_value(entry->value)->text : "", *meant;

    if (!entry || context->plan->external || node_is_null(entry->value) ||
        probe_named(wanted) > 0 || strcmp(wanted, "auto") == 0 ||
        strcmp(wanted, "cpu") == 0 || strcmp(wanted, "cuda") == 0)
        return;
    meant = meant_device(context, wanted);
    propose_remark(&to,
                   &(struct finding) {
                       .rule = "TS705",
                       .severity = SEVERITY_ERROR,
                       .message = arena_printf(
                           context->arena,
                           "device must be auto, cpu, cuda, cuda:N or cuda:N,M%s%s%s",
                           meant ? "; did you mean " : "", meant ? meant : "",
                           meant ? "?"
                                 : "; a card that is not in this machine is named with "
                                   "--device") },
                   entry);
}

/* What a run would stop at when it looks for the layers that the job names. */
static void unknown_layers(struct rule_context *context)
{
    static const char *const keys[] = { "lora_target", "additional_target",
                                        "freeze_trainable_modules" };
    const struct proposal to = rule_proposal(context);
    struct plan plan = *context->plan;
    struct error err = { 0 };
    struct lora lora;

    plan.adapter_name_or_path = NULL; /* what an adapter says is no word of the job's */
    if (!context->model ||
        (context->plan->adapter_name_or_path && !plan.create_new_adapter) ||
        shapes_check(&plan, context->model, &lora, &err))
        return;
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const struct entry *entry = document_find(context->document, keys[i]);

        if (entry && text_starts(err.text, keys[i]))
            propose_remark(
                &to,
                &(struct finding) { .rule = "TS705",
                                    .severity = SEVERITY_ERROR,
                                    .message = arena_strdup(context->arena, err.text) },
                entry);
    }
}

void rule_words(struct rule_context *context)
{
    wanted_device(context);
    if (!context->plan->external)
        unknown_layers(context);
}

/* ---- TS710: where paths lead ---- */

static const struct path_key {
    const char *name;
    bool written; /* a folder that the job writes to */
} path_keys[] = {
    { "output_dir", true },
    { "export_dir", true },
    { "tokenized_path", true },
    { "model_name_or_path", false },
    { "adapter_name_or_path", false },
    { "teacher_model_name_or_path", false },
    { "teacher_adapter_name_or_path", false },
    { "ref_model", false },
    { "ref_model_adapters", false },
    { "dataset_dir", false },
    { "resume_from_checkpoint", false },
    { "dataset", false },
    { "eval_dataset", false },
};

/* The lexical depth below the start never goes under it. */
static bool climbs_out(const char *path)
{
    int depth = 0;

    while (*path) {
        size_t len = strcspn(path, "/");

        if (len == 2 && strncmp(path, "..", 2) == 0) {
            if (--depth < 0)
                return true;
        } else if (len > 0 && !(len == 1 && *path == '.')) {
            depth++;
        }
        path += len + (path[len] == '/');
    }
    return false;
}

static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    while (len > 1 && root[len - 1] == '/')
        len--;
    return strncmp(path, root, len) == 0 &&
           (path[len] == '/' || path[len] == 0 || (len == 1 && root[0] == '/')) &&
           !climbs_out(path + len);
}

static bool is_allowed(const struct rule_context *context, const char *path, bool written)
{
    const char *const *roots = context->options->roots;
    char *joined;
    bool below = false;

    if (!roots)
        return *path == '/' || !written || !climbs_out(path);
    if (*path != '/' && !climbs_out(path))
        return true;
    joined = path_join(context->plan->dir ? context->plan->dir : ".", path);
    for (size_t i = 0; roots[i] && !below; i++)
        below = is_below(joined, roots[i]);
    free(joined);
    return below;
}

static void check_path(struct rule_context *context, const struct path_key *key,
                       const char *path)
{
    const char *message = NULL;

    if (path[0] == '~' && (path[1] == '/' || path[1] == 0))
        message = " begins with ~, which nobody expands here: write the whole path";
    else if (!is_allowed(context, path, key->written))
        message = context->options->roots
                      ? " leads out of the folders that jobs may use"
                      : " leads out of the job's folder: write the whole path if that "
                        "is meant";
    if (message)
        rule_tell(context,
                  &(struct finding) { .rule = "TS710",
                                      .severity = SEVERITY_ERROR,
                                      .message = arena_printf(context->arena, "%s%s",
                                                              key->name, message) },
                  key->name);
}

void rule_paths(struct rule_context *context)
{
    for (size_t i = 0; i < sizeof(path_keys) / sizeof(path_keys[0]); i++) {
        const struct entry *entry = rule_entry(context, path_keys[i].name);
        const struct node *value = entry ? node_value(entry->value) : NULL;

        if (value && value->kind == NODE_SCALAR && value->len > 0)
            check_path(context, &path_keys[i], value->text);
    }
}
