/*
 * patcher/history/previous.h - what a job's previous run left: its state, the text it followed,
 * the steps it logged, and what lies in its output folder.
 *
 * Each part is read when it is first asked for, and once.  None of it is trusted: others
 * may have written it, and a run may be writing it now.  Every file has a limit, a link
 * in NAME.run is not followed, and what cannot be read counts as not there.
 */
#ifndef PATCHER_HISTORY_PREVIOUS_H
#define PATCHER_HISTORY_PREVIOUS_H

#include "patcher/document/document.h"
#include "train/plan.h"

struct previous;

/* Of the job that the plan is of.  Nothing is read yet. */
struct previous *previous_new(const struct plan *plan, struct arena *arena);
/* Is it about the same folders, and the same kind of run? */
bool previous_is_of(const struct previous *previous, const struct plan *plan);

/* NAME.run/state.json */
struct previous_state {
    const char *name;   /* "done", "failed"; NULL: no run is known */
    const char *digest; /* of the text that was queued, "" */
    bool resume;        /* interrupted: the next attempt goes on where this one was */
    bool running;       /* somebody holds the lock */
    bool waits;         /* queued, and not begun since */
};
const struct previous_state *previous_state(struct previous *previous);

/* NAME.run/job.yaml: the text that the run followed, with its --set. */
struct previous_text {
    const struct plan *plan; /* as that text says; precision not decided */
    char digest[65];
};
const struct previous_text *previous_text(struct previous *previous); /* NULL: none */

enum trouble {
    TROUBLE_NONE,
    TROUBLE_LOSS, /* a loss that is NaN or inf */
    TROUBLE_ZERO, /* a loss of exactly 0: what a filter makes of NaN */
    TROUBLE_NORM, /* gradients that stay NaN or inf */
    TROUBLE_SKIPS /* more skipped steps than a loss scale's search explains */
};

/*
 * What was logged: NAME.run/metrics.jsonl, its last MiB; for an external job log_history
 * of trainer_state.json, in output_dir or in its newest checkpoint.
 *
 * A loss scale is found by overflowing, so a norm that is NaN now and then is how fp16
 * works: within the first 10 steps, and alone.  It is trouble without a loss scale, three
 * times in a row, or at the end of a log that does not tell what was skipped.
 */
struct previous_steps {
    size_t count;
    enum trouble trouble;
    const char *what;       /* "grad_norm NaN at step 40"; NULL without trouble */
    bool recovered;         /* the last three were fine */
    double median, largest; /* of finite norms; 0 where there are too few to tell */
    int64_t largest_step;
};
const struct previous_steps *previous_steps(struct previous *previous);

/* The model in output_dir, finished or copied there. */
struct previous_model {
    const char *file; /* its name there; NULL: none */
    const char *job;  /* digest of the text that made it; NULL: not said */
    bool later;       /* it came after the text that waits for its turn */
};
const struct previous_model *previous_model(struct previous *previous);

/* A folder checkpoint-N. */
struct previous_checkpoint {
    const char *path, *base; /* base: "checkpoint-20" */
    int64_t step;
    const char *job;     /* digest of the text that made it, or NULL */
    bool whole;          /* can be gone on from: trained here, all files are there */
    const char *mode;    /* of its precision, "fp16-mixed"; NULL: not said */
    const char *scaling; /* of its loss: "none", "static", "dynamic"; NULL: not said */
    int64_t seed, batch; /* -1: not said; batch is of one device */
    bool foreign;        /* of Hugging Face's Trainer */
    bool scaler_file;    /* then: scaler.pt is there */
};
/* The newest in output_dir: of the job with this digest, or NULL: of any.  `whole`: pass
 * over those that cannot be gone on from.  NULL: none. */
const struct previous_checkpoint *previous_checkpoint(struct previous *previous,
                                                      const char *digest, bool whole);
/* How many there are in output_dir of the job with this digest; 0 for an external job. */
size_t previous_count(struct previous *previous, const char *digest);
/* The one in this folder; NULL: there is no such folder. */
const struct previous_checkpoint *previous_named(struct previous *previous,
                                                 const char *path);

#endif
