/*
 * patcher/rules/rules_launch.c - settings of Accelerate, DeepSpeed or FSDP that
 * contradict the job.
 *
 * For DeepSpeed, the comparison is that of transformers (integrations/deepspeed.py,
 * trainer_config_process); "auto" takes the job's value and never conflicts.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"

#define SETTINGS_MAX ((size_t)1 << 20) /* real files have about 2 kB */

static const char *contradiction_text(struct rule_context *context, const char *launcher,
                                      const char *job)
{
    if (strcmp(job, "no") == 0)
        return arena_printf(context->arena,
                            "neither fp16 nor bf16 is true in the job, so Accelerate's "
                            "setting decides: the Trainer runs in %s",
                            launcher);
    return arena_printf(context->arena,
                        "Accelerate is set to %s, but the job says %s: the Trainer "
                        "follows the job, a script with its own Accelerator follows this "
                        "setting",
                        launcher, job);
}

static void rule_launcher_conflict(struct rule_context *context)
{
    static const char *const words[] = { "no", "fp16", "bf16", "fp8" };
    const struct precision_request *request = &context->plan->request;
    const struct proposal to = rule_proposal(context);
    const struct entry *where;
    const char *launcher = rule_launcher_precision(context, &where);
    const char *job = request->fp16 == CHOICE_YES   ? "fp16"
                      : request->bf16 == CHOICE_YES ? "bf16"
                                                    : "no";
    bool known = false;

    for (size_t i = 0; launcher && i < TS_COUNT(words); i++)
        known |= strcmp(launcher, words[i]) == 0;
    if (!launcher || strcmp(launcher, job) == 0)
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS124",
            .severity = known ? SEVERITY_WARNING : SEVERITY_ERROR,
            .message = known
                           ? contradiction_text(context, launcher, job)
                           : "Accelerate's mixed precision must be no, fp16, bf16 or fp8",
            .note = "set it in the job only" },
        where);
}

static json_t *json_of_scalar(const struct node *node)
{
    double number;
    bool word;

    if (node_is_null(node))
        return json_null();
    if (node->style == STYLE_PLAIN && scalar_bool(node, &word) != SCALAR_WRONG)
        return json_boolean(word);
    if (node->style == STYLE_PLAIN && scalar_number(node, &number) != SCALAR_WRONG &&
        isfinite(number))
        return json_real(number);
    return json_stringn_nocheck(node->text, node->len);
}

/* At most *left values: aliases of aliases can expand beyond the available memory. */
static json_t *json_of(const struct node *node, size_t *left)
{
    json_t *value;

    node = node_value(node);
    if (node->kind == NODE_SCALAR)
        return json_of_scalar(node);
    value = node->kind == NODE_MAP ? json_object() : json_array();
    for (size_t i = 0; i < node->count && *left != 0; i++) {
        --*left;
        if (node->kind == NODE_LIST)
            json_array_append_new(value, json_of(node->items[i], left));
        else if (node->entries[i].key->kind == NODE_SCALAR)
            json_object_set_new_nocheck(value, node->entries[i].key->text,
                                        json_of(node->entries[i].value, left));
    }
    return value;
}

static void report_settings(struct rule_context *context, enum severity severity,
                            const char *key, const char *message, const char *note)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS805", .severity = severity, .message = message, .note = note },
        key);
}

static json_t *read_file(struct rule_context *context, const char *key, const char *name)
{
    const char *dir = context->plan->dir ? context->plan->dir : ".";
    char *path = path_input(dir, name);
    struct error err = { 0 };
    json_t *settings = NULL;

    if (!file_exists(path)) {
        report_settings(
            context, SEVERITY_INFO, key,
            "the file does not exist, so its settings are not compared with the job",
            "the path is relative to the job's folder or the working directory");
    } else if (!(settings = json_read_file(path, SETTINGS_MAX, &err))) {
        /* show no content of the file: a job may name any */
        report_settings(context, SEVERITY_ERROR, key,
                        err.at.line > 0
                            ? arena_printf(context->arena, "%s:%u: this is not JSON",
                                           name, err.at.line)
                            : arena_strdup(context->arena, err.text),
                        "python3 -m json.tool shows the position of the error");
    }
    error_clear(&err);
    free(path);
    return settings;
}

static json_t *read_settings(struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;
    size_t left = DOCUMENT_MAX_EVENTS;
    struct error err = { 0 };
    json_t *settings;

    if (!value || value->kind == NODE_LIST || (value->kind == NODE_SCALAR && !value->len))
        return NULL;
    if (value->kind == NODE_MAP)
        return json_of(value, &left);
    if (value->text[strspn(value->text, " \t\n")] != '{')
        return read_file(context, key, value->text);
    settings = json_read_text(value->text, value->len, key, 1, &err);
    if (!settings)
        report_settings(context, SEVERITY_ERROR, key,
                        arena_strdup(context->arena, err.text), NULL);
    error_clear(&err);
    return settings;
}

/* Find a nested member, such as fp16.enabled; or NULL. */
static const json_t *find_member(const json_t *settings, const char *path)
{
    char name[64];

    while (settings) {
        size_t len = strcspn(path, ".");

        snprintf(name, sizeof(name), "%.*s", (int)len, path);
        settings = json_object_get(settings, name);
        if (!path[len])
            return settings;
        path += len + 1;
    }
    return NULL;
}

struct comparison {
    struct rule_context *context;
    const json_t *settings;
    const char *mismatches; /* NULL: none so far */
    size_t count;
};

static void add_mismatch(struct comparison *to, const char *sentence)
{
    to->mismatches = to->count++ == 0 ? sentence
                                      : arena_printf(to->context->arena, "%s; %s",
                                                     to->mismatches, sentence);
}

static const char *value_text(const struct comparison *in, const json_t *value)
{
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (json_is_number(value))
        return scalar_print(json_number_value(value), in->context->arena);
    return json_is_object(value) ? "a map" : json_is_array(value) ? "a list" : "a string";
}

static bool is_auto(const json_t *value)
{
    const char *word = json_string_value(value);

    return !value || json_is_null(value) || (word && strcmp(word, "auto") == 0);
}

static void compare_number(struct comparison *in, const char *path, double job,
                           const char *key)
{
    const json_t *value = find_member(in->settings, path);

    if (is_auto(value) || (json_is_number(value) &&
                           fabs(json_number_value(value) - job) <= 1e-9 * fabs(job)))
        return;
    add_mismatch(in, arena_printf(in->context->arena, "%s is %s, but %s is %s", path,
                                  value_text(in, value), key,
                                  scalar_print(job, in->context->arena)));
}

static void compare_switch(struct comparison *in, const char *path, enum choice job,
                           const char *key)
{
    const json_t *value = find_member(in->settings, path);

    if (is_auto(value) || job == CHOICE_AUTO ||
        (json_is_boolean(value) && json_is_true(value) == (job == CHOICE_YES)))
        return;
    add_mismatch(in, arena_printf(in->context->arena, "%s is %s, but %s is %s", path,
                                  value_text(in, value), key,
                                  job == CHOICE_YES ? "true" : "false"));
}

static void compare_betas(struct comparison *in)
{
    const struct plan *plan = in->context->plan;
    const json_t *betas = find_member(in->settings, "optimizer.params.betas");
    double b1, b2;

    if (is_auto(betas))
        return;
    b1 = json_number_value(json_array_get(betas, 0));
    b2 = json_number_value(json_array_get(betas, 1));
    if (json_array_size(betas) != 2 || b1 != plan->adam_beta1 || b2 != plan->adam_beta2)
        add_mismatch(in, arena_printf(in->context->arena,
                                      "optimizer.params.betas differ from adam_beta1 and "
                                      "adam_beta2, %g and %g",
                                      plan->adam_beta1, plan->adam_beta2));
}

/* The number of processes is unknown; the batch must be a multiple. */
static void compare_whole_batch(struct comparison *in)
{
    const struct plan *plan = in->context->plan;
    const json_t *value = find_member(in->settings, "train_batch_size");
    int64_t one = plan->per_device_train_batch_size * plan->gradient_accumulation_steps;

    if (is_auto(value) || one <= 0 ||
        (json_is_number(value) && json_number_value(value) >= (double)one &&
         fmod(json_number_value(value), (double)one) == 0))
        return;
    add_mismatch(in, arena_printf(in->context->arena,
                                  "train_batch_size is %s, not a multiple of "
                                  "per_device_train_batch_size x "
                                  "gradient_accumulation_steps, %lld",
                                  value_text(in, value), (long long)one));
}

static void compare_deepspeed(struct comparison *in)
{
    const struct plan *plan = in->context->plan;
    const struct entry *clip = rule_line(in->context, "max_grad_norm");

    compare_switch(in, "fp16.enabled", plan->request.fp16, "fp16");
    compare_switch(in, "bf16.enabled", plan->request.bf16, "bf16");
    if (!clip || !node_is_null(clip->value)) /* TS401 */
        compare_number(in, "gradient_clipping", plan->request.max_grad_norm,
                       "max_grad_norm");
    compare_number(in, "train_micro_batch_size_per_gpu",
                   (double)plan->per_device_train_batch_size,
                   "per_device_train_batch_size");
    compare_number(in, "gradient_accumulation_steps",
                   (double)plan->gradient_accumulation_steps,
                   "gradient_accumulation_steps");
    compare_whole_batch(in);
    compare_number(in, "optimizer.params.lr", plan->learning_rate, "learning_rate");
    compare_number(in, "optimizer.params.eps", plan->adam_epsilon, "adam_epsilon");
    compare_number(in, "optimizer.params.weight_decay", plan->weight_decay,
                   "weight_decay");
    compare_betas(in);
}

static void check_deepspeed(struct rule_context *context)
{
    json_t *settings = read_settings(context, "deepspeed");
    struct comparison comparison = { .context = context, .settings = settings };

    if (settings && !json_is_object(settings)) {
        report_settings(context, SEVERITY_ERROR, "deepspeed",
                        "DeepSpeed's settings must be a map", NULL);
    } else if (settings) {
        compare_deepspeed(&comparison);
        if (json_is_true(find_member(settings, "fp16.enabled")) &&
            json_is_true(find_member(settings, "bf16.enabled")))
            add_mismatch(&comparison, "it enables both fp16 and bf16");
        /* hparams/parser.py: no value of the file is wrong */
        if (rule_is_llamafactory(context) && context->plan->request.pure_bf16 &&
            json_number_value(find_member(settings, "zero_optimization.stage")) == 3)
            report_settings(context, SEVERITY_ERROR, "pure_bf16",
                            "LLaMA-Factory rejects pure_bf16 with DeepSpeed's ZeRO 3",
                            "replace pure_bf16 with bf16: true, or use ZeRO 2");
    }
    if (comparison.count > 0)
        report_settings(
            context, SEVERITY_ERROR, "deepspeed",
            arena_printf(context->arena,
                         "DeepSpeed's settings differ from those of the job: %s",
                         comparison.mismatches),
            "write \"auto\" to use the job's value");
    json_decref(settings);
}

static void check_fsdp(struct rule_context *context)
{
    json_t *settings;

    if (!rule_is_set(context, "fsdp") || rule_is_llamafactory(context) ||
        !rule_entry(context, "gradient_checkpointing") ||
        !context->plan->gradient_checkpointing)
        return;
    settings = read_settings(context, "fsdp_config");
    if (json_is_true(find_member(settings, "activation_checkpointing")) ||
        json_is_true(find_member(settings, "fsdp_activation_checkpointing")))
        report_settings(
            context, SEVERITY_ERROR, "fsdp_config",
            "activation_checkpointing here and gradient_checkpointing in the job are "
            "both on, which the Trainer rejects",
            "with FSDP, keep activation_checkpointing");
    json_decref(settings);
}

static void rule_launch_conflicts(struct rule_context *context)
{
    if (rule_is_set(context, "deepspeed"))
        check_deepspeed(context);
    check_fsdp(context);
}

static const struct rule rows[] = {
    { .id = "TS124",
      .title = "launcher selects another precision than the job",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_launcher_conflict,
      .explain =
          "Accelerate reads its precision from the variable ACCELERATE_MIXED_PRECISION, "
          "which `accelerate launch` sets from its own configuration. TrainingArguments "
          "reads it only if neither fp16 nor bf16 is true: a run that looks like "
          "float32 in the job then computes in 16 bits, and no line shows it. If the "
          "job sets fp16 or bf16, the Trainer follows the job and overwrites the "
          "variable; a script with its own Accelerator follows the variable.\n\n"
          "The rule reads the map trainspool.env and the arguments of "
          "trainspool.command, `accelerate launch --mixed_precision ..`. Set the "
          "precision in the job and nowhere else.",
      .source = "transformers training_args.py, __post_init__, v4.38 to v5.15" },
    { .id = "TS612",
      .title = "fp16 in a configuration file of Accelerate",
      .severity = SEVERITY_WARNING,
      .explain =
          "A file written by `accelerate config` configures the launcher and is not a "
          "job. Its old form said `fp16: true`; now it says `mixed_precision: fp16`, "
          "and accelerate converts one to the other when it loads the file.\n\n"
          "A job sets fp16 or bf16 itself. If the launcher's file sets something else, "
          "the environment of the run contradicts the job (TS124).",
      .source = "accelerate commands/config/config_args.py" },
    { .id = "TS805",
      .title = "DeepSpeed or FSDP settings contradict the job",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_launch_conflicts,
      .explain =
          "The Trainer compares DeepSpeed's settings with the job's and fails with a "
          "list of the differences: fp16 and bf16, gradient_clipping, the batch and its "
          "accumulation, learning rate, betas, epsilon and weight decay. The rule makes "
          "the same comparison before anything is loaded. The path of the file is "
          "relative to the job's folder; nested settings and JSON in a string are read "
          "as well. The number of processes is unknown, so train_batch_size is only "
          "required to be a multiple.\n\n"
          "Write \"auto\", which takes the job's value. With FSDP, "
          "activation_checkpointing in its settings and gradient_checkpointing in the "
          "job exclude each other. trainspool never edits a file other than the job.",
      .source =
          "transformers integrations/deepspeed.py, trainer_config_process; trainer.py; "
          "Accelerate dataclasses.py, fill_match" },
};

const struct rules rules_launch = { rows, TS_COUNT(rows) };
