/* runner/handover_follow.c - copies the state of a submission until it has ended. */
#include "config.h"

#include "runner/handover_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/walk.h"
#include "runner/output/report.h"

/* Seconds. Files say what happens; Slurm is asked in case they do not. */
static const double first_query = 5, longest_query = 60, settle_seconds = 20;
/* How long a process that is to end waits for Slurm to end a job whose ranks have. */
static const double ending_seconds = 10;

static void note_reason(struct handover *h, const char *reason)
{
    if (!h->begun && h->record.state == JOB_READY)
        handover_note_wait(h, reason);
}

/* Show in the state what a job that is ready waits for. */
static void note_wait(struct handover *h, const struct slurm_job *found)
{
    struct text reason;

    if (found->state != SLURM_WAITS && found->state != SLURM_RUNS)
        return;
    text_init(&reason, 0);
    text_addf(&reason, "%s Slurm as ",
              found->state == SLURM_WAITS ? "in the queue of" : "started by");
    handover_add_number(h, &reason);
    if (found->reason[0])
        text_addf(&reason, " (%s)", found->reason);
    note_reason(h, reason.data);
    text_clear(&reason);
}

/* Copy the state that rank 0 wrote, if it is another. */
static void copy_state(struct handover *h)
{
    struct job_record record;
    struct stat st;

    if (!file_stat(h->cluster, &st) ||
        (st.st_ino == h->seen.st_ino && st.st_mtim.tv_sec == h->seen.st_mtim.tv_sec &&
         st.st_mtim.tv_nsec == h->seen.st_mtim.tv_nsec))
        return;
    if (!job_read_at(AT_FDCWD, h->cluster, &record, NULL))
        return;
    h->seen = st;
    if (record.attempt == h->record.attempt && record.state == h->record.state &&
        (isnan(record.seconds) || record.seconds == h->record.seconds) && !h->begun)
        return; /* the one that this process or an earlier one wrote */
    h->begun = true;
    h->record = record;
    job_write(&h->job, &h->record, record.state != JOB_RUNNING, NULL);
}

bool handover_read_exit(const struct handover *h, int *status)
{
    struct text text;
    char name[SLURM_NAME];
    bool ok;

    text_init(&text, 0);
    ok = file_read(h->exit, 4096, &text, NULL, NULL) && text.len > 0 &&
         sscanf(text.data, "%79s %d", name, status) == 2 && strcmp(name, h->name) == 0;
    text_clear(&text);
    return ok;
}

static bool is_word(const struct slurm_job *found, const char *word)
{
    return text_starts(found->word, word);
}

/* A submission that Slurm has lost counts as a crash: it may be lost each time. What Slurm
 * ends for the sake of a node or of another job does not. */
static int end_vanished(struct handover *h, char why[512])
{
    const size_t len = strlen(why);
    const bool again = h->options->spooled && h->record.crashes < h->record.max_retries;

    if (!again)
        snprintf(why + len, 512 - len, "; gave up after %" PRId64 " lost submission%s",
                 h->record.crashes + 1, h->record.crashes == 0 ? "" : "s or crashes");
    return handover_end(h, again ? EVENT_CRASHED : EVENT_GAVE_UP, why, EXIT_FINDINGS);
}

/* Slurm ended the job, or does not know it, and the ranks have not noted how they ended. */
static int end_without_exit(struct handover *h, const struct slurm_job *found)
{
    char why[512];
    struct text number;

    text_init(&number, 0);
    handover_add_number(h, &number);
    snprintf(why, sizeof(why), "Slurm: %.60s is %s", number.data,
             found->state == SLURM_GONE ? "unknown to the controller" : found->word);
    text_clear(&number);
    handover_log(h, "%s", why);
    if (found->state != SLURM_GONE && is_word(found, "CANCELLED"))
        return handover_end(h, EVENT_CANCELLED, why, EXIT_TERMINATED);
    if (found->state != SLURM_GONE && is_word(found, "OUT_OF_MEMORY"))
        return EXIT_NO_MEMORY;
    if (found->state == SLURM_GONE)
        return end_vanished(h, why);
    if (is_word(found, "NODE_FAIL") || is_word(found, "PREEMPTED") ||
        is_word(found, "BOOT_FAIL") || is_word(found, "REVOKED"))
        return h->record.state == JOB_RUNNING
                   ? handover_end(h, EVENT_PAUSED, why, EXIT_TERMINATED)
                   : EXIT_TERMINATED;
    snprintf(
        why + strlen(why), sizeof(why) - strlen(why),
        h->record.state == JOB_READY
            ? ", but its ranks did not start: does each node see %.300s? See slurm.log"
            : "; see %.300s/slurm.log",
        h->job.run_dir);
    return h->record.state == JOB_RUNNING || h->record.state == JOB_READY
               ? handover_end(h, EVENT_EXIT_BAD, why, EXIT_FINDINGS)
               : EXIT_FINDINGS;
}

/* A job that its time limit ended continues in another submission, if it made a step. */
static int end_with_exit(struct handover *h, const struct slurm_job *found, int status)
{
    if (status == EXIT_TERMINATED && h->record.state == JOB_READY &&
        found->state == SLURM_ENDED && is_word(found, "CANCELLED"))
        return handover_end(h, EVENT_CANCELLED, "canceled in Slurm", EXIT_TERMINATED);
    if (status == EXIT_TERMINATED && h->record.state == JOB_READY && h->begun &&
        h->record.step <= h->first && job_requested(&h->job) == REQUEST_NONE)
        return handover_end(h, EVENT_EXIT_BAD,
                            "Slurm ended it before its first step: give it more time",
                            EXIT_FINDINGS);
    return status;
}

/* The seconds between two questions, for tests; 0: as usual. */
static double test_seconds(void)
{
    const char *every = getenv("TRAINSPOOL_SLURM_SECONDS");

    return every ? atof(every) : 0;
}

/* How long it may take until files of other machines are seen. */
static double settle(void)
{
    const double every = test_seconds();

    return every > 0 ? fmin(5 * every, settle_seconds) : settle_seconds;
}

/* Show in the state of a job that waits that it is not known what Slurm does with it. */
static void note_silence(struct handover *h, const struct error *err)
{
    char reason[sizeof(h->record.reason)];

    snprintf(reason, sizeof(reason), "no answer from Slurm about job %" PRId64 ": %.300s",
             h->id, err->text);
    note_reason(h, reason);
}

/* Ask Slurm when it is time. Return whether it was asked, and answered. */
static bool query(struct handover *h, bool now, struct slurm_job *found)
{
    const struct slurm_target target = handover_target(h);
    struct error err = { 0 };
    struct slurm_job answer;
    const double every = test_seconds();

    if (!now && clock_seconds() < h->next)
        return false;
    h->pause = every > 0                  ? every
               : h->pause < longest_query ? h->pause * 1.5
                                          : longest_query;
    h->next = clock_seconds() + h->pause;
    if (slurm_find(&target, &answer, &err) != SLURM_YES) {
        note_silence(h, &err);
        return false;
    }
    /* only a task that never started was canceled unseen */
    if (answer.inferred && (h->begun || h->record.state != JOB_READY))
        answer.state = SLURM_GONE;
    if (answer.state != SLURM_GONE)
        h->id = answer.id;
    /* what has ended is soon unknown, but how it ended counts */
    if (found->state != SLURM_ENDED || answer.state == SLURM_WAITS ||
        answer.state == SLURM_RUNS)
        *found = answer;
    note_wait(h, found);
    if (found->state != SLURM_ENDED && found->state != SLURM_GONE)
        h->gone_since = 0;
    else if (h->gone_since == 0)
        h->gone_since = clock_seconds();
    return true;
}

/* Return whether Slurm still says, after a while, that the job is over. */
static bool is_over(struct handover *h, struct slurm_job *found)
{
    return h->gone_since > 0 && clock_seconds() - h->gone_since > settle() &&
           query(h, true, found) && h->gone_since > 0;
}

/* Take a job out of Slurm's queue. If it starts meanwhile, its ranks find no lease. */
static void withdraw(struct handover *h)
{
    const struct slurm_target target = handover_target(h);
    struct text number;

    text_init(&number, 0);
    handover_add_number(h, &number);
    if (!h->withdrawn)
        handover_log(h, "taking %s out of the queue", number.data);
    text_clear(&number);
    walk_unlink(h->lease);
    h->withdrawn = true;
    h->cancel_sent = slurm_cancel(&target, NULL) == SLURM_YES;
    h->next = 0;
}

/* Return whether rank 0 has recorded an end that stays. */
static bool has_ended(const struct handover *h)
{
    return h->record.state == JOB_DONE || h->record.state == JOB_FAILED ||
           h->record.state == JOB_STOPPED;
}

/* The ranks have ended. Return whether it has taken Slurm too long to say so. */
static bool leave_ended(struct handover *h)
{
    if (h->leaving_since == 0)
        h->leaving_since = clock_seconds();
    if (clock_seconds() - h->leaving_since < ending_seconds)
        return false;
    walk_unlink(h->lease); /* Slurm may start again what has ended */
    return true;
}

/* Pass on a request to end. Return whether this process may leave the job to Slurm. */
static bool pass_on_stop(struct handover *h, struct slurm_job *found)
{
    const enum job_request_kind request = job_requested(&h->job);

    if (request != REQUEST_NONE) {
        h->request = request;
    } else if (handover_must_end(h)) {
        job_request(&h->job, REQUEST_CANCEL, NULL);
    } else {
        copy_state(h); /* rank 0 may have met the request a moment ago */
        if (!has_ended(h))
            return *h->stop != 0;
        if (*h->stop && found->state != SLURM_WAITS)
            return leave_ended(h);
    }
    /* rank 0 looks for requests itself, and saves a checkpoint */
    if (h->withdrawn ? !h->cancel_sent
                     : found->state == SLURM_WAITS && query(h, true, found) &&
                           found->state == SLURM_WAITS)
        withdraw(h);
    return false;
}

int handover_follow(struct handover *h)
{
    /* until there is an answer: it may train */
    struct slurm_job found = { .state = SLURM_RUNS, .id = h->id };
    int status;

    h->pause = first_query;
    h->next = 0;
    for (;;) {
        bool ended = handover_read_exit(h, &status);

        copy_state(h);
        handover_beat(h);
        /* an exit counts when Slurm does not start the job again: it does so after the
         * loss of a node, or when an administrator asks it to */
        if (ended && !h->exit_seen)
            h->pause = HANDOVER_TICK_MS / 1000.0;
        query(h, ended && !h->exit_seen, &found);
        h->exit_seen = ended;
        if (h->gone_since > 0 && h->withdrawn)
            copy_state(h);
        if (h->gone_since > 0 && h->withdrawn && !(ended && has_ended(h))) {
            handover_forget(h);
            return handover_end_withdrawn(h);
        }
        if (h->gone_since > 0 && ended) {
            copy_state(h);
            handover_forget(h);
            return end_with_exit(h, &found, status);
        }
        if (is_over(h, &found)) {
            handover_forget(h);
            return end_without_exit(h, &found);
        }
        if (pass_on_stop(h, &found))
            return EXIT_AGAIN;
        poll(NULL, 0, HANDOVER_TICK_MS);
    }
}
