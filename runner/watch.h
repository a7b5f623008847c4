/*
 * runner/watch.h - what happens in a folder, as hints: a name that may be worth a look.
 * The only file that knows inotify.  An event never decides anything; a scan finds all
 * that it would.
 */
#ifndef RUNNER_WATCH_H
#define RUNNER_WATCH_H

#include "base/error.h"

enum watch_hint {
    WATCH_SEEN,    /* found by a scan, or made by a link: nothing is known */
    WATCH_WRITTEN, /* somebody closed it after writing */
    WATCH_RENAMED  /* it came by rename: complete */
};

struct watch_news {
    bool overflow; /* events were lost: scan */
    bool gone;     /* the folder was moved, removed or unmounted */
    bool woken;    /* somebody asks for a scan (watch_wake) */
};

struct watch;

/*
 * Watch the folder open as `dir`, whatever its path is by now, and in its folder `inner`
 * for the file that wakes.  NULL where inotify is not to be had or sees nothing (EMFILE,
 * ENOSPC, a network file system): *err says why, and the caller scans each second.
 */
struct watch *watch_open(int dir, int inner, struct error *err);
void watch_close(struct watch *watch);
int watch_fd(const struct watch *watch); /* readable when there are events; -1 for NULL */

/* Read all there is; `name` is called for each hint. */
void watch_read(struct watch *watch,
                void (*name)(void *context, const char *name, enum watch_hint hint),
                void *context, struct watch_news *news);

/* From another process: let whoever watches `inner` (a path) scan at once. */
void watch_wake(const char *inner);

#endif
