/* patcher/rules/rules_distill.c - distillation: the student, its teacher, and what both
 * must share; some rules apply to the reference model of preference training, too. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"

#define TEACHER "teacher_model_name_or_path"

static bool is_distillation(const struct rule_context *context)
{
    return context->plan->stage == STAGE_DISTILL;
}

static void rule_teacher_missing(struct rule_context *context)
{
    if (!is_distillation(context) || rule_entry(context, TEACHER) ||
        context->plan->anchor > 0 || context->plan->kd.logits) /* TS713 checks the file */
        return;
    rule_report(context,
                &(struct finding) { .rule = "TS901",
                                    .severity = SEVERITY_ERROR,
                                    .message =
                                        "distillation requires a teacher, but the job "
                                        "names none",
                                    .note = TEACHER " must name the folder of a larger "
                                                    "model" },
                "stage");
}

/* "modules of KEY are", or what a key without a list of modules trains. */
static const char *whole_modules(const struct rule_context *context,
                                 const struct stored_weights *weights)
{
    return strcmp(weights->whole_key, "lora_task_type") == 0
               ? "the new head of a classifier (SEQ_CLS) is"
               : arena_printf(context->arena, "modules of %s are", weights->whole_key);
}

/* Modules trained whole next to adapters are copies of the base model and keep its
 * format, in every stage.  If the adapters have it, too, TS801 reports both. */
static void report_whole_modules(struct rule_context *context,
                                 const struct stored_weights *weights)
{
    enum format format = weights->parts[WEIGHTS_WHOLE];
    struct finding finding = {
        .rule = "TS902",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .because = weights->base_source,
        .message = arena_printf(context->arena,
                                "%s trained whole, in the format of the %s model, %s",
                                whole_modules(context, weights), format_dtype(format),
                                stored_weights_refusal(format)),
        .note = "or cast those modules to float32 in the script: the base may then stay "
                "in 16 bits",
    };

    if (rule_removes_scaler(context))
        finding.severity = SEVERITY_WARNING;
    else if (rule_entry(context, "model_dtype") && !rule_dtype_computes(context)) {
        rule_propose(context, &finding, "model_dtype", "float32", NULL);
        return;
    }
    finding.note = "cast those modules to float32 in the script, or load the model with "
                   "dtype=torch.float32";
    rule_report(context, &finding, weights->whole_key);
}

static void rule_refused_modules(struct rule_context *context)
{
    const struct stored_weights weights = stored_weights_now(context);
    struct finding finding = {
        .rule = "TS902",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "the student, and any router or projector trained with it, would be "
                   "float16, which the loss scaler cannot unscale",
        .note = "every parameter in the optimizer must be float32; the teacher may stay "
                "float16",
    };

    if (stored_weights_stop_scaler(&weights, WEIGHTS_WHOLE) &&
        !stored_weights_stop_scaler(&weights, WEIGHTS_ADAPTERS)) {
        report_whole_modules(context, &weights);
        return;
    }
    if (!is_distillation(context) || context->plan->request.fp16 != CHOICE_YES ||
        !rule_trains_float16(context))
        return;
    if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        rule_report(context, &finding, "fp16");
    } else if (context->plan->external && !rule_entry(context, "model_dtype")) {
        rule_report(context, &finding, "fp16"); /* TS107 handles what the script reads */
    } else {
        rule_propose(context, &finding, "model_dtype", "float32", "fp16");
    }
}

/* Return the key that names the teacher; for a reference that is the model itself, the
 * key that requires one. */
static const char *teacher_key(const struct rule_context *context)
{
    const char *key = context->teacher->names->key;

    return rule_entry(context, key) ? key : "stage";
}

static void rule_16bit_teacher(struct rule_context *context)
{
    const struct teacher *teacher = context->teacher;
    char bytes[16];

    if (!teacher->names ||
        (teacher->format != FORMAT_FP16 && teacher->format != FORMAT_BF16))
        return;
    memory_text(teacher->bytes, bytes);
    rule_report(context,
                &(struct finding) {
                    .rule = "TS903",
                    .severity = SEVERITY_INFO,
                    .message = arena_printf(
                        context->arena, "the %s is %s and frozen, which is safe%s%s",
                        teacher->names->teacher, format_info(teacher->format)->torch,
                        teacher->bytes ? "; it takes another " : "",
                        teacher->bytes ? bytes : "") },
                teacher_key(context));
}

/* Logits in a file require kd_topk, which bounds its size. */
static void report_unbounded_logits(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "teacher_logits");

    if (!entry || !context->plan->kd.logits || context->plan->kd.topk > 0)
        return;
    propose_remark(
        &to,
        &(struct finding) { .rule = "TS904",
                            .severity = SEVERITY_ERROR,
                            .message = "teacher_logits requires kd_topk: all logits of a "
                                       "teacher are too large to store",
                            .note = "kd_topk: 64 takes 512 bytes per token" },
        entry);
}

/* kd_topk keeps some of the logits; reverse KL needs all of them. */
static void report_topk_with_reverse_kl(struct rule_context *context)
{
    double beta;

    if (context->plan->kd.topk <= 0 || !rule_number(context, "kd_beta", &beta) ||
        beta != 1)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS904",
                    .severity = SEVERITY_ERROR,
                    .message =
                        "kd_beta: 1 requires all of the teacher's logits, but kd_topk "
                        "omits some: the reverse KL is infinite",
                    .note = "use a kd_beta below 1, or no kd_topk" },
                "kd_beta");
}

/* A kd_topk above the vocabulary size keeps all logits. */
static void report_topk_keeps_all(struct rule_context *context)
{
    const struct model_config *config = context->teacher->config;

    if (!config || context->plan->kd.topk <= 0 ||
        (uint64_t)context->plan->kd.topk <= config->vocab_size)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS904",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(context->arena,
                                            "the teacher has %zu tokens, so kd_topk "
                                            "omits none",
                                            config->vocab_size),
                    .note = "a smaller kd_topk keeps the likeliest tokens; without the "
                            "key all are compared" },
                "kd_topk");
}

static void rule_kd_bounds(struct rule_context *context)
{
    static const struct {
        const char *key, *wanted;
        double min, max;
        bool excludes_min; /* min itself is not allowed */
    } all[] = {
        { "kd_ratio", "from 0 (data only) to 1 (teacher only)", 0, 1, false },
        { "kd_temperature", "above 0", 0, INFINITY, true },
        { "kd_beta", "from 0 to 1", 0, 1, false },
    };

    for (size_t i = 0; is_distillation(context) && i < TS_COUNT(all); i++) {
        double value;

        if (!rule_number(context, all[i].key, &value) ||
            (isfinite(value) && value <= all[i].max &&
             (all[i].excludes_min ? value > all[i].min : value >= all[i].min)))
            continue;
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS904",
                        .severity = SEVERITY_ERROR,
                        .message = arena_printf(context->arena, "%s must be %s, not %s",
                                                all[i].key, all[i].wanted,
                                                scalar_print(value, context->arena)) },
                    all[i].key);
    }
    if (is_distillation(context)) {
        report_topk_with_reverse_kl(context);
        report_topk_keeps_all(context);
        report_unbounded_logits(context);
    }
}

static const char *vocabulary_note(const struct rule_context *context)
{
    if (context->plan->stage >= STAGE_DPO)
        return "both must use the same tokens: choose a reference from the same model "
               "family";
    if (context->teacher->vocabularies == VOCABULARIES_DIFFER)
        return "logits are compared token by token: choose a teacher from the same model "
               "family";
    return context->plan->external
               ? "the shorter length must be used; not every script does so"
               : "the shorter length is used";
}

/* A reference only scores the tokens of an answer, each model with its own softmax:
 * additional rows of logits do no harm. */
static bool reports_vocabulary(const struct rule_context *context)
{
    const struct teacher *teacher = context->teacher;

    return teacher->difference && (context->plan->stage < STAGE_DPO ||
                                   teacher->vocabularies == VOCABULARIES_DIFFER);
}

static void rule_vocabulary_mismatch(struct rule_context *context)
{
    const struct teacher *teacher = context->teacher;

    if (!reports_vocabulary(context))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS905",
            .severity = teacher->vocabularies == VOCABULARIES_DIFFER ? SEVERITY_ERROR
                        : context->plan->external                    ? SEVERITY_WARNING
                                                                     : SEVERITY_INFO,
            .message = arena_printf(context->arena, "%s and %s %s: %s",
                                    teacher->names->teacher, teacher->names->student,
                                    teacher->vocabularies == VOCABULARIES_DIFFER
                                        ? "do not share a vocabulary"
                                        : "share their tokens, but have logits of "
                                          "different lengths",
                                    teacher->difference),
            .note = vocabulary_note(context) },
        teacher_key(context));
}

/* Return lora_dropout of the teacher's adapter. */
static const char *adapter_dropout(const struct rule_context *context)
{
    const char *key = "teacher_adapter_name_or_path";
    const struct entry *entry = rule_entry(context, key);
    char *dir = entry ? path_input(context->plan->dir ? context->plan->dir : ".",
                                   node_value(entry->value)->text)
                      : NULL;
    char *name = dir ? path_join(dir, "adapter_config.json") : NULL;
    json_t *config = name ? json_read_file(name, (size_t)1 << 20, NULL) : NULL;
    double value = json_number_value(json_object_get(config, "lora_dropout"));

    json_decref(config);
    free(name);
    free(dir);
    return value > 0 ? arena_printf(context->arena, "lora_dropout %g", value) : NULL;
}

static void rule_teacher_dropout(struct rule_context *context)
{
    const char *dropout;

    if (!is_distillation(context))
        return;
    dropout =
        context->teacher->dropout ? context->teacher->dropout : adapter_dropout(context);
    if (!dropout)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS906",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(context->arena,
                                            "the teacher has %s: in training mode its "
                                            "logits differ from call to call",
                                            dropout),
                    .note = "call teacher.eval() and use torch.no_grad() in the script" },
                TEACHER);
}

static const struct rule rows[] = {
    { .id = "TS901",
      .title = "distillation without a teacher",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_teacher_missing,
      .explain =
          "stage: distill trains a small model, the student in model_name_or_path, on "
          "the data and on the predictions of a larger model at each token. The larger "
          "model is teacher_model_name_or_path, a folder. Without it the student can "
          "only learn from the data, which is stage: sft. trainspool.teacher_logits, a "
          "file with the logits of a teacher for these data, can replace the model.",
      .source = "TRL GKDConfig: teacher_model_name_or_path" },
    { .id = "TS902",
      .title = "16-bit student, or 16-bit modules trained with a model",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_refused_modules,
      .explain =
          "This is the rule of TS105 for whatever else is trained: a gradient has the "
          "format of its parameter, and the loss scaler refuses float16 and bfloat16 "
          "gradients. The scaler checks every parameter in the optimizer. A float32 "
          "student, or float32 adapters, are not enough if a router, a projector or "
          "whole modules are optimized with them: one 16-bit parameter among them stops "
          "the run with the same error.\n\n"
          "PEFT trains the modules of additional_target, modules_to_save and "
          "lora_modules_to_save, and the new head of a classifier, as copies of the "
          "originals. autocast_adapter_dtype does not cast them: they have the format "
          "of the base model. LLaMA-Factory casts them, TRL those next to quantized "
          "weights.\n\n"
          "The patch stores the student in float32 and keeps fp16 compute, with scaler "
          "and clipping. A script casts the other modules to float32 with "
          "module.float(), or PEFT's cast_mixed_precision_params. The teacher is frozen "
          "and may stay float16. Turning the scaler off does not help: see TS108.",
      .source = "a user report; torch/amp/grad_scaler.py, _unscale_grads_; PEFT "
                "utils/other.py, ModulesToSaveWrapper; axolotl#1031" },
    { .id = "TS903",
      .title = "16-bit teacher",
      .severity = SEVERITY_INFO,
      .run = rule_16bit_teacher,
      .explain =
          "This is safe. The teacher is not trained and has no gradients, so float16 or "
          "bfloat16 is the right format: half the memory of float32. Its softmax is "
          "computed in float32. A model trained in bf16 can overflow in float16 "
          "(TS103); then keep it in bfloat16, or in float32 on a card without bf16.\n\n"
          "The teacher's memory is added to the student's; the estimate of TS301 "
          "includes it.\n\n"
          "The same applies to the reference model of stage dpo: ref_model, or, if all "
          "weights are trained, the model itself, which is then loaded twice. With lora "
          "the reference is the model without its adapter and takes no memory.",
      .source = "a user report (docs/precision.md)" },
    { .id = "TS904",
      .title = "distillation ratio or temperature out of range",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_kd_bounds,
      .explain =
          "The loss is (1 - kd_ratio) times that of the data plus kd_ratio times that "
          "of the teacher, so kd_ratio is a fraction. Logits are divided by "
          "kd_temperature: 1 keeps them, 2 softens them, 0 divides by zero, and a "
          "negative value makes the least likely token the best. kd_beta ranges from "
          "forward KL (0) to reverse KL (1).\n\n"
          "With kd_topk only the teacher's largest logits are kept; the other tokens "
          "have probability 0. Reverse KL divides by these probabilities and is "
          "infinite, so kd_topk requires a kd_beta below 1. A kd_topk above the "
          "teacher's vocabulary size omits nothing.",
      .source = "torchtune kd_ratio; TRL GKDConfig: temperature, beta" },
    { .id = "TS905",
      .title = "teacher and student do not share a vocabulary",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_vocabulary_mismatch,
      .explain =
          "The student's probability of token 17 is compared with the teacher's "
          "probability of token 17. If that is a different token, the student learns "
          "noise, and no error is raised. The rule therefore compares tokenizer.json of "
          "both: every token and its id, including added ones.\n\n"
          "Models of one family often share their tokens but differ in vocab_size, "
          "because its rows are padded to a round number (Qwen2.5: 151936 and 152064). "
          "That is a warning: the padding never is a token, but a script must truncate "
          "both to the shorter length, or it fails at the first batch. A native run "
          "does so: both softmaxes of the divergence use the shorter length, the "
          "cross-entropy of the data uses the full length of the student. If a "
          "tokenizer.json is missing, only vocab_size is compared.\n\n"
          "A ref_model of stage dpo reads the tokens of the trained model, so it must "
          "have the same tokens. The number of rows of its logits does not matter.",
      .source = "TRL gkd_trainer.py compares logits by index; config.json of Qwen2.5" },
    { .id = "TS906",
      .title = "teacher has dropout",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_teacher_dropout,
      .explain =
          "A model that was just loaded by from_pretrained is in evaluation mode, but a "
          "model that is part of the trained module switches to training mode with it, "
          "by one call of train(). With dropout in its configuration or its adapter, "
          "its logits then differ from call to call, and the student learns the noise. "
          "Call eval() on it, and compute it under no_grad, which also saves its "
          "activations. A native run never applies dropout to the teacher.",
      .source = "PyTorch nn.Module.train; transformers modeling_utils.py" },
};

const struct rules rules_distill = { rows, TS_COUNT(rows) };
