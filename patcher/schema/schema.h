/*
 * patcher/schema/schema.h - the table of all keys: type, range, default, help, how a key
 * is treated, and its field in struct plan.  The keys in docs/trainspool-job.5 and the
 * JSON Schema are generated from it.
 */
#ifndef PATCHER_SCHEMA_SCHEMA_H
#define PATCHER_SCHEMA_SCHEMA_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"
#include "patcher/profiles/profile.h"
#include "train/plan.h"

enum key_type {
    KEY_BOOL,   /* true or false in any case; yes, no, on and off with TS012 */
    KEY_CHOICE, /* a boolean, or auto */
    KEY_INT,
    KEY_REAL,
    KEY_TEXT,
    KEY_PATH,
    KEY_ENUM,    /* one of `values` */
    KEY_SCALE,   /* dynamic, none, or a number */
    KEY_SIZE,    /* bytes ("12GiB"), or a share ("80%") unless no_share */
    KEY_SECONDS, /* a number, optionally with the suffix s, m, h or d */
    KEY_BOOL_OR_TEXT,
    KEY_LIST, /* strings separated by commas, or a YAML list */
    KEY_MAP,
    KEY_ANY
};

enum key_use {
    KEY_USED,
    KEY_IGNORED,   /* accepted without effect: TS708 */
    KEY_REJECTED,  /* TS707 if switched on */
    KEY_RENAMED,   /* an alias of the key `now` */
    KEY_OTHER_TOOL /* belongs to another tool: TS706, or import */
};

struct vocabulary;

/* The replacement for a rejected value. */
struct advice {
    const char *value, *text;
};

struct key {
    const char *name;
    enum key_type type;
    enum key_use use;
    double min, max;             /* inclusive, for numbers; both 0: no bounds */
    bool positive;               /* the number must be above 0 */
    const char *default_value;   /* the default, as YAML; NULL: none */
    const char *const *values;   /* KEY_ENUM: NULL-ended, in the order of the C enum */
    const char *rejects;         /* KEY_ENUM: known but not supported values: TS707 */
    const struct advice *advice; /* for some of those, ended by a NULL value; or NULL */
    /* KEY_ENUM: values that other tools use and the value they mean, for "did you mean":
     * "bf16=bfloat16 ...", separated by blanks */
    const char *synonyms;
    const char *idle; /* KEY_ENUM: values accepted without effect: TS708 */
    const char *null; /* what an empty value means, as YAML; NULL: the default */
    /* KEY_REJECTED, KEY_IGNORED: values that change nothing, besides the default, null
     * and false; separated by blanks */
    const char *harmless;
    const char *now; /* KEY_RENAMED, KEY_OTHER_TOOL: the key to use, or NULL */
    /* KEY_RENAMED: the rule that renames the key; NULL: an alias.  KEY_USED: the rule
     * that reports a number out of range instead of TS705.  Others: the rule that reports
     * the key instead of TS708. */
    const char *rule;
    const struct vocabulary *members; /* KEY_MAP, KEY_ANY: keys of the map; NULL: any */
    const char *tools;                /* KEY_OTHER_TOOL: its owners, "Axolotl and TRL" */
    /* KEY_REJECTED, KEY_OTHER_TOOL: what to do instead.  KEY_IGNORED: what trainspool
     * does, if that changes results; TS708 is then a warning.  Or NULL. */
    const char *instead;
    bool no_share; /* KEY_SIZE: of what would not be clear; a rule reports one */
    bool secret;   /* never printed */
    /* KEY_USED: only by a job that does not train; TS708 in others */
    bool untrained;
    /* KEY_PATH: the run writes there.  Other paths are inputs, which may also be in the
     * working directory. */
    bool written;
    /* KEY_USED: offsetof(struct plan, ...); 0: schema_bind.c has a function, because
     * several keys set one field */
    size_t into;
    const char *help; /* a clause in lower case without a full stop, for editors */
    /* KEY_USED: sentences that the manual page adds to help; a newline begins a
     * paragraph; or NULL */
    const char *manual;
};

/* A section of the table. */
struct keys {
    const char *title; /* "Model and method" */
    const struct key *list;
    size_t count;
};

/* The keys that one kind of map may have. */
struct vocabulary {
    const char *of; /* "of a job" */
    bool open;      /* other keys may be valid: an unknown one is a warning */
    const struct keys *const *sections; /* NULL-ended */
};

/* The top-level keys of a job, and those of its block `trainspool:`. */
extern const struct vocabulary schema_job, schema_block;

/* Return the key at index `at`, counted over all sections; NULL: past the end. */
const struct key *schema_at(const struct vocabulary *of, size_t at);
/* Return the key of that name, or NULL. */
const struct key *schema_find_in(const struct vocabulary *of, const char *name);
/* Same, in schema_job. */
const struct key *schema_find(const char *name);
/* Return the KEY_RENAMED keys of a job that mean the key of that name; they belong to the
 * table. */
const struct key *const *schema_aliases(const char *name, size_t *count);

/* Apply TS012, TS014 and TS701-TS709 to the whole document.  A file of another tool gets
 * one finding, TS706.  trains: keys of a job that only evaluates have no effect.  Where the view knows all keys of the program, its rules report the
 * names that it does not know (rules_keys.c). */
void schema_check(const struct document *document, const struct profile_view *view,
                  bool trains, struct findings *findings);
/* Fill the plan with the defaults and then with the values of the document.  A value that
 * cannot be read keeps its default; schema_check reports it.  The caller sets job, dir
 * and run_dir of the plan; relative paths are resolved against dir, inputs that it does not
 * have against the working directory (path_input). */
void schema_bind(const struct document *document, struct arena *arena, struct plan *plan);

/* Set one key as on the command line, --set KEY=VALUE.  Fails with ERROR_USAGE. */
bool schema_set(const char *key, const char *value, struct arena *arena,
                struct plan *plan, struct error *err);

/* Return whether the value of this key is a secret: by the table, or because the name
 * looks like one ("AWS_SECRET_KEY" in the environment of a job). */
bool schema_is_secret(const char *name);

/* The names of the secret keys, found once to ask about each of many names. */
struct schema_secrets {
    const char *names[32];
    size_t count;
};

void schema_secrets_find(struct schema_secrets *out);
/* Same as schema_is_secret. */
bool schema_secrets_have(const struct schema_secrets *secrets, const char *name);

/* Find the closest known keys: first by folding case and separators, then by an edit
 * distance of at most 2.  Store up to `room` keys at the least distance and return their
 * number.  *exact: the name differs only in case, blanks and separators. */
size_t schema_nearest_in(const struct vocabulary *of, const char *name, const char **out,
                         size_t room, bool *exact);
/* Same, in schema_job. */
size_t schema_nearest(const char *name, const char **out, size_t room, bool *exact);

#endif
