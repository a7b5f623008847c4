/*
 * runner/job/job.h - the files next to a job, its state, the table of transitions.
 *
 * Only the holder of NAME.run/lock (flock) writes NAME.run/state.json: a command or the
 * watch for a moment, the trainer for as long as it lives. No process id is stored
 * anywhere: the lock is held or free.
 *
 *   lock held                     a process works on the job; `running` is true
 *   lock free, `running`          that attempt crashed
 *   lock free, any other state    is what it says
 *
 * The file NAME.run/cancel asks a job to end: the trainer checks for it after each step,
 * saves, and exits; the watch records a job that waits as stopped. It is removed before a
 * job starts and when its end is recorded.
 */
#ifndef RUNNER_JOB_JOB_H
#define RUNNER_JOB_JOB_H

#include <sys/types.h>

#include "base/text.h"

enum job_state {
    JOB_INVALID, /* no transition leads here: what is not in the table must not happen */
    JOB_NEW,     /* dropped, not examined yet; also if there is no state.json */
    JOB_READY,   /* patched and frozen, waits for its turn */
    /* cannot be admitted or started for a reason outside it, such as a file in the way; the
     * watch tries again */
    JOB_BLOCKED,
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
    EVENT_BLOCKED,
    EVENT_AILED, /* it met a problem that a patch may remedy: to be admitted again */
    EVENT_STARTED,
    EVENT_EXIT_OK,
    EVENT_EXIT_BAD,
    EVENT_PAUSED,    /* stopped by a signal, to resume automatically */
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
    int64_t step, total; /* of this run; 0: unknown */
    double loss;         /* last one logged; NaN: none */
    double seconds_left; /* at the speed so far; NaN: unknown */
    int64_t attempt;     /* starts of this run, 0 before the first */
    int64_t crashes;     /* attempts that ended without a record */
    int64_t max_retries; /* number of crashes after which it is retried */
    int64_t heals;     /* problems that were remedied by a patch, or are to be (heal.h) */
    int64_t max_heals; /* as long as there are fewer than this; 0: healing is off */
    char ailment[16];  /* the problem to remedy at the next admission; "": none */
    char healed[65];   /* digest of the job file that this patch writes; "": not yet */
    char origin[65];  /* digest under which the run saves its checkpoints; "": `frozen` */
    int64_t bad_from; /* checkpoints of this step and later are not resumed; 0: all are */
    int64_t priority;
    double timeout; /* seconds that its attempts may take; 0: as many as they like */
    double seconds; /* for which its attempts have run; NaN: not at all */
    double arrived; /* wall time at which the file arrived; NaN: unknown */
    int64_t sweep;  /* number of jobs that it made; 0: it is not a sweep */
    bool resume;    /* the next start continues from the last checkpoint */
    char device[96];
    char contained[160]; /* what contained the last attempt, for people */
    /* what the job needs, as far as its check found out: see placement.h */
    char wanted[64]; /* trainspool.device; cpu if no GPU fits; slurm; "": not known */
    int64_t capability, ranks, threads;
    int64_t memory; /* planned bytes of each rank; 0: unknown */
    /* bytes of the machine's memory that all its processes may use, in a group of their own
     * (job_group.h); 0: no limit */
    int64_t memory_max;
    char devices[64]; /* where the watch started it, as --device; "": not known */
    /* the machine of that watch, where those of several share the folder; else "" */
    char node[65];
    char digest[65]; /* SHA-256 of the job file as accepted or rejected */
    char frozen[65]; /* of NAME.run/job.yaml */
    int64_t owner;   /* the user of the job file */
    char source[64]; /* "inode:ctime:size" of that file: cheap to compare */
    char queued[32], started[32], ended[32]; /* for people; UTC */
};

/* Write a string to compare with `source`. */
struct stat;
void job_source(const struct stat *st, char out[64]);

enum job_state job_next(enum job_state state, enum job_event event);

/* The names of the files next to a job; malloc'ed, freed by job_clear. */
struct job {
    char *path;    /* gsm8k.yaml */
    char *name;    /* gsm8k */
    char *run_dir; /* gsm8k.run */
    char *state, *lock, *frozen, *log, *cancel, *metrics;
};
void job_init(struct job *job, const char *path);
void job_clear(struct job *job);

/* Create NAME.run/ if it does not exist; never through a link, and only a directory. */
bool job_make_dir(const struct job *job, struct error *err);
/* Check that no other user decides what is in NAME.run/, if it exists: its owner is root
 * or `user`, and no one else may write to it. Jobs of a folder that others may write to
 * are used only then. ERROR_SYSTEM with the remedy. */
bool job_check_dir(const struct job *job, uid_t user, struct error *err);

/* Read state.json. A missing or broken file (a power cut) is JOB_NEW; something else in its
 * place, or in that of NAME.run, is JOB_BLOCKED. ERROR_SYSTEM otherwise. */
bool job_read(const struct job *job, struct job_record *out, struct error *err);
/* The same for `name`, a state.json relative to an open directory (AT_FDCWD allowed). */
bool job_read_at(int dir, const char *name, struct job_record *out, struct error *err);
/* Replace state.json. durable: on disk when this returns; otherwise a power cut may
 * restore the previous state. */
bool job_write(const struct job *job, const struct job_record *record, bool durable,
               struct error *err);

/* Count attempts, crashes, heals and time from the start; the state stays. */
void job_restart(struct job_record *record);
/* Move record->state along the table, store the reason (NULL: clear it), note the times,
 * and write the record. Only an end is flushed to disk: if a power cut reverts `ready` or
 * `rejected`, the dropped file is handled again, and the lock shows `running`. A
 * transition that is not in the table is ERROR_SYSTEM and changes nothing. */
bool job_event(const struct job *job, struct job_record *record, enum job_event event,
               const char *reason, struct error *err);

/* Write NAME.run/job.yaml, and note its digest in the record. Without `durable`, job_flush must follow before anything
 * depends on it. */
bool job_freeze(const struct job *job, const struct text *text, bool durable,
                struct job_record *record, struct error *err);
/* Read NAME.run/job.yaml. ERROR_JOB if its digest is not this one; NULL: any. */
bool job_read_frozen(const struct job *job, const char *digest, struct text *out,
                     struct error *err);
bool job_flush(const struct job *job, struct error *err);

/* What root does about a job of another user between this and user_leave, it does with the
 * rights of the owner of its file, or of its NAME.run if the file was removed. */
struct user_scope;
bool job_enter_owner(const struct job *job, struct user_scope *scope, struct error *err);

/* Lock the job, among all machines (base/shared_lock.h). Return the descriptor, or -1 with
 * *busy (another process holds the lock) or *err. */
int job_lock(const struct job *job, bool *busy, struct error *err);
void job_unlock(const struct job *job, int lock);
/* Close the descriptor of a lock that a child holds from now on, and in the child: keep the
 * lock that the parent had. The process ends as soon as it may be another machine's. */
void job_pass_lock(const struct job *job, int lock);
bool job_keep_lock(const struct job *job, int lock, bool inherited, struct error *err);
bool job_is_locked(const struct job *job);
/* As job_lock, but wait for a machine that may be dead, for at most a lease; *waits_for is
 * called with its name before that. */
int job_lock_patiently(const struct job *job, void (*waits_for)(const char *host),
                       bool *busy, struct error *err);
/* Write the name of the machine that works on the job; "" if it is this one, or none. */
void job_holder(const struct job *job, char host[65]);

/* Requests to a running job through the file `cancel`, whose text is the request. */
enum job_request_kind {
    REQUEST_NONE,
    REQUEST_CANCEL, /* end, and do not resume automatically */
    REQUEST_PAUSE,  /* end, and be ready to resume */
    REQUEST_REQUEUE /* the same, as the last of the queue */
};
/* REQUEST_CANCEL can also be made on a full disk, and of a job that waits. */
bool job_request(const struct job *job, enum job_request_kind request, struct error *err);
enum job_request_kind job_requested(const struct job *job);
void job_forget(const struct job *job);

/* Remove temporary files that killed processes left: in NAME.run, and those of the job
 * file, which a watch does for the jobs of a spool. The caller holds the lock. */
void job_remove_leftovers(const struct job *job, bool spooled);

/* Open train.log for appending. Return the descriptor, or -1. */
int job_open_log(const struct job *job, struct error *err);
/* Append to train.log verbatim. */
bool job_log(const struct job *job, const struct text *text, struct error *err);

#endif
