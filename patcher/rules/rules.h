/*
 * patcher/rules/rules.h - the rules: what each one checks, and the order they run in.
 *
 * A rule is one row (struct rule) in the rules_*.c file of its topic, next to its
 * function and its explanation.  docs/precision.md lists the sources.
 */
#ifndef PATCHER_RULES_RULES_H
#define PATCHER_RULES_RULES_H

#include "patcher/findings/finding.h"
#include "patcher/rules/patch_options.h"
#include "patcher/history/previous.h"
#include "patcher/rules/teacher.h"
#include "patcher/profiles/profile.h"
#include "train/model/model_config.h"

/* What a rule may read.  It adds findings and changes nothing else. */
struct rule_context {
    const struct document *document;
    const struct plan *plan;     /* as written in the job, before precision is decided */
    const struct device *device; /* NULL: unknown */
    const struct patch_options *options;
    const struct model_config *model; /* NULL: no readable model folder */
    const char *model_error;          /* what is wrong with its config.json, or NULL */
    enum format checkpoint;    /* format of the weight files; FORMAT_COUNT: unknown */
    const char *weights_error; /* why they cannot be read, or NULL */
    bool weights_absent;       /* because a file of them is missing */
    const struct versions *versions; /* packages of an external job; never NULL */
    const struct profile_view *view; /* the program that trains the job; never NULL */
    struct previous *previous;       /* what the last run of the job left on disk */
    const struct teacher *teacher;   /* teacher or reference model; never NULL */
    uint64_t available;              /* bytes the job may use; 0: unknown */
    struct findings *findings;
    struct arena *arena;
};

/* Jobs that a rule checks: all, those trained here, or those of another program. */
enum rule_target { RULE_BOTH, RULE_NATIVE, RULE_EXTERNAL };
extern const char *const rule_targets[3];

struct rule {
    const char *id;         /* "TS105" */
    const char *title;      /* a short phrase that names the problem */
    enum severity severity; /* the usual one; a finding may differ */
    /* its errors cannot be ignored: the run would fail, or do something other than what
     * the job says */
    bool mandatory;
    /* it describes the job as a whole, so only its findings after the edits are reported */
    bool after_edits;
    enum apply apply;
    enum rule_target target;
    void (*run)(
        struct rule_context *context); /* NULL: found elsewhere (document, schema) */
    const char *explain; /* what is checked, why, what the patch does; paragraphs */
    const char *source;  /* where the facts come from */
};

/* The rules of one topic, one rules_*.c file. */
struct rules {
    const struct rule *list;
    size_t count;
};

/* All rules, in order of their number. */
size_t rules_count(void);
const struct rule *rules_at(size_t at);        /* NULL: past the end */
const struct rule *rules_find(const char *id); /* NULL: no such rule */
/* Run every rule that applies to the job.  Some findings of a group may have no edit. */
void rules_run(struct rule_context *context);

#endif
