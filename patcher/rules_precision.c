/* patcher/rules_precision.c - fp16, bf16, how weights are stored, and the loss scale. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#define KEEPS_THE_REST "fp16 compute, clipping and checkpointing stay as they are"

static bool is_on(enum choice choice)
{
    return choice == CHOICE_YES;
}

/* fp16 and bf16 both true: TS101 decides, and no other rule of the two speaks. */
static bool is_both(const struct rule_context *context)
{
    return is_on(context->plan->request.fp16) && is_on(context->plan->request.bf16);
}

/* A GPU that is known, and cannot. */
static bool lacks_bf16(const struct rule_context *context)
{
    return rule_on_gpu(context) && !device_has_bf16(context->device);
}

static bool has_tensor_cores(const struct rule_context *context)
{
    return rule_on_gpu(context) && device_has_fp16_tensor_cores(context->device);
}

/* ---- Which half ---- */

static bool keeps_bf16(const struct rule_context *context)
{
    return rule_on_cpu(context) || device_has_bf16(context->device);
}

void rule_both_halves(struct rule_context *context)
{
    struct finding finding = { .rule = "TS101",
                               .severity = SEVERITY_ERROR,
                               .apply = APPLY_SAFE };
    bool bf16;

    if (!is_both(context) || rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device && !rule_on_cpu(context)) {
        finding.message =
            "fp16 and bf16 are both true; which one is right depends on the "
            "device, which is not known";
        rule_tell(context, &finding, "fp16");
        return;
    }
    bf16 = keeps_bf16(context);
    finding.message =
        bf16 ? "fp16 and bf16 are both true; this device has bf16, which needs no "
               "loss scale"
             : "fp16 and bf16 are both true; this device has no bf16";
    finding.note = bf16 ? "bf16 stays" : "fp16 stays";
    rule_set(context, &finding, bf16 ? "fp16" : "bf16", "false", NULL);
}

static void propose_fp16(struct rule_context *context, int group)
{
    rule_set(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .apply = APPLY_SAFE,
                            .group = group,
                            .message = "fp16 is what the tensor cores of this device do",
                            .note = "with a dynamic loss scale; clipping and learning "
                                    "rate stay" },
        "fp16", "true", "bf16");
}

static void bf16_to_fp16(struct rule_context *context)
{
    bool fp16 = has_tensor_cores(context);
    int group = fp16 ? rule_group(context) : 0;
    struct finding *told =
        rule_set(context,
                 &(struct finding) {
                     .rule = "TS102",
                     .severity = SEVERITY_ERROR,
                     .apply = APPLY_SAFE,
                     .group = group,
                     .message = "this device has no bf16: that begins with compute "
                                "capability 8.0",
                     .note = fp16 ? NULL : "float32, as fp16 is no faster here" },
                 "bf16", "false", NULL);

    if (fp16 && told)
        propose_fp16(context, group);
}

static void pure_bf16(struct rule_context *context)
{
    rule_tell(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .message = "this device has no bf16, and pure_bf16 trains "
                                       "weights in nothing else",
                            .note = "fp16: true instead keeps float32 weights and needs "
                                    "about twice the memory; finetuning_type: lora "
                                    "needs less" },
        "pure_bf16");
}

static void bf16_storage(struct rule_context *context)
{
    bool frozen = context->plan->method == METHOD_LORA;

    rule_set(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .apply = APPLY_SAFE,
                            .message = frozen ? "this device has no bf16, not even for "
                                                "the frozen weights"
                                              : "this device has no bf16, and trained "
                                                "weights belong in float32",
                            .note = frozen ? "with fp16: true the products see float16 "
                                             "all the same"
                                           : NULL },
        "model_dtype", "float32", NULL);
}

void rule_no_bf16(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (!lacks_bf16(context))
        return;
    if (request->pure_bf16)
        pure_bf16(context);
    else if (is_on(request->bf16) && !is_both(context) &&
             !rule_is_policy(context, POLICY_FP32))
        bf16_to_fp16(context);
    if (request->model_dtype == DTYPE_BFLOAT16)
        bf16_storage(context);
}

/* fp16 is what will run on a GPU without bf16, as written or after TS101 and TS102. */
static bool falls_to_fp16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (!lacks_bf16(context) || request->pure_bf16 ||
        rule_is_policy(context, POLICY_FP32))
        return false;
    return is_on(request->fp16) || (is_on(request->bf16) && has_tensor_cores(context));
}

void rule_bf16_model(struct rule_context *context)
{
    if (context->checkpoint != FORMAT_BF16 || !falls_to_fp16(context))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS103",
                  .severity = SEVERITY_WARNING,
                  .message =
                      "the model was trained in bfloat16; in fp16 its activations may "
                      "pass 65504, the largest float16",
                  .note = "if grad_norm is inf or the loss scale keeps falling: "
                          "trainspool.policy: fp32 trains in float32" },
              "model_name_or_path");
}

static enum apply apply_of_bf16(const struct rule_context *context)
{
    return rule_is_policy(context, POLICY_BF16) ? APPLY_SAFE : APPLY_UNSAFE;
}

void rule_fp16_on_ampere(struct rule_context *context)
{
    struct finding finding = { .rule = "TS104",
                               .severity = SEVERITY_INFO,
                               .apply = apply_of_bf16(context),
                               .message =
                                   "this device has bf16, which needs no loss scale",
                               .note =
                                   "a run that is resumed or compared should stay as it "
                                   "was" };

    if (!is_on(context->plan->request.fp16) || is_both(context) ||
        rule_capability(context) < 80 || rule_is_policy(context, POLICY_FP32) ||
        rule_is_policy(context, POLICY_NOSCALER))
        return;
    if (context->plan->resume_from_checkpoint) {
        rule_tell(context, &finding, "fp16");
        return;
    }
    finding.group = rule_group(context);
    if (!rule_set(context, &finding, "fp16", "false", NULL))
        return;
    finding.message = "bf16 in its place";
    finding.note = NULL;
    rule_set(context, &finding, "bf16", "true", "fp16");
}

/* ---- Trained weights in float16 ---- */

static const char *where_half(const struct rule_context *context)
{
    return context->plan->request.model_dtype == DTYPE_FLOAT16
               ? NULL
               : "the model's files are float16 and model_dtype is auto";
}

void rule_fp16_trainables(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS105",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message =
            "trainable weights would be stored in float16, which the loss scaler cannot "
            "unscale",
        .because = where_half(context),
        .note = KEEPS_THE_REST,
    };
    bool by_default = context->plan->request.model_dtype == DTYPE_AUTO;

    if (!rule_half_trainables(context) || !is_on(context->plan->request.fp16) ||
        (context->plan->external && by_default) || /* TS107 */
        rule_fused_half(context))                  /* TS408 */
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note =
            "policy noscaler keeps them: a step below half an ulp of float16 is "
            "lost, and Adam's second moment underflows";
        rule_tell(context, &finding, by_default ? "fp16" : "model_dtype");
        return;
    }
    rule_set(context, &finding, "model_dtype", "float32", "fp16");
}

void rule_fp16_base(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool half =
        request->model_dtype == DTYPE_FLOAT16 ||
        (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);

    if (context->plan->method != METHOD_LORA || !half || !is_on(request->fp16) ||
        rule_on_cpu(context) || rule_is_policy(context, POLICY_FP32) ||
        (rule_is_policy(context, POLICY_BF16) && rule_capability(context) >= 80))
        return;
    rule_tell(context,
              &(struct finding) { .rule = "TS106",
                                  .severity = SEVERITY_INFO,
                                  .because = where_half(context),
                                  .message =
                                      "the base model may stay float16: it is frozen, "
                                      "and the adapters are float32" },
              request->model_dtype == DTYPE_FLOAT16 ? "model_dtype" : "fp16");
}

static void propose_scaler(struct rule_context *context, int group)
{
    rule_set(context,
             &(struct finding) { .rule = "TS108",
                                 .severity = SEVERITY_ERROR,
                                 .apply = APPLY_SAFE,
                                 .group = group,
                                 .message =
                                     "fp16 compute over float32 weights, with a loss "
                                     "scale",
                                 .note = "as fast, and it learns" },
             "fp16", "true", "model_dtype");
}

void rule_no_scaler(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS108",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .because = where_half(context),
        .message =
            "weights would be trained in float16 without a loss scale: small gradients "
            "vanish and small steps are rounded away",
        .note = "4 bytes a trained weight instead of 2",
    };
    const struct precision_request *request = &context->plan->request;
    struct finding *told;

    if (!rule_half_trainables(context) || request->fp16 != CHOICE_NO ||
        request->bf16 != CHOICE_NO)
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps it so";
        rule_tell(context, &finding,
                  rule_line(context, "model_dtype") ? "model_dtype" : NULL);
        return;
    }
    if (has_tensor_cores(context) && !rule_is_policy(context, POLICY_FP32))
        finding.group = rule_group(context);
    if (context->plan->external && !rule_line(context, "model_dtype")) {
        finding.note = "load the model with dtype=torch.float32, and say fp16: true";
        rule_tell(context, &finding, NULL);
        return;
    }
    told = rule_set(context, &finding, "model_dtype", "float32",
                    rule_line(context, "fp16") ? "fp16" : "bf16");
    if (told && finding.group)
        propose_scaler(context, finding.group);
}

/* ---- The loss scale ---- */

/* fp16 is what will run, after the rules above. */
static bool ends_in_fp16(const struct rule_context *context)
{
    struct precision decided;

    if (!context->device)
        return rule_wants_fp16(context);
    policy_decide(&context->plan->request, context->device, &decided);
    return decided.mode == MODE_FP16_MIXED || decided.mode == MODE_FP16_PURE;
}

void rule_idle_scale(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_entry(context, "loss_scale");

    if (!entry || ends_in_fp16(context) ||
        context->plan->request.loss_scaling == CHOICE_NO ||
        (context->plan->request.loss_scaling == CHOICE_AUTO &&
         strcmp(node_value(entry->value)->text, "dynamic") != 0)) /* TS705 */
        return;
    propose_removal(&to,
                    &(struct finding) { .rule = "TS112",
                                        .severity = SEVERITY_WARNING,
                                        .apply = APPLY_UNSAFE,
                                        .because = rule_device(context),
                                        .message =
                                            "loss_scale has no use without fp16: bf16 "
                                            "and float32 reach as far as gradients do",
                                        .note = "the line is commented out" },
                    entry);
}

void rule_scale_off(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool off = request->loss_scaling == CHOICE_NO ||
               (request->loss_scaling == CHOICE_YES && request->loss_scale == 1);

    if (!off || !ends_in_fp16(context) || rule_is_policy(context, POLICY_NOSCALER) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    rule_set(context,
             &(struct finding) { .rule = "TS113",
                                 .severity = SEVERITY_WARNING,
                                 .apply = APPLY_UNSAFE,
                                 .message =
                                     "fp16 without a loss scale: gradients below 6e-8 "
                                     "become zero" },
             "loss_scale", "dynamic", NULL);
}

/* ---- auto, and the policies of the reports ---- */

void rule_auto(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const char *key = request->bf16 == CHOICE_AUTO ? "bf16" : "fp16";
    struct precision decided;

    if ((request->bf16 != CHOICE_AUTO && request->fp16 != CHOICE_AUTO) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device || context->plan->external) {
        rule_tell(context,
                  &(struct finding) { .rule = "TS117",
                                      .severity = SEVERITY_INFO,
                                      .message =
                                          context->plan->external
                                              ? "auto: the script decides, where it runs"
                                              : "auto: decided where the job runs" },
                  key);
        return;
    }
    policy_decide(request, context->device, &decided);
    rule_tell(
        context,
        &(struct finding) { .rule = "TS117",
                            .severity = SEVERITY_INFO,
                            .message = arena_printf(context->arena, "auto is %s here",
                                                    mode_names[decided.mode]) },
        key);
}

static void to_fp32(struct rule_context *context, const char *key, int group)
{
    rule_set(context,
             &(struct finding) {
                 .rule = "TS125",
                 .severity = SEVERITY_INFO,
                 .apply = APPLY_SAFE,
                 .group = group,
                 .message =
                     arena_printf(context->arena,
                                  "policy fp32: %s off; 1.5 to 2 times slower, and twice "
                                  "the memory of a 16-bit base model",
                                  key),
                 .note = "clipping stays" },
             key, "false", NULL);
}

void rule_policy_fp32(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    /* What TS102, TS105 and TS108 leave alone. */
    bool bf16 = request->model_dtype == DTYPE_BFLOAT16 && !lacks_bf16(context);
    bool fp16 = request->model_dtype == DTYPE_FLOAT16 && !is_on(request->fp16) &&
                (request->fp16 != CHOICE_NO || request->bf16 != CHOICE_NO);
    int group;

    if (!rule_is_policy(context, POLICY_FP32))
        return;
    group = request->fp16 != CHOICE_NO && request->bf16 != CHOICE_NO ? rule_group(context)
                                                                     : 0;
    if (request->fp16 != CHOICE_NO)
        to_fp32(context, "fp16", group);
    if (request->bf16 != CHOICE_NO)
        to_fp32(context, "bf16", group);
    /* without autocast a script's frozen weights compute in the format they are in */
    if (context->plan->external && context->plan->method == METHOD_LORA)
        bf16 = fp16 = request->model_dtype == DTYPE_FLOAT16 ||
                      (request->model_dtype == DTYPE_BFLOAT16 && !lacks_bf16(context));
    if ((bf16 || fp16) &&
        (context->plan->external || context->plan->method != METHOD_LORA))
        rule_set(context,
                 &(struct finding) { .rule = "TS125",
                                     .severity = SEVERITY_INFO,
                                     .apply = APPLY_SAFE,
                                     .message = "policy fp32: weights in float32" },
                 "model_dtype", "float32", NULL);
}

void rule_policy_noscaler(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (!rule_is_policy(context, POLICY_NOSCALER) || !rule_half_trainables(context) ||
        !is_on(request->fp16))
        return;
    if (context->plan->external) {
        rule_set(context,
                 &(struct finding) {
                     .rule = "TS126",
                     .severity = SEVERITY_WARNING,
                     .apply = APPLY_SAFE,
                     .message = "policy noscaler: with fp16 the Trainer always makes a "
                                "scaler, which stops at float16 weights; without, they "
                                "are stepped as they are",
                     .note = "with lr 2e-5 a weight of 0.1 never moves" },
                 "fp16", "false", NULL);
        return;
    }
    if (request->loss_scaling == CHOICE_NO)
        return;
    rule_set(context,
             &(struct finding) {
                 .rule = "TS126",
                 .severity = SEVERITY_WARNING,
                 .apply = APPLY_SAFE,
                 .message =
                     "policy noscaler: float16 weights are stepped without a loss scale; "
                     "with lr 2e-5 a weight of 0.1 never moves" },
             "loss_scale", "none", "fp16");
}
