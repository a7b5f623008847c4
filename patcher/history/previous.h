/*
 * patcher/history/previous.h - what a job's previous run left: its state, the text of its
 * job, the steps it logged, and the contents of its output folder.
 *
 * Each part is read once, when it is first requested.  None of it is trusted: others may
 * have written it, and a run may be writing it now.  Every file has a size limit, a link
 * in NAME.run is not followed, and an unreadable file counts as missing.
 */
#ifndef PATCHER_HISTORY_PREVIOUS_H
#define PATCHER_HISTORY_PREVIOUS_H

#include "patcher/document/document.h"
#include "train/plan.h"

struct previous;

/* Create a reader for the job of a plan.  Nothing is read yet. */
struct previous *previous_new(const struct plan *plan, struct arena *arena);
/* Return whether the reader uses the folders and the kind of run of this plan. */
bool previous_belongs_to(const struct previous *previous, const struct plan *plan);

/* NAME.run/state.json */
struct previous_state {
    const char *name;   /* "done", "failed"; NULL: no run is known */
    const char *digest; /* of the queued text, "" */
    bool resume;        /* interrupted: the next attempt resumes where this one stopped */
    bool running;       /* a process holds the lock */
    bool waits;         /* queued, and not started since */
};
const struct previous_state *previous_state(struct previous *previous);

/* NAME.run/job.yaml: the text of the run's job, with its --set applied. */
struct previous_text {
    const struct plan *plan; /* the plan of that text; precision not decided */
    char digest[65];
};
const struct previous_text *previous_text(struct previous *previous); /* NULL: none */

enum trouble {
    TROUBLE_NONE,
    TROUBLE_LOSS, /* a loss is NaN or inf */
    TROUBLE_ZERO, /* a loss is exactly 0, as when a filter replaces NaN */
    TROUBLE_NORM, /* gradients stay NaN or inf */
    TROUBLE_SKIPS /* more skipped steps than the search for a loss scale explains */
};

/*
 * Logged steps: the last MiB of NAME.run/metrics.jsonl; for an external job, log_history
 * of trainer_state.json in output_dir or in its newest checkpoint.
 *
 * Overflows are how a loss scale is found.  A single NaN norm, or NaN norms within the
 * first 10 steps, are therefore normal for fp16.  NaN norms are trouble without a loss
 * scale, three times in a row, or at the end of a log that does not report skipped steps.
 */
struct previous_steps {
    size_t count;
    enum trouble trouble;
    const char *what;       /* "grad_norm NaN at step 40"; NULL without trouble */
    bool recovered;         /* the last three steps were good */
    double median, largest; /* of finite norms; 0 if there are too few */
    int64_t largest_step;
};
const struct previous_steps *previous_steps(struct previous *previous);

/* The model in output_dir, finished or copied there. */
struct previous_model {
    const char *file; /* its file name there; NULL: none */
    const char *job;  /* digest of the text that produced it; NULL: unknown */
    bool later;       /* it is newer than the queued text */
};
const struct previous_model *previous_model(struct previous *previous);

/* A folder checkpoint-N. */
struct previous_checkpoint {
    const char *path, *base; /* base: "checkpoint-20" */
    int64_t step;
    const char *job; /* digest of the text that produced it, or NULL */
    /* can be resumed: written by trainspool, and no file is missing */
    bool whole;
    const char *mode;      /* precision mode, "fp16-mixed"; NULL: unknown */
    const char *optimizer; /* a name or key of train/model/optimizer_table.h, or NULL */
    const char *scaling;   /* loss scaling: "none", "static", "dynamic"; NULL: unknown */
    int64_t seed, batch;   /* -1: unknown; batch is per device */
    bool foreign;          /* written by Hugging Face's Trainer */
    /* files of Hugging Face's Trainer that exist: optimizer.pt and scheduler.pt;
     * scaler.pt */
    bool torch_state, scaler_file;
};
/* Find the newest checkpoint in output_dir of the job with this digest (NULL: any job).
 * `whole`: skip those that cannot be resumed.  Return NULL if there is none. */
const struct previous_checkpoint *previous_checkpoint(struct previous *previous,
                                                      const char *digest, bool whole);
/* Count the checkpoints in output_dir of the job with this digest; 0 for an external
 * job. */
size_t previous_count(struct previous *previous, const char *digest);
/* Read the checkpoint in this folder; NULL if there is no such folder. */
const struct previous_checkpoint *previous_named(struct previous *previous,
                                                 const char *path);

#endif
