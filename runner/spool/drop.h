/*
 * runner/spool/drop.h - a file that somebody put into the spool: is its name a job's, may it be
 * opened, is it complete?  The spool is a trust boundary: nothing is followed, nothing is
 * waited for.
 */
#ifndef RUNNER_SPOOL_DROP_H
#define RUNNER_SPOOL_DROP_H

#include <sys/stat.h>

#include "base/text.h"
#include "runner/spool/watch.h"

/* *.yaml or *.yml, printable UTF-8, at most 200 bytes, none of the names editors and
 * copying programs use for what is not finished. */
bool drop_name_fits(const char *name);

enum drop_verdict {
    DROP_COMPLETE,
    DROP_WAIT,   /* not yet: look again after `again` seconds */
    DROP_GONE,   /* the name vanished; that cancels nothing */
    DROP_REFUSED /* never: `reason` says why */
};

struct drop {
    struct stat st;
    double again;
    char reason[256];
};

/* What is known of a name from looks before this one. */
struct drop_history {
    enum watch_hint hint; /* the best one since it changed */
    char source[64];      /* job_source of the last look */
    double still;         /* clock_seconds since when it looks like that */
    double first;         /* ... since when it is waited for */
};

/* `dir` is the spool.  Updates the history. */
enum drop_verdict drop_look(int dir, const char *name, double now,
                            struct drop_history *history, struct drop *out);
/* The same file, read whole, twice the same: its digest.  False: it changed; look
 * again. */
bool drop_digest(int dir, const char *name, const struct drop *drop, char out[65]);

#endif
