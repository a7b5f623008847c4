/* patcher/rules/rules_float16.c - weights stored in float16: trained under a loss scaler,
 * trained without one, or frozen under LoRA. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"

#define KEEPS_THE_REST "fp16 compute, clipping and checkpointing stay as they are"

/* fp16 in the text, or by auto. */
static bool computes_fp16(const struct rule_context *context)
{
    return context->plan->request.fp16 == CHOICE_YES || rule_is_auto_fp16(context);
}

static const char *fp16_key(const struct rule_context *context)
{
    return context->plan->request.fp16 == CHOICE_YES ? "fp16" : rule_auto_key(context);
}

/* Weights that may be frozen, for all the job says, are no error. */
static void doubt(const struct rule_context *context, struct finding *finding)
{
    if (!rule_may_use_adapters(context))
        return;
    finding->severity = SEVERITY_WARNING;
    finding->apply = APPLY_UNSAFE;
    finding->note = "right where the script trains adapters alone; finetuning_type: "
                    "lora or full says which it is";
}

static const char *why_float16(const struct rule_context *context)
{
    if (context->plan->request.model_dtype != DTYPE_FLOAT16)
        return "the model's files are float16 and model_dtype is auto";
    return rule_trains_all(context) ? "no key of the job is of adapters, so all weights "
                                      "are taken to be trained"
                                    : NULL;
}

static void rule_float16_trainables(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS105",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message =
            "trainable weights would be stored in float16, which the loss scaler cannot "
            "unscale",
        .because = why_float16(context),
        .note = KEEPS_THE_REST,
    };
    bool by_default = context->plan->request.model_dtype == DTYPE_AUTO;

    if (!rule_trains_float16(context) || !computes_fp16(context) ||
        (context->plan->external && by_default) || /* TS107 */
        rule_fused_adamw_float16(context))         /* TS408 */
        return;
    doubt(context, &finding);
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note =
            "policy noscaler keeps them: a step below half an ulp of float16 is lost, "
            "and Adam's second moment underflows";
        rule_report(context, &finding, by_default ? fp16_key(context) : "model_dtype");
        return;
    }
    rule_propose(context, &finding, "model_dtype", "float32", fp16_key(context));
}

static void rule_float16_base(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool half =
        request->model_dtype == DTYPE_FLOAT16 ||
        (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);

    if (context->plan->method != METHOD_LORA || !half || !computes_fp16(context) ||
        rule_is_quantized(context) || rule_on_cpu(context) ||
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

/* 16 bits to compute in, now that the weights have 32. */
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
            .message = bf16 ? "bf16 compute over float32 weights, which needs no "
                              "loss scale"
                            : "fp16 compute over float32 weights, with a loss scale",
            .note = "as fast, and it learns" },
        bf16 ? "bf16" : "fp16", "true", "model_dtype");
}

/* Neither fp16 nor bf16: in the text, or by auto. */
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
    return context->plan->external && context->plan->request.bf16 == CHOICE_YES &&
           context->plan->request.fp16 != CHOICE_YES;
}

/* Where no line of the job says it. */
static const char *how_to_load(const struct rule_context *context)
{
    if (is_external_bf16(context))
        return "load the model with dtype=torch.float32";
    return rule_lacks_bf16(context)
               ? "load the model with dtype=torch.float32, and say fp16: true"
               : "load the model with dtype=torch.float32, and say bf16: true";
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
            "vanish and small steps are rounded away",
        .note = "4 bytes a trained weight instead of 2",
    };
    bool bf16 = is_external_bf16(context);
    struct finding *told;

    if (!rule_trains_float16(context) || !(computes_fp32(context) || bf16))
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps it so";
        rule_report(context, &finding,
                    rule_line(context, "model_dtype") ? "model_dtype" : NULL);
        return;
    }
    if (rule_has_tensor_cores(context) && !rule_is_policy(context, POLICY_FP32) && !bf16)
        finding.group = rule_group(context);
    if (context->plan->external && !rule_line(context, "model_dtype")) {
        finding.note = how_to_load(context);
        rule_report(context, &finding, NULL);
        return;
    }
    doubt(context, &finding);
    told = rule_propose(context, &finding, "model_dtype", "float32",
                        rule_line(context, "fp16") ? "fp16" : "bf16");
    if (told && finding.group)
        propose_16bit(context, finding.group);
}

static const struct rule rows[] = {
    { .id = "TS105",
      .title = "trainable weights in float16 under a loss scaler",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_float16_trainables,
      .explain =
          "This is where `ValueError: Attempting to unscale FP16 gradients` comes from. "
          "A gradient has the format of its weight; PyTorch's scaler refuses to unscale "
          "a float16 gradient. The condition is that some trained weight is stored in "
          "float16, and nothing else: not gradient checkpointing, not clipping, not "
          "accumulation, not device_map. To turn clipping off does not help, as step() "
          "unscales too.\n\n"
          "The sound remedy is what mixed precision means: weights in float32, compute "
          "in float16. It costs 2 bytes more a trained weight, and keeps clipping and "
          "grad_norm. Adam on float16 weights is no way out: with a learning rate of "
          "2e-5 a weight of 0.1 does not move at all, and its second moment "
          "underflows.\n\n"
          "With lora the base model may stay in float16 (TS106). Native runs keep "
          "trained weights in float32 whatever the file says; the edit makes the file "
          "say so.\n\n"
          "In a job of another program it decides whether the job runs. LLaMA-Factory "
          "makes trained weights float32 by itself, and DeepSpeed keeps float32 copies, "
          "so neither is told; for FSDP see TS806, for adapters of an older PEFT TS801, "
          "and for a fused AdamW without clipping, where nothing raises, TS408.",
      .source = "torch/amp/grad_scaler.py: _unscale_grads_; PEFT troubleshooting; "
                "transformers#23165" },
    { .id = "TS106",
      .title = "a float16 base under LoRA",
      .severity = SEVERITY_INFO,
      .run = rule_float16_base,
      .target = RULE_NATIVE,
      .explain =
          "Frozen weights have no gradient, so the loss scaler never sees them. The "
          "adapters are float32 here, and in PEFT since 0.12. The base takes half the "
          "memory that it would in float32, and nothing needs to be changed.",
      .source =
          "PEFT PR #1706 (autocast_adapter_dtype); PEFT's tests/test_gpu_examples.py" },
    { .id = "TS108",
      .title = "float16 weights trained without a loss scale",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_float16_without_scaler,
      .explain = "Without fp16: true there is no scaler, so nothing raises, and what "
                 "runs is training in pure float16. Gradients below 6e-8 are zero; "
                 "Adam's epsilon of 1e-8 rounds to zero, so the first step may divide "
                 "by zero; steps below half an ulp of the weight are lost. It looks "
                 "like training and learns little.\n\n"
                 "float32 weights with bf16: true, or fp16: true where there is no "
                 "bf16, are as fast on tensor cores, and right. Policy noscaler keeps "
                 "the job as it is, with a warning.",
      .source = "AdamW in float16, emulated: docs/precision.md" },
};

const struct rules rules_float16 = { rows, TS_COUNT(rows) };
