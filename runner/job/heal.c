/* runner/job/heal.c - records problems of runs, and patches jobs because of them. */
#include "config.h"

#include "runner/job/heal.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/size.h"
#include "runner/output/report.h"

/* In state.json. */
static const char *const ailment_names[AILMENTS] = {
    [AILMENT_NONE] = "",
    [AILMENT_MEMORY] = "memory",
    [AILMENT_DIVERGED] = "diverged",
};

enum ailment heal_ailment(const struct error *err)
{
    return err->code == ERROR_DIVERGED ? AILMENT_DIVERGED
           : error_is_memory(err)      ? AILMENT_MEMORY
                                       : AILMENT_NONE;
}

bool heal_is_left(const struct job_record *record)
{
    return record->heals < record->max_heals;
}

bool heal_begin(const struct job *job, struct job_record *record, enum ailment ailment,
                const char *reason, int64_t bad_from, struct error *err)
{
    struct job_record after = *record;

    strcpy(after.ailment, ailment_names[ailment]);
    after.healed[0] = 0;
    if (!after.origin[0])
        strcpy(after.origin, after.frozen);
    after.resume |= after.state == JOB_RUNNING;
    if (bad_from > 0 && (after.bad_from == 0 || bad_from < after.bad_from))
        after.bad_from = bad_from;
    if (!job_event(job, &after, EVENT_AILED, reason, err))
        return false;
    *record = after;
    return true;
}

void heal_note_resumed(const struct job *job, struct job_record *record)
{
    if (record->bad_from == 0)
        return;
    record->bad_from = 0;
    job_write(job, record, true, NULL); /* else with the next progress */
}

bool heal_is_due(const struct job_record *record)
{
    return record->ailment[0] &&
           (record->state == JOB_NEW || record->state == JOB_BLOCKED);
}

static enum ailment ailment_of(const struct job_record *record)
{
    for (int i = AILMENT_NONE + 1; i < AILMENTS; i++)
        if (strcmp(record->ailment, ailment_names[i]) == 0)
            return (enum ailment)i;
    return AILMENT_NONE;
}

/* ---- The patch ---- */

/* Find what the patch would make of the job, without writing. */
static bool look(const struct job *job, const struct admit_options *options,
                 const struct heal *heal, const struct job_record *record,
                 struct inspection *out, struct error *err)
{
    const struct inspect_options how = { .machine = options->machine,
                                         .job = job->path,
                                         .will_run = true,
                                         .spooled = options->spooled,
                                         .roots = options->roots,
                                         .owner = options->owner,
                                         .counts = true,
                                         .submits = true,
                                         .resume = true,
                                         .heal = heal,
                                         .origin = record->origin,
                                         .edit = INSPECT_LOOK };

    return inspect_job(&how, out, err);
}

static bool is_remedy(const struct finding *finding)
{
    static const char *const remedies[] = { "TS109", "TS132", "TS315", "TS316", "TS413" };

    for (size_t i = 0; finding->resolved && i < TS_COUNT(remedies); i++)
        if (strcmp(finding->rule, remedies[i]) == 0)
            return true;
    return false;
}

/* Return why the patch is not made, or NULL. */
static const char *obstacle_to(const struct patch *patch)
{
    if (!patch->has_plan || patch_rejected(patch))
        return "the patched job would be rejected";
    for (size_t i = 0; patch->changed && i < patch->findings.count; i++)
        if (is_remedy(&patch->findings.list[i]))
            return NULL;
    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, "TS011") == 0)
            return patch->findings.list[i].message;
    return "no rule has a remedy for this job";
}

static bool give_up(const struct job *job, struct job_record *record, const char *why,
                    struct error *err)
{
    struct job_record after = *record;
    char reason[sizeof(record->reason) + 100];
    struct text line;
    char now[32];
    bool ok;

    snprintf(reason, sizeof(reason), "%.400s; not healed: %s", record->reason, why);
    after.ailment[0] = after.healed[0] = 0;
    after.heals--; /* it was counted in advance */
    clock_iso(now);
    text_init(&line, 0);
    text_addf(&line, "%s error job %s: failed: ", now, job->name);
    report_visible(&line, reason);
    text_addc(&line, '\n');
    ok = job_log(job, &line, err) && job_event(job, &after, EVENT_EXIT_BAD, reason, err);
    text_clear(&line);
    if (ok)
        *record = after;
    return ok;
}

static bool patch(const struct job *job, const struct admit_options *options,
                  struct job_record *record, struct inspection *inspection,
                  struct error *err)
{
    char what[sizeof(record->reason)];
    const struct heal heal = { ailment_of(record), what };
    struct admit_options with = *options;
    const char *why;

    strcpy(what, record->reason);
    with.heal = &heal;
    if (!look(job, options, &heal, record, inspection, err))
        return false;
    why = obstacle_to(&inspection->patch);
    if (why)
        return give_up(job, record, why, err);
    /* first: a patch that is made but not known would be made twice */
    strcpy(record->healed, inspection->patch.after);
    if (!job_write(job, record, true, err))
        return false;
    inspect_clear(inspection);
    return admit_job(job, &with, record, inspection, err);
}

bool heal_job(const struct job *job, const struct admit_options *options,
              struct job_record *record, struct inspection *inspection, struct error *err)
{
    char digest[DIGEST_TEXT];

    if (!digest_file(job->path, digest, err))
        return false;
    if (strcmp(digest, record->digest) == 0)
        return patch(job, options, record, inspection, err);
    if (strcmp(digest, record->healed) != 0)
        job_restart(record); /* another text is another job */
    return admit_job(job, options, record, inspection, err);
}
