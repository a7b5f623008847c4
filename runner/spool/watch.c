/*
 * runner/spool/watch.c - uses inotify(7), which loses events when its queue is full, does
 * not report another folder that replaces the path, and does not see changes by other
 * machines.
 */
#include "config.h"

#include "runner/spool/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/shared_files.h"
#include "base/walk.h"

struct watch {
    int fd;
    int dir, inner, wake, parent; /* watch descriptors */
    char *name;                   /* in the parent */
};

/* The path could mean another folder by now; the descriptor cannot. */
static int add(int fd, int dir, uint32_t mask)
{
    char name[64];

    snprintf(name, sizeof(name), "/proc/self/fd/%d", dir);
    return inotify_add_watch(fd, name, mask | IN_ONLYDIR | IN_EXCL_UNLINK);
}

/* Returns -1 if there is no such file. */
static int add_file(int fd, int dir, const char *file, uint32_t mask)
{
    char name[64];

    snprintf(name, sizeof(name), "/proc/self/fd/%d/%s", dir, file);
    return inotify_add_watch(fd, name, mask | IN_DONT_FOLLOW);
}

/* An open folder that is removed sends no event; only its parent reports it. */
static bool add_all(struct watch *watch, const struct watched *watched)
{
    watch->dir =
        add(watch->fd, watched->dir,
            IN_MOVED_TO | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF);
    watch->inner = add(watch->fd, watched->inner, IN_CLOSE_WRITE);
    /* who may not write to the file opens it to read; in the folder, everything that is read
     * would wake the watch */
    watch->wake = add_file(watch->fd, watched->inner, WATCH_WAKE_NAME, IN_CLOSE_NOWRITE);
    watch->parent = -1;
    if (watched->parent >= 0)
        watch->parent = add(watch->fd, watched->parent,
                            IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM);
    return watch->dir >= 0 && watch->inner >= 0;
}

struct watch *watch_open(const struct watched *watched, struct error *err)
{
    struct watch *watch;
    int fd;

    if (shared_files(watched->dir)) {
        error_set(err, ERROR_SYSTEM,
                  "other machines may use its file system, and their changes are not "
                  "reported");
        return NULL;
    }
    fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) {
        error_errno(err, "cannot watch");
        return NULL;
    }
    watch = memory_alloc(sizeof(*watch));
    *watch = (struct watch) { .fd = fd, .name = memory_strdup(watched->name) };
    if (!add_all(watch, watched)) {
        error_errno(err, "cannot watch");
        watch_close(watch);
        return NULL;
    }
    return watch;
}

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    close(watch->fd);
    free(watch->name);
    free(watch);
}

int watch_fd(const struct watch *watch)
{
    return watch ? watch->fd : -1;
}

static enum watch_hint hint_of(uint32_t mask)
{
    if (mask & IN_MOVED_TO)
        return WATCH_RENAMED;
    return mask & IN_CLOSE_WRITE ? WATCH_WRITTEN : WATCH_SEEN;
}

static void sort(struct watch *watch, const struct inotify_event *event,
                 void (*name)(void *context, const char *name, enum watch_hint hint),
                 void *context, struct watch_changes *news)
{
    if (event->mask & IN_Q_OVERFLOW)
        news->overflow = true;
    else if (event->wd == watch->wake)
        news->woken |= event->mask & IN_CLOSE_NOWRITE;
    else if (event->wd == watch->inner)
        news->woken |= event->len > 0 && strcmp(event->name, WATCH_WAKE_NAME) == 0;
    else if (event->wd == watch->parent)
        news->doubt |= event->len > 0 && strcmp(event->name, watch->name) == 0;
    else if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
        news->gone = true;
    else if (event->len > 0)
        name(context, event->name, hint_of(event->mask));
}

void watch_read(struct watch *watch,
                void (*name)(void *context, const char *name, enum watch_hint hint),
                void *context, struct watch_changes *news)
{
    char buffer[64 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t got;

    *news = (struct watch_changes) { 0 };
    while ((got = read(watch->fd, buffer, sizeof(buffer))) > 0 ||
           (got < 0 && errno == EINTR)) {
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(buffer + at);

            sort(watch, event, name, context, news);
            at += (ssize_t)(sizeof(*event) + event->len);
        }
    }
}

void watch_wake(const char *inner)
{
    char *name = path_join(inner, WATCH_WAKE_NAME);
    int fd = walk_open(name, O_WRONLY | O_CREAT, 0644);

    if (fd < 0)
        fd = walk_open(name, O_RDONLY, 0);
    if (fd >= 0) /* if no watch is running there is nothing to wake */
        close(fd);
    free(name);
}
