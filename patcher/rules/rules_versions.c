/* patcher/rules/rules_versions.c - the package versions of an external job: entries,
 * unknown versions, and keys that a version does not have. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/schema.h"

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

/* The older name of a key, where it has another meaning or form (TS601 to TS609 rename the
 * others). */
static const struct former {
    const char *key, *before;
} formers[] = {
    { "use_cpu", "no_cuda" },
    { "eval_strategy", "evaluation_strategy" },
    { "train_sampling_strategy", "group_by_length" },
};

/* Fields of TrainingArguments that came before the table begins (training_args.py, v4.31.0
 * to v4.36.2). */
static const struct arrival {
    const char *key, *since;
} arrivals[] = {
    { "ddp_broadcast_buffers", "4.31" },
    { "use_cpu", "4.32" },
    { "hub_always_push", "4.32" },
    { "gradient_checkpointing_kwargs", "4.35" },
    { "neftune_noise_alpha", "4.35" },
    { "dataloader_persistent_workers", "4.36" },
    { "include_num_input_tokens_seen", "4.36" },
    { "lr_scheduler_kwargs", "4.36" },
    { "save_only_model", "4.36" },
};

/* Return the first release with the field, if the installed one is older; else NULL. */
static const char *find_arrival(const struct rule_context *context,
                                const struct profile_view *view, const char *key)
{
    const struct profile_table *table = profile_at(TRAINER_TRANSFORMERS)->table;
    const struct profile_key *row;
    struct profile_history history;
    struct profile_view first;

    if (view->own >= 0)
        return !profile_find(view, key) && profile_history(view, key, &history) &&
                       !history.until
                   ? history.since
                   : NULL;
    if (view->own == PROFILE_ANY_VERSION)
        return NULL;
    for (size_t i = 0; i < TS_COUNT(arrivals); i++)
        if (strcmp(arrivals[i].key, key) == 0 &&
            rule_version_below(context, PACKAGE_TRANSFORMERS, arrivals[i].since))
            return arrivals[i].since;
    first = (struct profile_view) { TRAINER_TRANSFORMERS, UINT32_MAX, 0, view->base };
    row = profile_find(&first, key);
    return !row && profile_history(&first, key, &history) && history.since ? history.since
           : row && row->since > 0 ? table->versions[row->since]
                                   : NULL;
}

/* 4.41.0 -> 4.41 */
static const char *short_release(const struct rule_context *context, const char *release)
{
    return text_ends(release, ".0") && strchr(release, '.') != strrchr(release, '.')
               ? arena_copy(context->arena, release, strlen(release) - 2)
               : release;
}

static void report_arrival(struct rule_context *context, const struct entry *entry,
                           const char *since)
{
    const struct proposal to = rule_proposal(context);
    const char *key = entry->key->text, *before = NULL;

    for (size_t i = 0; i < TS_COUNT(formers); i++)
        if (strcmp(formers[i].key, key) == 0)
            before = formers[i].before;
    propose_key_remark(
        &to,
        &(struct finding) {
            .rule = "TS807",
            .severity = SEVERITY_ERROR,
            .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
            .message = arena_printf(context->arena,
                                    "the installed transformers does not have the "
                                    "argument %s yet: %s added it",
                                    key, short_release(context, since)),
            .note = before ? arena_printf(context->arena, "its older name is %s", before)
                           : NULL },
        entry);
}

/* A key that the program has itself, as TRL's or LLaMA-Factory's own, is not one of
 * transformers. */
static void rule_key_too_new(struct rule_context *context)
{
    const struct node *root = context->document->root;
    struct profile_view view;

    profile_view(TRAINER_TRANSFORMERS, context->versions, NULL, &view);
    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const char *since;

        if (entry->key->kind != NODE_SCALAR || !schema_find(entry->key->text) ||
            document_find(context->document, entry->key->text) != entry ||
            (profile_is_closed(context->view) &&
             profile_find(context->view, entry->key->text)))
            continue;
        since = find_arrival(context, &view, entry->key->text);
        if (since)
            report_arrival(context, entry, since);
    }
}

static void rule_unknown_versions(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");

    const struct entry *target =
        block ? node_find(node_value(block->value), "target") : NULL;

    if (context->versions->trouble) /* TS713 has reported it */
        return;
    if (rule_lacks_defaults(context)) {
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS810",
                .severity = SEVERITY_INFO,
                .message =
                    "the version of TRL is unknown, and the defaults of bf16, "
                    "gradient_checkpointing, max_length and other keys depend on it",
                .note = context->document->script
                            ? "pass --versions trl=.."
                            : "set trainspool.versions: {trl: ..}, or pass --versions "
                              "trl=.." },
            target);
        return;
    }
    for (size_t i = 0; i < PACKAGES; i++)
        if (versions_know(context->versions, (enum package)i))
            return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS810",
            .severity = SEVERITY_INFO,
            .message = "no package versions are known, so rules that depend on them are "
                       "skipped: loading of weights and adapters, renamed and removed "
                       "keys, incompatible packages",
            .note =
                context->document->script
                    ? "pass --versions torch=..,transformers=..,peft=.."
                    : "set trainspool.env: the folder of the Python environment, or "
                      "trainspool.versions: {torch: .., transformers: .., peft: ..}" },
        target);
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

    if (!rule_is_llamafactory(context) || !document_find(context->document, "trainspool"))
        return;
    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (document_find(context->document, own[i]) &&
            (i == 0 || !profile_is_closed(context->view))) /* else TS813 */
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
          "trainspool.versions, or --versions on the command line, gives the versions by "
          "hand. For TRL, whose defaults for precision, checkpointing and length differ "
          "between versions, a job that may not fit into memory (TS301) is then only a "
          "warning.",
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
