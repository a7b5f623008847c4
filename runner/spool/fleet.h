/*
 * runner/spool/fleet.h - the devices that a watch may use, and the jobs on them. It
 * measures what is free and asks placement.h which job starts.
 *
 * The GPUs are probed when a job could start there according to the plans of all jobs.
 * The probe is a child process: until it has answered, jobs on GPUs wait. What it found is
 * forgotten after a second.
 */
#ifndef RUNNER_SPOOL_FLEET_H
#define RUNNER_SPOOL_FLEET_H

#include "base/log.h"
#include "runner/job/job.h"
#include "runner/spool/nodes.h"
#include "runner/spool/prober.h"
#include "runner/spool/queue.h"

/* Jobs that run at once, most of them in Slurm. */
enum { FLEET_JOBS_MAX = 2048 };

struct fleet_job {
    char *name;
    int64_t step; /* in its state when it was first looked at while it ran */
    bool settled; /* it has allocated its memory */
    uid_t user;
    double charged; /* clock_seconds until which its owner was charged */
};

/* A GPU is ill if the probe does not find it or says so, or if two jobs in a row ended
 * because it does not work. In the first case it gets jobs again after the next probe, in
 * the last one after a successful probe at `until`. Where several users have jobs, the two
 * must not belong to the same one, who may send the signal of a hung driver to their own
 * trainers; the probe still finds a GPU that the driver gave up. */
struct fleet_health {
    char ill[160]; /* why it gets no job; "": it is well */
    int losses;    /* in a row */
    uid_t loser;   /* the owner of the job that lost it last */
    double until, pause;
};

struct fleet {
    struct placement_device devices[PROBE_MAX]; /* the CPU first */
    struct fleet_health health[PROBE_MAX];
    size_t device_count;
    size_t slots; /* jobs at once; 0: as many as fit */
    struct placement_running running[FLEET_JOBS_MAX];
    struct fleet_job jobs[FLEET_JOBS_MAX]; /* the same, in the same order */
    size_t count;
    struct people people;      /* fleet_use.h charges them */
    const struct nodes *nodes; /* the others; NULL: none */
    bool unsaved;              /* what they have used, as logged */
    struct log *log;
    struct prober prober;
    /* by clock_seconds: the last probe began and answered; a job left a GPU */
    double asked, answered, left;
    double measured; /* when the memory of the CPU last was, by clock_seconds */
};

/* Take the devices of a probe: those of the list (--devices; NULL: all). The other GPUs
 * are removed from the probe too, so that no job is checked for one of them. ERROR_USAGE
 * if a device is not there. */
bool fleet_open(struct fleet *fleet, struct probe *probe, const char *list, size_t slots,
                struct error *err);
void fleet_close(struct fleet *fleet);
/* Return when to call fleet_poll again, by clock_seconds. */
double fleet_due(const struct fleet *fleet);

/* Note a job that starts, or that runs; no devices: they are not known. */
void fleet_add(struct fleet *fleet, const char *name, uid_t user,
               const struct placement_running *job);
/* Note a job that was found running, by its record. */
void fleet_adopt(struct fleet *fleet, const char *name, uid_t user);
void fleet_remove(struct fleet *fleet, const char *name);
/* Note, before fleet_remove, how a job ended: lost, because its device does not work, for
 * the reason; or well. */
void fleet_note_loss(struct fleet *fleet, const char *name, const char *reason);
void fleet_note_success(struct fleet *fleet, const char *name);
/* Forget what is known of the health of the GPUs, and probe them. */
void fleet_recheck(struct fleet *fleet);
/* Do what is due at fleet_due: take the answer of a probe, probe GPUs that are ill, save
 * what users have used. */
void fleet_poll(struct fleet *fleet);

/* Where a job starts. */
struct fleet_choice {
    struct queued *job;    /* NULL: none starts */
    struct queued *misfit; /* one that fits nowhere, and was not examined again */
    bool stalled;          /* jobs wait, though none runs */
    bool probing;          /* for jobs that wait: they may start when it answers */
    device_set devices;
    char name[64]; /* for --device; "": as the job says */
    int threads;   /* for --threads; 0: as the job says */
};

/* Measure the memory of the CPU, for a choice that follows soon. */
void fleet_measure_cpu(struct fleet *fleet);

/* Choose the job of the queue that starts now. The answers for the jobs that wait are in
 * the queue. */
void fleet_choose(struct fleet *fleet, struct queue *queue, double now,
                  struct fleet_choice *out);

struct placement fleet_placement(const struct fleet *fleet);
/* Write what a queued job waits for; "": that is not known. */
void fleet_describe_wait(struct fleet *fleet, const struct queued *job, char out[160]);
struct placement_load fleet_load(const struct fleet *fleet, size_t device);

#endif
