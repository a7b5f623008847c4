/*
 * patcher/schema.h - the table of every key: type, range, preset, help, what is done with it, and
 * its field in struct plan.  PRECISION.md D2.
 */
#ifndef PATCHER_SCHEMA_H
#define PATCHER_SCHEMA_H

#include "patcher/document.h"
#include "patcher/finding.h"
#include "train/plan.h"

enum key_type {
    KEY_BOOL,    /* true false, any case; yes no on off with TS012 */
    KEY_CHOICE,  /* a bool, or auto */
    KEY_INT,
    KEY_REAL,
    KEY_TEXT,
    KEY_PATH,
    KEY_ENUM,    /* one of `values` */
    KEY_SCALE,   /* dynamic, none, or a number */
    KEY_BOOL_OR_TEXT,
    KEY_LIST,    /* text, separated by commas, or a YAML list */
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

struct key {
    const char *name;
    enum key_type type;
    enum key_use use;
    double min, max;          /* of numbers; both 0: no bounds */
    const char *preset;       /* as YAML; NULL: none */
    const char *const *values; /* of KEY_ENUM, NULL-ended, in the order of the C enum */
    const char *harmless;     /* of KEY_REJECTED: values that are fine, separated by blanks */
    const char *now;          /* of KEY_RENAMED */
    bool secret;              /* never printed */
    size_t into;              /* offsetof(struct plan, ...), for KEY_USED */
    const char *section;      /* "Model and method" */
    const char *help;
};

size_t schema_keys(const struct key **keys);
const struct key *schema_find(const char *name);
/* Members of the block `trainspool:`. */
size_t schema_block_keys(const struct key **keys);

/* TS012, TS014, TS701-TS709 over the whole document. */
void schema_check(const struct document *document, struct findings *findings);
/* Fill the plan with presets and then with what the document says; what cannot be read keeps its
 * preset (schema_check has told). */
void schema_bind(const struct document *document, struct arena *arena, struct plan *plan);

/* The closest known key: case and separators folded, then edit distance at most 2.  *exact: equal but
 * for case, blanks, separators.  Up to `room` candidates at the least distance. */
size_t schema_nearest(const char *name, const char **out, size_t room, bool *exact);

#endif
