/* patcher/document/directive.h - directives to this program in a job's comments
 * (comment.h) and their positions.  Text in quotes or in a block scalar is not a
 * comment. */
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
    struct mark at;    /* its `#`, or where it starts after other text */
    size_t bytes;      /* through its last character */
    bool alone;        /* on a line of its own */
    bool last;         /* nothing follows this word and its brackets in the comment */
    const char *meant; /* the intended word of a misspelled one: "ignore" or "keep" */
    struct directive_word *words; /* the rules of ignore */
    size_t count;
};

/* Limit on directives: a text of 1 MiB can hold fifty times as many, and each is compared
 * with all findings. */
#define DIRECTIVES_MAX 1000

/* Read the first DIRECTIVES_MAX directives, in order, into the arena. */
size_t directives_read(const struct document *document, struct arena *arena,
                       struct directive **out);

/* Return whether the directive follows the row's key, or is on a line where its value
 * starts or ends. */
bool directive_applies_to(const struct directive *directive,
                          const struct document *document, const struct entry *entry);
/* Return whether the directive is `ignore` with this rule. */
bool directive_ignores(const struct directive *directive, const char *rule);

#endif
