/*
 * patcher/rules/alternatives.h - other ways to train a job, in one table.  Each row is tried
 * on a copy of the plan.  TS301 advises the first row that fits, and `plan --alternatives`
 * shows all rows.
 */
#ifndef PATCHER_RULES_ALTERNATIVES_H
#define PATCHER_RULES_ALTERNATIVES_H

#include "patcher/rules/memory_fit.h"
#include "train/torch_memory.h"

/* A plan that a row changes.  The setup belongs to it. */
struct alternative_trial {
    struct plan plan;
    struct torch_setup setup;
    bool whole_batch;
};

struct alternative {
    const char *name;    /* "bf16" */
    const char *setting; /* what to write into the job: "bf16: true" */
    const char *in_trl;  /* the same in TRL's keys, if they differ */
    const char *cost;    /* what it costs, in one sentence */
    bool advised;        /* reduces the memory: TS301 may advise it */
    bool unsafe_edit;    /* patch --unsafe makes the change (TS118) */
    /* Change the plan.  Return NULL, or why the row does not apply; "" if the job already
     * has the setting. */
    const char *(*apply)(struct alternative_trial *trial);
};

/* Return the setting in the keys of the program that trains the plan. */
const char *alternative_setting(const struct alternative *row, const struct plan *plan);
/* Return the table, cheapest changes first: TS301 tries them in this order. */
size_t alternatives(const struct alternative **rows);

struct alternative_result {
    const char *setting; /* in the keys of the job's program; NULL: no row */
    const char *why_not; /* as apply returns it; NULL: it was tried */
    bool known;          /* the memory could be estimated */
    struct memory_use use;
    double time; /* arithmetic of a step, relative to the unchanged job */
};

/* Try a row on a job whose precision is decided; row NULL: the unchanged job. */
void alternative_try(const struct memory_fit_case *request, const struct alternative *row,
                     struct alternative_result *out);
/* The first advised row that makes a job fit, alone or with checkpointing, a batch of 1 and
 * the other edits of TS301. */
struct alternative_advice {
    const struct alternative *row;
    bool with_edits;
    struct memory_use use;
};
/* Return false if no row does. */
bool alternative_advise(const struct memory_fit_case *request,
                        struct alternative_advice *out);
/* Return the row that removes a reference model. */
const struct alternative *alternative_without_reference(void);
/* Return whether the reference model is the trained model itself, which wastes memory: with
 * LoRA, the model without its adapter is the reference. */
bool alternative_reference_is_base(const struct plan *plan);

#endif
