/* runner/spool/trouble.h - a fault of the machine that keeps jobs from starting. */
#ifndef RUNNER_SPOOL_TROUBLE_H
#define RUNNER_SPOOL_TROUBLE_H

#include "base/log.h"

struct trouble {
    char *text;   /* as logged; malloc'ed, NULL: nothing */
    double since; /* by clock_seconds */
};

/* Log why no job starts, unless the last line says so; "": it is not known. */
void trouble_note(struct trouble *trouble, struct log *log, const char *why);
/* Jobs start again. */
void trouble_end(struct trouble *trouble, struct log *log);
void trouble_clear(struct trouble *trouble);

#endif
