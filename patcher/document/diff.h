/* patcher/document/diff.h - unified diff of two texts by lines (Myers, 1986). */
#ifndef PATCHER_DOCUMENT_DIFF_H
#define PATCHER_DOCUMENT_DIFF_H

#include "base/text.h"

/* Lines covered by a hunk, counted from 1; if the last line is before the first, there
 * are none. */
struct diff_hunk {
    size_t old_first, old_last;
    size_t new_first, new_last;
    size_t removed; /* lines of the old text that are not in the new one */
    /* for each line from new_first on: whether it is absent from the old text */
    const unsigned char *added;
};

struct diff_options {
    const char *from, *to; /* names in the header */
    size_t context;        /* lines around a change, usually 3 */
    bool use_color;
    /* show control characters as \xNN: on a terminal, a file could forge lines with
     * them */
    bool visible;
    /* called after each hunk to add remarks, or NULL */
    void (*hunk)(void *context, const struct diff_hunk *hunk, struct text *out);
    void *hunk_context;
};

/* Add nothing if the texts are equal.  Return false if *out is full. */
bool diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const struct diff_options *options, struct text *out);

/* Map each line of `a` to its line number in `b`, counted from 1; 0 if `b` does not have
 * it. The result is malloc'ed and has room for one line more than there are line ends. */
size_t *diff_follow(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
