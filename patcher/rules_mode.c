/* patcher/rules_mode.c - the mode a job runs in: pure_bf16, auto, nothing at all, policy
 * fp32, and the format of evaluation. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* ---- pure_bf16 ---- */

/* TS102 speaks where the device has no bf16, TS125 where the policy is fp32. */
static bool is_pure(const struct rule_context *context)
{
    return context->plan->request.pure_bf16 && !rule_is_policy(context, POLICY_FP32);
}

static bool is_contradicted(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    return request->fp16 == CHOICE_YES || request->fp8;
}

void rule_pure_bf16(struct rule_context *context)
{
    bool here = !context->plan->external;

    if (!is_pure(context) || rule_lacks_bf16(context) || is_contradicted(context))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS110",
            .severity = SEVERITY_INFO,
            .message = here ? "pure_bf16 saves memory, not precision: trained weights "
                              "keep 8 bits of mantissa and are rounded by chance"
                            : "pure_bf16 saves memory, not precision: a step below "
                              "1/512 of its weight is rounded away",
            .note = "bf16: true keeps float32 weights" },
        "pure_bf16");
}

void rule_pure_and_half(struct rule_context *context)
{
    bool fp16 = context->plan->request.fp16 == CHOICE_YES;

    if (!is_pure(context) || !is_contradicted(context))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS111",
                  .severity = SEVERITY_ERROR,
                  .message = arena_printf(
                      context->arena,
                      "pure_bf16 and %s are both true: weights are either all bfloat16, "
                      "or float32 with %s products",
                      fp16 ? "fp16" : "fp8", fp16 ? "float16" : "8-bit"),
                  .note = "keep one of the two" },
              "pure_bf16");
}

/* ---- auto, and nothing ---- */

void rule_auto(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const char *key = request->bf16 == CHOICE_AUTO ? "bf16" : "fp16";
    struct precision decided;

    if ((request->bf16 != CHOICE_AUTO && request->fp16 != CHOICE_AUTO) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device || context->plan->external) {
        rule_tell(
            context,
            &(struct finding) { .rule = "TS117",
                                .severity = SEVERITY_INFO,
                                .message = context->plan->external
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

/* What TS118 would turn on; NULL: nothing, or another rule would at once take it away. */
static const char *fastest(const struct rule_context *context)
{
    if (!rule_has_tensor_cores(context))
        return NULL;
    if (!rule_lacks_bf16(context))
        return "bf16";
    return rule_is_bf16_model(context) ? NULL : "fp16";
}

/* What the new line stands behind: what is nearest to it, and never another block. */
static const char *beside(const struct rule_context *context)
{
    static const char *const related[] = { "bf16",          "fp16",
                                           "learning_rate", "finetuning_type",
                                           "stage",         "model_name_or_path" };

    for (size_t i = 0; i < TS_COUNT(related); i++)
        if (rule_line(context, related[i]))
            return related[i];
    return NULL;
}

/* Is it there, and says neither true, false nor auto: ${x}, or what TS704 tells of?  Or
 * is it there twice? */
static bool is_unclear(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct node *root = context->document->root;
    size_t count = 0;
    int choice;

    for (size_t i = 0; i < root->count; i++)
        count += root->entries[i].key->kind == NODE_SCALAR &&
                 strcmp(root->entries[i].key->text, key) == 0;
    return count > 1 || (entry && scalar_choice(entry->value, &choice) == SCALAR_WRONG);
}

void rule_only_fp32(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const char *key = fastest(context);
    bool trains = context->plan->dataset || rule_is_true(context, "do_train");
    const struct entry *where;

    if (context->plan->external && rule_launcher_precision(context, &where))
        return; /* TS124 */
    if (is_unclear(context, "fp16") || is_unclear(context, "bf16"))
        return;
    if (!key || !trains || request->fp16 != CHOICE_NO || request->bf16 != CHOICE_NO ||
        request->pure_bf16 || request->fp8 || rule_half_trainables(context) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    rule_set(context,
             &(struct finding) { .rule = "TS118",
                                 .severity = SEVERITY_INFO,
                                 .apply = APPLY_UNSAFE,
                                 .message = arena_printf(
                                     context->arena,
                                     "neither bf16 nor fp16: the tensor cores of this "
                                     "device, which do %s, stay idle",
                                     key),
                                 .note = rule_entry(context, "mixed_precision")
                                             ? "mixed_precision is for Accelerate's own "
                                               "file; trained weights stay float32"
                                             : "trained weights stay float32" },
             key, "true", beside(context));
}

/* ---- Evaluation ---- */

void rule_both_evals(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS121",
                               .severity = SEVERITY_ERROR,
                               .apply = APPLY_SAFE };
    bool bf16;

    if (!plan->fp16_full_eval || !plan->bf16_full_eval)
        return;
    if (!context->device && !rule_on_cpu(context)) {
        finding.message = "fp16_full_eval and bf16_full_eval are both true; which one "
                          "is right depends on the device, which is not known";
        rule_tell(context, &finding, "fp16_full_eval");
        return;
    }
    bf16 = !rule_lacks_bf16(context);
    finding.message =
        bf16 ? "fp16_full_eval and bf16_full_eval are both true; this device has bf16"
             : "fp16_full_eval and bf16_full_eval are both true; this device has no bf16";
    finding.note = bf16 ? "bf16_full_eval stays" : "fp16_full_eval stays";
    rule_set(context, &finding, bf16 ? "fp16_full_eval" : "bf16_full_eval", "false",
             NULL);
}

/* ---- Policy fp32 ---- */

static void to_fp32(struct rule_context *context, const char *key, int group)
{
    rule_set(context,
             &(struct finding) { .rule = "TS125",
                                 .severity = SEVERITY_INFO,
                                 .apply = APPLY_SAFE,
                                 .group = group,
                                 .message = arena_printf(
                                     context->arena,
                                     "policy fp32: %s off; 1.5 to 2 times slower, and "
                                     "twice the memory of a 16-bit base model",
                                     key),
                                 .note = "clipping stays" },
             key, "false", NULL);
}

static void weights_to_fp32(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool lora = context->plan->method == METHOD_LORA;
    /* What TS102, TS105 and TS108 leave alone. */
    bool bf16 = request->model_dtype == DTYPE_BFLOAT16 && !rule_lacks_bf16(context);
    bool fp16 = request->model_dtype == DTYPE_FLOAT16 && request->fp16 != CHOICE_YES &&
                (request->fp16 != CHOICE_NO || request->bf16 != CHOICE_NO);

    /* without autocast a script's frozen weights compute in the format they are in */
    if (lora && context->plan->external)
        fp16 = request->model_dtype == DTYPE_FLOAT16;
    if ((bf16 || fp16) && (!lora || context->plan->external))
        rule_set(context,
                 &(struct finding) { .rule = "TS125",
                                     .severity = SEVERITY_INFO,
                                     .apply = APPLY_SAFE,
                                     .message = "policy fp32: weights in float32" },
                 "model_dtype", "float32", NULL);
}

void rule_policy_fp32(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const struct {
        const char *key;
        bool on;
    } modes[] = {
        { "fp16", request->fp16 != CHOICE_NO },
        { "bf16", request->bf16 != CHOICE_NO },
        { "pure_bf16", request->pure_bf16 },
        { "fp8", request->fp8 },
    };
    int group = 0;

    if (!rule_is_policy(context, POLICY_FP32))
        return;
    if (modes[0].on && modes[1].on)
        group = rule_group(context);
    for (size_t i = 0; i < TS_COUNT(modes); i++)
        if (modes[i].on)
            to_fp32(context, modes[i].key, i < 2 ? group : 0);
    weights_to_fp32(context);
}
