/* patcher/document/diff.h - a unified diff of two texts by lines (Myers, 1986). */
#ifndef PATCHER_DOCUMENT_DIFF_H
#define PATCHER_DOCUMENT_DIFF_H

#include "base/text.h"

/* What a hunk covers; lines from 1, a last line before the first means none. */
struct diff_hunk {
    size_t old_first, old_last;
    size_t new_first, new_last;
    size_t removed;             /* lines of the old text that are not in the new one */
    const unsigned char *added; /* of each line from new_first on: not in the old text? */
};

struct diff_options {
    const char *from, *to; /* names in the header */
    size_t context;        /* lines around a change; 3 is usual */
    bool colour;
    /* control characters as \xNN: for a terminal, where a file could forge lines */
    bool visible;
    /* Called after each hunk, to add remarks; or NULL. */
    void (*hunk)(void *context, const struct diff_hunk *hunk, struct text *out);
    void *hunk_context;
};

/* Nothing is added when the texts are equal.  False if *out is full. */
bool diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const struct diff_options *options, struct text *out);

/* Where each line of `a` is in `b`: its number from 1, 0 where it is not; malloc'ed, with
 * room for one line more than there are line ends. */
size_t *diff_follow(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
