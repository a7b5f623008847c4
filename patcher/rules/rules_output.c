/* patcher/rules/rules_output.c - TS501, TS502: a model or checkpoints that output_dir already holds. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>
#include <sys/stat.h>

#include "base/size.h"

/* It is said what is meant with what lies there. */
static bool is_settled(const struct rule_context *context)
{
    return context->plan->overwrite_output_dir || rule_find_resume(context).asked;
}

static bool names_output(const struct rule_context *context)
{
    return rule_entry(context, "output_dir") != NULL;
}

/* The job's own: by its digest, or because its last run wrote into the same folder; not
 * what another put there while this one waited. */
static bool is_own(const struct rule_context *context, const struct previous_model *model)
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

static void model_of_script(struct rule_context *context, const char *file)
{
    if (previous_checkpoint(context->previous, NULL, false))
        return; /* TS502 */
    if (rule_is_llamafactory(context))
        report_model(context, SEVERITY_ERROR,
                     arena_printf(context->arena,
                                  "output_dir holds %s already: LLaMA-Factory does not "
                                  "begin there",
                                  file),
                     "another output_dir, or overwrite_output_dir: true");
    else
        report_model(context, SEVERITY_WARNING,
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
        rule_report(context,
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
        report_model(context, SEVERITY_ERROR,
                     "output_dir is the folder of the model that is trained",
                     "another folder: this and a later run want what is there as it is");
    return over;
}

static void rule_output_holds_model(struct rule_context *context)
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
        report_model(
            context, SEVERITY_ERROR,
            arena_printf(context->arena,
                         "output_dir holds %s, which this job did not make", model->file),
            arena_printf(context->arena,
                         "another output_dir; or overwrite_output_dir: true, which "
                         "keeps it as %s.old-1",
                         model->file));
}

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
static const char *report_ways(const struct rule_context *context,
                               const struct previous_checkpoint *found)
{
    bool same_text = found->job && strcmp(found->job, rule_digest(context)) == 0;

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

static void report_native(struct rule_context *context,
                          const struct previous_checkpoint *found)
{
    rule_report(context,
                &(struct finding) {
                    .rule = "TS502",
                    .severity = SEVERITY_WARNING,
                    .message = report_ways(context, found),
                    .note =
                        "resume_from_checkpoint: true goes on from it; "
                        "overwrite_output_dir: true says that a new beginning is meant" },
                names_output(context) ? "output_dir" : NULL);
}

static void rule_output_holds_checkpoints(struct rule_context *context)
{
    const struct previous_checkpoint *found;

    if (is_settled(context) || (context->plan->external && !names_output(context)))
        return;
    found = previous_checkpoint(context->previous, NULL, !context->plan->external);
    if (!found)
        return;
    if (!context->plan->external) {
        if (!is_plain(previous_state(context->previous)))
            report_native(context, found);
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
                    ? "output_dir holds %s: LLaMA-Factory goes on from it unasked"
                    : "output_dir holds %s: a Trainer begins anew and writes over it",
                found->base),
            .note = rule_is_llamafactory(context)
                        ? "say what is meant: resume_from_checkpoint: true, or "
                          "overwrite_output_dir: true"
                        : "resume_from_checkpoint: true goes on from it" },
        "output_dir");
}

static const struct rule rows[] = {
    { .id = "TS501",
      .title = "output_dir holds a model already",
      .severity = SEVERITY_ERROR,
      .run = rule_output_holds_model,
      .explain =
          "The folder named by output_dir holds a trained model, and nothing says "
          "whether to go on from it or to begin anew. Two jobs that share a folder by a "
          "copied line lose one model to the other, so LLaMA-Factory refuses to start, "
          "and so does a run here where another job made that model.\n\n"
          "What this job made itself is no reason to refuse: a run begins anew, and "
          "`retry` and `run --resume` go on. How it is known: by the digest of the "
          "job's text in trainspool_manifest.json, or because NAME.run/job.yaml, the "
          "text of the last run, names the same folder. A job that waited is looked at "
          "again when its turn comes.\n\n"
          "Name another folder. Or write overwrite_output_dir: true; the old file is "
          "then kept as model.safetensors.old-1, it is never deleted. Neither is done "
          "by a patch.\n\n"
          "export_dir keeps what another job left there in the same way, and is refused "
          "where it is the folder of the model itself, of an adapter or a teacher that "
          "the job reads, or output_dir: all of them are wanted as they are. So is an "
          "output_dir that is the model's folder, unless train_from_scratch reads no "
          "weights there.",
      .source = "LLaMA-Factory hparams/parser.py; train/checkpoint/checkpoint.c" },
    { .id = "TS502",
      .title = "output_dir holds checkpoints, and nothing says what to do with them",
      .severity = SEVERITY_WARNING,
      .run = rule_output_holds_checkpoints,
      .explain =
          "With checkpoints in output_dir and no resume_from_checkpoint, LLaMA-Factory "
          "goes on from the last one unasked, and a plain Trainer begins anew. People "
          "are surprised by both: by a run that ends at once because it was complete, "
          "and by one that trains for a day what was trained before.\n\n"
          "Here `run` begins anew and keeps the old checkpoints under a new name, `run "
          "--resume` goes on, and so does `retry` of a job that was interrupted, if its "
          "text is the same. The line says which checkpoint is meant. Write "
          "resume_from_checkpoint: true or overwrite_output_dir: true to say it for "
          "good. After a run that was done nothing is told.",
      .source = "LLaMA-Factory hparams/parser.py; train/run.c, runner/attempt.c" },
};

const struct rules rules_output = { rows, TS_COUNT(rows) };
