/* patcher/rules/rules_resume.c - the checkpoint that a run resumes from. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

/* ---- TS503: other settings than the checkpoint's ---- */

/* What decides how the run goes on; those of the first group are its precision. */
enum { PRECISION_KEYS = 4 };

static const char *const compared[] = {
    "bf16",
    "fp16",
    "pure_bf16",
    "model_dtype",
    "finetuning_type",
    "lora_rank",
    "lora_target",
    "optim",
    "learning_rate",
    "lr_scheduler_type",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "dataset",
    "mix_strategy",
    "interleave_probs",
    "cutoff_len",
    "max_samples",
    "val_size",
    "seed",
    "data_seed",
};

/* A field of the plan as a person writes it. */
static const char *field_text(const struct rule_context *context, const struct key *key,
                              const struct plan *plan)
{
    static const char *const choices[] = { "false", "true", "auto" };
    const void *field = (const char *)plan + key->into;
    const char *text;

    switch (key->type) {
    case KEY_BOOL:
        return *(const bool *)field ? "true" : "false";
    case KEY_CHOICE:
        return choices[*(const enum choice *)field];
    case KEY_INT:
        return arena_printf(context->arena, "%" PRId64, *(const int64_t *)field);
    case KEY_REAL:
        return scalar_print(*(const double *)field, context->arena);
    case KEY_ENUM:
        return key->values[*(const int *)field];
    default:
        text = *(const char *const *)field;
        return text ? text : "not given";
    }
}

static const char *add_change(const struct rule_context *context, const char *list,
                              const char *name, const char *was, const char *now)
{
    return arena_printf(context->arena, "%s%s%s: %s -> %s", list, *list ? ", " : "", name,
                        was, now);
}

/* Of the text that made the checkpoint, where it still lies beside the job. */
static const char *compare_texts(const struct rule_context *context,
                                 const struct plan *was, size_t from, size_t to)
{
    const char *list = "";

    for (size_t i = from; i < to; i++) {
        const struct key *key = schema_find(compared[i]);
        const char *before, *after;

        if (!key || key->use != KEY_USED || key->into == 0)
            continue;
        before = field_text(context, key, was);
        after = field_text(context, key, context->plan);
        if (strcmp(before, after) != 0)
            list = add_change(context, list, key->name, before, after);
    }
    return list;
}

/* Of what the checkpoint says of itself. */
static const char *compare_numbers(const struct rule_context *context,
                                   const struct previous_checkpoint *from)
{
    const struct {
        const char *name;
        int64_t was, now;
    } all[] = {
        { "per_device_train_batch_size", from->batch,
          context->plan->per_device_train_batch_size },
        { "seed", from->seed, context->plan->seed },
    };
    const char *list = "";

    for (size_t i = 0; i < TS_COUNT(all); i++)
        if (all[i].was >= 0 && all[i].was != all[i].now)
            list = add_change(context, list, all[i].name,
                              arena_printf(context->arena, "%" PRId64, all[i].was),
                              arena_printf(context->arena, "%" PRId64, all[i].now));
    return list;
}

/* What would run, where the device is known. */
static bool decide(const struct rule_context *context, struct precision *out)
{
    if (!context->device || context->plan->external)
        return false;
    policy_decide(&context->plan->request, context->device, out);
    return true;
}

static const char *compare(const struct rule_context *context,
                           const struct previous_checkpoint *from)
{
    const struct previous_text *text = previous_text(context->previous);
    bool known = text && from->job && strcmp(text->digest, from->job) == 0;
    const char *list = "", *rest;
    struct precision precision;

    if (known)
        list = compare_texts(context, text->plan, 0, PRECISION_KEYS);
    if (!*list && from->mode && decide(context, &precision) &&
        strcmp(from->mode, mode_names[precision.mode]) != 0)
        list = add_change(context, list, "precision", from->mode,
                          mode_names[precision.mode]);
    rest = known ? compare_texts(context, text->plan, PRECISION_KEYS, TS_COUNT(compared))
                 : compare_numbers(context, from);
    return arena_printf(context->arena, "%s%s%s", list, *list && *rest ? ", " : "", rest);
}

static void rule_resume_changes_settings(struct rule_context *context)
{
    const struct rule_resume resume = rule_find_resume(context);
    const char *list = resume.from ? compare(context, resume.from) : "";

    if (!*list || (context->plan->external && plan_ranks(context->plan) > 1))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS503",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "the run goes on from %s with other settings: "
                                    "%s",
                                    resume.from->base, list),
            .note = "weights, moments and the step are the checkpoint's, settings "
                    "are the file's" },
        "resume_from_checkpoint");
}

/* ---- TS504: no loss scale ---- */

static bool will_scale(const struct rule_context *context)
{
    struct precision precision;

    if (decide(context, &precision))
        return precision.scaling == SCALING_DYNAMIC;
    return rule_requests_fp16(context) &&
           context->plan->request.loss_scaling == CHOICE_AUTO;
}

static bool has_scale(const struct rule_context *context,
                      const struct previous_checkpoint *from)
{
    if (context->plan->external)
        return !from->foreign || from->scaler_file || rule_entry(context, "deepspeed");
    return !from->whole || (from->scaling && strcmp(from->scaling, "dynamic") == 0);
}

static void rule_resume_without_scale(struct rule_context *context)
{
    const struct rule_resume resume = rule_find_resume(context);

    if (!resume.from || !will_scale(context) || has_scale(context, resume.from))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS504",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "%s has no loss scale for fp16: it begins at "
                                    "65536 again, and some of the first steps may "
                                    "be skipped",
                                    resume.from->base),
            .note = context->plan->external
                        ? "scaler.pt was not saved with it"
                        : "it was not saved by a run with a dynamic loss scale" },
        "resume_from_checkpoint");
}

/* ---- TS505: checkpoints that cannot be gone on from ---- */

static bool wants_retries(const struct rule_context *context)
{
    const struct entry *block = document_find(context->document, "trainspool");

    return block && node_find(node_value(block->value), "max_retries") &&
           context->plan->max_retries > 0;
}

static void rule_save_only_model(struct rule_context *context)
{
    const bool asked = rule_find_resume(context).asked;

    if (!context->plan->save_only_model || !(asked || wants_retries(context)))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS505",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(
                        context->arena,
                        "save_only_model leaves the optimizer out of the checkpoints: %s",
                        asked ? "nothing can go on from them"
                              : "after a crash the job begins anew"),
                    .note = "save_only_model: false" },
                "save_only_model");
}

/* ---- TS513: nothing to go on from ---- */

static void report_nothing_to_resume(struct rule_context *context, enum severity severity,
                                     const char *message, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS513",
                                    .severity = severity,
                                    .message = message,
                                    .because = "looked for on this machine",
                                    .note = note },
                "resume_from_checkpoint");
}

/* A folder that is there, and is no checkpoint for this run. */
static void report_unusable(struct rule_context *context,
                            const struct previous_checkpoint *found)
{
    if (context->plan->external)
        report_nothing_to_resume(
            context, SEVERITY_WARNING,
            "resume_from_checkpoint names a folder without trainer_state.json", NULL);
    else
        report_nothing_to_resume(
            context, SEVERITY_ERROR,
            found->foreign ? "resume_from_checkpoint names a checkpoint of "
                             "another program, whose optimizer is not read here"
                           : "resume_from_checkpoint names a folder that no "
                             "run can go on from: it has no optimizer, or is "
                             "not whole",
            "model_name_or_path can name it instead: its weights, a new "
            "optimizer");
}

static void rule_nothing_to_resume(struct rule_context *context)
{
    const struct rule_resume resume = rule_find_resume(context);
    bool external = context->plan->external;

    if (!resume.asked ||
        (resume.from && (external ? resume.from->foreign : resume.from->whole)))
        return;
    if (!resume.named)
        report_nothing_to_resume(
            context, external ? SEVERITY_WARNING : SEVERITY_INFO,
            external ? "output_dir holds no checkpoint: a Trainer that is told "
                       "to go on from the last one stops"
                     : "there is no checkpoint to go on from yet: the run "
                       "begins anew",
            NULL);
    else if (!resume.from)
        report_nothing_to_resume(
            context, context->options->will_run ? SEVERITY_ERROR : SEVERITY_WARNING,
            "the checkpoint that resume_from_checkpoint names is not there", NULL);
    else
        report_unusable(context, resume.from);
}

static const struct rule rows[] = {
    { .id = "TS503",
      .title = "the run goes on from a checkpoint with other settings",
      .severity = SEVERITY_WARNING,
      .run = rule_resume_changes_settings,
      .explain =
          "Weights, Adam's moments, the step and the loss scale come from the "
          "checkpoint; precision, optimizer, learning rate, batch, data and seed from "
          "the job. Where they differ from those that made the checkpoint the run is a "
          "mixture of both, and its curve has a kink at that step. Each difference is "
          "shown as key: was -> now.\n\n"
          "With another batch, accumulation, data set or seed the place in the data is "
          "lost as well: it is counted in steps, so some samples come twice and some "
          "not at all. It may be what you want. If not, put the old values back; "
          "torchtune does that by itself, with a warning.\n\n"
          "The old settings are read from NAME.run/job.yaml where that is the text that "
          "made the checkpoint, else the few that the checkpoint itself keeps are "
          "compared: precision, seed, batch.",
      .source = "train/run.c, train/checkpoint/progress.c; torchtune recipes (resume)" },
    { .id = "TS504",
      .title = "fp16 goes on from a checkpoint without a loss scale",
      .severity = SEVERITY_WARNING,
      .run = rule_resume_without_scale,
      .explain =
          "A dynamic loss scale is found by trying: it begins at 65536 and halves at "
          "each overflow. A run that goes on with the scale it had loses nothing. "
          "Without it the search begins again, and a run that was at 256 skips 8 steps "
          "first; their learning rate is not advanced here, in other tools it may be.\n"
          "\n"
          "A checkpoint has none if it was saved in bf16 or fp32, or by a script that "
          "did not save scaler.pt. Skipped steps at the start are no trouble: TS405 "
          "passes over norms that are not finite within the first ten steps.",
      .source = "transformers#34053; fairseq2#1346; train/run.c" },
    { .id = "TS505",
      .title = "checkpoints without optimizer, and a resume is expected",
      .severity = SEVERITY_WARNING,
      .run = rule_save_only_model,
      .explain =
          "save_only_model: true leaves Adam's moments out, two thirds of a full "
          "checkpoint's bytes. Without them no run can go on exactly, and none does: "
          "resume_from_checkpoint finds nothing, and what trainspool.max_retries starts "
          "after a crash begins at step 0. With lora the moments are small, and leaving "
          "them out saves little.",
      .source =
          "transformers training_args.py: save_only_model; train/checkpoint/checkpoint.c" },
    { .id = "TS513",
      .title = "resume_from_checkpoint names nothing to go on from",
      .severity = SEVERITY_WARNING,
      .firm = true,
      .run = rule_nothing_to_resume,
      .explain =
          "A folder that is not there is a warning in `check`, since the job may be for "
          "another machine, and an error in `run`. A folder that is there and is no "
          "checkpoint of ours, lost a file, or was saved with save_only_model, is an "
          "error: the training would fail after the model and the data are read. To "
          "train its weights further with a new optimizer, name it in "
          "model_name_or_path.\n\n"
          "resume_from_checkpoint: true with no checkpoint yet is information: the run "
          "begins anew, so the line may stand in a job from its first run on. Hugging "
          "Face's Trainer stops there.",
      .source =
          "train/checkpoint/checkpoint.c, train/files/manifest.c; transformers trainer.py" },
};

const struct rules rules_resume = { rows, TS_COUNT(rows) };
