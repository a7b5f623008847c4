/*
 * runner/job/job.h - the files beside a job, its state, the table of transitions.
 *
 * NAME.run/state.json is written only by whoever holds NAME.run/lock (flock): a command
 * or the watch for a moment, the trainer for as long as it lives.  Nothing says who that
 * is, and no process id is kept anywhere: the lock is held or it is free.
 *
 *   lock held                     somebody is at work; `running` is true
 *   lock free, `running`          that attempt crashed
 *   lock free, any other state    is what it says
 *
 * A running job is asked to end by the file NAME.run/cancel: the trainer looks for it
 * after each step, saves, and leaves.  It is removed before a job starts and when it
 * ends.
 */
#ifndef RUNNER_JOB_JOB_H
#define RUNNER_JOB_JOB_H

#include "base/text.h"

enum job_state {
    JOB_NOWHERE, /* no transition leads here: what is not in the table must not happen */
    JOB_NEW,     /* dropped, not looked at; also where there is no state.json */
    JOB_READY,   /* patched and frozen, waits for its turn */
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
    JOB_STOPPED, /* by a person, after a checkpoint */
    /* an error finding is left after the patch, or the file cannot be a job */
    JOB_REJECTED,
    JOB_STATES
};
extern const char *const job_state_names[JOB_STATES];

enum job_event {
    EVENT_ACCEPTED,
    EVENT_REJECTED,
    EVENT_STARTED,
    EVENT_EXIT_OK,
    EVENT_EXIT_BAD,
    EVENT_PAUSED,    /* stopped by a signal, and to go on by itself */
    EVENT_CANCELLED, /* stopped by a person */
    EVENT_CRASHED,   /* the trainer vanished; another attempt is left */
    EVENT_GAVE_UP,   /* it vanished too often */
    EVENT_RETRIED,   /* by a person */
    EVENT_CHANGED,   /* the job has a new text */
    JOB_EVENTS
};
extern const char *const job_event_names[JOB_EVENTS];

/* state.json */
struct job_record {
    enum job_state state;
    char reason[512];
    int64_t step, total; /* of this run; 0: not known */
    double loss;         /* last one logged; NaN: none */
    double seconds_left; /* at the speed so far; NaN: not known */
    int64_t attempt;     /* starts of this run, 0 before the first */
    int64_t crashes;     /* of them, ended without a word */
    int64_t max_retries; /* crashes that are forgiven */
    int64_t priority;
    double arrived; /* wall time at which the file came to lie there; NaN: not known */
    bool resume;    /* the next start goes on from the last checkpoint */
    char device[96];
    char digest[65]; /* SHA-256 of the job file as accepted or rejected */
    char source[64]; /* "inode:ctime:size" of that file: cheap to compare */
    char queued[32], started[32], ended[32]; /* for people; UTC */
};

/* What `digest` and `source` may be compared with. */
struct stat;
void job_source(const struct stat *st, char out[64]);

enum job_state job_next(enum job_state state, enum job_event event);

/* The names beside a job; malloc'ed, given back with job_clear. */
struct job {
    char *path;    /* gsm8k.yaml */
    char *name;    /* gsm8k */
    char *run_dir; /* gsm8k.run */
    char *state, *lock, *frozen, *log, *cancel, *metrics;
};
void job_init(struct job *job, const char *path);
void job_clear(struct job *job);

/* Make NAME.run/ if it is not there; never through a link, and only a directory. */
bool job_make_dir(const struct job *job, struct error *err);

/* A missing file, or one that is broken (a power cut), is JOB_NEW. ERROR_SYSTEM
 * otherwise. */
bool job_read(const struct job *job, struct job_record *out, struct error *err);
/* Replace state.json.  durable: on disk when this returns; without, a power cut may bring
 * back the state before it. */
bool job_write(const struct job *job, const struct job_record *record, bool durable,
               struct error *err);

/*
 * record->state moves along the table; the reason is kept (NULL: emptied), times are
 * noted, and the record written.  Only an end is flushed to disk: if a power cut takes
 * `ready` or `rejected` back the dropped file tells again what to do, and `running` is
 * told by the lock.  A transition that is not in the table is ERROR_SYSTEM and changes
 * nothing.
 */
bool job_event(const struct job *job, struct job_record *record, enum job_event event,
               const char *reason, struct error *err);

/* NAME.run/job.yaml.  Without `durable` job_flush must follow before anything depends on
 * it. */
bool job_freeze(const struct job *job, const char *data, size_t len, bool durable,
                struct error *err);
bool job_flush(const struct job *job, struct error *err);

/* The lock: a descriptor, or -1 with *busy (somebody else holds it) or *err. */
int job_lock(const struct job *job, bool *busy, struct error *err);
bool job_locked(const struct job *job);

/* What a running job is asked by the file `cancel`, whose text is the wish. */
enum job_wish {
    WISH_NONE,
    WISH_CANCEL, /* end, and do not go on by itself */
    WISH_PAUSE   /* end, and be ready to go on */
};
bool job_ask(const struct job *job, enum job_wish wish, struct error *err);
enum job_wish job_asked(const struct job *job);
void job_forget(const struct job *job);

/* Append to train.log as it is. */
bool job_log(const struct job *job, const struct text *text, struct error *err);

#endif
