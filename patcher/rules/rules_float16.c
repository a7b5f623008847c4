/* patcher/rules/rules_float16.c - weights stored in float16: trained under a loss scaler,
 * trained without one, or frozen under LoRA. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include "base/size.h"

#define KEEPS_THE_REST "fp16 compute, clipping and checkpointing stay unchanged"

/* Return whether fp16 is true, or auto selects it. */
static bool computes_fp16(const struct rule_context *context)
{
    return context->plan->request.fp16 == CHOICE_YES || rule_is_auto_fp16(context);
}

static const char *fp16_key(const struct rule_context *context)
{
    return context->plan->request.fp16 == CHOICE_YES ? "fp16" : rule_auto_key(context);
}

/* Downgrade to a warning if the weights may be frozen. */
static void downgrade_if_unsure(const struct rule_context *context,
                                struct finding *finding)
{
    if (!rule_may_use_adapters(context))
        return;
    finding->severity = SEVERITY_WARNING;
    finding->apply = APPLY_UNSAFE;
    finding->note =
        "this is safe if the script trains only adapters; set finetuning_type "
        "to lora or full to say which";
}

static const char *why_float16(const struct rule_context *context)
{
    if (context->plan->request.model_dtype == DTYPE_AUTO)
        return context->plan->external && rule_entry(context, "model_dtype")
                   ? stored_weights_now(context).base_source
                   : "the model's files are float16 and model_dtype is auto";
    return rule_trains_all(context) ? "no key of the job configures adapters, so all "
                                      "weights are assumed to be trained"
                                    : NULL;
}

static const char *noscaler_note(enum format format)
{
    return format == FORMAT_BF16
               ? "policy noscaler keeps them: an update below 1/512 of its weight is lost"
               : "policy noscaler keeps them: an update below half an ulp of float16 is "
                 "lost, and Adam's second moment underflows";
}

/* Report weights that the scaler refuses, in the format that they would have. */
static void report_refused(struct rule_context *context, enum format format)
{
    struct finding finding = {
        .rule = "TS105",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message =
            arena_printf(context->arena, "trainable weights would be stored in %s, %s",
                         format_dtype(format), stored_weights_refusal(format)),
        .because = why_float16(context),
        .note = KEEPS_THE_REST,
    };
    bool line = rule_entry(context, "model_dtype") != NULL;

    downgrade_if_unsure(context, &finding);
    if (rule_removes_scaler(context)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = noscaler_note(format);
        rule_report(context, &finding, line ? "model_dtype" : fp16_key(context));
        return;
    }
    rule_propose(context, &finding, "model_dtype", "float32", fp16_key(context));
}

/* A native run trains float32 weights whatever the file says; the edit says so. */
static void rule_refused_trainables(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);

    if (!context->plan->external) {
        if (rule_trains_float16(context) && computes_fp16(context))
            report_refused(context, FORMAT_FP16);
        return;
    }
    if (stored_weights_stop_scaler(&weights, WEIGHTS_ALL) &&
        !rule_version_loads(context) &&     /* TS107 */
        !rule_fused_adamw_float16(context)) /* TS408 */
        report_refused(context, weights.parts[WEIGHTS_ALL]);
}

static void rule_float16_base(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (!plan_adapts(context->plan) || !rule_base_is_float16(context) ||
        !computes_fp16(context) || rule_is_quantized(context) || rule_on_cpu(context) ||
        rule_is_policy(context, POLICY_FP32) ||
        (rule_is_policy(context, POLICY_BF16) && rule_capability(context) >= 80) ||
        rule_fp16_failed_before(context))
        return;
    rule_report(
        context,
        &(struct finding) { .rule = "TS106",
                            .severity = SEVERITY_INFO,
                            .because = why_float16(context),
                            .message = "the base model may stay float16: it is frozen, "
                                       "and the adapters are float32" },
        request->model_dtype == DTYPE_FLOAT16 ? "model_dtype" : fp16_key(context));
}

/* Enable a 16-bit compute format now that the weights are float32. */
static void propose_16bit(struct rule_context *context, int group)
{
    bool bf16 = !rule_lacks_bf16(context);

    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS108",
            .severity =
                rule_may_use_adapters(context) ? SEVERITY_WARNING : SEVERITY_ERROR,
            .apply = rule_may_use_adapters(context) ? APPLY_UNSAFE : APPLY_SAFE,
            .group = group,
            .message = bf16 ? "use bf16 compute over float32 weights, which needs no "
                              "loss scale"
                            : "use fp16 compute over float32 weights, with a loss scale",
            .note = "this is as fast, and the model learns" },
        bf16 ? "bf16" : "fp16", "true", "model_dtype");
}

/* Return whether neither fp16 nor bf16 is selected, as written or by auto. */
static bool computes_fp32(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    struct precision decided;

    if (request->fp16 == CHOICE_NO && request->bf16 == CHOICE_NO)
        return true;
    if (request->fp16 == CHOICE_YES || request->bf16 == CHOICE_YES ||
        context->plan->external || !context->device ||
        rule_is_policy(context, POLICY_FP32)) /* TS125 */
        return false;
    policy_decide(request, context->device, &decided);
    return decided.mode == MODE_FP32 || decided.mode == MODE_TF32;
}

/* Autocast to bf16 has no scaler either; a native run keeps float32 weights under it. */
static bool is_external_bf16(const struct rule_context *context)
{
    return context->plan->external && stored_weights_now(context).autocast == FORMAT_BF16;
}

/* Return the advice for a job without a line that sets the format. */
static const char *load_note(const struct rule_context *context)
{
    if (is_external_bf16(context))
        return "load the model with dtype=torch.float32";
    return rule_lacks_bf16(context)
               ? "load the model with dtype=torch.float32, and set fp16: true"
               : "load the model with dtype=torch.float32, and set bf16: true";
}

static void rule_float16_without_scaler(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS108",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .because = why_float16(context),
        .message =
            "weights would be trained in float16 without a loss scale: small gradients "
            "vanish and small updates are rounded away",
        .note = "4 bytes per trained weight instead of 2",
    };
    bool bf16 = is_external_bf16(context);
    struct finding *proposed;

    if (!rule_trains_float16(context) || !(computes_fp32(context) || bf16) ||
        stored_weights_now(context).scaler) /* the launcher's */
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps them";
        rule_report(context, &finding,
                    rule_line(context, "model_dtype") ? "model_dtype" : NULL);
        return;
    }
    if (rule_has_tensor_cores(context) && !rule_is_policy(context, POLICY_FP32) && !bf16)
        finding.group = rule_group(context);
    if (context->plan->external && !rule_line(context, "model_dtype")) {
        finding.note = load_note(context);
        rule_report(context, &finding, NULL);
        return;
    }
    downgrade_if_unsure(context, &finding);
    proposed = rule_propose(context, &finding, "model_dtype", "float32",
                            rule_line(context, "fp16") ? "fp16" : "bf16");
    if (proposed && finding.group)
        propose_16bit(context, finding.group);
}

/* ---- bfloat16 weights without a float32 copy ---- */

/* PEFT 0.12 and later cast adapters; those that TRL makes bfloat16 follow the paper of
 * QLoRA.  Modules trained whole are few next to them. */
static bool lacks_copy(const struct rule_context *context,
                       const struct stored_weights *weights)
{
    return weights->known &&
           (weights->parts[WEIGHTS_ALL] == FORMAT_BF16 ||
            (weights->parts[WEIGHTS_ADAPTERS] == FORMAT_BF16 && !rule_is_trl(context)));
}

/* Without autocast, float32 weights alone would give up the tensor cores. */
static void propose_float32_copy(struct rule_context *context, struct finding *finding,
                                 const struct stored_weights *weights)
{
    bool bf16 = weights->autocast == FORMAT_FP32 && rule_on_gpu(context) &&
                !rule_lacks_bf16(context);

    if (bf16)
        finding->group = rule_group(context);
    if (!rule_propose(context, finding, "model_dtype", "float32", NULL) || !bf16)
        return;
    finding->message = "compute in bfloat16 over float32 weights";
    finding->note = "as fast as before";
    rule_propose(context, finding, "bf16", "true", "model_dtype");
}

static void rule_bf16_without_copy(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);
    const char *what =
        weights.parts[WEIGHTS_ALL] != FORMAT_COUNT ? "weights" : "adapters";
    bool explicit = context->plan->request.model_dtype == DTYPE_BFLOAT16;
    struct finding finding = {
        .rule = "TS127",
        .severity = SEVERITY_WARNING,
        .apply = APPLY_UNSAFE,
        .because = weights.trained_source,
        .message = arena_printf(context->arena,
                                "%s would be updated in bfloat16 without a float32 copy: "
                                "an update below 1/512 of its weight is rounded away",
                                what),
        .note =
            "2 bytes more for each weight, its gradient and both moments; bf16 compute stays",
    };

    if (weights.scaler || context->plan->request.pure_bf16 || /* TS105, TS110 */
        !lacks_copy(context, &weights) || rule_is_policy(context, POLICY_FP32) ||
        (rule_lacks_bf16(context) &&
         (explicit || context->plan->request.bf16 == CHOICE_YES))) /* TS102 */
        return;
    if (weights.parts[WEIGHTS_ALL] != FORMAT_COUNT && rule_line(context, "model_dtype")) {
        propose_float32_copy(context, &finding, &weights);
        return;
    }
    finding.note = weights.parts[WEIGHTS_ALL] != FORMAT_COUNT
                       ? "load the model with dtype=torch.float32, and keep bf16: true "
                         "for the compute"
                       : "PEFT casts adapters to float32 since 0.12, unless "
                         "autocast_adapter_dtype is false";
    rule_report(context, &finding,
                rule_line(context, "model_dtype") ? "model_dtype" : "bf16");
}

static const struct rule rows[] = {
    { .id = "TS105",
      .title = "16-bit trainable weights under a loss scaler",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_refused_trainables,
      .explain =
          "This is the cause of `ValueError: Attempting to unscale FP16 gradients`. A "
          "gradient has the format of its weight, and PyTorch's scaler refuses to "
          "unscale a float16 gradient. The only condition is that some trained weight is "
          "stored in float16. Gradient checkpointing, clipping, accumulation and "
          "device_map have no influence. Turning clipping off does not help, because "
          "step() unscales as well. A bfloat16 gradient stops the run, too: the scaler's "
          "CUDA kernel does not support it (`\"_amp_foreach_non_finite_check_and_"
          "unscale_cuda\" not implemented for 'BFloat16'`), with every optimizer.\n\n"
          "The patch sets model_dtype to float32 and keeps fp16 compute, which is what "
          "mixed precision means. It costs 2 more bytes per trained weight and keeps "
          "clipping and grad_norm. Training float16 weights with Adam is not an "
          "alternative: at a learning rate of 2e-5 a weight of 0.1 does not change at "
          "all, and the second moment underflows.\n\n"
          "With lora the base model may stay in float16 (TS106). A native run always "
          "keeps trained weights in float32; there the edit only makes this explicit in "
          "the file.\n\n"
          "In an external job this rule decides whether the job runs. LLaMA-Factory "
          "casts trained weights to float32, and DeepSpeed keeps float32 copies, so "
          "neither is reported. For FSDP see TS806, for adapters TS801, for modules "
          "trained whole next to them TS902, for files that transformers 5 loads as they "
          "are TS107, and for a fused AdamW without clipping, which accepts float16, "
          "TS408.",
      .source = "torch/amp/grad_scaler.py: _unscale_grads_; PEFT troubleshooting; "
                "transformers#23165; pytorch#127176; trl#4901" },
    { .id = "TS106",
      .title = "float16 base model under LoRA",
      .severity = SEVERITY_INFO,
      .run = rule_float16_base,
      .target = RULE_NATIVE,
      .explain =
          "This is safe. Frozen weights have no gradient, so the loss scaler never sees "
          "them. The adapters are float32 in a native run, and in PEFT since 0.12. The "
          "base model takes half the memory that it would need in float32, and nothing "
          "needs to change.",
      .source =
          "PEFT PR #1706 (autocast_adapter_dtype); PEFT's tests/test_gpu_examples.py" },
    { .id = "TS108",
      .title = "float16 weights trained without a loss scale",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_float16_without_scaler,
      .explain =
          "Without fp16: true there is no scaler, so no error is raised, and the run "
          "trains in pure float16. Gradients below 6e-8 become zero; Adam's epsilon of "
          "1e-8 rounds to zero, so the first step may divide by zero; updates below "
          "half an ulp of the weight are lost. The run looks like training and learns "
          "little.\n\n"
          "The patch switches to float32 weights with bf16: true, or with fp16: true on "
          "a device without bf16. Both are as fast on tensor cores. Policy noscaler "
          "keeps the job unchanged, with a warning.",
      .source = "AdamW in float16, emulated: docs/precision.md" },
    { .id = "TS127",
      .title = "bfloat16 weights updated without a float32 copy",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_bf16_without_copy,
      .target = RULE_EXTERNAL,
      .explain =
          "bf16: true is autocast: it selects the format of matmuls, not of weights. "
          "Where the script loads the model in bfloat16 (dtype: bfloat16, or the files' "
          "format with dtype: auto and since transformers 5), AdamW updates bfloat16 "
          "weights, which have 8 bits of mantissa, and PyTorch rounds to nearest: an "
          "update below 1/512 of its weight is lost. At a learning rate of 1e-5 this "
          "affects most updates of most weights. TS110 says the same of pure_bf16.\n\n"
          "With float32 weights bf16: true costs 2 more bytes for each weight, its gradient "
          "and both moments, and nothing is lost; if the job has a line "
          "model_dtype, `--unsafe` sets it. LLaMA-Factory, DeepSpeed and FSDP with mixed "
          "precision keep float32 copies, and PEFT makes adapters float32 since 0.12: "
          "they are not reported.",
      .source = "torch.optim.AdamW; transformers MIGRATION_GUIDE_V5.md (dtype=\"auto\"); "
                "PEFT tuners_utils.py, cast_adapter_dtype; docs/precision.md" },
};

const struct rules rules_float16 = { rows, TS_COUNT(rows) };
