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
    h->id = h->task = 0;
    h->first = h->record.step;
    h->array[0] = '\0';
    h->in_array = h->sweep != NULL;
    return slurm_submission_name(h->job.name, h->name, err) &&
           (h->sweep || write_script(h, err)) &&
           job_write(&names, &h->record, true, err) &&
           file_replace(h->lease, h->name, strlen(h->name), 0600, err) &&
           handover_note(h, err);
}

/* The user has as many jobs in the queue as Slurm allows. */
static void wait_for_room(struct handover *h, const char *why)
{
    const double until = clock_seconds() + room_seconds;

    handover_note_wait(h, why);
    while (clock_seconds() < until && !*h->stop && !handover_must_end(h)) {
        handover_beat(h);
        poll(NULL, 0, HANDOVER_TICK_MS);
    }
}

enum slurm_answer handover_find(struct handover *h, struct slurm_job *found,
                                struct error *err)
{
    const struct slurm_target target = handover_target(h);
    enum slurm_answer answer;

    for (;;) {
        error_clear(err);
        handover_beat(h);
        answer = slurm_find(&target, found, err);
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

bool handover_join(struct handover *h, struct error *err)
{
    struct slurm_submission submission = { .in_array = true };
    struct error own = { 0 };
    enum slurm_answer answer;

    strcpy(submission.name, h->name);
    do {
        if (*h->stop || handover_must_end(h))
            return error_set(err, ERROR_STOPPED, "stopped on request");
        handover_beat(h);
        error_clear(&own);
        answer = sweep_array_step(h->sweep, &submission, &own);
        if (answer != SLURM_YES && own.code)
            handover_note_wait(h, own.text);
        if (answer == SLURM_LATER || answer == SLURM_UNSURE)
            poll(NULL, 0, HANDOVER_TICK_MS);
    } while (answer == SLURM_LATER || answer == SLURM_UNSURE);
    sweep_array_close(h->sweep);
    h->sweep = NULL;
    if (answer == SLURM_NO)
        return error_set(err, own.code, "%s", own.text);
    strcpy(h->array, submission.array);
    h->task = submission.task;
    h->id = submission.id;
    handover_log(h, "submitted as job %" PRId64 "_%" PRId64 ", %s of %s", h->id, h->task,
                 h->name, h->array);
    return handover_note(h, err);
}
