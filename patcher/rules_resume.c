/* patcher/rules_resume.c - what lies in output_dir, and what a run goes on from. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

/* Where the run would go on from, as train/run.c finds it. */
struct resume {
    bool asked;        /* the job or the command line asks for it */
    const char *named; /* the folder it names; NULL: the last there is */
    const struct previous_checkpoint *from; /* NULL: there is nothing */
};

static const char *digest_of(const struct rule_context *context)
{
    char digest[DIGEST_TEXT];

    digest_bytes(context->document->data, context->document->len, digest);
    return arena_strdup(context->arena, digest);
}

static struct resume find_resume(const struct rule_context *context)
{
    const char *wanted = context->plan->resume_from_checkpoint;
    struct resume resume = { 0 };
    bool last;

    if (wanted && strcmp(wanted, "false") == 0)
        wanted = NULL;
    last = wanted ? strcmp(wanted, "true") == 0 : context->options->resume;
    resume.asked = wanted || last;
    resume.named = last ? NULL : wanted;
    if (context->options->resume || last)
        resume.from = previous_checkpoint(context->previous, digest_of(context), true);
    if (!resume.from && resume.named)
        resume.from = previous_named(context->previous, resume.named);
    if (!resume.from && last)
        resume.from = previous_checkpoint(context->previous, NULL, true);
    return resume;
}

/* It is said what is meant with what lies there. */
static bool is_settled(const struct rule_context *context)
{
    return context->plan->overwrite_output_dir || find_resume(context).asked;
}

static bool names_output(const struct rule_context *context)
{
    return rule_entry(context, "output_dir") != NULL;
}

/* ---- TS501: a model in output_dir ---- */

/* The job's own: by its digest, or because its last run wrote into the same folder; not
 * what another put there while this one waited. */
static bool is_own(const struct rule_context *context, const struct previous_model *model)
{
    const struct previous_text *text = previous_text(context->previous);

    if (text && !model->later &&
        strcmp(text->plan->output_dir, context->plan->output_dir) == 0)
        return true;
    return model->job &&
           (strcmp(model->job, digest_of(context)) == 0 ||
            strcmp(model->job, previous_state(context->previous)->digest) == 0);
}

static void tell_model(struct rule_context *context, enum severity severity,
                       const char *message, const char *note)
{
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS501", .severity = severity, .message = message, .note = note },
        "output_dir");
}

static void model_of_script(struct rule_context *context, const char *file)
{
    if (previous_checkpoint(context->previous, NULL, false))
        return; /* TS502 */
    if (rule_is_llamafactory(context))
        tell_model(context, SEVERITY_ERROR,
                   arena_printf(context->arena,
                                "output_dir holds %s already: LLaMA-Factory does not "
                                "begin there",
                                file),
                   "another output_dir, or overwrite_output_dir: true");
    else
        tell_model(context, SEVERITY_WARNING,
                   arena_printf(context->arena,
                                "output_dir holds %s already: a Trainer writes over it",
                                file),
                   "another output_dir keeps it");
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat one, two;

    return a && b && stat(a, &one) == 0 && stat(b, &two) == 0 &&
           one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/* The same folder, or one that neither is there yet under the same name. */
static bool is_one_folder(const char *a, const char *b)
{
    return is_same_folder(a, b) || (a && b && strcmp(a, b) == 0);
}

/* What the job reads or leaves is for the base as it is: merged into it twice an adapter
 * is another model, and a whole model beside an adapter is taken for neither. */
static void export_over_own(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct {
        const char *folder, *what;
    } others[] = {
        { plan->model_name_or_path, "the folder of the model that is trained" },
        { plan->adapter_name_or_path, "the folder of the adapter it starts from" },
        { plan->kd.teacher, "the folder of the teacher" },
        { plan->kd.adapter, "the folder of the teacher's adapter" },
        { plan->preference.reference, "the folder of the reference" },
        { plan->preference.adapter, "the folder of the reference's adapter" },
        { plan->output_dir, "output_dir, where checkpoints and the trained weights lie" },
    };

    for (size_t i = 0; !plan->external && i < TS_COUNT(others); i++) {
        if (!is_one_folder(plan->export_dir, others[i].folder))
            continue;
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS501",
                      .severity = SEVERITY_ERROR,
                      .message = arena_printf(context->arena, "export_dir is %s",
                                              others[i].what),
                      .note = "another folder: this and a later run want what is there "
                              "as it is" },
                  "export_dir");
        return;
    }
}

/* Trained twice by one text, from what the first time left there, it is another model. */
static bool output_over_base(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const bool over = !plan->external && !plan->train_from_scratch &&
                      names_output(context) &&
                      is_same_folder(plan->output_dir, plan->model_name_or_path);

    if (over)
        tell_model(context, SEVERITY_ERROR,
                   "output_dir is the folder of the model that is trained",
                   "another folder: this and a later run want what is there as it is");
    return over;
}

void rule_model_there(struct rule_context *context)
{
    const struct previous_model *model;

    export_over_own(context);
    if (output_over_base(context) || !names_output(context) || is_settled(context))
        return;
    model = previous_model(context->previous);
    if (!model->file)
        return;
    if (context->plan->external)
        model_of_script(context, model->file);
    else if (!is_own(context, model))
        tell_model(
            context, SEVERITY_ERROR,
            arena_printf(context->arena,
                         "output_dir holds %s, which this job did not make", model->file),
            arena_printf(context->arena,
                         "another output_dir; or overwrite_output_dir: true, which "
                         "keeps it as %s.old-1",
                         model->file));
}

/* ---- TS502: checkpoints in output_dir ---- */

/* Words of state.json after which nobody wonders what is meant. */
static bool is_plain(const struct previous_state *state)
{
    static const char *const plain[] = { "done", "ready", "running" };

    if (!state->name || (strcmp(state->name, "running") == 0 && !state->running))
        return false; /* unknown, or crashed */
    for (size_t i = 0; i < TS_COUNT(plain); i++)
        if (strcmp(state->name, plain[i]) == 0)
            return true;
    return false;
}

/* What run, run --resume and retry do with it. */
static const char *tell_ways(const struct rule_context *context,
                             const struct previous_checkpoint *found)
{
    bool same_text = found->job && strcmp(found->job, digest_of(context)) == 0;

    if (!same_text)
        return arena_printf(context->arena,
                            "%s is there, saved under another text: `run` and `retry` "
                            "begin anew beside it, `run --resume` goes on from it",
                            found->base);
    return arena_printf(context->arena,
                        "%s of the last run is there: `run` begins anew and keeps it as "
                        "%s.old-1; `run --resume` %s",
                        found->base, found->base,
                        previous_state(context->previous)->resume
                            ? "and `retry` go on from it"
                            : "goes on from it");
}

static void tell_native(struct rule_context *context,
                        const struct previous_checkpoint *found)
{
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS502",
                  .severity = SEVERITY_WARNING,
                  .message = tell_ways(context, found),
                  .note =
                      "resume_from_checkpoint: true goes on from it; "
                      "overwrite_output_dir: true says that a new beginning is meant" },
              names_output(context) ? "output_dir" : NULL);
}

void rule_checkpoints_there(struct rule_context *context)
{
    const struct previous_checkpoint *found;

    if (is_settled(context) || (context->plan->external && !names_output(context)))
        return;
    found = previous_checkpoint(context->previous, NULL, !context->plan->external);
    if (!found)
        return;
    if (!context->plan->external) {
        if (!is_plain(previous_state(context->previous)))
            tell_native(context, found);
        return;
    }
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS502",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(
                context->arena,
                rule_is_llamafactory(context)
                    ? "output_dir holds %s: LLaMA-Factory goes on from it unasked"
                    : "output_dir holds %s: a Trainer begins anew and writes over it",
                found->base),
            .note = rule_is_llamafactory(context)
                        ? "say what is meant: resume_from_checkpoint: true, or "
                          "overwrite_output_dir: true"
                        : "resume_from_checkpoint: true goes on from it" },
        "output_dir");
}

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

void rule_resume_differs(struct rule_context *context)
{
    const struct resume resume = find_resume(context);
    const char *list = resume.from ? compare(context, resume.from) : "";

    if (!*list || (context->plan->external && plan_ranks(context->plan) > 1))
        return;
    rule_tell(context,
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
    return rule_wants_fp16(context) && context->plan->request.loss_scaling == CHOICE_AUTO;
}

static bool has_scale(const struct rule_context *context,
                      const struct previous_checkpoint *from)
{
    if (context->plan->external)
        return !from->foreign || from->scaler_file || rule_entry(context, "deepspeed");
    return !from->whole || (from->scaling && strcmp(from->scaling, "dynamic") == 0);
}

void rule_resume_scale(struct rule_context *context)
{
    const struct resume resume = find_resume(context);

    if (!resume.from || !will_scale(context) || has_scale(context, resume.from))
        return;
    rule_tell(context,
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

void rule_model_only(struct rule_context *context)
{
    const bool asked = find_resume(context).asked;

    if (!context->plan->save_only_model || !(asked || wants_retries(context)))
        return;
    rule_tell(context,
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

static void tell_nothing(struct rule_context *context, enum severity severity,
                         const char *message, const char *note)
{
    rule_tell(context,
              &(struct finding) { .rule = "TS513",
                                  .severity = severity,
                                  .message = message,
                                  .because = "looked for on this machine",
                                  .note = note },
              "resume_from_checkpoint");
}

/* A folder that is there, and is no checkpoint for this run. */
static void tell_unfit(struct rule_context *context,
                       const struct previous_checkpoint *found)
{
    if (context->plan->external)
        tell_nothing(context, SEVERITY_WARNING,
                     "resume_from_checkpoint names a folder without trainer_state.json",
                     NULL);
    else
        tell_nothing(context, SEVERITY_ERROR,
                     found->foreign ? "resume_from_checkpoint names a checkpoint of "
                                      "another program, whose optimizer is not read here"
                                    : "resume_from_checkpoint names a folder that no "
                                      "run can go on from: it has no optimizer, or is "
                                      "not whole",
                     "model_name_or_path can name it instead: its weights, a new "
                     "optimizer");
}

void rule_resume_nothing(struct rule_context *context)
{
    const struct resume resume = find_resume(context);
    bool external = context->plan->external;

    if (!resume.asked ||
        (resume.from && (external ? resume.from->foreign : resume.from->whole)))
        return;
    if (!resume.named)
        tell_nothing(context, external ? SEVERITY_WARNING : SEVERITY_INFO,
                     external ? "output_dir holds no checkpoint: a Trainer that is told "
                                "to go on from the last one stops"
                              : "there is no checkpoint to go on from yet: the run "
                                "begins anew",
                     NULL);
    else if (!resume.from)
        tell_nothing(
            context, context->options->will_run ? SEVERITY_ERROR : SEVERITY_WARNING,
            "the checkpoint that resume_from_checkpoint names is not there", NULL);
    else
        tell_unfit(context, resume.from);
}
