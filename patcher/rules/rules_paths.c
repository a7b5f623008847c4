/* patcher/rules/rules_paths.c - TS710, TS717: the folders that paths of a job start at. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/roots.h"
#include "base/size.h"
#include "patcher/schema/schema.h"
#include "train/dataset/dataset_source.h"

static const char *const path_keys[] = {
    "output_dir",
    "export_dir",
    "tokenized_path",
    "model_name_or_path",
    "adapter_name_or_path",
    "teacher_model_name_or_path",
    "teacher_adapter_name_or_path",
    "ref_model",
    "ref_model_adapters",
    "dataset_dir",
    "media_dir",
    "resume_from_checkpoint",
    "deepspeed",
    "dataset",
    "eval_dataset",
};

static const char *job_dir(const struct rule_context *context)
{
    return context->plan->dir ? context->plan->dir : ".";
}

static bool is_written(const char *key)
{
    const struct key *row = schema_find(key);

    return row && row->written;
}

/* ---- TS710 ---- */

static bool may_come_from_others(const struct rule_context *context)
{
    return context->options->spooled || context->options->roots;
}

static void report_outside(struct rule_context *context, const struct entry *entry,
                           const struct finding *base)
{
    const struct proposal to = rule_proposal(context);
    struct finding finding = *base;

    finding.rule = "TS710";
    if (!finding.severity)
        finding.severity = SEVERITY_ERROR;
    propose_remark(&to, &finding, entry);
}

/* "/data, /scratch" */
static const char *list_roots(const struct rule_context *context)
{
    const char *const *roots = context->options->roots;
    const char *list = "";

    for (size_t i = 0; roots[i]; i++)
        list = arena_printf(context->arena, "%s%s%s", list, i ? ", " : "",
                            rule_printable(context, roots[i]));
    return list;
}

/* Why a job of a watched folder may not write to a path, and what to do about it. */
static struct finding describe_refusal(struct rule_context *context, const char *key,
                                       const char *path, enum roots_answer answer,
                                       const char *where)
{
    struct arena *arena = context->arena;
    const char *place = rule_printable(context, where[0] ? where : path);

    switch (answer) {
    case ROOTS_CLIMB:
        return (struct finding) { .message = arena_printf(
                                      arena,
                                      "%s is outside the job's folder: write the full "
                                      "path if you mean it",
                                      key) };
    case ROOTS_LINK:
        return (struct finding) { .message = arena_printf(
                                      arena,
                                      "%s: a symbolic link leads out of its folder, "
                                      "to %s",
                                      key, place),
                                  .note = "write the full path of that folder instead" };
    case ROOTS_OUTSIDE:
        return (struct finding) {
            .message = arena_printf(arena,
                                    "%s is outside the folders that jobs may write to: "
                                    "the watched folder and %s",
                                    key, list_roots(context)),
            .note = "use one of them, or start the watch with one more --root"
        };
    case ROOTS_SYSTEM:
        return (struct finding) {
            .message =
                arena_printf(arena, "%s is in %s, a folder of the system", key, place),
            .note = "use another folder, or name this one with --root of the watch"
        };
    case ROOTS_DENIED:
        return (struct finding) {
            .message = arena_printf(arena,
                                    "%s is in %s, where the owner of the job may not "
                                    "write",
                                    key, place),
            .note = "use another folder, or name this one with --root of the watch"
        };
    default:
        return (struct finding) { .message = arena_printf(
                                      arena, "%s: %s cannot be examined", key, place) };
    }
}

/* A job in a watched folder may come from another user, and the watch may be root's. */
static void check_root(struct rule_context *context, const struct entry *entry,
                       const char *key, const char *path)
{
    const struct roots roots = { job_dir(context), context->options->roots,
                                 context->options->owner };
    char where[PATH_MAX];
    enum roots_answer answer = roots_check(&roots, path, where);
    struct finding finding;

    if (answer == ROOTS_ALLOW)
        return;
    finding = describe_refusal(context, key, path, answer, where);
    report_outside(context, entry, &finding);
}

static void check_path(struct rule_context *context, const struct entry *entry,
                       const char *key, bool written)
{
    const struct node *value = entry ? node_value(entry->value) : NULL;
    const char *path = value && value->kind == NODE_SCALAR ? value->text : "";
    char *joined, *whole;

    if (path[0] == '~' && (path[1] == '/' || path[1] == 0)) {
        report_outside(context, entry,
                       &(struct finding) { .message = arena_printf(
                                               context->arena,
                                               "%s starts with ~, which trainspool does "
                                               "not expand: write the full path",
                                               key) });
    } else if (!path[0] || !written) {
        return;
    } else if (may_come_from_others(context)) {
        check_root(context, entry, key, path);
    } else if (path[0] != '/' && path_climbs(path)) {
        /* the user of a command named the folder */
        joined = path_join(job_dir(context), path);
        whole = path_absolute(joined);
        report_outside(context, entry,
                       &(struct finding) { .severity = SEVERITY_WARNING,
                                           .message = arena_printf(
                                               context->arena,
                                               "%s is outside the job's folder: the run "
                                               "writes to %s",
                                               key, rule_printable(context, whole)) });
        free(whole);
        free(joined);
    }
}

static const char *path_of(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR && value->len > 0 ? value->text : NULL;
}

static void rule_paths_outside(struct rule_context *context)
{
    for (size_t i = 0; i < TS_COUNT(path_keys); i++)
        if (strcmp(path_keys[i], "deepspeed") != 0)
            check_path(context, rule_entry(context, path_keys[i]), path_keys[i],
                       is_written(path_keys[i]));
    /* a file that exists is read */
    if (may_come_from_others(context) && context->plan->kd.logits &&
        !file_exists(context->plan->kd.logits))
        check_path(context, rule_block_entry(context, "teacher_logits"), "teacher_logits",
                   true);
}

/* ---- TS717 ---- */

/* The inputs of a job that are in the working directory only. */
struct inputs {
    const char *first; /* key of the first */
    struct text names; /* "models/a (model_name_or_path), data (dataset_dir)" */
};

static void add_input(struct inputs *inputs, const char *key, const char *path)
{
    if (!inputs->first)
        inputs->first = key;
    text_addf(&inputs->names, "%s%s (%s)", inputs->names.len ? ", " : "", path, key);
}

/* Return whether a dataset is looked up in dataset_dir by its name, or else is a file there
 * and not next to the job. */
static bool uses_dataset_dir(const struct rule_context *context, const char *names)
{
    for (const char *at = names; at && *(at += strspn(at, ", "));) {
        size_t len = strcspn(at, ",");
        const char *name = arena_copy(context->arena, at, len);
        char *path = path_join(job_dir(context), name),
             *inner = path_join(context->plan->dataset_dir, name);
        bool uses =
            !dataset_name_is_path(name) || (!file_exists(path) && file_exists(inner));

        free(inner);
        free(path);
        if (uses)
            return true;
        at += len;
    }
    return false;
}

/* The folder of the default is an input only if the data are in it. */
static void add_dataset_dir(const struct rule_context *context, struct inputs *inputs)
{
    const struct plan *plan = context->plan;
    const char *named = path_of(context, "dataset_dir"), *path = named;

    if (!named && !plan->external && plan->dataset_dir &&
        (uses_dataset_dir(context, plan->dataset) ||
         uses_dataset_dir(context, plan->eval_dataset)))
        path = schema_find("dataset_dir")->default_value;
    if (!path || !path_is_from_here(job_dir(context), path))
        return;
    add_input(inputs, "dataset_dir", path);
    if (!named && strcmp(inputs->first, "dataset_dir") == 0)
        inputs->first = "dataset";
}

/* Files and folders of data are looked for in dataset_dir first. */
static void add_datasets(const struct rule_context *context, struct inputs *inputs,
                         const char *key, const char *names)
{
    const char *dir = context->plan->dataset_dir;

    for (const char *at = names; at && *(at += strspn(at, ", "));) {
        size_t len = strcspn(at, ",");
        const char *name = arena_copy(context->arena, at, len);
        char *inner = dir ? path_join(dir, name) : NULL;

        if (dataset_name_is_path(name) && !(inner && file_exists(inner)) &&
            path_is_from_here(job_dir(context), name))
            add_input(inputs, key, name);
        free(inner);
        at += len;
    }
}

static void add_key(const struct rule_context *context, struct inputs *inputs,
                    const char *key)
{
    const struct plan *plan = context->plan;
    const char *path = path_of(context, key);

    if (strcmp(key, "dataset") == 0)
        add_datasets(context, inputs, key, plan->dataset);
    else if (strcmp(key, "eval_dataset") == 0)
        add_datasets(context, inputs, key, plan->eval_dataset);
    else if (strcmp(key, "dataset_dir") == 0)
        add_dataset_dir(context, inputs);
    else if (path && path_is_from_here(job_dir(context), path))
        add_input(inputs, key, path);
}

static void rule_read_from_here(struct rule_context *context)
{
    struct inputs inputs = { 0 };

    text_init(&inputs.names, 0);
    for (size_t i = 0; i < TS_COUNT(path_keys); i++)
        if (!is_written(path_keys[i]))
            add_key(context, &inputs, path_keys[i]);
    if (inputs.first)
        rule_report(
            context,
            &(struct finding) {
                .rule = "TS717",
                .severity = SEVERITY_INFO,
                .message = arena_printf(
                    context->arena,
                    "read from the working directory, as %s not in the "
                    "job's folder: %s",
                    strstr(inputs.names.data, "), ") ? "these paths are" : "it is",
                    rule_printable(context, inputs.names.data)),
                .note = "outputs are in the job's folder" },
            inputs.first);
    text_clear(&inputs.names);
}

static const struct rule rows[] = {
    { .id = "TS710",
      .title = "path outside its folder",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_NATIVE,
      .run = rule_paths_outside,
      .explain =
          "A relative path is relative to the job file. If a path that a job writes to "
          "(output_dir, export_dir, tokenized_path, teacher_logits) leaves the job's "
          "folder with `..`, the warning names the folder that the run writes to.\n\n"
          "In a watched folder it is an error: write the full path if you mean it. There, "
          "a job may write below the watched folder, where no symbolic link is followed "
          "out of it, and below the folders of `watch --root`. Without --root, it may "
          "write to folders that the owner of the job file may write to; root's jobs not "
          "to folders of the system such as /etc. `~` is expanded by shells only, not by "
          "trainspool.",
      .source = "openat2(2), RESOLVE_BENEATH; Filesystem Hierarchy Standard 3.0" },
    { .id = "TS717",
      .title = "input read from the working directory",
      .severity = SEVERITY_INFO,
      .run = rule_read_from_here,
      .explain =
          "A relative path is relative to the job file. An input (model, adapter, teacher, "
          "data, checkpoint, DeepSpeed file) that does not exist there, but exists "
          "relative to the working directory, is read from there: LLaMA-Factory resolves "
          "all paths of a job this way, so that its examples start from the root of its "
          "repository. The job's folder comes first. Outputs are always relative to the "
          "job file. A watched folder is the working directory of its jobs.\n\n"
          "Start trainspool in the same folder for `run --resume`, or write full paths.",
      .source = "LLaMA-Factory examples/README.md; trainspool(1)" },
};

const struct rules rules_paths = { rows, TS_COUNT(rows) };
