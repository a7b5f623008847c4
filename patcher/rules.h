/*
 * patcher/rules.h - the table of what is looked at: a row a rule, in the catalogue_*.c.
 * docs/precision.md has the sources.
 */
#ifndef PATCHER_RULES_H
#define PATCHER_RULES_H

#include "patcher/findings/finding.h"
#include "patcher/patcher.h"
#include "patcher/history/previous.h"
#include "patcher/rules/teacher.h"
#include "patcher/rules/versions.h"
#include "train/model/model_config.h"

/* What a rule may look at; it adds findings and nothing else. */
struct rule_context {
    const struct document *document;
    const struct plan *plan;     /* as the document says, before precision is decided */
    const struct device *device; /* NULL: not known */
    const struct patch_options *options;
    const struct model_config *model; /* NULL: no readable model folder */
    /* what is wrong with its config.json; NULL: nothing */
    const char *model_error;
    enum format checkpoint;          /* of the model's files; FORMAT_COUNT: not known */
    const char *weights_error;       /* why those cannot be read; NULL: they can */
    const struct versions *versions; /* of an external job's packages; never NULL */
    struct previous *previous;       /* what the job's last run left */
    const struct teacher *teacher;   /* or a reference; never NULL */
    uint64_t available;              /* bytes the job may use; 0: not known */
    struct findings *findings;
    struct arena *arena;
};

/* Jobs that a rule looks at: all, those trained here, or those of another program. */
enum rule_target { RULE_BOTH, RULE_NATIVE, RULE_EXTERNAL };
extern const char *const rule_targets[3];

struct rule {
    const char *id;         /* "TS105" */
    const char *title;      /* a short phrase: what it looks for */
    enum severity severity; /* as it mostly is; a finding may differ */
    /* its errors cannot be ignored: a run would fail, or do something else than the
     * job says */
    bool firm;
    enum apply apply;
    enum rule_target target;
    void (*run)(
        struct rule_context *context); /* NULL: found elsewhere (document, schema) */
    const char *explain; /* what, why, cost, what to do instead; paragraphs */
    const char *source;  /* where that is known from */
};

/* A family of the catalogue: those whose numbers begin alike. */
struct rules {
    const struct rule *list;
    size_t count;
};

/* All of them, by number. */
size_t rules_count(void);
const struct rule *rules_at(size_t at);        /* NULL: past the end */
const struct rule *rules_find(const char *id); /* NULL: no such rule */
/* Adds the findings of all; some of a group may be without its edit. */
void rules_run(struct rule_context *context);

#endif
