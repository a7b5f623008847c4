/* patcher/diff.h - a unified diff of two texts by lines (Myers, 1986). */
#ifndef PATCHER_DIFF_H
#define PATCHER_DIFF_H

#include "base/text.h"

struct diff_options {
    const char *from, *to; /* names in the header */
    size_t context;        /* lines around a change; 3 is usual */
    bool colour;
    bool visible; /* control characters as \xNN: for a terminal, where a file could forge lines */
    /* Called after each hunk with the lines of the old text it covers (from 1), to add remarks;
     * or NULL. */
    void (*hunk)(void *context, size_t first, size_t last, struct text *out);
    void *hunk_context;
};

/* Nothing is added when the texts are equal.  False if *out is full. */
bool diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const struct diff_options *options, struct text *out);

#endif
