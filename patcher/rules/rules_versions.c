/* patcher/rules/rules_versions.c - the package versions of an external job: entries,
 * unknown versions, and keys that a version does not have. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"

static const char *printable_excerpt(const struct rule_context *context, const char *text)
{
    return rule_printable(context, arena_copy(context->arena, text, strnlen(text, 60)));
}

static void report_unknown_package(struct rule_context *context,
                                   const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const char *name = entry->key->text, *near = package_nearest(name);
    struct finding finding = {
        .rule = near ? "TS702" : "TS703",
        .severity = near ? SEVERITY_ERROR : SEVERITY_INFO,
        .message = near ? arena_printf(context->arena,
                                       "versions: unknown package %s; did you mean %s?",
                                       printable_excerpt(context, name), near)
                        : arena_printf(context->arena,
                                       "versions: no rule checks the version of %s",
                                       printable_excerpt(context, name)),
    };

    propose_key_remark(&to, &finding, entry);
}

static void report_invalid_version(struct rule_context *context,
                                   const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const struct node *value = node_value(entry->value);
    const char *text = value->kind == NODE_SCALAR
                           ? printable_excerpt(context, value->text)
                           : "a map or a list";

    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS704",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(context->arena,
                                    "versions: %s must be one version, such as 2.4.0 or "
                                    "5.0.0rc1, not %s",
                                    printable_excerpt(context, entry->key->text), text) },
        entry);
}

static void check_given(struct rule_context *context, const struct entry *entry)
{
    const struct node *value = node_value(entry->value);
    struct version version;

    if (package_find(entry->key->text) == PACKAGES)
        report_unknown_package(context, entry);
    else if (!node_is_null(entry->value) &&
             (value->kind != NODE_SCALAR || !version_read(value->text, &version)))
        report_invalid_version(context, entry);
}

static void check_same(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    enum package package = package_find(entry->key->text);
    const struct package_version *known;
    struct version given, found;

    if (package == PACKAGES || !(known = &context->versions->packages[package])->given ||
        !known->found || !version_read(known->given, &given) ||
        !version_read(known->found, &found) || version_covers(&given, &found))
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS809",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "versions gives %s %s, but %s is installed in the "
                                    "environment that env names",
                                    package_names[package], known->given, known->found),
            .note = "the version in versions takes precedence" },
        entry);
}

static void check_environment(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *env = rule_block_entry(context, "env");
    const struct versions *versions = context->versions;

    if (env && node_value(env->value)->kind == NODE_LIST)
        propose_remark(&to,
                       &(struct finding) { .rule = "TS704",
                                           .severity = SEVERITY_ERROR,
                                           .message =
                                               "env must be the folder of a Python "
                                               "environment, or a map of variables" },
                       env);
    if (context->plan->external && versions->trouble)
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS713",
                .severity = SEVERITY_WARNING,
                .because = "checked on this machine",
                .message = arena_printf(context->arena, "the environment %s %s",
                                        printable_excerpt(context, versions->folder),
                                        versions->trouble),
                .note = "rules that depend on versions stay silent unless versions gives "
                        "them" },
            versions->where);
}

static void rule_version_entries(struct rule_context *context)
{
    const struct entry *entry = rule_block_entry(context, "versions");
    const struct node *map = entry ? node_value(entry->value) : NULL;

    check_environment(context);
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        if (map->entries[i].key->kind == NODE_SCALAR) {
            check_given(context, &map->entries[i]);
            check_same(context, &map->entries[i]);
        }
}

/* The first release whose TrainingArguments has the field
 * (src/transformers/training_args.py, v4.31.0 to v5.15.0). */
static const struct arrival {
    const char *key, *since, *before;
} arrivals[] = {
    { "ddp_broadcast_buffers", "4.31", NULL },
    { "use_cpu", "4.32", "no_cuda" },
    { "hub_always_push", "4.32", NULL },
    { "gradient_checkpointing_kwargs", "4.35", NULL },
    { "neftune_noise_alpha", "4.35", NULL },
    { "dataloader_persistent_workers", "4.36", NULL },
    { "include_num_input_tokens_seen", "4.36", NULL },
    { "lr_scheduler_kwargs", "4.36", NULL },
    { "save_only_model", "4.36", NULL },
    { "accelerator_config", "4.38", NULL },
    { "dataloader_prefetch_factor", "4.38", NULL },
    { "optim_target_modules", "4.39", NULL },
    { "eval_do_concat_batches", "4.40", NULL },
    { "batch_eval_metrics", "4.41", NULL },
    { "eval_strategy", "4.41", "evaluation_strategy" },
    { "restore_callback_states_from_checkpoint", "4.41", NULL },
    { "eval_on_start", "4.42", NULL },
    { "eval_use_gather_object", "4.43", NULL },
    { "torch_empty_cache_steps", "4.43", NULL },
    { "use_liger_kernel", "4.45", NULL },
    { "include_for_metrics", "4.46", NULL },
    { "average_tokens_across_devices", "4.46", NULL },
    { "liger_kernel_config", "4.53", NULL },
    { "parallelism_config", "4.56", NULL },
    { "project", "4.57", NULL },
    { "trackio_space_id", "4.57", NULL },
    { "train_sampling_strategy", "5.2", "group_by_length" },
};

static void rule_key_too_new(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);

    for (size_t i = 0; i < TS_COUNT(arrivals); i++) {
        const struct arrival *row = &arrivals[i];
        const struct entry *entry = document_find(context->document, row->key);

        if (!entry || !rule_version_below(context, PACKAGE_TRANSFORMERS, row->since))
            continue;
        propose_key_remark(
            &to,
            &(struct finding) {
                .rule = "TS807",
                .severity = SEVERITY_ERROR,
                .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
                .message = arena_printf(context->arena,
                                        "the installed transformers does not have the "
                                        "argument %s yet: %s added it",
                                        row->key, row->since),
                .note = row->before ? arena_printf(context->arena, "its older name is %s",
                                                   row->before)
                                    : NULL },
            entry);
    }
}

static void rule_unknown_versions(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");

    for (size_t i = 0; i < PACKAGES; i++)
        if (versions_know(context->versions, (enum package)i))
            return;
    if (context->versions->trouble) /* TS713 has reported it */
        return;
    if (context->document->script)
        return; /* a script has no place to say them */
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS810",
            .severity = SEVERITY_INFO,
            .message = "no package versions are known, so rules that depend on them are "
                       "skipped: loading of weights and adapters, renamed and removed "
                       "keys, incompatible packages",
            .note = "set trainspool.env: the folder of the Python environment, or "
                    "trainspool.versions: {torch: .., transformers: .., peft: ..}" },
        node_find(node_value(block->value), "target"));
}

static void rule_llamafactory_keys(struct rule_context *context)
{
    static const char *const own[] = {
        "trainspool",
        "model_dtype",
        "torch_dtype",
        "dtype",
        "loss_scale",
        "memory_limit",
        "kd_ratio",
        "kd_temperature",
        "kd_beta",
        "kd_topk",
        "teacher_model_name_or_path",
        "teacher_adapter_name_or_path",
    };
    const struct proposal to = rule_proposal(context);
    const char *names = NULL;

    if (!rule_is_llamafactory(context))
        return;
    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (document_find(context->document, own[i]))
            names = arena_printf(context->arena, "%s%s%s", names ? names : "",
                                 names ? ", " : "", own[i]);
    propose_key_remark(
        &to,
        &(struct finding) {
            .rule = "TS811",
            .severity = SEVERITY_INFO,
            .message = arena_printf(context->arena,
                                    "LLaMA-Factory does not know %s and rejects such "
                                    "keys unless ALLOW_EXTRA_ARGS=1 is set for it",
                                    names),
            .note = "since 0.9.2; an older version needs a copy of the job without these "
                    "keys" },
        document_find(context->document, "trainspool"));
}

static const struct rule rows[] = {
    { .id = "TS807",
      .title = "argument that the installed transformers does not have yet",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_key_too_new,
      .explain =
          "TrainingArguments and HfArgumentParser fail at an unknown name, after the "
          "program has started and imported everything. trainspool knows which version "
          "added which name. TS601 to TS610 report a name that was removed; this rule "
          "reports a name that is newer than the installed version.\n\n"
          "Upgrade transformers, remove the line, or use the older name if there is one.",
      .source = "transformers training_args.py at the tags v4.30.0 to v5.15.0" },
    { .id = "TS809",
      .title = "given versions differ from the environment",
      .severity = SEVERITY_WARNING,
      .run = rule_version_entries,
      .explain =
          "trainspool.versions gives a version of a package, and the environment that "
          "trainspool.env names contains another one. The given version takes "
          "precedence, since it may describe another machine; if it does not, the rules "
          "check the job for the wrong program.\n\n"
          "An abbreviated version, 2.4, matches 2.4.1 and 2.4.1+cu121. Remove the "
          "package from versions to have it read from the environment. trainspool "
          "executes nothing there: it reads only METADATA of *.dist-info folders.",
      .source = "PEP 440, PEP 503; the packaging guide, Recording installed projects" },
    { .id = "TS810",
      .title = "unknown package versions",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_unknown_versions,
      .explain =
          "Much of what another program does depends on its versions: whether float16 "
          "files are loaded as float16, whether adapters are cast to float32, which "
          "arguments exist. trainspool does not guess. trainspool.env names the folder "
          "of a Python environment, whose metadata are read without running anything; "
          "trainspool.versions gives the versions by hand.",
      .source = "trainspool-job(5)" },
    { .id = "TS811",
      .title = "keys that LLaMA-Factory rejects",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_llamafactory_keys,
      .explain =
          "LLaMA-Factory rejects unknown keys, and it knows neither the block "
          "trainspool nor the keys that only trainspool reads. Since 0.9.2 it ignores "
          "them if ALLOW_EXTRA_ARGS=1 is set in its environment. How it handles weights "
          "does not depend on these keys: it casts all trained weights to float32, "
          "unless pure_bf16 or use_badam is on.",
      .source = "LLaMA-Factory hparams/parser.py, v0.9.2; model/adapter.py" },
};

const struct rules rules_versions = { rows, TS_COUNT(rows) };
