/* patcher/rules_precision.c - fp16, bf16, how weights are stored, and the loss scale. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <ctype.h>
#include <string.h>

#include "base/size.h"
#include "train/model/shapes.h"

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
            "fp16 and bf16 are both true; which one is right depends on the device, "
            "which is not known";
        rule_tell(context, &finding, "fp16");
        return;
    }
    bf16 = keeps_bf16(context);
    finding.message =
        bf16 ? "fp16 and bf16 are both true; this device has bf16, which needs no loss "
               "scale"
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
    bool fp16 = rule_has_tensor_cores(context);
    int group = fp16 ? rule_group(context) : 0;
    const char *fp32 = rule_capability(context) == 60
                           ? "float32; fp16: true would be faster here, and needs its "
                             "loss scale watched"
                           : "float32, as fp16 is no faster here";
    struct finding *told =
        rule_set(context,
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

static void pure_on_old(struct rule_context *context)
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

    rule_set(context,
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
    rule_set(context,
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
    rule_set(context,
             &(struct finding) { .rule = "TS102",
                                 .severity = SEVERITY_ERROR,
                                 .apply = APPLY_SAFE,
                                 .message = "this device has no bf16, and "
                                            "TrainingArguments asks for it before an "
                                            "evaluation too",
                                 .note = "the evaluation computes as the training does" },
             "bf16_full_eval", "false", NULL);
}

void rule_no_bf16(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool fp32 = rule_is_policy(context, POLICY_FP32);

    if (!rule_lacks_bf16(context))
        return;
    if (request->pure_bf16 && !fp32)
        pure_on_old(context);
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

/* A word of the name, as "t5" in "google/flan-t5-base". */
static bool has_word(const char *name, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = name; (at = strcasestr(at, word)); at++)
        if ((at == name || !isalnum((unsigned char)at[-1])) &&
            !isalpha((unsigned char)at[len]))
            return true;
    return false;
}

/* Families whose activations are known to pass 65504, where the files do not tell. */
bool rule_is_bf16_model(const struct rule_context *context)
{
    static const char *const families[] = { "t5", "mt5", "gemma", "glm4", "glm-4" };
    const char *name = context->plan->model_name_or_path;
    const char *last = name ? strrchr(name, '/') : NULL;

    if (context->checkpoint == FORMAT_BF16)
        return true;
    for (size_t i = 0; name && i < TS_COUNT(families); i++)
        if (has_word(last ? last + 1 : name, families[i]))
            return true;
    return false;
}

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

/* auto that becomes fp16 here; what it becomes elsewhere is nobody's error. */
static bool is_auto_fp16(const struct rule_context *context)
{
    return !is_on(context->plan->request.fp16) && !context->plan->external &&
           rule_wants_fp16(context);
}

static const char *auto_key(const struct rule_context *context)
{
    return context->plan->request.bf16 == CHOICE_AUTO ? "bf16" : "fp16";
}

/* Where bf16 falls to fp16 this is told of the text that says so. */
void rule_bf16_model(struct rule_context *context)
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
            rule_tell(context, &finding, "fp16");
        else
            rule_set(context, &finding, "fp16", "false", NULL);
    } else if (is_auto_fp16(context) && !is_on(request->bf16)) {
        rule_tell(context, &finding, auto_key(context));
    } else if (falls || has_float16_storage(context)) {
        rule_tell(context, &finding, falls ? "bf16" : "model_dtype");
    }
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
        context->plan->request.pure_bf16 || rule_capability(context) < 80 ||
        rule_is_policy(context, POLICY_FP32) ||
        (rule_is_policy(context, POLICY_NOSCALER) && rule_half_trainables(context)))
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

/* fp16 in the text, or by auto. */
static bool computes_fp16(const struct rule_context *context)
{
    return is_on(context->plan->request.fp16) || is_auto_fp16(context);
}

static const char *fp16_key(const struct rule_context *context)
{
    return is_on(context->plan->request.fp16) ? "fp16" : auto_key(context);
}

/* Weights that may be frozen, for all the job says, are no error. */
static void doubt(const struct rule_context *context, struct finding *finding)
{
    if (!rule_may_adapt(context))
        return;
    finding->severity = SEVERITY_WARNING;
    finding->apply = APPLY_UNSAFE;
    finding->note = "right where the script trains adapters alone; finetuning_type: "
                    "lora or full says which it is";
}

static const char *where_half(const struct rule_context *context)
{
    if (context->plan->request.model_dtype != DTYPE_FLOAT16)
        return "the model's files are float16 and model_dtype is auto";
    return rule_takes_all(context) ? "no key of the job is of adapters, so all weights "
                                     "are taken to be trained"
                                   : NULL;
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

    if (!rule_half_trainables(context) || !computes_fp16(context) ||
        (context->plan->external && by_default) || /* TS107 */
        rule_fused_half(context))                  /* TS408 */
        return;
    doubt(context, &finding);
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note =
            "policy noscaler keeps them: a step below half an ulp of float16 is lost, "
            "and Adam's second moment underflows";
        rule_tell(context, &finding, by_default ? fp16_key(context) : "model_dtype");
        return;
    }
    rule_set(context, &finding, "model_dtype", "float32", fp16_key(context));
}

void rule_fp16_base(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool half =
        request->model_dtype == DTYPE_FLOAT16 ||
        (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);

    if (context->plan->method != METHOD_LORA || !half || !computes_fp16(context) ||
        rule_is_quantised(context) || rule_on_cpu(context) ||
        rule_is_policy(context, POLICY_FP32) ||
        (rule_is_policy(context, POLICY_BF16) && rule_capability(context) >= 80) ||
        rule_half_went_wrong(context))
        return;
    rule_tell(context,
              &(struct finding) { .rule = "TS106",
                                  .severity = SEVERITY_INFO,
                                  .because = where_half(context),
                                  .message =
                                      "the base model may stay float16: it is frozen, "
                                      "and the adapters are float32" },
              request->model_dtype == DTYPE_FLOAT16 ? "model_dtype" : fp16_key(context));
}

/* 16 bits to compute in, now that the weights have 32. */
static void propose_half(struct rule_context *context, int group)
{
    bool bf16 = !rule_lacks_bf16(context);

    rule_set(context,
             &(struct finding) {
                 .rule = "TS108",
                 .severity = rule_may_adapt(context) ? SEVERITY_WARNING : SEVERITY_ERROR,
                 .apply = rule_may_adapt(context) ? APPLY_UNSAFE : APPLY_SAFE,
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
    if (is_on(request->fp16) || is_on(request->bf16) || context->plan->external ||
        !context->device || rule_is_policy(context, POLICY_FP32)) /* TS125 */
        return false;
    policy_decide(request, context->device, &decided);
    return decided.mode == MODE_FP32 || decided.mode == MODE_TF32;
}

/* Autocast to bf16 has no scaler either; a native run keeps float32 weights under it. */
static bool is_foreign_bf16(const struct rule_context *context)
{
    return context->plan->external && is_on(context->plan->request.bf16) &&
           !is_on(context->plan->request.fp16);
}

/* Where no line of the job says it. */
static const char *how_to_load(const struct rule_context *context)
{
    if (is_foreign_bf16(context))
        return "load the model with dtype=torch.float32";
    return rule_lacks_bf16(context)
               ? "load the model with dtype=torch.float32, and say fp16: true"
               : "load the model with dtype=torch.float32, and say bf16: true";
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
    bool bf16 = is_foreign_bf16(context);
    struct finding *told;

    if (!rule_half_trainables(context) || !(computes_fp32(context) || bf16))
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        finding.note = "policy noscaler keeps it so";
        rule_tell(context, &finding,
                  rule_line(context, "model_dtype") ? "model_dtype" : NULL);
        return;
    }
    if (rule_has_tensor_cores(context) && !rule_is_policy(context, POLICY_FP32) && !bf16)
        finding.group = rule_group(context);
    if (context->plan->external && !rule_line(context, "model_dtype")) {
        finding.note = how_to_load(context);
        rule_tell(context, &finding, NULL);
        return;
    }
    doubt(context, &finding);
    told = rule_set(context, &finding, "model_dtype", "float32",
                    rule_line(context, "fp16") ? "fp16" : "bf16");
    if (told && finding.group)
        propose_half(context, finding.group);
}
