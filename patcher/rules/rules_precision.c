/* patcher/rules/rules_precision.c - TS101 to TS104: the choice between fp16 and bf16. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "train/model/shapes.h"

#define CAPABILITY_SOURCE                                                         \
    "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; " \
    "docs/precision.md"

static bool is_on(enum choice choice)
{
    return choice == CHOICE_YES;
}

/* fp16 and bf16 both true: TS101 decides, and no other rule of the two speaks. */
static bool is_both(const struct rule_context *context)
{
    return is_on(context->plan->request.fp16) && is_on(context->plan->request.bf16);
}

/* ---- Which half ---- */

static bool keeps_bf16(const struct rule_context *context)
{
    return rule_on_cpu(context) || device_has_bf16(context->device);
}

static void rule_fp16_and_bf16(struct rule_context *context)
{
    struct finding finding = { .rule = "TS101",
                               .severity = SEVERITY_ERROR,
                               .apply = APPLY_SAFE };
    bool bf16;

    if (!is_both(context) || rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device && !rule_on_cpu(context)) {
        finding.message =
            "fp16 and bf16 are both true; which one is right depends on the device, "
            "which is not known";
        rule_report(context, &finding, "fp16");
        return;
    }
    bf16 = keeps_bf16(context);
    finding.message =
        bf16 ? "fp16 and bf16 are both true; this device has bf16, which needs no loss "
               "scale"
             : "fp16 and bf16 are both true; this device has no bf16";
    finding.note = bf16 ? "bf16 stays" : "fp16 stays";
    rule_propose(context, &finding, bf16 ? "fp16" : "bf16", "false", NULL);
}

static void propose_fp16(struct rule_context *context, int group)
{
    rule_propose(
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
    bool fp16 = rule_has_tensor_cores(context);
    int group = fp16 ? rule_group(context) : 0;
    const char *fp32 = rule_capability(context) == 60
                           ? "float32; fp16: true would be faster here, and needs its "
                             "loss scale watched"
                           : "float32, as fp16 is no faster here";
    struct finding *told =
        rule_propose(context,
                     &(struct finding) {
                         .rule = "TS102",
                         .severity = SEVERITY_ERROR,
                         .apply = APPLY_SAFE,
                         .group = group,
                         .message = "this device has no bf16: that begins with compute "
                                    "capability 8.0",
                         .note = fp16 ? NULL : fp32 },
                     "bf16", "false", NULL);

    if (fp16 && told)
        propose_fp16(context, group);
}

static void pure_bf16_unsupported(struct rule_context *context)
{
    rule_report(
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

static bool estimate(const struct rule_context *context,
                     const struct precision_request *request, struct memory_use *use)
{
    struct plan plan = *context->plan;
    struct error ignored = { 0 };

    plan.device = *context->device;
    policy_decide(request, &plan.device, &plan.precision);
    return shapes_memory(&plan, context->model, 0, 0, use, &ignored);
}

/* Would the job fit with its frozen weights in float32?  Where nobody can tell, yes. */
static bool frozen_fit_float32(const struct rule_context *context)
{
    struct precision_request fp32 = context->plan->request;
    struct memory_use use, wide;

    if (!context->model || context->available == 0)
        return true;
    fp32.bf16 = fp32.fp16 = CHOICE_NO;
    if (!estimate(context, &context->plan->request, &use) ||
        !estimate(context, &fp32, &wide))
        return true;
    use.weights = wide.weights;
    memory_finish(&use, context->available);
    return use.fits;
}

/* What the adapters stand on. */
static void frozen_storage(struct rule_context *context)
{
    bool fits = frozen_fit_float32(context);

    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS102",
            .severity = SEVERITY_ERROR,
            .apply = APPLY_SAFE,
            .message = "this device has no bf16, not even for the frozen weights",
            .note = fits ? "with fp16: true the products see float16 all the same"
                         : "kept in float32 they would not fit" },
        "model_dtype", fits ? "float32" : "float16", NULL);
}

static void trained_storage(struct rule_context *context)
{
    rule_propose(context,
                 &(struct finding) {
                     .rule = "TS102",
                     .severity = SEVERITY_ERROR,
                     .apply = APPLY_SAFE,
                     .message = "this device has no bf16, and trained weights belong in "
                                "float32" },
                 "model_dtype", "float32", NULL);
}

/* Where both are on TS121 decides. */
static void evaluation_in_bf16(struct rule_context *context)
{
    rule_propose(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .apply = APPLY_SAFE,
                            .message = "this device has no bf16, and "
                                       "TrainingArguments asks for it before an "
                                       "evaluation too",
                            .note = "the evaluation computes as the training does" },
        "bf16_full_eval", "false", NULL);
}

static void rule_bf16_unsupported(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool fp32 = rule_is_policy(context, POLICY_FP32);

    if (!rule_lacks_bf16(context))
        return;
    if (request->pure_bf16 && !fp32)
        pure_bf16_unsupported(context);
    else if (is_on(request->bf16) && !is_both(context) && !fp32)
        bf16_to_fp16(context);
    if (context->plan->external && context->plan->bf16_full_eval &&
        !context->plan->fp16_full_eval)
        evaluation_in_bf16(context);
    if (request->model_dtype == DTYPE_BFLOAT16) {
        if (context->plan->method == METHOD_LORA)
            frozen_storage(context);
        else
            trained_storage(context);
    }
}

/* ---- Models that were trained in bfloat16 ---- */

/* Frozen weights that are float16 without fp16 compute: what is left of TS102 on a card
 * without tensor cores. */
static bool has_float16_storage(const struct rule_context *context)
{
    const struct plan *plan = context->plan;

    return plan->method == METHOD_LORA && plan->request.model_dtype == DTYPE_FLOAT16 &&
           plan->request.fp16 == CHOICE_NO && plan->request.bf16 == CHOICE_NO;
}

static struct finding overflow(void)
{
    return (struct finding) {
        .rule = "TS103",
        .severity = SEVERITY_WARNING,
        .message = "the model was trained in bfloat16; in fp16 its activations may pass "
                   "65504, the largest float16",
        .note = "watch for inf in grad_norm and a loss scale that keeps falling; "
                "trainspool.policy: fp32 trains in float32",
    };
}

/* Where bf16 falls to fp16 this is told of the text that says so. */
static void rule_bf16_model_in_fp16(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    struct finding finding = overflow();
    bool falls = is_on(request->bf16) && rule_has_tensor_cores(context) &&
                 rule_is_policy(context, POLICY_REPORT);

    if (!rule_lacks_bf16(context) || request->pure_bf16 || !rule_is_bf16_model(context) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    if (is_on(request->fp16)) {
        finding.apply = is_both(context) ? APPLY_MANUAL : APPLY_UNSAFE;
        if (is_both(context))
            rule_report(context, &finding, "fp16");
        else
            rule_propose(context, &finding, "fp16", "false", NULL);
    } else if (rule_is_auto_fp16(context) && !is_on(request->bf16)) {
        rule_report(context, &finding, rule_auto_key(context));
    } else if (falls || has_float16_storage(context)) {
        rule_report(context, &finding, falls ? "bf16" : "model_dtype");
    }
}

static enum apply apply_of_bf16(const struct rule_context *context)
{
    return rule_is_policy(context, POLICY_BF16) ? APPLY_SAFE : APPLY_UNSAFE;
}

static void rule_prefer_bf16(struct rule_context *context)
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
        context->plan->request.pure_bf16 || rule_capability(context) < 80 ||
        rule_is_policy(context, POLICY_FP32) ||
        (rule_is_policy(context, POLICY_NOSCALER) && rule_trains_float16(context)))
        return;
    if (context->plan->resume_from_checkpoint) {
        rule_report(context, &finding, "fp16");
        return;
    }
    finding.group = rule_group(context);
    if (!rule_propose(context, &finding, "fp16", "false", NULL))
        return;
    finding.message = "bf16 in its place";
    finding.note = NULL;
    rule_propose(context, &finding, "bf16", "true", "fp16");
}

static const struct rule rows[] = {
    { .id = "TS101",
      .title = "fp16 and bf16 are both true",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_fp16_and_bf16,
      .explain = "A product is computed in one format. Hugging Face and DeepSpeed "
                 "refuse such a job.\n\n"
                 "bf16 stays where the device has it (compute capability 8.0 or more, "
                 "or a CPU): it has the range of float32 and needs no loss scale. "
                 "Elsewhere fp16 stays. The other one becomes false; nothing else "
                 "changes.",
      .source = "TrainingArguments.__post_init__; DeepSpeed config" },
    { .id = "TS102",
      .title = "bf16 on a device that has none",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_bf16_unsupported,
      .explain =
          "bf16 arithmetic begins with compute capability 8.0 (Ampere). On a T4, a V100 "
          "or a TITAN RTX PyTorch emulates it slowly, and since 2.4 its "
          "is_bf16_supported() says yes there, which is why the rule goes by compute "
          "capability and never by that function.\n\n"
          "Where the card has fp16 tensor cores, bf16 becomes false and fp16 true: "
          "float16 compute over float32 weights with a dynamic loss scale. Elsewhere "
          "only bf16 becomes false, since fp16 would be no faster. pure_bf16 is left to "
          "you: its replacement needs twice the memory. model_dtype: bfloat16 becomes "
          "float32; for weights that stay frozen (lora) it becomes float16 where "
          "float32 would not fit, and TS103 tells of the range. Learning rate and "
          "clipping stay as they are.",
      .source = CAPABILITY_SOURCE "; LLaMA-Factory#9025; pytorch#124996" },
    { .id = "TS103",
      .title = "a model trained in bfloat16 would run in fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_bf16_model_in_fp16,
      .explain =
          "float16 ends at 65504. Models trained in bfloat16 (files in bfloat16, or T5, "
          "Gemma, GLM4 by name) may have activations beyond it, which become inf, and "
          "then NaN. The loss scale cannot help: it scales gradients, not activations.\n"
          "\n"
          "Many such models train well in fp16 all the same. Watch grad_norm and "
          "loss_scale; if the scale falls and falls, train in float32: `--unsafe` turns "
          "fp16 off, trainspool.policy: fp32 does the same for good. It costs speed and "
          "twice the activations. A card with bf16 (8.0 and up) needs neither.",
      .source = "transformers#4586, #10956; gemma_pytorch#24; ms-swift#1099" },
    { .id = "TS104",
      .title = "fp16 on a device that has bf16",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_prefer_bf16,
      .explain =
          "From compute capability 8.0 on, bf16 is as fast as fp16 and needs no loss "
          "scale. It has 3 bits less of mantissa, which float32 master weights make up "
          "for.\n\n"
          "A run that is resumed, or compared with an older one, should stay as it was; "
          "so this is done with `--unsafe`, or with trainspool.policy: bf16.",
      .source = CAPABILITY_SOURCE },
};

const struct rules rules_precision = { rows, TS_COUNT(rows) };
