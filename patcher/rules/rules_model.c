/* patcher/rules/rules_model.c - TS716: the model, its files, chat template and
 * adapter. */
#include "config.h"

#include "patcher/rules/encoder_training.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "train/model/adapter_check.h"
#include "train/chat/chat.h"
#include "train/model/model_names.h"
#include "train/model/weights.h"

/* What changes the model's configuration names its key first: resize_vocab stands for all
 * that add tokens. */
static const char *key_of_error(const struct rule_context *context, const char *message)
{
    static const char *const keys[] = { "adapter_name_or_path", "resize_vocab",
                                        "add_tokens", "add_special_tokens" };
    const char *found = NULL;

    for (size_t i = 0; !found && i < TS_COUNT(keys); i++)
        if (text_starts(message, keys[i]) && message[strlen(keys[i])] == ':')
            found = keys[i];
    for (size_t i = 1; found && !rule_entry(context, found) && i < TS_COUNT(keys); i++)
        if (rule_entry(context, keys[i]))
            found = keys[i];
    return found;
}

static void check_config(struct rule_context *context)
{
    const char *message = context->model_error;
    const char *key = message ? key_of_error(context, message) : NULL;

    if (!message)
        return;
    rule_report(context,
                &(struct finding) { .rule = "TS716",
                                    .severity = SEVERITY_ERROR,
                                    .message = message,
                                    .because = key ? NULL : "config.json of the model" },
                key ? key : "model_name_or_path");
}

/* A model that is not on this machine is judged by its name. */
static void check_name(struct rule_context *context, const char *key, const char *dir)
{
    const struct entry *entry = rule_entry(context, key);
    const char *name = entry ? node_value(entry->value)->text : "";
    const char *type = model_name_unsupported(name);
    const char *format = type ? NULL : model_name_quantized(name);
    struct finding finding = { .rule = "TS716",
                               .severity = SEVERITY_ERROR,
                               .because = "the name; there is no config.json yet" };

    if ((!type && !format) || !dir || file_exists(dir))
        return;
    name = rule_printable(context, name);
    if (type) {
        finding.message = arena_printf(
            context->arena,
            "%s is a model of type %s, an architecture that is not supported", name,
            type);
        finding.note = "`man trainspool-job` lists the architectures under MODELS";
    } else {
        finding.message =
            arena_printf(context->arena,
                         "the weights of %s are quantized in the format %s, which is "
                         "not supported",
                         name, format);
        finding.note = "name the original model: quantization_bit: 4 quantizes its "
                       "weights when they are loaded";
    }
    rule_report(context, &finding, key);
}

static void check_weights(struct rule_context *context, const char *key, const char *dir,
                          const struct model_config *model)
{
    struct error err = { 0 };

    if (dir && model && !weights_check(dir, model, &err))
        rule_report(context,
                    &(struct finding) { .rule = "TS716",
                                        .severity = SEVERITY_ERROR,
                                        .message = rule_error_text(context, &err),
                                        .because = "the headers of the model's files",
                                        .note =
                                            "config.json and the files next to it belong "
                                            "to two models, or some were not copied" },
                    key);
}

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

/* A run without `template` uses the model's own. */
static void check_template(struct rule_context *context)
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
                        "tried with a plain question and its answer; a template in the "
                        "job takes precedence over the model's own");
    chat_close(chat);
}

/* Return the model that the adapter in a folder was made for; NULL: not given. */
static const char *adapter_base(const struct rule_context *context, const char *dir)
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

/* Keep letters and digits only, in lower case: "Qwen2.5-0.5B" becomes qwen2505b. */
static char *fold_name(const struct rule_context *context, const char *path, size_t len)
{
    char *out = arena_alloc(context->arena, len + 1), *at = out;

    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)path[i]))
            *at++ = (char)tolower((unsigned char)path[i]);
    return out;
}

/* Return whether the last component of one path occurs in the other, so that it may name
 * it. */
static bool names_path(const struct rule_context *context, const char *path,
                       const char *whole)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--) {
    }
    return strstr(fold_name(context, whole, strlen(whole)),
                  fold_name(context, path + start, end - start)) != NULL;
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

static void check_adapter_base(struct rule_context *context, const char *key,
                               const char *dir, const char *model_dir,
                               const struct model_config *model)
{
    struct arena *arena = context->arena;
    struct error err = { 0 };
    const char *base;

    if (!dir || !model || !file_is_dir(dir))
        return;
    base = adapter_base(context, dir);
    if (!adapter_check(dir, model, &err))
        report_adapter(context, key, SEVERITY_ERROR, rule_error_text(context, &err),
                       base ? arena_printf(arena,
                                           "it was made for %s: name that model, or "
                                           "remove the adapter",
                                           base)
                            : "name the model that it was made for, or remove the "
                              "adapter");
    else if (base && !names_path(context, base, model_dir) &&
             !names_path(context, model_dir, base))
        report_adapter(
            context, key, SEVERITY_WARNING,
            arena_printf(arena, "the adapter was made for %s", base),
            "its layers and shapes fit this model, but its values may not: name the "
            "model that it was made for, unless this is the same");
}

static void rule_unsupported_model(struct rule_context *context)
{
    const struct second_model_names *names = context->teacher->names;
    const struct plan *plan = context->plan;

    check_config(context);
    encoder_training_check(context);
    check_name(context, "model_name_or_path", plan->model_name_or_path);
    if (names)
        check_name(context, names->key,
                   rule_entry(context, names->key) ? teacher_folder(plan) : NULL);
    if (!plan->train_from_scratch)
        check_weights(context, "model_name_or_path", plan->model_name_or_path,
                      context->model);
    if (names)
        check_weights(context, names->key,
                      rule_entry(context, names->key) ? teacher_folder(plan) : NULL,
                      context->teacher->config);
    check_template(context);
    if (plan_adapts(plan))
        check_adapter_base(context, "adapter_name_or_path", plan->adapter_name_or_path,
                           plan->model_name_or_path, context->model);
    if (names)
        check_adapter_base(context, names->adapter, teacher_adapter(plan),
                           teacher_folder(plan), context->teacher->config);
}

static const struct rule rows[] = {
    { .id = "TS716",
      .title = "unsupported model, or files of another model",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_NATIVE,
      .run = rule_unsupported_model,
      .explain =
          "The model's config.json names an architecture (model_type), an activation, a "
          "kind of rotation or another setting that is not supported, or it cannot be "
          "read. The run would fail with this message before its first step: no setting "
          "that changes the result is ignored. Files that lack a tensor of the model in "
          "config.json, or have it in another shape, are errors as well, and so are an "
          "unreadable chat template of the model if the job names no template, and an "
          "adapter (of the model or of a teacher) whose layers or shapes belong to "
          "another model, and keys that train the encoder of images or sound in a "
          "job that cannot. Warnings: a template that cannot format a plain question and "
          "its answer, or formats them so that the answer cannot be separated from the "
          "question, and an adapter that fits but was made for a model with another "
          "name. A model that is not on this machine is judged by its name on the hub, "
          "if it is a known one. Of a model that also reads images, sound or video, the "
          "text model, the projector and the encoder can be trained: a job that leaves nothing of them to "
          "train, or that starts from random weights, is an error.\n\n"
          "trainspool-job(5) lists the architectures under MODELS. To train another one, "
          "use transformers: target: external.",
      .source = "train/model/architecture_rms.c, train/model/architecture_layernorm.c, "
                "train/model/model_config.c, "
                "train/model/weights.c, train/model/model_names.c, "
                "train/chat/chat.c, train/model/adapter_check.c" },
};

const struct rules rules_model = { rows, TS_COUNT(rows) };
