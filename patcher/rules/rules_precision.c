/* patcher/rules/rules_precision.c - TS101 to TS104: the choice between fp16 and bf16. */
#include "config.h"

#include "patcher/rules/fp16_need.h"
#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include "base/size.h"
#include "train/model/shapes.h"

#define CAPABILITY_SOURCE                                                         \
    "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; " \
    "docs/precision.md"

static bool is_on(enum choice choice)
{
    return choice == CHOICE_YES;
}

/* fp16 and bf16 are both true: TS101 decides, and the other rules about the two are
 * silent. */
static bool has_fp16_and_bf16(const struct rule_context *context)
{
    return is_on(context->plan->request.fp16) && is_on(context->plan->request.bf16);
}

static void rule_fp16_and_bf16(struct rule_context *context)
{
    struct finding finding = { .rule = "TS101",
                               .severity = SEVERITY_ERROR,
                               .apply = APPLY_SAFE };
    bool bf16;

    if (!has_fp16_and_bf16(context) || rule_is_policy(context, POLICY_FP32))
        return;
    if (!rule_knows_bf16(context, &bf16)) {
        finding.message =
            "fp16 and bf16 are both true; the right one depends on the device, which is "
            "unknown";
        rule_report(context, &finding, "fp16");
        return;
    }
    finding.message =
        bf16 ? "fp16 and bf16 are both true; this device has bf16, which needs no loss "
               "scale"
             : "fp16 and bf16 are both true; this device has no bf16";
    finding.note = bf16 ? "bf16 stays" : "fp16 stays";
    rule_propose(context, &finding, bf16 ? "fp16" : "bf16", "false", NULL);
}

/* The edit is unsafe if an unknown version or unknown files decide which weights fp16 meets. */
static enum apply apply_with_fp16(bool fp16, const struct fp16_need *need)
{
    return fp16 && !need->sure ? APPLY_UNSAFE : APPLY_SAFE;
}

/* why: the format in which the job computes without fp16. */
static void propose_fp16(struct rule_context *context, const struct fp16_need *need,
                         int group, const char *why)
{
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS102",
            .severity = SEVERITY_ERROR,
            .apply = apply_with_fp16(true, need),
            .group = group,
            .message = why ? why
                           : "this device has no bf16: fp16: true replaces it, with a "
                             "dynamic loss scale",
            .note = "clipping and learning rate stay unchanged" },
        "fp16", "true", "bf16");
}

/* Propose the line that must change with fp16, so that no trained weight has 16 bits. */
static void propose_dtype(struct rule_context *context, const struct fp16_need *need,
                          int group)
{
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS102",
            .severity = SEVERITY_ERROR,
            .apply = apply_with_fp16(true, need),
            .group = group,
            .message = need->dtype == DTYPE_FLOAT32
                           ? "under fp16 trained weights must be float32: the loss "
                             "scaler refuses 16-bit ones"
                           : "TRL computes quantized weights in this format, which this "
                             "device lacks",
            .note = need->dtype == DTYPE_FLOAT32 ? "2 bytes more per weight"
                                                 : "the weights stay quantized" },
        "model_dtype", dtype_names[need->dtype], NULL);
}

/* fp16 would stop at its first step, and no line of the job changes that. */
static void report_no_remedy(struct rule_context *context, const struct fp16_need *need)
{
    rule_report(context,
                &(struct finding) { .rule = "TS102",
                                    .severity = SEVERITY_ERROR,
                                    .message =
                                        "this device has no bf16, which requires compute "
                                        "capability 8.0, and fp16's loss scaler would "
                                        "refuse weights that this job trains in 16 bits",
                                    .note = need->remedy },
                "bf16");
}

/* Return whether the edit, if any, includes the line model_dtype. */
static bool replace_bf16(struct rule_context *context)
{
    const struct fp16_need need = fp16_need_of(context);
    const char *why = NULL;
    bool fast = rule_has_tensor_cores(context),
         fp16 = fast || !stored_weights_reach_float32(context, &why);
    int group = fp16 ? rule_group(context) : 0;
    const char *fp32 = rule_capability(context) == 60
                           ? "float32; fp16: true would be faster here, but watch its "
                             "loss scale"
                           : "float32, as fp16 is not faster here";
    struct finding *proposed;

    if (fp16 && !need.possible) {
        report_no_remedy(context, &need);
        return true;
    }
    proposed = rule_propose(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .apply = apply_with_fp16(fp16, &need),
                            .group = group,
                            .message = "this device has no bf16, which requires compute "
                                       "capability 8.0",
                            .note = fp16 ? need.remedy : fp32 },
        "bf16", "false", NULL);
    if (!fp16 || !proposed)
        return false;
    propose_fp16(context, &need, group, fast ? NULL : why);
    if (need.dtype == DTYPE_AUTO)
        return false;
    propose_dtype(context, &need, group);
    return true;
}

static void report_pure_bf16(struct rule_context *context)
{
    rule_report(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .message = "this device has no bf16, but pure_bf16 trains "
                                       "weights in bf16 only",
                            .note = "fp16: true keeps float32 weights and needs about "
                                    "twice the memory; finetuning_type: lora needs "
                                    "less" },
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

/* Return whether the job would fit with its frozen weights in float32; true if
 * unknown. */
static bool frozen_fit_float32(const struct rule_context *context)
{
    struct precision_request fp32 = context->plan->request;
    struct memory_use use, wide_use;

    if (!context->model || context->available == 0)
        return true;
    fp32.bf16 = fp32.fp16 = CHOICE_NO;
    if (!estimate(context, &context->plan->request, &use) ||
        !estimate(context, &fp32, &wide_use))
        return true;
    use.weights = wide_use.weights;
    memory_finish(&use, context->available);
    return use.fits;
}

/* The format of the frozen weights under LoRA. */
static void propose_frozen_dtype(struct rule_context *context)
{
    bool fits = frozen_fit_float32(context);

    if (rule_dtype_computes(context)) {
        propose_dtype(context,
                      &(struct fp16_need) { .sure = true, .dtype = DTYPE_FLOAT16 }, 0);
        return;
    }
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS102",
            .severity = SEVERITY_ERROR,
            .apply = APPLY_SAFE,
            .message = "this device has no bf16, not even for the frozen weights",
            .note = fits ? "with fp16: true the matmuls read float16 anyway"
                         : "in float32 they would not fit" },
        "model_dtype", fits ? "float32" : "float16", NULL);
}

static void propose_trained_dtype(struct rule_context *context)
{
    rule_propose(context,
                 &(struct finding) {
                     .rule = "TS102",
                     .severity = SEVERITY_ERROR,
                     .apply = APPLY_SAFE,
                     .message = "this device has no bf16, and trained weights must be "
                                "float32" },
                 "model_dtype", "float32", NULL);
}

/* If both are on, TS121 decides. */
static void propose_no_bf16_eval(struct rule_context *context)
{
    rule_propose(
        context,
        &(struct finding) { .rule = "TS102",
                            .severity = SEVERITY_ERROR,
                            .apply = APPLY_SAFE,
                            .message = "this device has no bf16, and TrainingArguments "
                                       "also checks it before an evaluation",
                            .note = "the evaluation computes in the format of the "
                                    "training" },
        "bf16_full_eval", "false", NULL);
}

static void rule_bf16_unsupported(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool fp32 = rule_is_policy(context, POLICY_FP32), done = false;

    if (!rule_lacks_bf16(context))
        return;
    if (request->pure_bf16 && !fp32)
        report_pure_bf16(context);
    else if (is_on(request->bf16) && !has_fp16_and_bf16(context) && !fp32)
        done = replace_bf16(context);
    if (context->plan->external && context->plan->bf16_full_eval &&
        !context->plan->fp16_full_eval)
        propose_no_bf16_eval(context);
    if (request->model_dtype == DTYPE_BFLOAT16 && !done) {
        if (plan_adapts(context->plan))
            propose_frozen_dtype(context);
        else
            propose_trained_dtype(context);
    }
}

/* Return whether frozen weights are float16 without fp16 compute, as TS102 leaves them
 * on a card without tensor cores. */
static bool has_float16_storage(const struct rule_context *context)
{
    const struct plan *plan = context->plan;

    return plan_adapts(plan) && plan->request.model_dtype == DTYPE_FLOAT16 &&
           plan->request.fp16 == CHOICE_NO && plan->request.bf16 == CHOICE_NO;
}

static enum apply apply_of_bf16(const struct rule_context *context)
{
    return rule_is_policy(context, POLICY_BF16) ? APPLY_SAFE : APPLY_UNSAFE;
}

/* Replace fp16 with bf16 in two edits; a resumed run keeps its format. */
static void propose_bf16(struct rule_context *context, struct finding *finding)
{
    if (context->plan->resume_from_checkpoint) {
        finding->apply = APPLY_MANUAL;
        rule_report(context, finding, "fp16");
        return;
    }
    finding->group = rule_group(context);
    if (!rule_propose(context, finding, "fp16", "false", NULL))
        return;
    finding->message = "use bf16 instead";
    finding->note = NULL;
    rule_propose(context, finding, "bf16", "true", "fp16");
}

static struct finding overflow_finding(void)
{
    return (struct finding) {
        .rule = "TS103",
        .severity = SEVERITY_WARNING,
        .message = "the model was trained in bfloat16; in fp16 its activations may "
                   "exceed 65504, the largest float16 value",
        .note = "watch for inf in grad_norm and a loss scale that keeps falling; "
                "trainspool.policy: fp32 trains in float32",
    };
}

/* Return whether fp16 is on although bf16 would work as well: TS103 or TS104. */
static bool could_use_bf16(const struct rule_context *context)
{
    return is_on(context->plan->request.fp16) && !has_fp16_and_bf16(context) &&
           !context->plan->request.pure_bf16 && rule_capability(context) >= 80 &&
           !rule_is_policy(context, POLICY_FP32) &&
           !(rule_is_policy(context, POLICY_NOSCALER) && rule_trains_float16(context));
}

/* The card has bf16: one edit removes the risk at no cost. */
static void report_needless_overflow(struct rule_context *context)
{
    struct finding finding = overflow_finding();

    finding.apply = apply_of_bf16(context);
    finding.note = "this device has bf16, which has the range of float32 and is as fast; "
                   "a run that is resumed or compared should keep its format";
    propose_bf16(context, &finding);
}

/* LLaMA-Factory has no float32 for adapters on a GPU, so turning fp16 off would only bring
 * emulated bf16. */
static bool lacks_float32(const struct rule_context *context, struct finding *finding)
{
    if (!rule_is_llamafactory(context) ||
        stored_weights_reach_float32(context, &finding->because))
        return false;
    finding->note =
        "watch for inf in grad_norm and a loss scale that keeps falling; a card "
        "with bf16 needs neither";
    return true;
}

/* Accelerate's setting has the same effect as a line of the job, but no edit can change it. */
static bool report_launched_fp16(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *where;
    struct finding finding = overflow_finding();

    if (!context->plan->external || is_on(context->plan->request.fp16) ||
        stored_weights_now(context).autocast != FORMAT_FP16 ||
        !rule_launcher_precision(context, &where))
        return false;
    if (rule_capability(context) >= 80)
        finding.note = "bf16 there has the range of float32, and is as fast";
    propose_remark(&to, &finding, where);
    return true;
}

/* If an edit replaces bf16 by fp16, report the line that causes it. */
static void rule_bf16_model_in_fp16(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    struct finding finding = overflow_finding();
    bool falls = is_on(request->bf16) && rule_has_tensor_cores(context) &&
                 rule_is_policy(context, POLICY_REPORT);

    if (could_use_bf16(context) && rule_is_bf16_model(context)) {
        report_needless_overflow(context);
        return;
    }
    if (rule_is_bf16_model(context) && !rule_is_policy(context, POLICY_FP32) &&
        rule_on_gpu(context) && report_launched_fp16(context))
        return;
    if (!rule_lacks_bf16(context) || request->pure_bf16 || !rule_is_bf16_model(context) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    if (is_on(request->fp16)) {
        bool manual = has_fp16_and_bf16(context) || lacks_float32(context, &finding);

        finding.apply = manual ? APPLY_MANUAL : APPLY_UNSAFE;
        if (manual)
            rule_report(context, &finding, "fp16");
        else
            rule_propose(context, &finding, "fp16", "false", NULL);
    } else if (rule_is_auto_fp16(context) && !is_on(request->bf16)) {
        rule_report(context, &finding, rule_auto_key(context));
    } else if (falls || has_float16_storage(context)) {
        rule_report(context, &finding, falls ? "bf16" : "model_dtype");
    }
}

static void rule_prefer_bf16(struct rule_context *context)
{
    struct finding finding = { .rule = "TS104",
                               .severity = SEVERITY_INFO,
                               .apply = apply_of_bf16(context),
                               .message =
                                   "this device has bf16, which needs no loss scale",
                               .note =
                                   "a run that is resumed or compared should keep its "
                                   "format" };

    if (could_use_bf16(context) && !rule_is_bf16_model(context)) /* TS103 */
        propose_bf16(context, &finding);
}

static const struct rule rows[] = {
    { .id = "TS101",
      .title = "fp16 and bf16 both enabled",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_fp16_and_bf16,
      .explain =
          "A matmul is computed in one format. Hugging Face and DeepSpeed reject a job "
          "that enables both.\n\n"
          "The patch keeps bf16 where the device has it (compute capability 8.0 or "
          "higher, or a CPU): it has the range of float32 and needs no loss scale. "
          "Elsewhere it keeps fp16. The other key becomes false; nothing else changes.",
      .source = "TrainingArguments.__post_init__; DeepSpeed config" },
    { .id = "TS102",
      .title = "bf16 on a device without bf16",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_bf16_unsupported,
      .explain =
          "bf16 arithmetic requires compute capability 8.0 (Ampere) or higher. On a T4, "
          "a V100 or a TITAN RTX PyTorch emulates it slowly, and since 2.4 "
          "torch.cuda.is_bf16_supported() returns true there. The rule therefore checks "
          "the compute capability and never asks that function.\n\n"
          "On a card with fp16 tensor cores the patch sets bf16 to false and fp16 to "
          "true: float16 compute over float32 weights with a dynamic loss scale. The "
          "scaler refuses 16-bit weights (TS105), so the patch also stores weights in "
          "float32 if the job has a line for that; where it has none, or where TRL 0.26 "
          "or later trains next to quantized weights, nothing is edited, and the finding "
          "says what to do. Where an unknown version or unknown files decide, the edit "
          "requires `--unsafe`. TRL uses dtype as the compute format of quantized weights: "
          "there it becomes float16. On "
          "other cards it only sets bf16 to false, since fp16 would not be faster, "
          "unless the program then computes in emulated bf16 instead of float32, as "
          "LLaMA-Factory does for adapters: there fp16 becomes true. "
          "pure_bf16 is left to you: its replacement needs twice the memory. "
          "model_dtype: bfloat16 becomes float32; for frozen weights (lora) it becomes "
          "float16 if float32 would not fit, and TS103 reports the risk of overflow. "
          "Learning rate and clipping stay unchanged.",
      .source = CAPABILITY_SOURCE "; LLaMA-Factory#9025; pytorch#124996" },
    { .id = "TS103",
      .title = "bfloat16-trained model in fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_bf16_model_in_fp16,
      .explain =
          "The largest float16 value is 65504. A model trained in bfloat16 (its files "
          "are bfloat16, or it is a T5, Gemma or GLM4 by name) may have larger "
          "activations, which become inf and then NaN. The loss scale does not help: it "
          "scales gradients, not activations.\n\n"
          "Many such models still train well in fp16. Watch grad_norm and loss_scale. "
          "If the scale keeps falling, train in float32: `--unsafe` turns fp16 off, and "
          "trainspool.policy: fp32 does so permanently. This costs speed and doubles "
          "the activations.\n\n"
          "On a card with bf16 (compute capability 8.0 or higher) the fix is free: "
          "`--unsafe` replaces fp16 by bf16, as does trainspool.policy: bf16.",
      .source = "transformers#4586, #10956; gemma_pytorch#24; ms-swift#1099; "
                "LLaMA-Factory#4278" },
    { .id = "TS104",
      .title = "fp16 on a device with bf16",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_prefer_bf16,
      .explain =
          "On compute capability 8.0 and higher, bf16 is as fast as fp16 and needs no "
          "loss scale. Its mantissa is 3 bits shorter, for which the float32 master "
          "weights compensate.\n\n"
          "A run that is resumed, or compared with an older run, should keep its format. "
          "The edit is therefore made only with `--unsafe` or with trainspool.policy: "
          "bf16.",
      .source = CAPABILITY_SOURCE },
};

const struct rules rules_precision = { rows, TS_COUNT(rows) };
