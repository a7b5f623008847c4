/* runner/output/line_changes.h - prints a text again and again, each time only the lines
 * that it did not have the last time. */
#ifndef RUNNER_OUTPUT_LINE_CHANGES_H
#define RUNNER_OUTPUT_LINE_CHANGES_H

#include "runner/output/report.h"

struct line_changes {
    char *last;   /* malloc'ed, as is the next; NULL at first */
    char **lines; /* sorted, pointing into `last` */
    size_t count;
};

/* Print the lines of a text that are new, in their order. */
void line_changes_write(struct line_changes *changes, const char *text,
                        struct report *report);
void line_changes_clear(struct line_changes *changes);

#endif
