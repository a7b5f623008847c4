/*
 * runner/spool/examiner.h - child processes that examine jobs for the watch. Whatever a
 * job names (a model with a huge header, a file on a hung mount) is read only there, with
 * limits and a deadline; the watch never waits for it.
 *
 * An examiner is a fork of the watch that answers requests one after the other. If one
 * does not answer, the next request gets another examiner. If one exceeds a limit, another
 * one gets the same request, refused with the reason. Each works for one user, with the
 * rights of that user (base/user.h).
 */
#ifndef RUNNER_SPOOL_EXAMINER_H
#define RUNNER_SPOOL_EXAMINER_H

#include <sys/types.h>

#include "runner/job/job.h"
#include "runner/job/machine.h"
#include "runner/job/record.h"
#include "runner/spool/candidates.h"

struct examine_request {
    char name[256];
    char source[64];          /* job_source of the file */
    struct record_stamp seen; /* of the job, when the request was made */
    char refused[256];        /* why the file cannot be a job; empty: it can */
    double arrived;
    uid_t owner;
    uid_t user;                    /* as which it is examined */
    bool own;                      /* which is that of the watch */
    bool waits;                    /* admit_options.waits */
    uint8_t order[CANDIDATES_MAX]; /* in which to try the candidates */
    bool suspect; /* an earlier examination of this job reached the deadline */
};

enum examine_end {
    EXAMINE_DONE,    /* *record is on disk */
    EXAMINE_BUSY,    /* another process holds the job's lock */
    EXAMINE_CHANGED, /* the file or its state is not that of the request, or no longer */
    EXAMINE_FAULT    /* of the machine; err says which */
};

struct examine_result {
    enum examine_end end;
    struct job_record record;
    size_t edits;     /* made to the job file */
    char barred[448]; /* why none could be made; "": nothing kept them */
    bool late;        /* FAULT: the deadline came first */
    struct error err;
};

struct examine_limits {
    double seconds;     /* for one job, until the answer */
    double cpu_seconds; /* the same, of CPU time */
    size_t bytes;       /* of memory, in addition to that of the watch */
};
extern const struct examine_limits examine_limits;

struct examiners;

/* What all examinations have in common. */
struct examine_how {
    /* runs in an examiner; `out` is zeroed */
    void (*examine)(const struct examine_request *request, const struct examine_how *how,
                    struct examine_result *out);
    const struct machine *machine;
    /* with `machine` those of other nodes; NULL: there are none */
    const struct candidates *candidates;
    const struct examine_limits *limits;
    const char *const *roots; /* of watch: where jobs may write */
    gid_t group; /* of watch: that may read the files of jobs; or GROUP_NONE */
    bool contained;
    /* what the watch does while it waits for an answer; or NULL */
    void (*meanwhile)(void *context);
    void *context;
};

/* *how and what it names stay the caller's. An examiner knows the machine as it was when
 * it started; if that has changed since, another one is started. */
struct examiners *examiners_new(const struct examine_how *how);
/* Ends all examiners. NULL is allowed. */
void examiners_free(struct examiners *examiners);

enum examine_answer {
    EXAMINERS_ANSWERED, /* *out is set */
    EXAMINERS_WORK,     /* ask again later; the name is enough */
    EXAMINERS_FULL      /* no examiner is free: make the request again later */
};

/* Ask about a job, or for the answer to an earlier request for that name. Wait for it
 * until `until` (clock_seconds) at most. */
enum examine_answer examiners_ask(struct examiners *examiners,
                                  const struct examine_request *request, double until,
                                  struct examine_result *out);

#endif
