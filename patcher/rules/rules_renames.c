/*
 * patcher/rules/rules_renames.c - keys that transformers has renamed or removed.
 *
 * A native job accepts both names.  For an external job the version decides: a
 * removed name stops the script, and so does a name that is too new.  The versions come
 * from the history of transformers' training_args.py and from its MIGRATION_GUIDE_V5.md.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

#define GUIDE "transformers MIGRATION_GUIDE_V5.md; history of training_args.py"
#define FIVE  "5.0.0.dev0"

/* Return whether the installed transformers has the name; versions before the key table have
 * all but the newest name. */
static bool has_name(const struct rule_context *context, const char *key)
{
    struct profile_view view;

    profile_view(TRAINER_TRANSFORMERS, context->versions, NULL, &view);
    return view.own == PROFILE_TOO_OLD
               ? strcmp(key, "eval_strategy") != 0 &&
                     (strcmp(key, "use_cpu") != 0 ||
                      !rule_version_below(context, PACKAGE_TRANSFORMERS, "4.32.0.dev0"))
               : profile_find(&view, key) != NULL;
}

/* Return an error if the installed transformers no longer has the old name. */
static enum severity renamed_severity(const struct rule_context *context,
                                      const char *name)
{
    const char *since = profile_removed(TRAINER_TRANSFORMERS, name);

    return since && rule_version_at_least(context, PACKAGE_TRANSFORMERS, since)
               ? SEVERITY_ERROR
               : SEVERITY_WARNING;
}

/* In a native job schema_check renames the key, and reports (TS005) a key under both
 * names. */
static void rule_renamed_keys(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry;
    const struct key *key;

    for (size_t i = 0; context->plan->external && (key = schema_at(&schema_job, i)); i++)
        if (key->use == KEY_RENAMED && key->rule &&
            (entry = document_find(context->document, key->name)) &&
            !document_find(context->document, key->now) && has_name(context, key->now))
            propose_name(
                &to,
                &(struct finding) {
                    .rule = key->rule,
                    .severity = renamed_severity(context, key->name),
                    .apply = APPLY_SAFE,
                    .message = arena_printf(context->arena, "%s is now called %s",
                                            key->name, key->now),
                    .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
                    .note = "the value stays unchanged" },
                entry, key->now);
}

static const struct removed {
    const char *key, *rule;
    const char *since; /* the first transformers without it; NULL: by the key table */
    const char *what;  /* what to do, or why nothing is lost */
    bool moved;        /* the setting has a new position */
} removed[] = {
    { "fp16_backend", "TS606", NULL, "fp16: true is PyTorch's own mixed precision",
      false },
    { "half_precision_backend", "TS606", NULL,
      "fp16: true is PyTorch's own mixed precision", false },
    { "fp16_opt_level", "TS606", NULL, "it configured apex, which no longer has amp",
      false },
    { "use_apex", "TS606", "5.0", "apex no longer has amp", false },
    { "include_inputs_for_metrics", "TS609", NULL, "write include_for_metrics: [inputs]",
      true },
    { "include_tokens_per_second", "TS609", NULL,
      "write include_num_input_tokens_seen: all", true },
    { "tpu_metrics_debug", "TS609", NULL, "write debug: tpu_metrics_debug", true },
    { "fsdp_min_num_params", "TS609", NULL,
      "write it into fsdp_config, as min_num_params", true },
    { "fsdp_transformer_layer_cls_to_wrap", "TS609", NULL,
      "write it into fsdp_config, as transformer_layer_cls_to_wrap", true },
    { "push_to_hub_organization", "TS609", NULL, "write hub_model_id: ORGANIZATION/NAME",
      true },
    { "adafactor", "TS609", NULL, "write optim: adafactor", true },
    { "split_batches", "TS609", NULL, "write it into accelerator_config", true },
    { "dispatch_batches", "TS609", NULL, "write it into accelerator_config", true },
    { "evaluate_during_training", "TS609", "4.0", "write eval_strategy: steps", true },
    { "use_mps_device", "TS610", NULL, "an Apple GPU is detected without it", false },
    { "past_index", "TS610", NULL, "it belonged to models like Transformer-XL", false },
    { "ray_scope", "TS610", NULL, "use RAY_SCOPE in the environment", false },
    { "jit_mode_eval", "TS610", NULL, "torch_compile replaces it", false },
    { "torchdynamo", "TS610", NULL, "torch_compile_backend replaces it", false },
    { "mp_parameters", "TS610", NULL, "SageMaker sets them itself", false },
    { "tpu_num_cores", "TS610", NULL, "use TPU_NUM_CORES in the environment", false },
    { "use_legacy_prediction_loop", "TS610", NULL, "there is only one loop now", false },
    { "use_ipex", "TS610", NULL, "Intel's extension is part of PyTorch now", false },
    { "save_safetensors", "TS610", NULL, "everything is saved as safetensors", false },
    { "sharded_ddp", "TS610", "4.35", "fsdp replaces it", false },
    { "tp_size", "TS610", NULL, "load the model with a tp_plan", false },
    { "xpu_backend", "TS610", "4.32", "ddp_backend replaces it", false },
    { "logging_dir", "TS610", NULL, "use TENSORBOARD_LOGGING_DIR in the environment",
      false },
};

/* Return the first version without the key, "5.0". */
static const char *removed_in(const struct rule_context *context,
                              const struct removed *row)
{
    const char *version =
        row->since ? row->since : profile_removed(TRAINER_TRANSFORMERS, row->key);
    const char *end = strchr(version, '.') + 1;

    return arena_copy(context->arena, version,
                      (size_t)(end - version) + strcspn(end, "."));
}

/* The bound includes release candidates. */
static const char *removed_bound(const struct rule_context *context,
                                 const struct removed *row)
{
    return arena_printf(context->arena, "%s.dev0", removed_in(context, row));
}

static enum severity removed_severity(const struct rule_context *context,
                                      const struct removed *row)
{
    if (!context->plan->external)
        return SEVERITY_INFO;
    return rule_version_at_least(context, PACKAGE_TRANSFORMERS,
                                 removed_bound(context, row))
               ? SEVERITY_ERROR
               : SEVERITY_WARNING;
}

static void report_removed(struct rule_context *context, const struct removed *row,
                           const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const struct finding finding = {
        .rule = row->rule,
        .severity = removed_severity(context, row),
        .apply = APPLY_UNSAFE,
        .message = arena_printf(context->arena, "%s was removed in transformers %s: %s",
                                row->key, removed_in(context, row), row->what),
        .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
        .note = row->moved ? NULL : "the line becomes a comment",
    };

    if (row->moved)
        propose_key_remark(&to, &finding, entry);
    else
        propose_removal(&to, &finding, entry);
}

/* TS707 reports it. */
static bool is_rejected(const struct removed *row)
{
    return schema_find(row->key)->use == KEY_REJECTED;
}

/* Return whether the program still has the key, as one of its own. */
static bool has_own_key(const struct rule_context *context, const char *key)
{
    return profile_is_closed(context->view) && profile_find(context->view, key);
}

static void rule_removed_keys(struct rule_context *context)
{
    for (size_t i = 0; i < TS_COUNT(removed); i++) {
        const struct entry *entry = document_find(context->document, removed[i].key);

        if (entry && (context->plan->external || !is_rejected(&removed[i])) &&
            !has_own_key(context, removed[i].key) &&
            !rule_version_below(context, PACKAGE_TRANSFORMERS,
                                removed_bound(context, &removed[i])))
            report_removed(context, &removed[i], entry);
    }
}

static void rule_warmup_ratio(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "warmup_ratio");
    double ratio = 0;
    struct finding finding = {
        .rule = "TS603",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "warmup_ratio was removed in transformers 5.15: warmup_steps below 1 "
                   "is a fraction of all steps",
        .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
    };

    if (!entry || rule_is_llamafactory(context) ||
        !rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.15.0.dev0"))
        return;
    if (scalar_number(entry->value, &ratio) == SCALAR_WRONG || !(ratio > 0) ||
        !(ratio < 1)) {
        finding.note = "1.0 or more would be a number of steps, not a fraction: choose a "
                       "value by hand";
        propose_remark(&to, &finding, entry);
    } else if (document_find(context->document, "warmup_steps")) {
        finding.note = "warmup_steps is also given: keep only one of them";
        propose_remark(&to, &finding, entry);
    } else {
        finding.note = "the value stays unchanged";
        propose_name(&to, &finding, entry, "warmup_steps");
    }
}

static void rule_overwrite_output_dir(struct rule_context *context)
{
    if (document_find(context->document, "overwrite_output_dir") &&
        !rule_is_llamafactory(context) &&
        rule_version_at_least(context, PACKAGE_TRANSFORMERS, FIVE))
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS605",
                        .severity = SEVERITY_ERROR,
                        .message = "overwrite_output_dir was removed in transformers 5; "
                                   "only example scripts used it",
                        .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
                        .note = "to start from scratch, name another output_dir; to "
                                "resume, set resume_from_checkpoint" },
                    "overwrite_output_dir");
}

static void rule_torch_dtype(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "torch_dtype");
    struct finding finding = {
        .rule = "TS607",
        .severity = SEVERITY_WARNING,
        .apply = APPLY_UNSAFE,
        .message = "torch_dtype is called dtype since transformers 4.56",
        .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
        .note = "only if the script reads dtype",
    };

    if (!entry || document_find(context->document, "dtype") ||
        (profile_is_closed(context->view) &&
         (!profile_find(context->view, "torch_dtype") || /* TS813 */
          !profile_find(context->view, "dtype"))) ||
        !rule_version_at_least(context, PACKAGE_TRANSFORMERS, "4.56.0.dev0"))
        return;
    propose_name(&to, &finding, entry, "dtype");
}

/* from_pretrained of an older transformers takes only torch_dtype. */
static void rule_dtype_too_new(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "dtype");

    if (!context->plan->external || !entry ||
        document_find(context->document, "torch_dtype") ||
        profile_is_closed(context->view) || /* TS813 */
        !rule_version_below(context, PACKAGE_TRANSFORMERS, "4.56.0.dev0"))
        return;
    propose_name(&to,
                 &(struct finding) {
                     .rule = "TS607",
                     .severity = SEVERITY_WARNING,
                     .apply = APPLY_UNSAFE,
                     .message = "dtype is called torch_dtype before transformers 4.56",
                     .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
                     .note = "only if the script reads torch_dtype" },
                 entry, "torch_dtype");
}

static void rule_dtype_name(struct rule_context *context)
{
    rule_torch_dtype(context);
    rule_dtype_too_new(context);
}

static void rule_group_by_length(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "group_by_length");
    bool on = false;
    struct finding finding = {
        .rule = "TS608",
        .severity = SEVERITY_ERROR,
        .message = "group_by_length was removed in transformers 5.2: use "
                   "train_sampling_strategy: group_by_length",
        .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
    };

    if (!entry || !rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.2.0.dev0"))
        return;
    if (scalar_bool(entry->value, &on) == SCALAR_WRONG || !on) {
        finding.apply = APPLY_UNSAFE;
        finding.note = "it was off; the line becomes a comment";
        propose_removal(&to, &finding, entry);
    } else if (document_find(context->document, "train_sampling_strategy")) {
        propose_remark(&to, &finding, entry);
    } else {
        finding.apply = APPLY_SAFE;
        finding.group = rule_group(context);
        propose_name(&to, &finding, entry, "train_sampling_strategy");
        propose_value(&to, &finding, entry, "group_by_length");
    }
}

static const struct rule rows[] = {
    { .id = "TS601",
      .title = "evaluation_strategy is now eval_strategy",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_renamed_keys,
      .explain =
          "The key was renamed in transformers 4.41 and removed in 4.51, where the job "
          "fails immediately. The patch renames it and keeps the value, its comment and "
          "its position. An external job whose trainspool.versions names a transformers "
          "older than 4.41 keeps the old name, because that version does not accept the "
          "new one.",
      .source = GUIDE },
    { .id = "TS602",
      .title = "per_gpu_*_batch_size is now per_device_*_batch_size",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "The old name dates from when every device was a GPU; transformers 5 removed "
          "it. The patch renames the key and keeps the value, its comment and its "
          "position. It always meant the batch of one device, so nothing else changes.",
      .source = GUIDE },
    { .id = "TS603",
      .title = "warmup_ratio is now a warmup_steps below 1",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_warmup_ratio,
      .explain =
          "transformers 5.15 removed warmup_ratio: warmup_steps also accepts a fraction "
          "below 1. The patch turns `warmup_ratio: 0.1` into `warmup_steps: 0.1`, which "
          "means the same.\n\n"
          "Beware of `warmup_ratio: 1.0`, a warmup over the whole run: as warmup_steps "
          "it would be one step. Such a value is left to you, and so is a file that has "
          "both keys (TS407).\n\n"
          "The rule applies to external jobs that are known to run with 5.15 or later. "
          "LLaMA-Factory and trainspool accept both keys.",
      .source = GUIDE "; vllm semantic-router#3925 and its PR #3940" },
    { .id = "TS604",
      .title = "no_cuda is now use_cpu",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "The old name has the same meaning; transformers 5 removed it, and an old job "
          "fails there. The patch renames the key and keeps the value, its comment and "
          "its position.",
      .source = GUIDE },
    { .id = "TS605",
      .title = "overwrite_output_dir was removed from transformers",
      .severity = SEVERITY_ERROR,
      .run = rule_overwrite_output_dir,
      .explain =
          "The Trainer never read this key; Hugging Face's example scripts did, to "
          "decide whether to write to a folder that contains a model. transformers 5 "
          "removed the argument, and a script that parses TrainingArguments fails.\n\n"
          "Nothing is edited, because the replacement depends on your intent: another "
          "output_dir starts from scratch, resume_from_checkpoint resumes. LLaMA-Factory "
          "has its own key of this name, and so does trainspool.",
      .source = GUIDE },
    { .id = "TS606",
      .title = "keys of apex and other fp16 backends",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_removed_keys,
      .explain =
          "fp16_backend, half_precision_backend, fp16_opt_level and use_apex selected "
          "NVIDIA's apex or PyTorch's own mixed precision. apex removed its amp in "
          "2025, and transformers 5 removed the keys. `fp16: true` alone has the same "
          "effect: compute in float16, trained weights in float32, a dynamic loss "
          "scale. O2 and O3, which trained float16 weights, have no successor and need "
          "none (TS105).\n\n"
          "`--unsafe` comments the line out. In a native job the key has no effect, so "
          "this only cleans up; an external job fails at it.",
      .source = GUIDE "; NVIDIA/apex PR #1896" },
    { .id = "TS607",
      .title = "torch_dtype is now dtype",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_dtype_name,
      .explain =
          "from_pretrained accepts `dtype` since transformers 4.56 and warns about the "
          "old name; TRL's ModelConfig followed. An older version does not know `dtype`, "
          "and the rule renames it to torch_dtype. The job does not show which name your "
          "script reads, so the rename requires `--unsafe`. In a native job torch_dtype "
          "and dtype are aliases of model_dtype.",
      .source = "transformers PR #40808" },
    { .id = "TS608",
      .title = "group_by_length is now a train_sampling_strategy",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_group_by_length,
      .explain =
          "transformers 5.2 removed the key: a single key selects how samples are "
          "drawn, random, sequential or group_by_length. The patch changes key and "
          "value together; the meaning stays the same. With `--unsafe`, a line that "
          "says false, the default, is commented out.\n\n"
          "The rule applies to external jobs that are known to run with 5.2 or later.",
      .source = "transformers PR #43138" },
    { .id = "TS609",
      .title = "renamed keys of the hub, metrics and FSDP",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "push_to_hub_token is now hub_token, and push_to_hub_model_id is now "
          "hub_model_id: the patch renames them in place and never shows a token.\n\n"
          "The other keys also changed their form, so the finding says what to write: "
          "include_for_metrics: [inputs] for include_inputs_for_metrics, "
          "include_num_input_tokens_seen for include_tokens_per_second, debug: "
          "tpu_metrics_debug for tpu_metrics_debug, members of fsdp_config for "
          "fsdp_min_num_params and fsdp_transformer_layer_cls_to_wrap, members of "
          "accelerator_config for split_batches and dispatch_batches (removed in 4.51), "
          "optim: adafactor for adafactor, and a hub_model_id with its owner for "
          "push_to_hub_organization. transformers 5 removed the others; none has an "
          "effect in a native job.",
      .source = GUIDE },
    { .id = "TS610",
      .title = "key removed from transformers",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "use_mps_device, past_index, ray_scope, jit_mode_eval, torchdynamo, "
          "mp_parameters, tpu_num_cores, use_legacy_prediction_loop, save_safetensors "
          "(removed in transformers 5), use_ipex (4.57), xpu_backend (4.32), "
          "sharded_ddp (4.35), tp_size (4.52) and logging_dir (5.15). Most of them have "
          "long been detected automatically, or became environment variables, as the "
          "finding says. `--unsafe` comments the line out; `patch` alone never does.\n\n"
          "A script that parses TrainingArguments fails at an unknown key: an error if "
          "trainspool.versions names a transformers without the key, a warning if the "
          "version is unknown, and no finding if the version still has it.",
      .source = GUIDE },
};

const struct rules rules_renames = { rows, TS_COUNT(rows) };
