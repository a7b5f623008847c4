/*
 * runner/spool/watch.h - events in a folder, as hints: a name that may need a check.
 * The only file that uses inotify. An event never decides anything; a scan finds
 * everything that events would.
 */
#ifndef RUNNER_SPOOL_WATCH_H
#define RUNNER_SPOOL_WATCH_H

#include "base/error.h"

enum watch_hint {
    WATCH_SEEN,    /* found by a scan, or made by a link: nothing is known */
    WATCH_WRITTEN, /* closed after writing */
    WATCH_RENAMED  /* it came by rename: complete */
};

struct watch_changes {
    bool overflow; /* events were lost: scan */
    bool gone;     /* the folder was moved, removed or unmounted */
    bool doubt;    /* its name in its parent may now mean another folder */
    bool woken;    /* a process asks for a scan (watch_wake) */
};

struct watch;

struct watched {
    int dir;          /* the folder, open; watched even if its path changes */
    int inner;        /* its folder with the file that wakes, open */
    int parent;       /* the parent folder, open; -1: not watched */
    const char *name; /* its name there */
};

/* Open a watch. NULL if inotify is not available or sees nothing (EMFILE, ENOSPC, a
 * network file system): *err says why, and the caller scans every second. */
struct watch *watch_open(const struct watched *watched, struct error *err);
void watch_close(struct watch *watch);
int watch_fd(const struct watch *watch); /* readable when there are events; -1 for NULL */

/* Read all events; call `name` for each hint. */
void watch_read(struct watch *watch,
                void (*name)(void *context, const char *name, enum watch_hint hint),
                void *context, struct watch_changes *news);

/* From another process: make the watch of `inner` (a path) scan at once, by the file
 * WATCH_WAKE_NAME there. If it exists when the watch is opened, the right to read it is
 * enough. */
#define WATCH_WAKE_NAME "wake"
void watch_wake(const char *inner);

#endif
