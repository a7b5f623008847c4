/*
 * runner/job/admit.c - patches, freezes and records a job, in this order, each on disk
 * before the next.
 */
#include "config.h"

#include "runner/job/admit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/digest.h"
#include "patcher/setting.h"
#include "runner/job/containment.h"
#include "runner/job/gate.h"
#include "runner/job/submitted.h"
#include "runner/job/sweep_jobs.h"
#include "runner/output/report.h"

static bool log_findings(const struct job *job, const struct patch *patch,
                         struct error *err)
{
    struct text lines;
    char now[32];
    bool ok;

    if (patch->findings.count == 0)
        return true;
    clock_iso(now);
    text_init(&lines, 0);
    text_addf(&lines, "%s info job %s: %zu finding%s\n", now, job->name,
              patch->findings.count, patch->findings.count == 1 ? "" : "s");
    report_findings_text(patch, &lines);
    ok = job_log(job, &lines, err);
    text_clear(&lines);
    return ok;
}

static bool reject(const struct job *job, struct job_record *record,
                   const struct patch *patch, const char *best, struct error *err)
{
    struct text reason;
    bool ok;

    text_init(&reason, 0);
    report_reason(patch, &reason);
    if (best && reason.len > 0)
        text_addf(&reason, " (checked for node %s, which has the largest device)", best);
    ok = job_event(job, record, EVENT_REJECTED,
                   reason.len ? reason.data : "the file is not a job", err);
    text_clear(&reason);
    return ok;
}

bool admit_reject(const struct job *job, struct job_record *record, const char *reason,
                  struct error *err)
{
    struct text line;
    char now[32];
    bool ok;

    clock_iso(now);
    text_init(&line, 0);
    text_addf(&line, "%s error job %s: rejected: ", now, job->name);
    report_visible(&line, reason);
    text_addc(&line, '\n');
    ok = job_log(job, &line, err) && job_event(job, record, EVENT_REJECTED, reason, err);
    text_clear(&line);
    return ok;
}

/* Apply the settings of --set to the patched text; the job file is not changed. */
static bool apply_set(const struct job *job, const struct admit_options *options,
                      struct inspection *inspection, struct error *err)
{
    struct inspect_options how = { .machine = options->machine,
                                   .job = job->path,
                                   .set = options->set,
                                   .will_run = true,
                                   .spooled = options->spooled,
                                   .roots = options->roots,
                                   .owner = options->owner,
                                   .counts = true,
                                   .submits = true,
                                   .launched = options->launched,
                                   .resume = options->resume,
                                   .edit =
                                       options->no_patch ? INSPECT_AS_IS : INSPECT_LOOK };
    struct inspection with = { 0 };
    bool ok =
        inspect_text(&how, inspection->patch.text, inspection->patch.len, &with, err);

    inspect_clear(inspection);
    *inspection = with;
    if (inspection->device)
        inspection->device = &inspection->storage.device;
    return ok;
}

/* A job that needs what an earlier one creates has no plan yet: nothing is known of it. */
static void note_need(const struct admit_options *options, const struct patch *patch,
                      struct job_record *record)
{
    const struct plan *plan = &patch->plan;
    const struct device *device = &plan->device;
    const bool on_cpu = device->kind == DEVICE_CPU;

    record->wanted[0] = record->devices[0] = 0;
    if (on_cpu &&
        !patch_rejected(patch)) /* the watch need not write that before the start */
        strcpy(record->devices, "cpu");
    record->capability = on_cpu ? 0 : 10 * device->major + device->minor;
    record->ranks = plan_trains(plan) ? (int64_t)plan_ranks(plan) : 1;
    record->threads = plan->threads;
    record->memory = (int64_t)plan->memory.total;
    record->memory_max = (int64_t)containment_most_memory(plan);
    if (plan->backend == RUN_SLURM && !options->launched) {
        /* what submits it and waits for it needs nothing of this machine */
        strcpy(record->wanted, SUBMITTED_WANTED);
        record->devices[0] = 0;
        record->threads = record->memory = record->memory_max = 0;
    } else if (!patch_rejected(patch))
        snprintf(record->wanted, sizeof(record->wanted), "%s",
                 on_cpu ? "cpu" : plan->device_wanted);
}

/* What a run that is healed keeps; another text starts another run. */
static void note_run(const struct admit_options *options, const struct patch *patch,
                     const char *frozen_before, struct job_record *record)
{
    enum healing healing = patch->plan.healing;
    bool on = healing == HEALING_AUTO ? options->spooled : healing != HEALING_OFF;

    /* without a patch of the file, or with settings that it lacks, there is none */
    on = on && plan_trains(&patch->plan) && !options->no_patch &&
         !(options->set && options->set[0]);
    record->max_heals = on ? patch->plan.max_heals : 0;
    if (!record->ailment[0] && strcmp(frozen_before, record->frozen) != 0) {
        record->origin[0] = 0;
        record->heals = record->bad_from = 0;
    }
    record->ailment[0] = record->healed[0] = 0;
}

static bool freeze(const struct job *job, const struct admit_options *options,
                   struct job_record *record, const struct patch *patch,
                   struct error *err)
{
    const struct text text = { .data = (char *)patch->text, .len = patch->len };
    const struct gate_waits waits = { .after = patch->plan.after,
                                      .begin = patch->plan.begin,
                                      .arrived = options->arrived };
    char before[DIGEST_TEXT];

    strcpy(before, record->frozen);
    record->priority = patch->plan.priority;
    record->max_retries = patch->plan.max_retries;
    record->timeout = patch->plan.timeout_seconds;
    note_need(options, patch, record);
    record->sweep = 0;
    /* the jobs of a sweep wait instead of it */
    if (options->spooled && patch->plan.sweep
            ? !sweep_jobs_make(job, &text, &patch->plan, record, err)
            : options->spooled && !gate_set_waits(job, &waits, err))
        return false;
    if (!job_freeze(job, &text, !options->lazy, record, err))
        return false;
    note_run(options, patch, before, record);
    return job_event(job, record, EVENT_ACCEPTED, NULL, err);
}

/* Note the identity of the file after the patch, so that our own rename is recognized
 * later. If the file was replaced meanwhile the source stays unknown. */
static void note_source(const struct job *job, const struct patch *patch,
                        struct job_record *record)
{
    struct stat before, after;
    char digest[DIGEST_TEXT], source[64];

    snprintf(record->digest, sizeof(record->digest), "%s", patch->after);
    record->source[0] = 0;
    if (!patch->after[0] || lstat(job->path, &before) != 0 ||
        !digest_file(job->path, digest, NULL) || lstat(job->path, &after) != 0 ||
        strcmp(digest, record->digest) != 0)
        return;
    job_source(&before, record->source);
    job_source(&after, source);
    if (strcmp(source, record->source) != 0)
        record->source[0] = 0;
}

/* Return whether every error is about something that does not exist yet. What is damaged
 * stays so, unless an earlier job may replace it. */
static bool is_only_missing(const struct patch *patch)
{
    const bool follows = patch->plan.after != NULL;

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (finding->severity == SEVERITY_ERROR && !finding->fixed &&
            !(finding->absent || (follows && strcmp(finding->rule, "TS713") == 0)))
            return false;
    }
    return true;
}

static bool is_rejected(const struct patch *patch, const struct admit_options *options)
{
    return !patch->has_plan ||
           (patch_rejected(patch) && !(options->waits && is_only_missing(patch)));
}

bool admit_settings_are_valid(const struct job *job, const struct admit_options *options,
                              struct error *err)
{
    struct inspect_options how = { .machine = options->machine,
                                   .job = job->path,
                                   .will_run = true,
                                   .spooled = options->spooled,
                                   .roots = options->roots,
                                   .owner = options->owner,
                                   .counts = true,
                                   .launched = options->launched,
                                   .resume = options->resume,
                                   .edit =
                                       options->no_patch ? INSPECT_AS_IS : INSPECT_LOOK };
    struct inspection inspection = { 0 };
    struct error ignored = { 0 };
    struct arena *arena;
    const char *text = ""; /* in which any setting is allowed */
    size_t len = 0;
    bool fit;

    if (!options->set)
        return true;
    if (inspect_job(&how, &inspection, &ignored) && inspection.patch.is_job) {
        text = inspection.patch.text;
        len = inspection.patch.len;
    }
    arena = arena_new();
    fit = setting_apply(options->set, arena, &text, &len, err);
    arena_free(arena);
    inspect_clear(&inspection);
    return fit;
}

static struct inspect_options inspect_how(const struct job *job,
                                          const struct admit_options *options,
                                          const struct job_record *record,
                                          enum inspect_edit edit)
{
    return (struct inspect_options) { .machine = options->machine,
                                      .job = job->path,
                                      .will_run = true,
                                      .spooled = options->spooled,
                                      .roots = options->roots,
                                      .owner = options->owner,
                                      .counts = true,
                                      .submits = true,
                                      .launched = options->launched,
                                      .resume = options->resume || options->heal,
                                      .heal = options->heal,
                                      .origin = record->origin,
                                      .edit = edit };
}

bool admit_would_accept(const struct job *job, const struct admit_options *options,
                        const struct job_record *record)
{
    const struct inspect_options how = inspect_how(job, options, record, INSPECT_LOOK);
    struct inspection inspection = { 0 };
    struct error err = { 0 };
    bool accepts =
        inspect_job(&how, &inspection, &err) && !is_rejected(&inspection.patch, options);

    inspect_clear(&inspection);
    return accepts;
}

bool admit_job(const struct job *job, const struct admit_options *options,
               struct job_record *record, struct inspection *inspection,
               struct error *err)
{
    const struct inspect_options how = inspect_how(
        job, options, record, options->no_patch ? INSPECT_AS_IS : INSPECT_WRITE);
    bool set = options->set && options->set[0];

    if (!inspect_job(&how, inspection, err) ||
        !log_findings(job, &inspection->patch, err))
        return false;
    note_source(job, &inspection->patch, record);
    if (options->spooled && inspection->patch.after[0] && !record->source[0])
        return error_set(err, ERROR_FAULT, "%s changed while it was examined", job->path);
    if (set && inspection->patch.is_job && !apply_set(job, options, inspection, err))
        return false;
    if (is_rejected(&inspection->patch, options))
        return reject(job, record, &inspection->patch, options->best, err);
    snprintf(record->device, sizeof(record->device), "%s",
             inspection->patch.plan.device.name);
    return freeze(job, options, record, &inspection->patch, err);
}

bool admit_preview(const struct job *job, const struct admit_options *options,
                   struct inspection *inspection, struct error *err)
{
    struct inspect_options how = { .machine = options->machine,
                                   .job = job->path,
                                   .will_run = true,
                                   .counts = true,
                                   .submits = true,
                                   .resume = options->resume,
                                   .edit =
                                       options->no_patch ? INSPECT_AS_IS : INSPECT_LOOK };

    if (!inspect_job(&how, inspection, err))
        return false;
    return !options->set || !inspection->patch.is_job ||
           apply_set(job, options, inspection, err);
}
