/*
 * runner/spool/watch.h - what happens in a folder, as hints: a name that may be worth a look.
 * The only file that knows inotify.  An event never decides anything; a scan finds all
 * that it would.
 */
#ifndef RUNNER_SPOOL_WATCH_H
#define RUNNER_SPOOL_WATCH_H

#include "base/error.h"

enum watch_hint {
    WATCH_SEEN,    /* found by a scan, or made by a link: nothing is known */
    WATCH_WRITTEN, /* somebody closed it after writing */
    WATCH_RENAMED  /* it came by rename: complete */
};

struct watch_news {
    bool overflow; /* events were lost: scan */
    bool gone;     /* the folder was moved, removed or unmounted */
    bool doubt;    /* its name in its parent may mean another folder by now */
    bool woken;    /* somebody asks for a scan (watch_wake) */
};

struct watch;

struct watched {
    int dir;          /* the folder, open; watched whatever its path is by now */
    int inner;        /* its folder with the file that wakes, open */
    int parent;       /* the folder it lies in, open; -1: not watched */
    const char *name; /* its name there */
};

/*
 * NULL where inotify is not to be had or sees nothing (EMFILE, ENOSPC, a network file
 * system): *err says why, and the caller scans each second.
 */
struct watch *watch_open(const struct watched *watched, struct error *err);
void watch_close(struct watch *watch);
int watch_fd(const struct watch *watch); /* readable when there are events; -1 for NULL */

/* Read all there is; `name` is called for each hint. */
void watch_read(struct watch *watch,
                void (*name)(void *context, const char *name, enum watch_hint hint),
                void *context, struct watch_news *news);

/* From another process: let whoever watches `inner` (a path) scan at once. */
void watch_wake(const char *inner);

#endif
