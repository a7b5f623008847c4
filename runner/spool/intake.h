/*
 * runner/spool/intake.h - one name of the spool: is it a job, is it known, what is to be done
 * with it? Looking is idempotent: an event, a scan and a doubt all end here.
 */
#ifndef RUNNER_SPOOL_INTAKE_H
#define RUNNER_SPOOL_INTAKE_H

#include "base/log.h"
#include "runner/spool/drop.h"
#include "runner/job/job.h"
#include "runner/job/machine.h"
#include "runner/spool/queue.h"

#define INTAKE_AGAIN 5 /* seconds until another try after a fault of the machine */

/* What is remembered of a name; zeroed but for the name at first. */
struct item {
    char *name;
    struct drop_history history;
    char known[64];       /* source of the file as it was last dealt with */
    char known_state[64]; /* of its state.json then */
    double due;           /* when to look again, if looking was not enough */
    bool told;            /* that a new text waits for the end of the run */
    bool pending;         /* the spool's: it is to be looked at */
    struct item *next;    /* the spool's */
    bool flush;           /* its frozen text is to be flushed */
    struct item *next_flush;
};

/* What looking leads to. */
struct intake {
    int dir; /* the spool, which is the current directory too */
    const struct machine *machine;
    struct log *log;
    struct queue queue;
    char *running; /* a job found running, to be adopted; NULL: none */
    char *current; /* the one that is at work, whose state is not ours to follow */
    bool others;   /* there are names that were not looked at yet */
    struct item *flush;
    size_t failures; /* jobs rejected */
};

/* True: nothing is left to look at.  Else again at item->due. */
bool intake_look(struct intake *intake, struct item *item);
/* Flush the frozen texts of jobs that were claimed. */
void intake_flush(struct intake *intake);
void intake_clear(struct intake *intake);

#endif
