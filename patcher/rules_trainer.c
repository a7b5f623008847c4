/*
 * patcher/rules_trainer.c - settings that a Hugging Face script or LLaMA-Factory reads in
 * its own way, and what depends on its versions.
 */
#include "config.h"

#include "patcher/rules_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "train/files/safetensors.h"

/* ---- TS802: a probe that says yes everywhere ---- */

static bool script_decides(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (request->bf16 == CHOICE_AUTO)
        return true;
    /* LLaMA-Factory's infer_optim_dtype */
    return rule_is_llamafactory(context) && request->bf16 == CHOICE_NO &&
           request->fp16 == CHOICE_NO && !request->pure_bf16 &&
           context->checkpoint == FORMAT_BF16;
}

void rule_permissive_probe(struct rule_context *context)
{
    int capability = rule_capability(context);

    if (capability == 0 || capability >= 80 || !script_decides(context) ||
        !rule_version_from(context, PACKAGE_TORCH, "2.4.0.dev0"))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS802",
            .severity = SEVERITY_WARNING,
            .because = rule_device(context),
            .message = "torch.cuda.is_bf16_supported() says yes on this card since "
                       "torch 2.4, which emulates bf16 there, slowly",
            .note = "say bf16: false and fp16: true, or ask for compute capability 8.0" },
        "bf16");
}

/* ---- TS309, TS312, TS409, TS510 ---- */

void rule_mean_of_means(struct rule_context *context)
{
    if (context->plan->gradient_accumulation_steps < 2 ||
        !rule_version_below(context, PACKAGE_TRANSFORMERS, "4.46.0.dev0"))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS309",
                  .severity = SEVERITY_WARNING,
                  .because = rule_version(context, PACKAGE_TRANSFORMERS),
                  .message =
                      "before transformers 4.46 accumulated steps are averaged batch by "
                      "batch, so short texts weigh more than in one large batch",
                  .note = "transformers 4.46 counts the tokens of all of them" },
              "gradient_accumulation_steps");
}

/* use_reentrant as the job says it, or as the version's default is; false where neither
 * is known. */
static bool is_reentrant(const struct rule_context *context)
{
    const struct entry *kwargs = rule_entry(context, "gradient_checkpointing_kwargs");
    const struct node *map = kwargs ? node_value(kwargs->value) : NULL;
    const struct entry *entry =
        map && map->kind == NODE_MAP ? node_find(map, "use_reentrant") : NULL;
    bool value;

    if (entry && scalar_bool(entry->value, &value) != SCALAR_WRONG)
        return value;
    return rule_version_below(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0");
}

void rule_no_input_gradients(struct rule_context *context)
{
    const struct entry *method = rule_entry(context, "finetuning_type");

    if (!method || context->plan->method != METHOD_LORA ||
        rule_is_llamafactory(context) || !rule_entry(context, "gradient_checkpointing") ||
        !context->plan->gradient_checkpointing || !is_reentrant(context))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS312",
                  .severity = SEVERITY_WARNING,
                  .message =
                      "reentrant checkpointing drops the gradients of adapters where no "
                      "input of a block wants one, as in a frozen base model",
                  .note = "gradient_checkpointing_kwargs: {use_reentrant: false}, or "
                          "model.enable_input_require_grads() in the script" },
              "gradient_checkpointing");
}

void rule_skipped_schedule(struct rule_context *context)
{
    if (context->plan->request.fp16 != CHOICE_YES || !rule_is_fused(context) ||
        rule_is_on(context, "deepspeed") || context->plan->schedule == SCHEDULE_CONSTANT)
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS409",
                  .severity = SEVERITY_INFO,
                  .message = "with a fused optimizer Accelerate does not see the steps "
                             "that the scaler skips, so the learning rate moves on in "
                             "them",
                  .note = "a few steps at the start, as a rule" },
              rule_line(context, "optim") ? "optim" : "fp16");
}

void rule_filtered_log(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "logging_nan_inf_filter");
    bool value = true;

    if (entry && (scalar_bool(entry->value, &value) == SCALAR_WRONG || !value))
        return;
    rule_set(context,
             &(struct finding) {
                 .rule = "TS510",
                 .severity = SEVERITY_INFO,
                 .apply = APPLY_UNSAFE,
                 .message = "the log shows a mean in place of a loss that is NaN or "
                            "inf, as loss 0.0 with grad_norm nan",
                 .note = "false shows what happened" },
             "logging_nan_inf_filter", "false", "logging_steps");
}

/* ---- TS512: adapters that are resumed from ---- */

/* Does the folder hold adapters in 16 bits? */
static bool holds_half(const char *folder)
{
    struct error ignored = { 0 };
    struct safetensors *set = safetensors_open(folder, "adapter_model", true, &ignored);
    bool half = false;

    for (size_t i = 0; set && i < safetensors_count(set) && !half; i++)
        half = safetensors_at(set, i)->format == FORMAT_FP16;
    safetensors_close(set);
    error_clear(&ignored);
    return half;
}

void rule_half_resume(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *folders[] = { plan->adapter_name_or_path, plan->resume_from_checkpoint };
    static const char *const keys[] = { "adapter_name_or_path",
                                        "resume_from_checkpoint" };

    if (plan->request.fp16 != CHOICE_YES || rule_is_llamafactory(context) ||
        rule_version_from(context, PACKAGE_PEFT, "0.12.0.dev0"))
        return;
    for (size_t i = 0; i < TS_COUNT(folders); i++)
        if (folders[i] && file_is_dir(folders[i]) && holds_half(folders[i]))
            rule_tell(context,
                      &(struct finding) {
                          .rule = "TS512",
                          .severity = SEVERITY_WARNING,
                          .message = "the adapters there are float16: a script that "
                                     "trains them as they are loaded meets the loss "
                                     "scaler's error when it resumes",
                          .note = "PEFT makes them float32 from 0.12 on; else call "
                                  "cast_mixed_precision_params after loading" },
                      keys[i]);
}

/* ---- TS807: an argument that is younger than the installed transformers ---- */

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

void rule_young_key(struct rule_context *context)
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
                .because = rule_version(context, PACKAGE_TRANSFORMERS),
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

/* ---- TS810, TS811: what is not known, and what is not read ---- */

void rule_no_versions(struct rule_context *context)
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

void rule_unread_keys(struct rule_context *context)
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
