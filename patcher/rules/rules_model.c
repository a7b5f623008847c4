/* patcher/rules/rules_model.c - TS716: the model, its files, its chat template and its adapter. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/model/adapter_check.h"
#include "train/chat/chat.h"
#include "train/model/weights.h"

/* ---- TS716: an architecture or a setting that is not there ---- */

static void unknown_model(struct rule_context *context)
{
    if (!context->model_error)
        return;
    rule_report(context,
                &(struct finding) { .rule = "TS716",
                                    .severity = SEVERITY_ERROR,
                                    .message = context->model_error,
                                    .because = "config.json of the model" },
                "model_name_or_path");
}

/* ---- TS716: files that are of another config.json ---- */

static void mismatched_weights(struct rule_context *context, const char *key,
                               const char *dir, const struct model_config *model)
{
    struct error err = { 0 };

    if (dir && model && !weights_check(dir, model, &err))
        rule_report(context,
                    &(struct finding) { .rule = "TS716",
                                        .severity = SEVERITY_ERROR,
                                        .message = rule_error_text(context, &err),
                                        .because = "the headers of the model's files",
                                        .note =
                                            "config.json and the files beside it are "
                                            "of two models, or some were not copied" },
                    key);
}

/* ---- TS716: a chat template that cannot be written with ---- */

static void report_template(struct rule_context *context, const struct error *err,
                            enum severity severity, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS716",
                                    .severity = severity,
                                    .message = rule_error_text(context, err),
                                    .because = "the chat template of the model's folder",
                                    .note = note },
                "model_name_or_path");
}

/* A run without `template` writes with the model's own. */
static void broken_template(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct error err = { 0 };
    struct chat *chat = NULL;

    if (plan->stage == STAGE_PT || plan->template_name || !context->model)
        return;
    if (!chat_open(plan->model_name_or_path, &chat, &err) ||
        (chat && !chat_check(chat, &err)))
        report_template(context, &err, SEVERITY_ERROR, NULL);
    else if (chat && !chat_try(chat, plan->model_name_or_path, &err))
        report_template(context, &err, SEVERITY_WARNING,
                        "tried with a plain question and its answer; a template that the "
                        "job names, as template: chatml, goes before the model's own");
    chat_close(chat);
}

/* ---- TS716: an adapter of another model ---- */

/* What the adapter in a folder says that it is of; NULL: it does not. */
static const char *base_of(const struct rule_context *context, const char *dir)
{
    char *name = path_join(dir, "adapter_config.json");
    json_t *root = json_read_file(name, (size_t)1 << 20, NULL);
    const char *base =
        json_string_value(json_object_get(root, "base_model_name_or_path"));

    base = base && *base ? arena_strdup(context->arena, base) : NULL;
    json_decref(root);
    free(name);
    return base;
}

/* Letters and digits alone, in lower case: "Qwen2.5-0.5B" is qwen2505b. */
static char *folded(const struct rule_context *context, const char *path, size_t len)
{
    char *out = arena_alloc(context->arena, len + 1), *at = out;

    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)path[i]))
            *at++ = (char)tolower((unsigned char)path[i]);
    return out;
}

/* Does the last part of one path stand somewhere in the other: is it a name for it? */
static bool is_in(const struct rule_context *context, const char *path, const char *whole)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--) {
    }
    return strstr(folded(context, whole, strlen(whole)),
                  folded(context, path + start, end - start)) != NULL;
}

static void report_adapter(struct rule_context *context, const char *key,
                           enum severity severity, const char *message, const char *note)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS716", .severity = severity, .message = message, .note = note },
        key);
}

static void mismatched_adapter(struct rule_context *context, const char *key,
                               const char *dir, const char *model_dir,
                               const struct model_config *model)
{
    struct arena *arena = context->arena;
    struct error err = { 0 };
    const char *base;

    if (!dir || !model || !file_is_dir(dir))
        return;
    base = base_of(context, dir);
    if (!adapter_check(dir, model, &err))
        report_adapter(context, key, SEVERITY_ERROR, rule_error_text(context, &err),
                       base
                           ? arena_printf(arena,
                                          "it was made for %s: name that model, or leave "
                                          "the adapter out",
                                          base)
                           : "name the model that it was made for, or leave the adapter "
                             "out");
    else if (base && !is_in(context, base, model_dir) && !is_in(context, model_dir, base))
        report_adapter(
            context, key, SEVERITY_WARNING,
            arena_printf(arena, "the adapter was made for %s", base),
            "its layers and shapes fit this model, its numbers may not: name the model "
            "that it was made for, unless this is the same");
}

static void rule_unsupported_model(struct rule_context *context)
{
    const struct teaching_words *words = context->teacher->words;
    const struct plan *plan = context->plan;

    unknown_model(context);
    if (!plan->train_from_scratch)
        mismatched_weights(context, "model_name_or_path", plan->model_name_or_path,
                           context->model);
    if (words)
        mismatched_weights(context, words->key,
                           rule_entry(context, words->key) ? teacher_folder(plan) : NULL,
                           context->teacher->config);
    broken_template(context);
    if (plan->method == METHOD_LORA)
        mismatched_adapter(context, "adapter_name_or_path", plan->adapter_name_or_path,
                           plan->model_name_or_path, context->model);
    if (words)
        mismatched_adapter(context, words->adapter, teacher_adapter(plan),
                           teacher_folder(plan), context->teacher->config);
}

static const struct rule rows[] = {
    { .id = "TS716",
      .title = "a model that is not trained here, or an adapter of another",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_NATIVE,
      .run = rule_unsupported_model,
      .explain =
          "config.json of the model names an architecture (model_type), an activation, "
          "a kind of rotation or another setting that is not there, or it cannot be "
          "read. The run would end with this message before its first step: nothing "
          "that changes the result is passed over. So it would with files that lack a "
          "tensor of the model that config.json tells of, or have it in another shape, "
          "with a chat template of the model that cannot be read, where the job names "
          "no template, and with an adapter (of the model or of a teacher) whose layers "
          "or shapes are those of another model. A warning is a template that cannot "
          "write a plain question and its answer, or writes them so that the answer "
          "cannot be told from the question, and an adapter that fits, but says that it "
          "was made for a model of another name.\n\n"
          "trainspool-job(5) lists the architectures under MODELS. For another one let "
          "transformers do the training: target: external.",
      .source =
          "train/model/architecture.c, train/model/model_config.c, train/model/weights.c, "
          "train/chat/chat.c, train/model/adapter_check.c" },
};

const struct rules rules_model = { rows, TS_COUNT(rows) };
