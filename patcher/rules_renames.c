/*
 * patcher/rules_renames.c - keys that transformers calls otherwise now, or has no more.
 *
 * Native jobs know both names.  For an external one the version decides: a name that is
 * gone stops the script, a name that is not there yet does too.  When each came and went
 * is in the history of transformers' training_args.py and in its MIGRATION_GUIDE_V5.md.
 */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

#include <string.h>

#define FIVE "5.0.0.dev0"

/* ---- TS601, TS602, TS604, TS609: another name, in an external job ---- */

/* Names that an older transformers does not have. */
static const struct arrival {
    const char *key, *since;
} arrivals[] = {
    { "eval_strategy", "4.41.0.dev0" },
    { "use_cpu", "4.34.0.dev0" },
    { "hub_token", "4.17.0.dev0" },
    { "hub_model_id", "4.11.0.dev0" },
};

static bool is_there(const struct rule_context *context, const char *key)
{
    for (size_t i = 0; i < TS_COUNT(arrivals); i++)
        if (strcmp(arrivals[i].key, key) == 0)
            return !rule_version_below(context, PACKAGE_TRANSFORMERS, arrivals[i].since);
    return true;
}

/* schema_check renames in a native job, and tells (TS005) of a key under both names. */
void rule_renamed(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry;
    const struct key *key;

    for (size_t i = 0; context->plan->external && (key = schema_at(&schema_job, i)); i++)
        if (key->use == KEY_RENAMED && key->rule &&
            (entry = document_find(context->document, key->name)) &&
            !document_find(context->document, key->now) && is_there(context, key->now))
            propose_name(
                &to,
                &(struct finding) {
                    .rule = key->rule,
                    .severity = SEVERITY_WARNING,
                    .apply = APPLY_SAFE,
                    .message = arena_printf(context->arena, "%s is now called %s",
                                            key->name, key->now),
                    .because = rule_version(context, PACKAGE_TRANSFORMERS),
                    .note = "the value stays" },
                entry, key->now);
}

/* ---- TS606, TS609, TS610: gone ---- */

static const struct gone {
    const char *key, *rule;
    const char *since; /* the first transformers without it */
    const char *what;  /* what to do, or why nothing is lost */
    bool moved;        /* the line says something that has another place now */
} gone[] = {
    { "fp16_backend", "TS606", FIVE, "fp16: true is PyTorch's own mixed precision",
      false },
    { "half_precision_backend", "TS606", FIVE,
      "fp16: true is PyTorch's own mixed precision", false },
    { "fp16_opt_level", "TS606", FIVE, "it was apex's, and apex has no amp any more",
      false },
    { "use_apex", "TS606", FIVE, "apex has no amp any more", false },
    { "include_inputs_for_metrics", "TS609", FIVE, "write include_for_metrics: [inputs]",
      true },
    { "include_tokens_per_second", "TS609", FIVE,
      "write include_num_input_tokens_seen: all", true },
    { "tpu_metrics_debug", "TS609", FIVE, "write debug: tpu_metrics_debug", true },
    { "fsdp_min_num_params", "TS609", FIVE,
      "write it into fsdp_config, as min_num_params", true },
    { "fsdp_transformer_layer_cls_to_wrap", "TS609", FIVE,
      "write it into fsdp_config, as transformer_layer_cls_to_wrap", true },
    { "push_to_hub_organization", "TS609", FIVE, "write hub_model_id: ORGANIZATION/NAME",
      true },
    { "adafactor", "TS609", FIVE, "write optim: adafactor", true },
    { "split_batches", "TS609", "4.51.0.dev0", "write it into accelerator_config", true },
    { "dispatch_batches", "TS609", "4.51.0.dev0", "write it into accelerator_config",
      true },
    { "evaluate_during_training", "TS609", "4.0.0.dev0", "write eval_strategy: steps",
      true },
    { "use_mps_device", "TS610", FIVE, "an Apple GPU is found without it", false },
    { "past_index", "TS610", FIVE, "it was of models like Transformer-XL", false },
    { "ray_scope", "TS610", FIVE, "RAY_SCOPE in the environment says it", false },
    { "jit_mode_eval", "TS610", FIVE, "torch_compile took its place", false },
    { "torchdynamo", "TS610", FIVE, "torch_compile_backend took its place", false },
    { "mp_parameters", "TS610", FIVE, "SageMaker gives them itself", false },
    { "tpu_num_cores", "TS610", FIVE, "TPU_NUM_CORES in the environment says it", false },
    { "use_legacy_prediction_loop", "TS610", FIVE, "there is one loop now", false },
    { "use_ipex", "TS610", FIVE, "Intel's extension is part of PyTorch now", false },
    { "save_safetensors", "TS610", FIVE, "all that is saved is safetensors", false },
    { "sharded_ddp", "TS610", "4.35.0.dev0", "fsdp took its place", false },
    { "tp_size", "TS610", "4.52.0.dev0", "the model is loaded with a tp_plan", false },
    { "xpu_backend", "TS610", "4.32.0.dev0", "ddp_backend says it", false },
    { "logging_dir", "TS610", "5.15.0.dev0",
      "TENSORBOARD_LOGGING_DIR in the environment says it", false },
};

/* 5.0.0.dev0 -> 5.0 */
static const char *short_version(const struct rule_context *context, const char *version)
{
    const char *end = strchr(strchr(version, '.') + 1, '.');

    return arena_copy(context->arena, version, (size_t)(end - version));
}

static enum severity gone_severity(const struct rule_context *context,
                                   const struct gone *row)
{
    if (!context->plan->external)
        return SEVERITY_INFO;
    return rule_version_from(context, PACKAGE_TRANSFORMERS, row->since)
               ? SEVERITY_ERROR
               : SEVERITY_WARNING;
}

static void tell_gone(struct rule_context *context, const struct gone *row,
                      const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const struct finding finding = {
        .rule = row->rule,
        .severity = gone_severity(context, row),
        .apply = APPLY_UNSAFE,
        .message = arena_printf(context->arena, "%s is gone from transformers %s: %s",
                                row->key, short_version(context, row->since), row->what),
        .because = rule_version(context, PACKAGE_TRANSFORMERS),
        .note = row->moved ? NULL : "the line becomes a comment",
    };

    if (row->moved)
        propose_key_remark(&to, &finding, entry);
    else
        propose_removal(&to, &finding, entry);
}

/* TS707 has told. */
static bool is_refused(const struct gone *row)
{
    return schema_find(row->key)->use == KEY_REJECTED;
}

void rule_gone(struct rule_context *context)
{
    for (size_t i = 0; i < TS_COUNT(gone); i++) {
        const struct entry *entry = document_find(context->document, gone[i].key);

        if (entry && (context->plan->external || !is_refused(&gone[i])) &&
            !rule_version_below(context, PACKAGE_TRANSFORMERS, gone[i].since))
            tell_gone(context, &gone[i], entry);
    }
}

/* ---- TS603 ---- */

void rule_warmup_ratio(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "warmup_ratio");
    double ratio = 0;
    struct finding finding = {
        .rule = "TS603",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "warmup_ratio is gone from transformers 5.15: warmup_steps below 1 "
                   "is a share of all steps",
        .because = rule_version(context, PACKAGE_TRANSFORMERS),
    };

    if (!entry || rule_is_llamafactory(context) ||
        !rule_version_from(context, PACKAGE_TRANSFORMERS, "5.15.0.dev0"))
        return;
    if (scalar_number(entry->value, &ratio) == SCALAR_WRONG || !(ratio > 0) ||
        !(ratio < 1)) {
        finding.note = "1.0 or more would be steps, not a share: please decide";
        propose_remark(&to, &finding, entry);
    } else if (document_find(context->document, "warmup_steps")) {
        finding.note = "warmup_steps is given too: only one of them can stay";
        propose_remark(&to, &finding, entry);
    } else {
        finding.note = "the value stays";
        propose_name(&to, &finding, entry, "warmup_steps");
    }
}

/* ---- TS605 ---- */

void rule_overwrite(struct rule_context *context)
{
    if (document_find(context->document, "overwrite_output_dir") &&
        !rule_is_llamafactory(context) &&
        rule_version_from(context, PACKAGE_TRANSFORMERS, FIVE))
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS605",
                      .severity = SEVERITY_ERROR,
                      .message = "overwrite_output_dir is gone from transformers 5, "
                                 "where only example scripts had used it",
                      .because = rule_version(context, PACKAGE_TRANSFORMERS),
                      .note = "to start anew name another output_dir; to go on, "
                              "resume_from_checkpoint" },
                  "overwrite_output_dir");
}

/* ---- TS607 ---- */

void rule_torch_dtype(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "torch_dtype");
    struct finding finding = {
        .rule = "TS607",
        .severity = SEVERITY_WARNING,
        .apply = APPLY_UNSAFE,
        .message = "torch_dtype is called dtype from transformers 4.56 on",
        .because = rule_version(context, PACKAGE_TRANSFORMERS),
        .note = "if the script reads dtype",
    };

    if (!entry || document_find(context->document, "dtype") ||
        !rule_version_from(context, PACKAGE_TRANSFORMERS, "4.56.0.dev0"))
        return;
    propose_name(&to, &finding, entry, "dtype");
}

/* ---- TS608 ---- */

void rule_group_by_length(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, "group_by_length");
    bool on = false;
    struct finding finding = {
        .rule = "TS608",
        .severity = SEVERITY_ERROR,
        .message = "group_by_length is gone from transformers 5.2: it is "
                   "train_sampling_strategy: group_by_length",
        .because = rule_version(context, PACKAGE_TRANSFORMERS),
    };

    if (!entry || !rule_version_from(context, PACKAGE_TRANSFORMERS, "5.2.0.dev0"))
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
