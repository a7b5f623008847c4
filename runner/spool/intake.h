/*
 * runner/spool/intake.h - decides for one name in the spool whether it is a job, whether
 * it is known and what to do next. This is idempotent: an event, a scan and a retry all
 * end here.
 */
#ifndef RUNNER_SPOOL_INTAKE_H
#define RUNNER_SPOOL_INTAKE_H

#include "base/log.h"
#include "runner/spool/drop.h"
#include "runner/spool/nodes.h"
#include "runner/spool/examiner.h"
#include "runner/job/gate.h"
#include "runner/job/job.h"
#include "runner/spool/queue.h"
#include "runner/spool/waiters.h"

/* State of a name; zeroed at first except for the name. */
struct item {
    char *name;
    uid_t user; /* as which the job is handled and runs */
    struct drop_history history;
    char known[64];       /* source of the file when it was last handled */
    char known_state[64]; /* of its state.json at that time */
    double due;           /* when to check again if one check was not enough */
    bool examined;        /* an examiner works on it */
    bool suspect;         /* an examination reached its deadline */
    uint64_t tried;       /* the queue's round in which it could not be started */
    /* it fits nowhere, though an earlier check accepted it: the devices have changed */
    enum { FIT_KNOWN, FIT_UNKNOWN, FIT_EXAMINED } fit;
    char *trouble;       /* why it was put off, as logged; malloc'ed, NULL: nothing */
    double since;        /* when it was put off first */
    bool blocked;        /* it may stay put off for ever */
    enum gate_kind gate; /* what keeps it from starting, as logged */
    char *waits_for;     /* AFTER, SWEEP: a job, without .yaml; malloc'ed, NULL: none */
    bool news;           /* its state may have changed: wake the jobs that wait for it */
    bool awaited;        /* another job waits for its check */
    bool finish;         /* a sweep, whose jobs have ended */
    /* whether it was reported that a new text waits for the end of the run */
    bool reported;
    uint64_t seen;         /* used by items.h: the last scan that found its file */
    bool gone;             /* its file was gone at the last check or scan */
    bool found;            /* running, and not adopted yet */
    bool elsewhere, noted; /* used by elsewhere.h */
    bool current;          /* used by the spool: a worker has the job */
    bool counted;          /* as one that waits (item_count), of this user */
    uid_t counted_for;
    bool returns; /* used by the spool: a worker had it, its state was not read since */
    bool pending; /* used by the spool: a check is due */
    struct item *next; /* used by the spool */
    bool flush;        /* its frozen text still has to be flushed */
    struct item *next_flush;
};

/* The results of checking names. */
struct intake {
    int dir; /* the spool, which is also the current directory */
    struct examiners *examiners;
    double until; /* how long checks may wait for an examiner, by clock_seconds */
    struct log *log;
    struct queue queue;
    /* jobs found running, to be adopted; malloc'ed */
    char **found;
    size_t found_count;
    size_t current; /* jobs that workers have, whose states we do not follow here */
    bool others;    /* some names were not checked yet */
    struct item *flush;
    size_t failures; /* number of jobs rejected */
    struct waiters waiters;
    struct people *people;
    const struct candidates *candidates; /* the same as for the examiners */
    struct nodes *nodes; /* the watches of other nodes; NULL: this one is alone */
    size_t elsewhere;    /* items that are left to them */
    /* called for a job that ended without the watch waiting for it; NULL: none */
    void (*ended)(void *context, const char *path, const struct job_record *record);
    void *ended_context;
};

/* Check a name. Return true if nothing is left to do; otherwise check again at
 * item->due. */
bool intake_handle(struct intake *intake, struct item *item);
/* Note a job that was found running. */
void intake_find(struct intake *intake, struct item *item);
/* The same, if it runs: an earlier watch may have left it. */
void intake_find_running(struct intake *intake, struct item *item);
/* Return what the record of a job says about its needs. */
struct placement_need intake_need(const struct job_record *record);
/* Flush the frozen texts of admitted jobs. */
void intake_flush(struct intake *intake);
void intake_clear(struct intake *intake);
void item_free(void *item);
/* Count a job of its user as one that waits, or no longer. */
void item_count(struct item *item, struct people *people, bool waits);
/* Count a job that is ready as one that waits. Return false with the reason if it must not:
 * one that did not wait before counts like a new one, whatever its state says, because its
 * owner may have written that. */
bool item_may_wait(struct item *item, struct people *people, struct error *err);
void item_note_known(struct item *item, const struct job *job, const char *source);
/* Return whether the file and its state are unchanged since they were last handled. */
bool item_is_unchanged(const struct item *item, const struct job *job);

#endif
