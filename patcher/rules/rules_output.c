/* patcher/rules/rules_output.c - TS501, TS502: existing contents of output_dir. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/size.h"

/* Return whether the job or the command line says what to do with the contents. */
static bool is_decided(const struct rule_context *context)
{
    return context->plan->overwrite_output_dir || rule_find_resume(context).asked;
}

static bool names_output_dir(const struct rule_context *context)
{
    return rule_entry(context, "output_dir") != NULL;
}

/* Return whether this job made the model: by its digest, or because its last run wrote
 * into the same folder; not a model that another job wrote while this one waited. */
static bool is_own_model(const struct rule_context *context,
                         const struct previous_model *model)
{
    const struct previous_text *text = previous_text(context->previous);

    if (text && !model->later &&
        strcmp(text->plan->output_dir, context->plan->output_dir) == 0)
        return true;
    return model->job &&
           (strcmp(model->job, rule_digest(context)) == 0 ||
            strcmp(model->job, previous_state(context->previous)->digest) == 0);
}

static void report_model(struct rule_context *context, enum severity severity,
                         const char *message, const char *note)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS501", .severity = severity, .message = message, .note = note },
        "output_dir");
}

static void report_script_model(struct rule_context *context, const char *file)
{
    if (previous_checkpoint(context->previous, NULL, false))
        return; /* TS502 */
    if (rule_is_llamafactory(context))
        report_model(context, SEVERITY_ERROR,
                     arena_printf(context->arena,
                                  "output_dir already contains %s: LLaMA-Factory refuses "
                                  "to start",
                                  file),
                     "use another output_dir, or set overwrite_output_dir: true");
    else
        report_model(context, SEVERITY_WARNING,
                     arena_printf(context->arena,
                                  "output_dir already contains %s: a Trainer overwrites "
                                  "it",
                                  file),
                     "use another output_dir to keep it");
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat first_stat, second_stat;

    return a && b && file_stat(a, &first_stat) && file_stat(b, &second_stat) &&
           first_stat.st_dev == second_stat.st_dev &&
           first_stat.st_ino == second_stat.st_ino;
}

/* Return whether the paths name the same folder, or the same folder that does not exist
 * yet. */
static bool is_same_path(const char *a, const char *b)
{
    return is_same_folder(a, b) || (a && b && strcmp(a, b) == 0);
}

/* Folders that the job reads or writes must keep their contents: merging an adapter
 * into a base twice makes another model, and a folder with both a whole model and an
 * adapter is recognized as neither. */
static void check_export_dir(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct {
        const char *folder, *what;
    } others[] = {
        { plan->model_name_or_path, "the folder of the trained model" },
        { plan->adapter_name_or_path, "the folder of the adapter it starts from" },
        { plan->kd.teacher, "the folder of the teacher" },
        { plan->kd.adapter, "the folder of the teacher's adapter" },
        { plan->preference.reference, "the folder of the reference" },
        { plan->preference.adapter, "the folder of the reference's adapter" },
        { plan->output_dir, "output_dir, which contains checkpoints and the trained "
                            "weights" },
    };

    for (size_t i = 0; !plan->external && i < TS_COUNT(others); i++) {
        if (!is_same_path(plan->export_dir, others[i].folder))
            continue;
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS501",
                        .severity = SEVERITY_ERROR,
                        .message = arena_printf(context->arena, "export_dir is %s",
                                                others[i].what),
                        .note = "use another folder: this run and later ones need its "
                                "contents unchanged" },
                    "export_dir");
        return;
    }
}

/* Otherwise a second run of the same text would train the result of the first run. */
static bool output_is_base(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const bool over = !plan->external && !plan->train_from_scratch &&
                      names_output_dir(context) &&
                      is_same_folder(plan->output_dir, plan->model_name_or_path);

    if (over)
        report_model(context, SEVERITY_ERROR,
                     "output_dir is the folder of the model to train",
                     "use another folder: this run and later ones need its contents "
                     "unchanged");
    return over;
}

static void rule_output_holds_model(struct rule_context *context)
{
    const struct previous_model *model;

    check_export_dir(context);
    if (output_is_base(context) || !names_output_dir(context) || is_decided(context))
        return;
    model = previous_model(context->previous);
    if (!model->file)
        return;
    if (context->plan->external)
        report_script_model(context, model->file);
    else if (!is_own_model(context, model))
        report_model(
            context, SEVERITY_ERROR,
            arena_printf(context->arena,
                         "output_dir contains %s, which this job did not make",
                         model->file),
            arena_printf(context->arena,
                         "use another output_dir; or set overwrite_output_dir: true, "
                         "which keeps it as %s.old-1",
                         model->file));
}

/* Return whether the state in state.json leaves no doubt about what is intended. */
static bool state_is_clear(const struct previous_state *state)
{
    static const char *const plain[] = { "done", "ready", "running" };

    if (!state->name || (strcmp(state->name, "running") == 0 && !state->running))
        return false; /* unknown, or crashed */
    for (size_t i = 0; i < TS_COUNT(plain); i++)
        if (strcmp(state->name, plain[i]) == 0)
            return true;
    return false;
}

/* Describe what run, run --resume and retry do with the checkpoint. */
static const char *describe_options(const struct rule_context *context,
                                    const struct previous_checkpoint *found)
{
    bool same_text = found->job && strcmp(found->job, rule_digest(context)) == 0;

    if (!same_text)
        return arena_printf(context->arena,
                            "%s was saved under another text: `run` and `retry` start "
                            "from scratch and keep it, `run --resume` resumes from it",
                            found->base);
    return arena_printf(context->arena,
                        "%s of the last run exists: `run` starts from scratch and keeps "
                        "it as %s.old-1; `run --resume` %s",
                        found->base, found->base,
                        previous_state(context->previous)->resume
                            ? "and `retry` resume from it"
                            : "resumes from it");
}

static void report_native_checkpoint(struct rule_context *context,
                                     const struct previous_checkpoint *found)
{
    rule_report(context,
                &(struct finding) {
                    .rule = "TS502",
                    .severity = SEVERITY_WARNING,
                    .message = describe_options(context, found),
                    .note =
                        "set resume_from_checkpoint: true to resume from it, or "
                        "overwrite_output_dir: true to confirm that the run starts from "
                        "scratch" },
                names_output_dir(context) ? "output_dir" : NULL);
}

static void rule_output_holds_checkpoints(struct rule_context *context)
{
    const struct previous_checkpoint *found;

    if (is_decided(context) || (context->plan->external && !names_output_dir(context)))
        return;
    found = previous_checkpoint(context->previous, NULL, !context->plan->external);
    if (!found)
        return;
    if (!context->plan->external) {
        if (!state_is_clear(previous_state(context->previous)))
            report_native_checkpoint(context, found);
        return;
    }
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS502",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(
                context->arena,
                rule_is_llamafactory(context)
                    ? "output_dir contains %s: LLaMA-Factory resumes from it "
                      "automatically"
                    : "output_dir contains %s: a Trainer starts from scratch and "
                      "overwrites it",
                found->base),
            .note = rule_is_llamafactory(context)
                        ? "set resume_from_checkpoint: true to resume from it, or "
                          "overwrite_output_dir: true to start from scratch"
                        : "resume_from_checkpoint: true resumes from it" },
        "output_dir");
}

static const struct rule rows[] = {
    { .id = "TS501",
      .title = "output_dir already contains a model",
      .severity = SEVERITY_ERROR,
      .run = rule_output_holds_model,
      .explain =
          "The folder named by output_dir contains a trained model, and the job does not "
          "say whether to continue from it or to start from scratch. Two jobs that share "
          "a folder because of a copied line lose one of their models, so LLaMA-Factory "
          "refuses to start, and so does a native run if another job made that model.\n\n"
          "A model that this job made is no reason to refuse: a run starts from scratch, "
          "and `retry` and `run --resume` continue. The model is recognized by the "
          "digest of the job's text in trainspool_manifest.json, or because "
          "NAME.run/job.yaml, the text of the last run, names the same folder. A queued "
          "job is checked again when its turn comes.\n\n"
          "Name another folder. Or write overwrite_output_dir: true; the old file is "
          "then kept as model.safetensors.old-1 and never deleted. A patch does "
          "neither.\n\n"
          "export_dir is protected in the same way. It is also rejected if it is the "
          "folder of the model, of an adapter or teacher that the job reads, or "
          "output_dir: these folders must stay unchanged. An output_dir that is the "
          "model's folder is rejected, too, unless train_from_scratch reads no weights "
          "there.",
      .source = "LLaMA-Factory hparams/parser.py; train/checkpoint/checkpoint.c" },
    { .id = "TS502",
      .title = "output_dir contains checkpoints, and the job does not mention them",
      .severity = SEVERITY_WARNING,
      .run = rule_output_holds_checkpoints,
      .explain =
          "With checkpoints in output_dir and no resume_from_checkpoint, LLaMA-Factory "
          "automatically resumes from the last one, and a plain Trainer starts from "
          "scratch. Both surprise people: one run ends at once because it was complete, "
          "the other repeats a day of training.\n\n"
          "A native `run` starts from scratch and keeps the old checkpoints under a new "
          "name; `run --resume` resumes, and so does `retry` of an interrupted job if "
          "its text is unchanged. The finding names the checkpoint. Write "
          "resume_from_checkpoint: true or overwrite_output_dir: true to decide "
          "permanently. After a completed run the rule is silent.",
      .source = "LLaMA-Factory hparams/parser.py; train/run.c, runner/attempt.c" },
};

const struct rules rules_output = { rows, TS_COUNT(rows) };
