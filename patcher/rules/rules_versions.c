/* patcher/rules/rules_versions.c - the package versions of an external job: entries,
 * unknown versions, and keys that a version does not have. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"

/* ---- TS702, TS703, TS704: the map of versions ---- */

static const char *shown(const struct rule_context *context, const char *text)
{
    return rule_printable(context, arena_copy(context->arena, text, strnlen(text, 60)));
}

static void unknown_package(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const char *name = entry->key->text, *near = package_nearest(name);
    struct finding finding = {
        .rule = near ? "TS702" : "TS703",
        .severity = near ? SEVERITY_ERROR : SEVERITY_INFO,
        .message = near ? arena_printf(context->arena,
                                       "versions: no rule knows a package %s; did you "
                                       "mean %s?",
                                       shown(context, name), near)
                        : arena_printf(context->arena,
                                       "versions: no rule looks at the version of %s",
                                       shown(context, name)),
    };

    propose_key_remark(&to, &finding, entry);
}

static void invalid_version(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const struct node *value = node_value(entry->value);
    const char *text =
        value->kind == NODE_SCALAR ? shown(context, value->text) : "a map or a list";

    propose_remark(&to,
                   &(struct finding) { .rule = "TS704",
                                       .severity = SEVERITY_ERROR,
                                       .message = arena_printf(
                                           context->arena,
                                           "versions: %s must be one version, as 2.4.0 "
                                           "or 5.0.0rc1, not %s",
                                           shown(context, entry->key->text), text) },
                   entry);
}

static void check_given(struct rule_context *context, const struct entry *entry)
{
    const struct node *value = node_value(entry->value);
    struct version version;

    if (package_find(entry->key->text) == PACKAGES)
        unknown_package(context, entry);
    else if (!node_is_null(entry->value) &&
             (value->kind != NODE_SCALAR || !version_read(value->text, &version)))
        invalid_version(context, entry);
}

/* ---- TS809: given and installed ---- */

static void check_same(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    enum package package = package_find(entry->key->text);
    const struct package_version *of;
    struct version given, found;

    if (package == PACKAGES || !(of = &context->versions->of[package])->given ||
        !of->found || !version_read(of->given, &given) ||
        !version_read(of->found, &found) || version_covers(&given, &found))
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS809",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "versions says %s %s, and %s is installed in the "
                                    "environment that env names",
                                    package_names[package], of->given, of->found),
            .note = "what versions says is believed" },
        entry);
}

/* ---- TS713, TS704: the environment ---- */

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
                .because = "looked for on this machine",
                .message =
                    arena_printf(context->arena, "the environment %s %s",
                                 shown(context, versions->folder), versions->trouble),
                .note = "rules that depend on versions are silent where versions does "
                        "not give them" },
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

/* The first tag at which TrainingArguments has the field (src/transformers/
 * training_args.py, v4.31.0 to v5.15.0). */
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
                                        "the installed transformers has no argument %s "
                                        "yet: it came with %s",
                                        row->key, row->since),
                .note = row->before ? arena_printf(context->arena, "it was %s before",
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
    if (context->versions->trouble) /* TS713 has told */
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS810",
            .severity = SEVERITY_INFO,
            .message = "no versions are known, so what depends on them is not looked "
                       "at: how weights and adapters are loaded, renamed and removed "
                       "keys, pairs of packages",
            .note = "trainspool.env: the folder of the Python environment, or "
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
                                    "LLaMA-Factory does not know %s and stops at such "
                                    "keys unless ALLOW_EXTRA_ARGS=1 is set for it",
                                    names),
            .note = "from 0.9.2 on; an older one needs a copy without them" },
        document_find(context->document, "trainspool"));
}

static const struct rule rows[] = {
    { .id = "TS807",
      .title = "an argument that the installed transformers does not have",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_key_too_new,
      .explain =
          "TrainingArguments and HfArgumentParser stop at a name they do not know, "
          "after the program has started and imported everything. Which version brought "
          "which name is known. A name that a version has dropped is told under TS601 "
          "to TS610; one that is younger than the installed version is told here.\n\n"
          "Upgrade transformers, take the line out, or write the older name where there "
          "is one.",
      .source = "transformers training_args.py at the tags v4.30.0 to v5.15.0" },
    { .id = "TS809",
      .title = "versions differ from those of the environment",
      .severity = SEVERITY_WARNING,
      .run = rule_version_entries,
      .explain =
          "trainspool.versions gives a version of a package, and the environment that "
          "trainspool.env names holds another. What versions says is believed, since it "
          "may be meant for another machine; if it is not, rules speak of a program "
          "other than the one that will run.\n\n"
          "A version that is cut short, 2.4, agrees with 2.4.1 and with 2.4.1+cu121. "
          "Take the package out of versions to have it read from the environment. "
          "Nothing there is executed: only METADATA of *.dist-info folders is read.",
      .source = "PEP 440, PEP 503; the packaging guide, Recording installed projects" },
    { .id = "TS810",
      .title = "no versions are known",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_unknown_versions,
      .explain =
          "Much of what another program does depends on its versions: whether float16 "
          "files are loaded as float16, whether adapters are made float32, which "
          "arguments exist. Nothing is guessed. trainspool.env names the folder of a "
          "Python environment, whose metadata are read and nothing of it run; "
          "trainspool.versions gives them by hand.",
      .source = "trainspool-job(5)" },
    { .id = "TS811",
      .title = "keys that LLaMA-Factory does not know",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_llamafactory_keys,
      .explain =
          "LLaMA-Factory stops at keys it does not know, and it knows neither the block "
          "trainspool nor what only this program reads. From 0.9.2 on it passes over "
          "them with ALLOW_EXTRA_ARGS=1 in its environment. What it does with weights "
          "does not hang on them: it makes all trained weights float32, unless "
          "pure_bf16 or use_badam is on.",
      .source = "LLaMA-Factory hparams/parser.py, v0.9.2; model/adapter.py" },
};

const struct rules rules_versions = { rows, TS_COUNT(rows) };
