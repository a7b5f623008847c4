/* patcher/rules/rules_mode.c - the precision mode: pure_bf16, auto, float32 only, policy
 * fp32, and the format of evaluations. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* TS102 reports it if the device has no bf16, TS125 under policy fp32. */
static bool is_pure(const struct rule_context *context)
{
    return context->plan->request.pure_bf16 && !rule_is_policy(context, POLICY_FP32);
}

static bool conflicts_with_pure_bf16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    return request->fp16 == CHOICE_YES || request->fp8;
}

/* LLaMA-Factory leaves autocast_adapter_dtype on, so PEFT keeps adapters in float32. */
static const char *pure_bf16_message(const struct rule_context *context)
{
    if (!context->plan->external)
        return "pure_bf16 saves memory at the cost of precision: trained weights have 8 "
               "bits of mantissa and are rounded stochastically";
    return stored_weights_now(context).trained == FORMAT_FP32
               ? "pure_bf16 with adapters only turns autocast off: the base model is "
                 "bfloat16, and PEFT keeps the adapters in float32"
               : "pure_bf16 saves memory at the cost of precision: an update below 1/512 "
                 "of its weight is rounded away";
}

static void rule_pure_bf16(struct rule_context *context)
{
    bool loses =
        !context->plan->external || stored_weights_now(context).trained != FORMAT_FP32;

    if (!is_pure(context) || rule_lacks_bf16(context) ||
        conflicts_with_pure_bf16(context))
        return;
    rule_report(
        context,
        &(struct finding) { .rule = "TS110",
                            .severity = SEVERITY_INFO,
                            .message = pure_bf16_message(context),
                            .note = loses ? "bf16: true keeps float32 weights" : NULL },
        "pure_bf16");
}

static void rule_pure_bf16_with_fp16(struct rule_context *context)
{
    bool fp16 = context->plan->request.fp16 == CHOICE_YES;

    if (!is_pure(context) || !conflicts_with_pure_bf16(context))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS111",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(
                context->arena,
                "pure_bf16 and %s are both true: weights are either all bfloat16, or "
                "float32 with %s matmuls",
                fp16 ? "fp16" : "fp8", fp16 ? "float16" : "8-bit"),
            .note = "keep one of the two" },
        "pure_bf16");
}

static void rule_auto_precision(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const char *key = request->bf16 == CHOICE_AUTO ? "bf16" : "fp16";
    struct precision decided;

    if ((request->bf16 != CHOICE_AUTO && request->fp16 != CHOICE_AUTO) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    if (!context->device || rule_accelerator(context) || context->plan->external) {
        rule_report(
            context,
            &(struct finding) { .rule = "TS117",
                                .severity = SEVERITY_INFO,
                                .message = context->plan->external
                                               ? "auto: the script decides at run time"
                                               : "auto: decided where the job runs" },
            key);
        return;
    }
    policy_decide(request, context->device, &decided);
    rule_report(
        context,
        &(struct finding) { .rule = "TS117",
                            .severity = SEVERITY_INFO,
                            .message = arena_printf(context->arena, "auto means %s here",
                                                    mode_names[decided.mode]) },
        key);
}

/* Return the format that TS118 would enable; NULL: none, or another rule would turn it
 * off again. */
static const char *fastest_format(const struct rule_context *context)
{
    if (!rule_has_tensor_cores(context))
        return NULL;
    if (!rule_lacks_bf16(context))
        return "bf16";
    return rule_is_bf16_model(context) || !rule_takes_fp16(context) ? NULL : "fp16";
}

/* Return the key after which the new line is inserted: the most closely related one,
 * never a key of another block. */
static const char *related_line(const struct rule_context *context)
{
    static const char *const related[] = { "bf16",          "fp16",
                                           "learning_rate", "finetuning_type",
                                           "stage",         "model_name_or_path" };

    for (size_t i = 0; i < TS_COUNT(related); i++)
        if (rule_line(context, related[i]))
            return related[i];
    return NULL;
}

/* Return whether the value is neither true, false nor auto (${x}, or an error for TS704),
 * or the key is duplicated. */
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

static void rule_float32_only(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    const char *key = fastest_format(context);
    bool trains = context->plan->dataset || rule_is_true(context, "do_train");
    const struct entry *where;

    if (context->plan->external && rule_launcher_precision(context, &where))
        return; /* TS124 */
    if (context->plan->external &&
        format_info(stored_weights_now(context).compute)->bytes == 2)
        return; /* weights in 16 bits need no autocast for tensor cores */
    if (is_unclear(context, "fp16") || is_unclear(context, "bf16"))
        return;
    if (!key || !trains || request->fp16 != CHOICE_NO || request->bf16 != CHOICE_NO ||
        request->pure_bf16 || request->fp8 || rule_trains_float16(context) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS118",
            .severity = SEVERITY_INFO,
            .apply = APPLY_UNSAFE,
            .message = arena_printf(context->arena,
                                    "neither bf16 nor fp16 is on: the tensor cores of "
                                    "this device, which support %s, stay idle",
                                    key),
            .note = rule_entry(context, "mixed_precision")
                        ? "mixed_precision is a key of Accelerate's own file; trained "
                          "weights stay float32"
                        : "trained weights stay float32" },
        key, "true", related_line(context));
}

static void rule_both_full_evals(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS121",
                               .severity = SEVERITY_ERROR,
                               .apply = APPLY_SAFE };
    bool bf16;

    if (!plan->fp16_full_eval || !plan->bf16_full_eval)
        return;
    if (!rule_knows_bf16(context, &bf16)) {
        finding.message = "fp16_full_eval and bf16_full_eval are both true; the right "
                          "one depends on the device, which is unknown";
        rule_report(context, &finding, "fp16_full_eval");
        return;
    }
    finding.message =
        bf16 ? "fp16_full_eval and bf16_full_eval are both true; this device has bf16"
             : "fp16_full_eval and bf16_full_eval are both true; this device has no bf16";
    finding.note = bf16 ? "bf16_full_eval stays" : "fp16_full_eval stays";
    rule_propose(context, &finding, bf16 ? "fp16_full_eval" : "bf16_full_eval", "false",
                 NULL);
}

static void turn_off(struct rule_context *context, const char *key, int group)
{
    struct finding finding = { .rule = "TS125",
                               .severity = SEVERITY_INFO,
                               .apply = APPLY_SAFE,
                               .group = group,
                               .note = "clipping stays unchanged" };
    const struct entry *where;
    const char *why;

    /* a default of the program: without it the launcher's precision would apply */
    if (!rule_line(context, key) && rule_launcher_precision(context, &where))
        return;
    if (!rule_is_llamafactory(context) || stored_weights_reach_float32(context, &why)) {
        finding.message = arena_printf(context->arena,
                                       "policy fp32: %s off; 1.5 to 2 times slower, and "
                                       "twice the memory of a 16-bit base model",
                                       key);
    } else {
        finding.severity = SEVERITY_WARNING;
        finding.message =
            arena_printf(context->arena,
                         "policy fp32: %s off, but this job does not reach float32", key);
        finding.note = why;
    }
    rule_propose(context, &finding, key, "false", NULL);
}

static void store_float32(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);
    const struct precision_request *request = &context->plan->request;
    bool lora = plan_adapts(context->plan);
    /* The cases that TS102, TS105 and TS108 do not edit. */
    bool bf16 = request->model_dtype == DTYPE_BFLOAT16 && !rule_lacks_bf16(context);
    bool fp16 = request->model_dtype == DTYPE_FLOAT16 && request->fp16 != CHOICE_YES &&
                (request->fp16 != CHOICE_NO || request->bf16 != CHOICE_NO);

    /* without autocast a script's frozen weights compute in their storage format */
    if (lora && context->plan->external)
        fp16 = request->model_dtype == DTYPE_FLOAT16;
    if (context->plan->external && request->model_dtype == DTYPE_AUTO &&
        rule_entry(context, "model_dtype")) /* the format of the files */
        fp16 = stored_weights_narrow(weights.base) &&
               !stored_weights_stop_scaler(&weights, WEIGHTS_ALL); /* TS105 */
    if ((bf16 || fp16) && (!lora || context->plan->external))
        rule_propose(context,
                     &(struct finding) { .rule = "TS125",
                                         .severity = SEVERITY_INFO,
                                         .apply = APPLY_SAFE,
                                         .message = "policy fp32: weights are stored in "
                                                    "float32" },
                     "model_dtype", "float32", NULL);
}

static void rule_policy_fp32(struct rule_context *context)
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
            turn_off(context, modes[i].key, i < 2 ? group : 0);
    store_float32(context);
}

static const struct rule rows[] = {
    { .id = "TS110",
      .title = "pure_bf16 trades precision for memory",
      .severity = SEVERITY_INFO,
      .run = rule_pure_bf16,
      .explain =
          "pure_bf16 stores trained weights and both moments in bfloat16: 6 bytes per "
          "weight instead of 12, without a float32 copy. bfloat16 has 8 bits of "
          "mantissa, so an update below 1/512 of its weight is lost when rounded to "
          "nearest. At a learning rate of 1e-5 this affects most updates of most "
          "weights.\n\n"
          "A native run rounds weights stochastically: up or down with a probability "
          "given by the distance to the two neighbors, so that lost and doubled updates "
          "cancel out. PyTorch rounds to nearest. Where memory allows, bf16: true "
          "(float32 weights, bfloat16 compute) is the better mode; lora saves more "
          "memory than pure_bf16.\n\n"
          "With lora under LLaMA-Factory, PEFT 0.12 and later make the adapters float32, "
          "so only the frozen base model is bfloat16, without autocast.",
      .source =
          "LLaMA-Factory#3510, #9591 and PR #5170; Gupta et al., Deep Learning with "
          "Limited Numerical Precision, 2015; docs/precision.md" },
    { .id = "TS111",
      .title = "pure_bf16 with fp16 or fp8",
      .severity = SEVERITY_ERROR,
      .run = rule_pure_bf16_with_fp16,
      .explain =
          "pure_bf16 makes weights, gradients and matmuls bfloat16; fp16 and fp8 ask "
          "for matmuls in another format over float32 weights. A run can use only one "
          "of them, and the file does not show which was meant, so nothing is "
          "edited.\n\n"
          "Remove pure_bf16 for speed and precision, or the other key to save memory.",
      .source = "DeepSpeed refuses fp16 with bf16; precision/policy.c" },
    { .id = "TS117",
      .title = "bf16: auto",
      .severity = SEVERITY_INFO,
      .run = rule_auto_precision,
      .explain =
          "The format is decided where the job runs: bf16 on compute capability 8.0 and "
          "higher, fp16 with a loss scale on older cards with tensor cores, float32 "
          "elsewhere. The file stays unchanged, so that the job can move to another "
          "machine; `plan` and the run's manifest report the choice. In an external job "
          "the script decides.",
      .source = "precision/policy.c" },
    { .id = "TS118",
      .title = "neither bf16 nor fp16 on a device with tensor cores",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_float32_only,
      .explain =
          "Without fp16 and bf16 every matmul is float32, and the tensor cores stay "
          "idle. 16-bit matmuls are several times faster there, and activations take "
          "half the memory. Trained weights and moments are float32 in both cases.\n\n"
          "`--unsafe` adds bf16: true on compute capability 8.0 and higher, and fp16: "
          "true with a dynamic loss scale on older cards with tensor cores, except for "
          "a model trained in bfloat16 (TS103). A run that serves as a float32 "
          "reference can stay unchanged: trainspool.policy: fp32 says so and silences "
          "this rule.",
      .source = "LLaMA-Factory, hparams/parser.py (\"We recommend enable mixed "
                "precision training\"); Micikevicius et al., Mixed Precision Training, "
                "2018" },
    { .id = "TS119",
      .title = "Axolotl's keys for 16-bit training",
      .severity = SEVERITY_WARNING,
      .explain =
          "In Axolotl `float16: true` does not mean fp16: it loads and trains the "
          "weights themselves in float16, without autocast, without float32 copies and "
          "without a loss scale, so training stalls or diverges (TS108). `bfloat16: "
          "true` does what `bf16: true` does in Axolotl: the weights are loaded and "
          "updated in bfloat16, under autocast, and small updates are rounded away "
          "(TS110).\n\n"
          "Nothing is edited, because each key has two possible meanings. `fp16: true` "
          "or `bf16: true` compute in 16 bits and keep float32 weights; this is usually "
          "right and costs 2 to 4 more bytes per trained weight. `pure_bf16: true` "
          "keeps bfloat16 weights to save that memory. trainspool has no pure float16 "
          "mode.",
      .source = "axolotl utils/schemas/config.py: float16, bfloat16; utils/config; "
                "core/builders/base.py" },
    { .id = "TS121",
      .title = "fp16_full_eval and bf16_full_eval both enabled",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_both_full_evals,
      .explain =
          "An evaluation runs in one format, and Hugging Face rejects both. As in "
          "TS101, the patch keeps bf16_full_eval where the device has bf16 (compute "
          "capability 8.0 or higher, or a CPU) and fp16_full_eval elsewhere; the other "
          "key becomes false.",
      .source = "TrainingArguments.__post_init__" },
    { .id = "TS125",
      .title = "policy fp32 turns 16-bit compute off",
      .severity = SEVERITY_INFO,
      .apply = APPLY_SAFE,
      .run = rule_policy_fp32,
      .explain =
          "This policy is for runs whose grad_norm is NaN in fp16. It makes everything "
          "float32: the patch sets bf16, fp16, pure_bf16 and fp8 to false and stores "
          "trained weights in float32. The run is 1.5 to 2 times slower, and a 16-bit "
          "base model takes twice the memory (not only the adapters, as is sometimes "
          "claimed). On compute capability 8.0 and higher, bf16 usually solves the same "
          "problem at no cost. Another program may compute in the format of the base "
          "model regardless, as LLaMA-Factory does for adapters; a warning reports that.",
      .source = "a user report (docs/precision.md)" },
};

const struct rules rules_mode = { rows, TS_COUNT(rows) };
