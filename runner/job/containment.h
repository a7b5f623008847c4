/*
 * runner/job/containment.h - keeps a run to what its job needs, whatever its model and data
 * make of the process: which files it may use (Landlock), which system calls (seccomp), no
 * new privileges, limits.
 *
 * With a GPU, Landlock and seccomp are used if the driver's devices exist, or with
 * TRAINSPOOL_SANDBOX=1 in the environment.
 *
 * What the kernel lacks is left out, and the log says so.
 */
#ifndef RUNNER_JOB_CONTAINMENT_H
#define RUNNER_JOB_CONTAINMENT_H

#include "base/log.h"
#include "base/text.h"
#include "runner/job/contained_paths.h"
#include "runner/job/job.h"
#include "runner/job/machine.h"
#include "train/plan.h"

struct containment {
    bool on;
    bool frozen; /* the parent of this process records how it ends */
    const struct machine *machine;
    bool gpu, ranks; /* of the run: what it needs in addition */
    int landlock;    /* version of the kernel's interface; 0: not used */
    bool seccomp;
    uint64_t memory; /* that the job may use, in each of its processes; 0: no limit */
    bool grouped;    /* in a control group of its own (job_group.h) */
    uint64_t group_memory; /* the limit of the group, in bytes; 0: none */
};

/* Contain this process, and the ranks that it starts, before it reads the model and the data
 * that the text names. Do nothing unless `on`. Only a fault of the machine is an error. */
bool containment_enter(struct containment *containment, const struct job *job,
                       const struct text *text, struct log *log, struct error *err);
/* Contain a process that reads the model and the data of a plan, and writes nothing but
 * what `more` allows, a list that ends with a NULL path; NULL: none. Nothing reports what
 * the kernel lacks. */
bool containment_enter_reader(struct containment *containment, const struct plan *plan,
                              const struct contained_path more[], struct error *err);
/* Contain a process that examines jobs and patches them: it writes only below the working
 * directory and opens no socket, nor does the process that counts the data of a job, which
 * contains itself further. */
bool containment_enter_examiner(const struct machine *machine, struct error *err);
/* Return whether processes without --no-sandbox of their own are contained:
 * TRAINSPOOL_SANDBOX is not 0. */
bool containment_is_wanted(void);
/* Refuse new programs, once the ranks have started. */
void containment_close(struct containment *containment, struct log *log);

/* Return the bytes of the machine's memory that all processes of a run may use: what its
 * memory_limit, if it is a size, and the program need. 0: no limit. */
uint64_t containment_most_memory(const struct plan *plan);
/* Add to an error about memory that the job has a memory_limit, if it has one. */
void containment_explain(const struct containment *containment, struct error *err);

/* Append "Landlock, seccomp, no new privileges, clean environment", or why nothing contains
 * the job. */
void containment_describe(const struct containment *containment, struct text *out);
/* Append the line of plan that says what would contain a run on this machine; nothing for a
 * job of another program, or one that Slurm runs. */
void containment_add_line(const struct plan *plan, struct text *out);

#endif
