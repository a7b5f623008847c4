/*
 * patcher/document/comment.h - reader of trainspool directives in a comment:
 *
 *   # trainspool: ignore[TS102, TS114]
 *   # fp16 is enough  # trainspool: keep, ignore[TS104]
 *   # known; trainspool: ignore[TS104]
 *
 * Any text may follow directives after `# trainspool:`.  Directives in the middle of a
 * text must be complete (ignore requires brackets) and must end the text, so a sentence
 * is not mistaken for one.
 */
#ifndef PATCHER_DOCUMENT_COMMENT_H
#define PATCHER_DOCUMENT_COMMENT_H

#include <stdbool.h>
#include <stddef.h>

enum comment_kind {
    COMMENT_IGNORE,
    COMMENT_KEEP,
    COMMENT_MISSPELLED /* a word similar to one of these: `ignroe[TS102]`, `Keep` */
};

struct comment_word {
    enum comment_kind kind;
    const char *meant; /* the intended word of a misspelled one: "ignore" or "keep" */
    size_t from, to;   /* its bytes; the first word starts at `#` or `trainspool:` */
    size_t rules_from, rules_to; /* contents of its brackets; empty: no brackets */
    bool last; /* nothing follows this word and its brackets in the comment */
};

/* Call `take` for each word of the comment that starts with # at data[from] and ends at
 * `to`. */
void comment_read(const char *data, size_t from, size_t to,
                  void (*take)(void *context, const struct comment_word *word),
                  void *context);

#endif
