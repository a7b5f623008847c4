/*
 * patcher/directive.h - what a job says to this program in its comments:
 *
 *   bf16: true   # trainspool: ignore[TS102, TS114]
 *   fp16: true   # half is enough  # trainspool: keep
 *
 * What stands in quotes, in a block scalar or in other comments is none.
 */
#ifndef PATCHER_DIRECTIVE_H
#define PATCHER_DIRECTIVE_H

#include "patcher/document.h"

enum directive_kind {
    DIRECTIVE_IGNORE,
    DIRECTIVE_KEEP,
    DIRECTIVE_MISSPELT /* a word near one of these: `ignroe[TS102]`, `Keep` */
};

struct directive_word {
    const char *text; /* "TS102", as written */
    struct mark at;
    size_t bytes;
};

struct directive {
    enum directive_kind kind;
    struct mark at;               /* its `#` */
    size_t bytes;                 /* to its last character */
    bool alone;                   /* on a line of its own */
    bool last; /* nothing but its own words stands behind it in the comment */
    const char *meant;            /* of a misspelt one: "ignore" or "keep" */
    struct directive_word *words; /* of ignore */
    size_t count;
};

/* As many are read; a text of 1 MiB holds fifty times as many, each to be held against all
 * findings. */
#define DIRECTIVES_MAX 1000

/* The first DIRECTIVES_MAX of them, in order; in the arena. */
size_t directives_read(const struct document *document, struct arena *arena,
                       struct directive **out);

/* Does it stand behind the row's key, or where its value begins or ends? */
bool directive_is_beside(const struct directive *directive,
                         const struct document *document, const struct entry *entry);
/* Is it `ignore` with this rule? */
bool directive_ignores(const struct directive *directive, const char *rule);

#endif
