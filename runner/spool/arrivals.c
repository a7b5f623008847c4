/* runner/spool/arrivals.c - reads a folder, and sorts the names by time. */
#include "config.h"

#include "runner/spool/arrivals.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/leftovers.h"
#include "runner/spool/drop.h"

/* A temporary file of a job may be of a process that this machine does not know. */
enum { LEFTOVER_SECONDS = 600 };

struct arrival {
    char *name;
    struct timespec at; /* ctime: a rename into the folder counts */
};

struct arrivals {
    struct arrival *list; /* malloc'ed */
    size_t count, room;
};

static int by_time(const void *a, const void *b)
{
    const struct arrival *one = a, *two = b;

    if (one->at.tv_sec != two->at.tv_sec)
        return one->at.tv_sec < two->at.tv_sec ? -1 : 1;
    if (one->at.tv_nsec != two->at.tv_nsec)
        return one->at.tv_nsec < two->at.tv_nsec ? -1 : 1;
    return strcmp(one->name, two->name);
}

static void add(struct arrivals *arrivals, const char *name, const struct stat *st)
{
    if (arrivals->count == arrivals->room) {
        arrivals->room = arrivals->room ? 2 * arrivals->room : 64;
        arrivals->list =
            memory_resize(arrivals->list, arrivals->room, sizeof(*arrivals->list));
    }
    arrivals->list[arrivals->count++] =
        (struct arrival) { memory_strdup(name), st->st_ctim };
}

static void read_all(DIR *dir, const char *path, struct arrivals *out)
{
    char name[NAME_MAX + 1];
    struct dirent *entry;
    struct stat st;

    while ((entry = file_next(dir, path))) {
        if (leftover_is(entry->d_name, name, sizeof(name)) && drop_name_is_valid(name))
            leftover_remove(dirfd(dir), entry->d_name, LEFTOVER_SECONDS);
        if (!drop_name_is_valid(entry->d_name))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            add(out, entry->d_name, &st);
        else
            fault_note("cannot examine", entry->d_name);
    }
    if (out->count > 0)
        qsort(out->list, out->count, sizeof(*out->list), by_time);
}

bool arrivals_read(int dir, const char *path,
                   void (*found)(void *context, const char *name), void *context,
                   struct error *err)
{
    struct arrivals arrivals = { 0 };
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;

    if (!stream) {
        error_errno(err, "cannot read %s", path);
        if (fd >= 0)
            close(fd);
        return false;
    }
    fault_clear();
    read_all(stream, path, &arrivals);
    closedir(stream);
    for (size_t i = 0; i < arrivals.count; i++) {
        found(context, arrivals.list[i].name);
        free(arrivals.list[i].name);
    }
    free(arrivals.list);
    return fault_none(err);
}
