/* patcher/rules_distill.c - a student, its teacher, and what both must share; what is
 * said of a teacher is said of the reference of preferences, too. */
#include "config.h"

#include "patcher/rules_parts.h"

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

void rule_teacher_missing(struct rule_context *context)
{
    if (!is_distillation(context) || rule_entry(context, TEACHER) ||
        context->plan->kd.logits) /* TS713 looks for the file */
        return;
    rule_tell(context,
              &(struct finding) { .rule = "TS901",
                                  .severity = SEVERITY_ERROR,
                                  .message =
                                      "a distillation needs a teacher, and the job "
                                      "names none",
                                  .note = TEACHER ": a folder with a larger model" },
              "stage");
}

/* ---- TS902: all that is trained, not the student alone ---- */

static bool half_base(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    return request->model_dtype == DTYPE_FLOAT16 ||
           (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);
}

/* Modules trained whole beside adapters: copies of the base, which nobody makes
 * float32. */
static bool half_extras(const struct rule_context *context)
{
    return context->plan->external && context->plan->method == METHOD_LORA &&
           rule_entry(context, "additional_target") && half_base(context) &&
           !rule_is_llamafactory(context);
}

void rule_half_student(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS902",
        .severity = SEVERITY_ERROR,
        .apply = APPLY_SAFE,
        .message = "the student, and any router or projector trained with it, would be "
                   "float16, which the loss scaler cannot unscale",
        .note = "every parameter in the optimizer must be float32; the teacher may stay "
                "float16",
    };

    if (!is_distillation(context) || context->plan->request.fp16 != CHOICE_YES)
        return;
    if (half_extras(context)) {
        finding.message = "modules of additional_target are trained as copies of the "
                          "float16 model, which the loss scaler cannot unscale";
        rule_tell(context, &finding, "additional_target");
    } else if (!rule_half_trainables(context)) {
        return;
    } else if (rule_is_policy(context, POLICY_NOSCALER)) {
        finding.severity = SEVERITY_WARNING;
        rule_tell(context, &finding, "fp16");
    } else if (context->plan->external && !rule_entry(context, "model_dtype")) {
        rule_tell(context, &finding, "fp16"); /* TS107 knows what the script reads */
    } else {
        rule_set(context, &finding, "model_dtype", "float32", "fp16");
    }
}

/* ---- The teacher, or the reference ---- */

/* The key that names it; of a reference that is the model itself, what asks for one. */
static const char *named_by(const struct rule_context *context)
{
    const char *key = context->teacher->words->key;

    return rule_entry(context, key) ? key : "stage";
}

void rule_half_teacher(struct rule_context *context)
{
    const struct teacher *teacher = context->teacher;
    char bytes[16];

    if (!teacher->words ||
        (teacher->format != FORMAT_FP16 && teacher->format != FORMAT_BF16))
        return;
    memory_text(teacher->bytes, bytes);
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS903",
                  .severity = SEVERITY_INFO,
                  .message = arena_printf(
                      context->arena, "the %s is %s and frozen, which is fine%s%s",
                      teacher->words->teacher, format_info(teacher->format)->torch,
                      teacher->bytes ? "; it takes another " : "",
                      teacher->bytes ? bytes : "") },
              named_by(context));
}

/* What is written down of a teacher has to have an end. */
static void unbounded_logits(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "teacher_logits");

    if (!entry || !context->plan->kd.logits || context->plan->kd.topk > 0)
        return;
    propose_remark(
        &to,
        &(struct finding) { .rule = "TS904",
                            .severity = SEVERITY_ERROR,
                            .message = "teacher_logits needs kd_topk: all logits of a "
                                       "teacher are too much to write down",
                            .note = "kd_topk: 64 takes 512 bytes a token" },
        entry);
}

/* What is kept of a teacher, and a distance that wants all of it. */
static void kept_reverse(struct rule_context *context)
{
    double beta;

    if (context->plan->kd.topk <= 0 || !rule_number(context, "kd_beta", &beta) ||
        beta != 1)
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS904",
                  .severity = SEVERITY_ERROR,
                  .message = "kd_beta: 1 needs all of the teacher's logits, and kd_topk "
                             "leaves some out: the reverse KL is infinite",
                  .note = "a kd_beta below 1, or no kd_topk" },
              "kd_beta");
}

/* More than there are is all of them. */
static void kept_all(struct rule_context *context)
{
    const struct model_config *config = context->teacher->config;

    if (!config || context->plan->kd.topk <= 0 ||
        (uint64_t)context->plan->kd.topk <= config->vocab_size)
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS904",
                  .severity = SEVERITY_WARNING,
                  .message = arena_printf(context->arena,
                                          "the teacher has %zu words, so that kd_topk "
                                          "leaves none out",
                                          config->vocab_size),
                  .note = "a kd_topk below that keeps the likeliest; without the key "
                          "all are compared" },
              "kd_topk");
}

void rule_kd_numbers(struct rule_context *context)
{
    static const struct {
        const char *key, *wanted;
        double min, max;
        bool open; /* min itself is outside */
    } all[] = {
        { "kd_ratio", "from 0 (the data alone) to 1 (the teacher alone)", 0, 1, false },
        { "kd_temperature", "above 0", 0, INFINITY, true },
        { "kd_beta", "from 0 to 1", 0, 1, false },
    };

    for (size_t i = 0; is_distillation(context) && i < TS_COUNT(all); i++) {
        double value;

        if (!rule_number(context, all[i].key, &value) ||
            (isfinite(value) && value <= all[i].max &&
             (all[i].open ? value > all[i].min : value >= all[i].min)))
            continue;
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS904",
                      .severity = SEVERITY_ERROR,
                      .message = arena_printf(context->arena, "%s must be %s, not %s",
                                              all[i].key, all[i].wanted,
                                              scalar_print(value, context->arena)) },
                  all[i].key);
    }
    if (is_distillation(context)) {
        kept_reverse(context);
        kept_all(context);
        unbounded_logits(context);
    }
}

static const char *vocabulary_note(const struct rule_context *context)
{
    if (context->plan->stage == STAGE_DPO)
        return "both must read the same tokens: take a reference of the same family";
    if (context->teacher->vocabularies == VOCABULARIES_DIFFER)
        return "logits are compared token by token: take a teacher of the same family";
    return context->plan->external
               ? "the shorter length must be compared; not every script does"
               : "the shorter length is compared";
}

/* A reference tells how likely the tokens of an answer are, each model by its own
 * softmax: further rows of logits do no harm. */
static bool is_told(const struct rule_context *context)
{
    const struct teacher *teacher = context->teacher;

    return teacher->difference && (context->plan->stage != STAGE_DPO ||
                                   teacher->vocabularies == VOCABULARIES_DIFFER);
}

void rule_vocabularies(struct rule_context *context)
{
    const struct teacher *teacher = context->teacher;

    if (!is_told(context))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS905",
            .severity = teacher->vocabularies == VOCABULARIES_DIFFER ? SEVERITY_ERROR
                        : context->plan->external                    ? SEVERITY_WARNING
                                                                     : SEVERITY_INFO,
            .message = arena_printf(context->arena, "%s and %s %s: %s",
                                    teacher->words->teacher, teacher->words->student,
                                    teacher->vocabularies == VOCABULARIES_DIFFER
                                        ? "do not share a vocabulary"
                                        : "share their tokens, but not the length of "
                                          "their logits",
                                    teacher->difference),
            .note = vocabulary_note(context) },
        named_by(context));
}

/* lora_dropout of the teacher's adapter. */
static const char *adapter_dropout(const struct rule_context *context)
{
    const char *key = "teacher_adapter_name_or_path";
    const struct entry *entry = rule_entry(context, key);
    char *dir = entry ? path_join(context->plan->dir ? context->plan->dir : ".",
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

void rule_teacher_dropout(struct rule_context *context)
{
    const char *dropout;

    if (!is_distillation(context))
        return;
    dropout =
        context->teacher->dropout ? context->teacher->dropout : adapter_dropout(context);
    if (!dropout)
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS906",
                  .severity = SEVERITY_WARNING,
                  .message = arena_printf(context->arena,
                                          "the teacher has %s: left in training mode, "
                                          "it gives other logits at each look",
                                          dropout),
                  .note = "teacher.eval() and torch.no_grad() in the script" },
              TEACHER);
}
