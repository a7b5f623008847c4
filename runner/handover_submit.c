/* runner/handover_submit.c - submits a job to Slurm once. */
#include "config.h"

#include "runner/handover_internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/walk.h"
#include "runner/cluster/slurm_submission.h"
#include "runner/job/batch_script.h"
#include "runner/job/record.h"

/* Seconds until Slurm may take another job of the user. */
static const double room_seconds = 60;

static bool write_script(struct handover *h, struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = batch_script_write(&(struct batch_script) { .options = h->options,
                                                     .job = &h->job,
                                                     .plan = &h->plan,
                                                     .name = h->name,
                                                     .digest = h->record.frozen },
                            &text, err) &&
         file_replace(h->script, text.data, text.len, 0700, err);
    text_clear(&text);
    return ok;
}

bool handover_prepare(struct handover *h, struct error *err)
{
    struct job names = h->job;

    names.state = h->cluster;
    walk_unlink(h->exit);
    h->id = 0;
    return slurm_submission_name(h->job.name, h->name, err) && write_script(h, err) &&
           job_write(&names, &h->record, true, err) &&
           file_replace(h->lease, h->name, strlen(h->name), 0600, err) &&
           handover_note(h, err);
}

/* The user has as many jobs in the queue as Slurm allows. */
static void wait_for_room(struct handover *h, const char *why)
{
    const double until = clock_seconds() + room_seconds;

    if (strcmp(h->record.reason, why) != 0) {
        record_set_text(h->record.reason, sizeof(h->record.reason), why);
        job_write(&h->job, &h->record, false, NULL);
    }
    while (clock_seconds() < until && !*h->stop && !handover_must_end(h)) {
        handover_beat(h);
        poll(NULL, 0, HANDOVER_TICK_MS);
    }
}

enum slurm_answer handover_find(struct handover *h, struct slurm_job *found,
                                struct error *err)
{
    enum slurm_answer answer;

    for (;;) {
        error_clear(err);
        handover_beat(h);
        answer = slurm_find(h->name, found, err);
        if (answer != SLURM_UNSURE || *h->stop || handover_must_end(h))
            return answer;
        poll(NULL, 0, HANDOVER_TICK_MS);
    }
}

bool handover_submit(struct handover *h, struct error *err)
{
    struct slurm_job found = { 0 };
    struct error own = { 0 };

    for (;;) {
        enum slurm_answer answer;

        if (*h->stop || handover_must_end(h))
            return error_set(err, ERROR_STOPPED, "stopped on request");
        error_clear(&own);
        handover_beat(h);
        answer = slurm_submit(h->script, h->output, &h->id, &own);
        if (answer == SLURM_YES) {
            handover_log(h, "submitted as job %" PRId64 ", %s", h->id, h->name);
            return handover_note(h, err);
        }
        if (answer == SLURM_NO)
            return error_set(err, own.code, "%s", own.text);
        if (answer == SLURM_LATER) {
            wait_for_room(h, own.text);
            continue;
        }
        handover_log(h, "%s; looking for %s", own.text, h->name);
        poll(NULL, 0, HANDOVER_TICK_MS);
        answer = handover_find(h, &found, &own);
        if (answer == SLURM_NO)
            return error_set(err, own.code, "%s", own.text);
        if (answer == SLURM_YES && found.state != SLURM_GONE) {
            h->id = found.id;
            return handover_note(h, err);
        }
    }
}
