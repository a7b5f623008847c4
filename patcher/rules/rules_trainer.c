/* patcher/rules/rules_trainer.c - settings that the Hugging Face Trainer or LLaMA-Factory
 * interprets in its own way, depending on the version. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include "base/file.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "train/files/safetensors.h"

/* Return whether LLaMA-Factory's infer_optim_dtype selects bf16 for the matmuls; TS125
 * reports it under policy fp32. */
static bool factory_selects_bf16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const struct stored_weights weights = stored_weights_now(context);

    return rule_is_llamafactory(context) && !rule_is_policy(context, POLICY_FP32) &&
           request->bf16 == CHOICE_NO && request->fp16 == CHOICE_NO &&
           !request->pure_bf16 && context->checkpoint == FORMAT_BF16 &&
           weights.compute == FORMAT_BF16;
}

static void rule_permissive_probe(struct rule_context *context)
{
    int capability = rule_capability(context);
    bool factory = factory_selects_bf16(context);

    if (capability == 0 || capability >= 80 ||
        (!factory && context->plan->request.bf16 != CHOICE_AUTO) ||
        !rule_version_at_least(context, PACKAGE_TORCH, "2.4.0.dev0"))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS802",
            .severity = SEVERITY_WARNING,
            .because = rule_device_text(context),
            .message = "torch.cuda.is_bf16_supported() returns true on this card since "
                       "torch 2.4, which emulates bf16 slowly",
            .note = factory
                        ? "set fp16: true: LLaMA-Factory then loads float16 instead of "
                          "emulated bf16"
                        : "set bf16: false and fp16: true, or check for compute "
                          "capability 8.0" },
        "bf16");
}

static void rule_accumulation_average(struct rule_context *context)
{
    if (context->plan->gradient_accumulation_steps < 2 ||
        !rule_version_below(context, PACKAGE_TRANSFORMERS, "4.46.0.dev0"))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS309",
            .severity = SEVERITY_WARNING,
            .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
            .message = "before transformers 4.46 accumulated steps are averaged batch by "
                       "batch, so short texts weigh more than in one large batch",
            .note = "transformers 4.46 divides by the tokens of all of them" },
        "gradient_accumulation_steps");
}

static void rule_skipped_schedule(struct rule_context *context)
{
    if (context->plan->request.fp16 != CHOICE_YES || !rule_uses_fused_adamw(context) ||
        rule_is_set(context, "deepspeed") || context->plan->schedule == SCHEDULE_CONSTANT)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS409",
                    .severity = SEVERITY_INFO,
                    .message = "with a fused optimizer Accelerate does not see the steps "
                               "that the scaler skips, so the learning-rate schedule "
                               "advances in them",
                    .note = "usually these are a few steps at the start" },
                rule_line(context, "optim") ? "optim" : "fp16");
}

static void rule_filtered_log(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "logging_nan_inf_filter");
    bool value = true;

    if (entry && (scalar_bool(entry->value, &value) == SCALAR_WRONG || !value))
        return;
    rule_propose(context,
                 &(struct finding) {
                     .rule = "TS510",
                     .severity = SEVERITY_INFO,
                     .apply = APPLY_UNSAFE,
                     .message = "the Trainer logs a running mean instead of a loss that "
                                "is NaN or inf, for example loss 0.0 next to grad_norm "
                                "nan",
                     .note = "false shows the real values" },
                 "logging_nan_inf_filter", "false", "logging_steps");
}

/* Return whether the folder holds adapters in float16. */
static bool has_float16_tensors(const char *folder)
{
    struct error ignored = { 0 };
    struct safetensors *set = safetensors_open(folder, "adapter_model", true, &ignored);
    bool found = false;

    for (size_t i = 0; set && i < safetensors_count(set) && !found; i++)
        found = safetensors_at(set, i)->format == FORMAT_FP16;
    safetensors_close(set);
    error_clear(&ignored);
    return found;
}

static void rule_resume_float16_adapters(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *folders[] = { plan->adapter_name_or_path, plan->resume_from_checkpoint };
    static const char *const keys[] = { "adapter_name_or_path",
                                        "resume_from_checkpoint" };

    if (plan->request.fp16 != CHOICE_YES || rule_is_llamafactory(context) ||
        rule_version_at_least(context, PACKAGE_PEFT, "0.12.0.dev0"))
        return;
    for (size_t i = 0; i < TS_COUNT(folders); i++)
        if (folders[i] && file_is_dir(folders[i]) && has_float16_tensors(folders[i]))
            rule_report(context,
                        &(struct finding) {
                            .rule = "TS512",
                            .severity = SEVERITY_WARNING,
                            .message = "these adapters are float16: a script that trains "
                                       "them in that format raises the loss scaler's "
                                       "error when it resumes",
                            .note = "PEFT casts them to float32 since 0.12; otherwise "
                                    "call cast_mixed_precision_params after loading" },
                        keys[i]);
}

static const struct rule rows[] = {
    { .id = "TS309",
      .title = "accumulated micro batches averaged with equal weight",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_accumulation_average,
      .explain =
          "Before 4.46 the Trainer takes the mean loss of each micro batch and divides "
          "the sum by their number. If texts differ in length, a token of a short batch "
          "counts more than one of a long batch, so 8 x 4 and 32 x 1 train differently. "
          "Since 4.46 the loss is divided by the tokens of the whole step, and "
          "trainspool always does so.\n\n"
          "Upgrade transformers, or increase per_device_train_batch_size where memory "
          "allows.",
      .source = "transformers#34191; trl#2175; Trainer at v4.45.0 and v4.46.0" },
    { .id = "TS409",
      .title = "fused optimizer hides skipped steps from the schedule",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_skipped_schedule,
      .explain =
          "When gradients overflow, the scaler skips a step, and Accelerate then does "
          "not advance the learning-rate schedule. With a fused optimizer it does not "
          "see that a step was skipped, so the schedule runs ahead by that many steps: "
          "a few at the start of a run, while the scale is found.\n\n"
          "Usually nothing needs to be done. If many steps are skipped, look at the "
          "loss scale first.",
      .source = "accelerate#4242" },
    { .id = "TS510",
      .title = "NaN and inf are filtered from the log",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_filtered_log,
      .explain =
          "With logging_nan_inf_filter, which defaults to true, the Trainer replaces a "
          "loss that is NaN or inf with the running mean. The log of a diverged run "
          "then shows loss 0.0 next to grad_norm nan, and people look for the fault in "
          "the wrong place. The filter changes only the log, not the training.\n\n"
          "`--unsafe` sets it to false, and the log shows what happened. trainspool "
          "never filters.",
      .source = "LLaMA-Factory#4202; transformers training_args.py" },
    { .id = "TS512",
      .title = "resume from float16 adapters",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_resume_float16_adapters,
      .explain =
          "Adapters that were saved in float16 are loaded in float16 unless the loader "
          "casts them. The first run trained them in float32 and saved them in 16 bits; "
          "the resumed run fails with `Attempting to unscale FP16 gradients`. PEFT "
          "casts loaded adapters to float32 since 0.12.\n\n"
          "The rule reads the headers of adapter_model.safetensors in "
          "adapter_name_or_path and resume_from_checkpoint.",
      .source = "diffusers#6482; PEFT tuners_utils.py, _cast_adapter_dtype, v0.12.0" },
    { .id = "TS802",
      .title = "is_bf16_supported() is true on a device without bf16",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_permissive_probe,
      .explain =
          "Since torch 2.4 torch.cuda.is_bf16_supported() counts emulation and returns "
          "true on a T4, a V100 and a TITAN RTX. A script that relies on it, and "
          "LLaMA-Factory if neither fp16 nor bf16 is set, then computes in bfloat16, "
          "for which the card has no units: this is slow, and some kernels are "
          "missing. Full training in LLaMA-Factory is not affected: it casts all "
          "weights to float32 after loading.\n\n"
          "Set bf16: false and fp16: true, or let the script check for compute "
          "capability 8.0. TS102 handles a job with bf16: true.",
      .source =
          "torch.cuda.is_bf16_supported(including_emulation=True); "
          "MakazhanAlpamys/Soup#385; LLaMA-Factory extras/misc.py, infer_optim_dtype" },
};

const struct rules rules_trainer = { rows, TS_COUNT(rows) };
