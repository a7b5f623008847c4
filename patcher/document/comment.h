/*
 * patcher/document/comment.h - the words of a comment that are meant for this program:
 *
 *   # trainspool: ignore[TS102, TS114]
 *   # half is enough  # trainspool: keep, ignore[TS104]
 *   # known; trainspool: ignore[TS104]
 *
 * Behind `# trainspool:` any text may follow.  In the middle of a text they are written
 * out, with brackets behind ignore, and end it, so that no sentence is taken for them.
 */
#ifndef PATCHER_DOCUMENT_COMMENT_H
#define PATCHER_DOCUMENT_COMMENT_H

#include <stdbool.h>
#include <stddef.h>

enum comment_kind {
    COMMENT_IGNORE,
    COMMENT_KEEP,
    COMMENT_MISSPELT /* a word near one of these: `ignroe[TS102]`, `Keep` */
};

struct comment_word {
    enum comment_kind kind;
    const char *meant; /* of a misspelt one: "ignore" or "keep" */
    size_t from, to;   /* its bytes; of the first from `#` or `trainspool:` on */
    size_t rules_from, rules_to; /* what stands in its brackets; empty: there are none */
    bool last; /* nothing but its own words stands behind it in the comment */
};

/* Calls `take` for each word of the comment, whose # is data[from] and which ends at
 * `to`. */
void comment_read(const char *data, size_t from, size_t to,
                  void (*take)(void *context, const struct comment_word *word),
                  void *context);

#endif
