/*
 * runner/spool/drop.h - a file dropped into the spool: checks whether its name is a
 * job's, whether it may be opened, and whether it is complete. The spool is a trust
 * boundary: no link is followed, no call blocks.
 *
 * Completeness is a matter of observations, never of the age of a file: the wall clock
 * may be set, and another machine's file system may have another one.
 */
#ifndef RUNNER_SPOOL_DROP_H
#define RUNNER_SPOOL_DROP_H

#include <sys/stat.h>

#include "base/text.h"
#include "runner/spool/watch.h"

/* Accept *.yaml or *.yml, printable UTF-8, at most 200 bytes, and none of the names that
 * editors and copying programs use for unfinished files. */
bool drop_name_is_valid(const char *name);

#define DROP_RETRY_SECONDS 5 /* until the next try after a fault of the machine */
/* how long such faults last before watch --once ends in spite of them */
#define DROP_PATIENCE_SECONDS 30

enum drop_verdict {
    DROP_COMPLETE,
    DROP_WAIT,   /* not yet: check again after `again` seconds */
    DROP_GONE,   /* the name vanished; that cancels nothing */
    DROP_REFUSED /* never: `reason` says why */
};

struct drop {
    struct stat st;
    uid_t user; /* drop_user */
    double again;
    char reason[256];
    struct error fault; /* of the machine, which kept the file from being examined */
};

/* Results of earlier checks of a name. */
struct drop_history {
    enum watch_hint hint; /* the best result since it changed */
    bool fresh;           /* an event arrived since the last check */
    char source[64];      /* job_source at the last check */
    struct timespec modified;
    double still; /* clock_seconds since which the file is unchanged, as observed */
    double first; /* clock_seconds of the first check */
};

/* Note an event of the file. */
void drop_note_event(struct drop_history *history, enum watch_hint hint, double now);

/* Return the user as which a file of `owner` in `dir`, the spool, is handled, and runs: its
 * owner, if this is root's watch and the folder is made for several users, where each can
 * change only what is theirs; else the user of this process. */
uid_t drop_user(int dir, uid_t owner);

/* Inspect `name` in `dir`, the spool, and update the history. */
enum drop_verdict drop_inspect(int dir, const char *name, double now,
                               struct drop_history *history, struct drop *out);
/* Read the same file again, whole, and compute its digest. If it changed or cannot be read
 * (ERROR_DATA, ERROR_FAULT, ERROR_SYSTEM), nothing is known: check again. */
bool drop_digest(int dir, const char *name, const struct drop *drop, char out[65],
                 struct error *err);

#endif
