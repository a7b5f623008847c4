/* runner/commands/queue_again.c - puts an ended job back into the queue. */
#include "config.h"

#include "runner/commands/queue_again.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "runner/job/gate.h"
#include "runner/spool/spool.h"

static void describe_queued(const struct job *job, struct text *sentence)
{
    char *dir = path_dir(job->path);
    struct gate gate;

    text_adds(sentence, "queued again");
    if (gate_read(AT_FDCWD, job->run_dir, &gate, NULL) && gate.kind == GATE_HELD)
        text_addf(sentence, ", but %s", gate.reason);
    if (!spool_is_watched(dir))
        text_addf(sentence, "; no watch is running on %s yet: trainspool watch %s", dir,
                  dir);
    free(dir);
}

/* Record a crash that is not recorded yet. */
static bool settle(const struct job *job, struct job_record *record, bool dry,
                   struct error *err)
{
    if (record->state != JOB_RUNNING)
        return true;
    if (!dry)
        return job_event(job, record, EVENT_GAVE_UP, "trainspool-train vanished", err);
    record->state = JOB_FAILED;
    return true;
}

bool queue_again(const struct job *job, struct job_record *record,
                 struct job_answer *answer, struct error *err)
{
    bool dry = answer->options->dry_run;

    if (!settle(job, record, dry, err))
        return false;
    /* a finished job starts from scratch, any other resumes */
    record->resume = record->state != JOB_DONE;
    answer->changed = job_next(record->state, EVENT_RETRIED) != JOB_INVALID;
    if (!answer->changed) {
        text_addf(&answer->sentence, "is already %s", job_state_names[record->state]);
        return true;
    }
    if (dry) {
        text_adds(&answer->sentence, "would be queued again");
        return true;
    }
    job_forget(job);
    describe_queued(job, &answer->sentence);
    return job_event(job, record, EVENT_RETRIED, NULL, err);
}
