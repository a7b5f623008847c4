/*
 * patcher/schema/schema.h - the table of every key: type, range, default, help, what is done with
 * it, and its field in struct plan.  docs/trainspool-job.5 is made from it.
 */
#ifndef PATCHER_SCHEMA_SCHEMA_H
#define PATCHER_SCHEMA_SCHEMA_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"
#include "train/plan.h"

enum key_type {
    KEY_BOOL,   /* true false, any case; yes no on off with TS012 */
    KEY_CHOICE, /* a bool, or auto */
    KEY_INT,
    KEY_REAL,
    KEY_TEXT,
    KEY_PATH,
    KEY_ENUM,    /* one of `values` */
    KEY_SCALE,   /* dynamic, none, or a number */
    KEY_SIZE,    /* bytes ("12GiB"), or a share ("80%") */
    KEY_SECONDS, /* a number, or one with s, m, h, d */
    KEY_BOOL_OR_TEXT,
    KEY_LIST, /* text, separated by commas, or a YAML list */
    KEY_MAP,
    KEY_ANY
};

enum key_use {
    KEY_USED,
    KEY_IGNORED,  /* accepted, no effect: TS708 */
    KEY_REJECTED, /* TS707 when switched on */
    KEY_RENAMED,  /* an alias: `now` says of what */
    KEY_FOREIGN   /* of another tool: TS706 or import */
};

struct vocabulary;

/* What to do instead of one value. */
struct advice {
    const char *value, *text;
};

struct key {
    const char *name;
    enum key_type type;
    enum key_use use;
    double min, max;           /* of numbers; both 0: no bounds */
    bool positive;             /* above 0: min is outside */
    const char *default_value; /* as YAML; NULL: none */
    const char *const *values; /* of KEY_ENUM, NULL-ended, in the order of the C enum */
    const char *rejects;       /* of KEY_ENUM: further values, known and refused: TS707 */
    const struct advice *advice; /* on some of those, ended by one of NULL; or NULL */
    /* of KEY_ENUM: words of others and what they mean here, for "did you mean":
     * "bf16=bfloat16 ..."; separated by blanks */
    const char *meant;
    const char *idle; /* of KEY_ENUM: values accepted without effect: TS708 */
    const char *null; /* what an empty value means, as YAML; NULL: not given */
    /* of KEY_REJECTED, KEY_IGNORED: values that are fine besides the default, null and
     * false; separated by blanks */
    const char *harmless;
    const char *now; /* of KEY_RENAMED, KEY_FOREIGN: the name here, or NULL */
    /* of KEY_RENAMED: the rule that renames it; NULL: an alias; of KEY_USED: the rule
     * that tells of a number out of range, instead of TS705; of others: the rule that
     * tells of it, instead of TS708 */
    const char *rule;
    const struct vocabulary *members; /* of KEY_MAP, KEY_ANY: names in a map; NULL: any */
    const char *tools; /* of KEY_FOREIGN: whose word it is, "Axolotl and TRL" */
    /* of KEY_REJECTED, KEY_FOREIGN: what to do; of KEY_IGNORED: what is done here,
     * where results are others for it: TS708 is a warning then; or NULL */
    const char *instead;
    bool secret; /* never printed */
    /* offsetof(struct plan, ...), for KEY_USED; 0: schema_bind itself knows where
     * (several keys make one field) */
    size_t into;
    const char *help; /* a clause in lower case without a full stop, for editors */
    /* of KEY_USED: sentences that the manual page adds to help; a newline begins a
     * paragraph; or NULL */
    const char *manual;
};

/* A section of the table. */
struct keys {
    const char *title; /* "Model and method" */
    const struct key *list;
    size_t count;
};

/* The keys that one map may have. */
struct vocabulary {
    const char *of;                     /* "of a job" */
    bool open;                          /* other names may be right: a warning */
    const struct keys *const *sections; /* NULL-ended */
};

/* A job's own keys, and the members of its block `trainspool:`. */
extern const struct vocabulary schema_job, schema_block;

/* All keys, section by section; NULL: past the end. */
const struct key *schema_at(const struct vocabulary *of, size_t at);
/* NULL: none of that name. */
const struct key *schema_find_in(const struct vocabulary *of, const char *name);
/* In schema_job. */
const struct key *schema_find(const char *name);

/* TS012, TS014, TS701-TS709 over the whole document.  A file of another tool has one
 * finding, TS706. */
void schema_check(const struct document *document, struct findings *findings);
/* Fill the plan with defaults and then with what the document says; what cannot be read
 * keeps its default (schema_check has told).  job, dir, run_dir of the plan are the
 * caller's and stay; relative paths are put behind dir. */
void schema_bind(const struct document *document, struct arena *arena, struct plan *plan);

/* One key as the command line may say it, --set KEY=VALUE.  ERROR_USAGE. */
bool schema_set(const char *key, const char *value, struct arena *arena,
                struct plan *plan, struct error *err);

/* Is the value under this name a secret: of the table, or a name that looks like one
 * ("AWS_SECRET_KEY" in a job's environment). */
bool schema_is_secret(const char *name);

/* The closest known key: case and separators folded, then edit distance at most 2.
 * *exact: equal but for case, blanks, separators.  Up to `room` candidates at the least
 * distance. */
size_t schema_nearest_in(const struct vocabulary *of, const char *name, const char **out,
                         size_t room, bool *exact);
/* In schema_job. */
size_t schema_nearest(const char *name, const char **out, size_t room, bool *exact);

#endif
