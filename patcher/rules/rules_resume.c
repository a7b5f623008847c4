/* patcher/rules/rules_resume.c - the checkpoint that a run resumes from. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"
#include "train/model/optimizer_table.h"

/* Keys that determine how the run continues; the first group is its precision. */
enum { PRECISION_KEYS = 4 };

static const char *const compared[] = {
    "bf16",
    "fp16",
    "pure_bf16",
    "model_dtype",
    "finetuning_type",
    "use_llama_pro",
    "lora_rank",
    "lora_target",
    "lora_target_parameters",
    "optim",
    "use_muon",
    "use_adam_mini",
    "use_galore",
    "galore_rank",
    "use_apollo",
    "apollo_rank",
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

/* Format a field of the plan as in a job. */
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
        if (key->values == optimizer_names) /* names of one optimizer are alike */
            return optimizer_names[optimizer_first_name(*(const int *)field)];
        return key->values[*(const int *)field];
    default:
        text = *(const char *const *)field;
        return text ? text : "not given";
    }
}

static const char *add_change(const struct rule_context *context, const char *list,
                              const char *name, const char *previous, const char *current)
{
    return arena_printf(context->arena, "%s%s%s: %s -> %s", list, *list ? ", " : "", name,
                        previous, current);
}

/* Compare with the text of the job that wrote the checkpoint, if it still exists. */
static const char *compare_texts(const struct rule_context *context,
                                 const struct plan *previous, size_t from, size_t to)
{
    const char *list = "";

    for (size_t i = from; i < to; i++) {
        const struct key *key = schema_find(compared[i]);
        const char *before, *after;

        if (!key || key->use != KEY_USED || key->into == 0)
            continue;
        before = field_text(context, key, previous);
        after = field_text(context, key, context->plan);
        if (strcmp(before, after) != 0)
            list = add_change(context, list, key->name, before, after);
    }
    return list;
}

/* Compare with the settings that the checkpoint records. */
static const char *compare_checkpoint(const struct rule_context *context,
                                      const struct previous_checkpoint *from)
{
    const struct {
        const char *name;
        int64_t previous, current;
    } all[] = {
        { "per_device_train_batch_size", from->batch,
          context->plan->per_device_train_batch_size },
        { "seed", from->seed, context->plan->seed },
    };
    const char *list = "";

    for (size_t i = 0; i < TS_COUNT(all); i++)
        if (all[i].previous >= 0 && all[i].previous != all[i].current)
            list = add_change(context, list, all[i].name,
                              arena_printf(context->arena, "%" PRId64, all[i].previous),
                              arena_printf(context->arena, "%" PRId64, all[i].current));
    if (from->optimizer && optimizer_find(from->optimizer) >= 0 &&
        optimizer_first_name(optimizer_find(from->optimizer)) !=
            optimizer_first_name(context->plan->optimizer))
        list = add_change(context, list, "optimizer", from->optimizer,
                          optimizer_name(context->plan->optimizer));
    return list;
}

/* Decide the precision of the run, if the device is known. */
static bool decide(const struct rule_context *context, struct precision *out)
{
    if (!context->device || context->plan->external)
        return false;
    policy_decide(&context->plan->request, context->device, out);
    return true;
}

static const char *list_changes(const struct rule_context *context,
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
                 : compare_checkpoint(context, from);
    return arena_printf(context->arena, "%s%s%s", list, *list && *rest ? ", " : "", rest);
}

static void rule_resume_changes_settings(struct rule_context *context)
{
    const struct rule_resume resume = rule_find_resume(context);
    const char *list = resume.from ? list_changes(context, resume.from) : "";

    /* a patch that heals is meant to change settings */
    if (!*list || context->options->heal ||
        (context->plan->external && plan_ranks(context->plan) > 1))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS503",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "the run resumes from %s with other settings: %s",
                                    resume.from->base, list),
            .note = "weights, moments and the step come from the checkpoint, settings "
                    "from the job" },
        "resume_from_checkpoint");
}

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
        return from->scaler_file || !(from->foreign || from->torch_state) ||
               rule_entry(context, "deepspeed");
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
                                    "%s has no loss scale for fp16: the scale starts at "
                                    "65536 again, and some of the first steps may be "
                                    "skipped",
                                    resume.from->base),
            .note = context->plan->external
                        ? "scaler.pt was not saved with it"
                        : "it was not saved by a run with a dynamic loss scale" },
        "resume_from_checkpoint");
}

static bool asks_for_retries(const struct rule_context *context)
{
    const struct entry *block = document_find(context->document, "trainspool");

    return block && node_find(node_value(block->value), "max_retries") &&
           context->plan->max_retries > 0;
}

static void rule_save_only_model(struct rule_context *context)
{
    const bool asked = rule_find_resume(context).asked;

    if (!context->plan->save_only_model || !(asked || asks_for_retries(context)))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS505",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(
                        context->arena,
                        "save_only_model leaves the optimizer out of the checkpoints: %s",
                        asked ? "no run can resume from them"
                              : "after a crash the job starts from scratch"),
                    .note = "set save_only_model: false" },
                "save_only_model");
}

static void report_nothing_to_resume(struct rule_context *context, enum severity severity,
                                     const char *message, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS513",
                                    .severity = severity,
                                    .message = message,
                                    .because = "checked on this machine",
                                    .note = note },
                "resume_from_checkpoint");
}

/* Report a folder that exists but is no checkpoint for this run. */
static void report_unusable(struct rule_context *context,
                            const struct previous_checkpoint *found)
{
    if (context->plan->external && found->whole)
        report_nothing_to_resume(
            context, SEVERITY_WARNING,
            "resume_from_checkpoint names a checkpoint of trainspool without "
            "optimizer.pt: the moments start from zero, and the learning rate from the "
            "start of its schedule",
            "trainspool.save_torch_state writes it with each checkpoint");
    else if (context->plan->external)
        report_nothing_to_resume(
            context, SEVERITY_WARNING,
            "resume_from_checkpoint names a folder without trainer_state.json", NULL);
    else
        report_nothing_to_resume(
            context, SEVERITY_ERROR,
            found->foreign ? "resume_from_checkpoint names a checkpoint of another "
                             "program, whose optimizer state is not supported"
                           : "resume_from_checkpoint names a folder that no run can "
                             "resume from: it has no optimizer state, or is incomplete",
            "model_name_or_path can name it instead: its weights with a new optimizer");
}

/* Return whether Hugging Face's Trainer finds what it requires. */
static bool can_resume_outside(const struct previous_checkpoint *from)
{
    return from->foreign || (from->whole && from->torch_state);
}

static void rule_nothing_to_resume(struct rule_context *context)
{
    const struct rule_resume resume = rule_find_resume(context);
    bool external = context->plan->external;

    if (!resume.asked || (resume.from && (external ? can_resume_outside(resume.from)
                                                   : resume.from->whole)))
        return;
    if (!resume.named)
        report_nothing_to_resume(
            context, external ? SEVERITY_WARNING : SEVERITY_INFO,
            external ? "output_dir contains no checkpoint: a Trainer that must resume "
                       "from the last one fails"
                     : "there is no checkpoint to resume from yet: the run starts from "
                       "scratch",
            NULL);
    else if (!resume.from)
        report_nothing_to_resume(
            context, context->options->will_run ? SEVERITY_ERROR : SEVERITY_WARNING,
            "the checkpoint in resume_from_checkpoint does not exist", NULL);
    else
        report_unusable(context, resume.from);
}

static const struct rule rows[] = {
    { .id = "TS503",
      .title = "run resumes from a checkpoint with other settings",
      .severity = SEVERITY_WARNING,
      .run = rule_resume_changes_settings,
      .explain =
          "Weights, Adam's moments, the step and the loss scale come from the "
          "checkpoint; precision, optimizer, learning rate, batch, data and seed come "
          "from the job. If these differ from the settings that made the checkpoint, "
          "the run mixes both, and its curve has a kink at that step. Each difference "
          "is shown as key: old -> new.\n\n"
          "With another batch, accumulation, dataset or seed the position in the data "
          "is lost as well: it is counted in steps, so some samples repeat and others "
          "are skipped. If you do not want that, restore the old values; torchtune does "
          "so automatically, with a warning.\n\n"
          "The old settings are read from NAME.run/job.yaml if that text made the "
          "checkpoint. Otherwise the few settings in the checkpoint itself are "
          "compared: precision, optimizer, seed, batch. A run cannot resume with "
          "another optimizer that has moments.",
      .source = "train/run.c, train/checkpoint/progress.c; torchtune recipes (resume)" },
    { .id = "TS504",
      .title = "fp16 resumes from a checkpoint without a loss scale",
      .severity = SEVERITY_WARNING,
      .run = rule_resume_without_scale,
      .explain =
          "A dynamic loss scale is found by trial: it starts at 65536 and halves at "
          "each overflow. A run that resumes with its old scale loses nothing. Without "
          "it the search starts over, and a run that was at 256 first skips 8 steps; a "
          "native run does not advance the learning rate in them, other tools may.\n\n"
          "A checkpoint has no scale if it was saved in bf16 or fp32, or by a script "
          "that did not save scaler.pt. Skipped steps at the start are harmless: TS405 "
          "ignores norms that are not finite within the first ten steps.",
      .source = "transformers#34053; fairseq2#1346; train/run.c" },
    { .id = "TS505",
      .title = "save_only_model in a job that may resume",
      .severity = SEVERITY_WARNING,
      .run = rule_save_only_model,
      .explain =
          "save_only_model: true omits Adam's moments, two thirds of the bytes of a "
          "full checkpoint. Without them a run cannot resume exactly, so it does not "
          "resume at all: resume_from_checkpoint finds nothing, and a run that "
          "trainspool.max_retries restarts after a crash begins at step 0. With lora "
          "the moments are small, and omitting them saves little.",
      .source = "transformers training_args.py: save_only_model; "
                "train/checkpoint/checkpoint.c" },
    { .id = "TS513",
      .title = "resume_from_checkpoint names nothing to resume from",
      .severity = SEVERITY_WARNING,
      .mandatory = true,
      .run = rule_nothing_to_resume,
      .explain =
          "A missing folder is a warning in `check`, since the job may be for another "
          "machine, and an error in `run`. A folder that is not a checkpoint of "
          "trainspool, is missing a file, or was saved with save_only_model is an error: "
          "training would fail after it has read the model and the data. To continue "
          "training its weights with a new optimizer, name the folder in "
          "model_name_or_path.\n\n"
          "resume_from_checkpoint: true without a checkpoint is only information: the "
          "run starts from scratch, so the line can be in a job from its first run on. "
          "Hugging Face's Trainer fails in this case.",
      .source = "train/checkpoint/checkpoint.c, train/files/manifest.c; "
                "transformers trainer.py" },
};

const struct rules rules_resume = { rows, TS_COUNT(rows) };
