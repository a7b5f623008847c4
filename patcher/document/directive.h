/*
 * patcher/document/directive.h - what a job says to this program in its comments (comment.h), each
 * with its place.  What stands in quotes or in a block scalar is none.
 */
#ifndef PATCHER_DOCUMENT_DIRECTIVE_H
#define PATCHER_DOCUMENT_DIRECTIVE_H

#include "patcher/document/comment.h"
#include "patcher/document/document.h"

struct directive_word {
    const char *text; /* "TS102", as written */
    struct mark at;
    size_t bytes;
};

struct directive {
    enum comment_kind kind;
    struct mark at;    /* its `#`, or where it begins behind another text */
    size_t bytes;      /* to its last character */
    bool alone;        /* on a line of its own */
    bool last;         /* nothing but its own words stands behind it in the comment */
    const char *meant; /* of a misspelt one: "ignore" or "keep" */
    struct directive_word *words; /* of ignore */
    size_t count;
};

/* As many are read; a text of 1 MiB holds fifty times as many, each to be held against
 * all findings. */
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
