/*
 * base/walk.c - opens folders one by one where a link is on the way. openat2(2) does it at
 * once where there is none, which is the ordinary case.
 */
#include "config.h"

#include "base/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/owner.h"

enum { MOST_LINKS = 40 }; /* as the kernel follows */

static const uid_t no_stranger = (uid_t)-1;

/* What is left of a path, and where it starts. */
struct way {
    int dir; /* O_PATH */
    char rest[PATH_MAX];
    uid_t stranger; /* the owner of a link that was followed */
    int links;
};

static void close_quietly(int fd)
{
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
}

/* Continue from another folder; takes the descriptor. */
static bool go_to(struct way *way, int dir)
{
    if (dir < 0)
        return false;
    close_quietly(way->dir);
    way->dir = dir;
    return true;
}

/* Note who made a link. Two strangers cannot own the same folder. */
static bool trust_link(struct way *way, const struct stat *st)
{
    if (owner_is_trusted(st->st_uid) || st->st_uid == way->stranger)
        return true;
    if (way->stranger != no_stranger) {
        errno = ENOLINK;
        return false;
    }
    way->stranger = st->st_uid;
    return true;
}

/* Put the target of the link before the rest of the path. */
static bool follow(struct way *way, int link, const struct stat *st)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t len = readlinkat(link, "", target, sizeof(target) - 1);

    if (len < 0)
        return false;
    target[len] = 0;
    if (len == 0 || ++way->links > MOST_LINKS) {
        errno = len == 0 ? ENOENT : ELOOP;
        return false;
    }
    if (!trust_link(way, st))
        return false;
    if (snprintf(rest, sizeof(rest), "%s/%s", target, way->rest) >= (int)sizeof(rest)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(way->rest, rest, sizeof(rest));
    return target[0] != '/' || go_to(way, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Enter one folder, or replace a link by its target. */
static bool step(struct way *way, const char *name)
{
    int next = openat(way->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    bool ok;

    if (next < 0)
        return false;
    if (fstat(next, &st) != 0) {
        close_quietly(next);
        return false;
    }
    if (!S_ISLNK(st.st_mode))
        return go_to(way, next);
    ok = follow(way, next, &st);
    close_quietly(next);
    return ok;
}

/* Take the first name of the rest; false at the end. */
static bool take_name(struct way *way, char name[NAME_MAX + 1])
{
    const char *start = way->rest + strspn(way->rest, "/");
    size_t len = strcspn(start, "/");

    if (len == 0 || len > NAME_MAX)
        return false;
    memcpy(name, start, len);
    name[len] = 0;
    memmove(way->rest, start + len, strlen(start + len) + 1);
    return true;
}

/* A link of a stranger may only lead to a folder of that stranger. */
static bool trust_end(const struct way *way)
{
    struct stat st;

    if (fstat(way->dir, &st) != 0)
        return false;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    if (way->stranger == no_stranger || st.st_uid == way->stranger)
        return true;
    errno = ENOLINK;
    return false;
}

static int open_step_by_step(const char *path)
{
    struct way way = { .dir = open(path[0] == '/' ? "/" : ".",
                                   O_PATH | O_DIRECTORY | O_CLOEXEC),
                       .stranger = no_stranger };
    char name[NAME_MAX + 1];
    bool ok = way.dir >= 0;

    if (strlen(path) >= sizeof(way.rest)) {
        errno = ENAMETOOLONG;
        ok = false;
    } else {
        strcpy(way.rest, path);
    }
    while (ok && take_name(&way, name))
        ok = step(&way, name);
    if (ok && trust_end(&way))
        return way.dir;
    close_quietly(way.dir);
    return -1;
}

static int open_folder(const char *path)
{
    struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                            .resolve = RESOLVE_NO_SYMLINKS };
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

    /* EPERM: a container that does not know the call */
    return fd < 0 && (errno == ELOOP || errno == ENOSYS || errno == EPERM)
               ? open_step_by_step(path)
               : fd;
}

int walk_begin(struct walk *walk, const char *name)
{
    char folder[PATH_MAX];
    size_t len = strlen(name), start;

    walk->dir = -1;
    while (len > 1 && name[len - 1] == '/')
        len--;
    for (start = len; start > 0 && name[start - 1] != '/'; start--)
        ;
    if (len == 0) {
        errno = ENOENT;
        return -1;
    }
    if (len - start >= sizeof(walk->last) || start >= sizeof(folder)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /* "/" has no name in another folder */
    snprintf(walk->last, sizeof(walk->last), "%.*s",
             start == len ? 1 : (int)(len - start), start == len ? "." : name + start);
    snprintf(folder, sizeof(folder), "%.*s", start ? (int)start : 1, start ? name : ".");
    walk->dir = open_folder(folder);
    return walk->dir;
}

void walk_end(struct walk *walk)
{
    close_quietly(walk->dir);
    walk->dir = -1;
}

/* Return whether a file that exists may be written. */
static bool may_write(int dir, int fd)
{
    struct stat st, folder;
    int fault;

    if (fstat(fd, &st) != 0 || fstat(dir, &folder) != 0)
        return false;
    errno = ENXIO;
    if (!S_ISREG(st.st_mode))
        return false;
    errno = EMLINK;
    return st.st_nlink < 2 ||
           (owner_is_trusted(folder.st_uid) && !owner_shares(&folder, &fault));
}

static int open_in(const struct walk *walk, int flags, mode_t mode)
{
    const bool writes = (flags & O_ACCMODE) != O_RDONLY && !(flags & O_EXCL);
    /* a FIFO would block */
    const int wait = writes ? O_NONBLOCK : 0;
    int fd = openat(walk->dir, walk->last,
                    (flags & ~(writes ? O_TRUNC : 0)) | wait | O_NOFOLLOW | O_NOCTTY |
                        O_CLOEXEC,
                    mode);

    if (fd < 0 || !writes)
        return fd;
    if (may_write(walk->dir, fd) && (!(flags & O_TRUNC) || ftruncate(fd, 0) == 0))
        return fd;
    close_quietly(fd);
    return -1;
}

static bool (*_Atomic check_change)(void);

void walk_check_before_changes(bool (*check)(void))
{
    check_change = check;
}

/* Call it last: the folders are open. */
bool walk_may_change(void)
{
    bool (*check)(void) = check_change;

    if (!check || check())
        return true;
    errno = ESTALE;
    return false;
}

int walk_open(const char *name, int flags, mode_t mode)
{
    struct walk walk;
    int fd = walk_begin(&walk, name);

    if (fd >= 0)
        fd = (flags & O_ACCMODE) == O_RDONLY || walk_may_change()
                 ? open_in(&walk, flags, mode)
                 : -1;
    walk_end(&walk);
    return fd;
}

int walk_mkdir(const char *name, mode_t mode)
{
    struct walk walk;
    int failed = walk_begin(&walk, name);

    if (failed >= 0)
        failed = !walk_may_change() ? -1 : mkdirat(walk.dir, walk.last, mode);
    walk_end(&walk);
    return failed;
}

static int remove_with(const char *name, int flags)
{
    struct walk walk;
    int failed = walk_begin(&walk, name);

    if (failed >= 0)
        failed = !walk_may_change() ? -1 : unlinkat(walk.dir, walk.last, flags);
    walk_end(&walk);
    return failed;
}

int walk_unlink(const char *name)
{
    return remove_with(name, 0);
}

int walk_rmdir(const char *name)
{
    return remove_with(name, AT_REMOVEDIR);
}

static int rename_with(const char *from, const char *to, unsigned flags)
{
    struct walk old, new = { .dir = -1 };
    int failed = walk_begin(&old, from) < 0 || walk_begin(&new, to) < 0 ? -1 : 0;

    if (!failed)
        failed = !walk_may_change()
                     ? -1
                     : renameat2(old.dir, old.last, new.dir, new.last, flags);
    walk_end(&new);
    walk_end(&old);
    return failed;
}

int walk_rename(const char *from, const char *to)
{
    return rename_with(from, to, 0);
}

/* Some file systems, such as NFS, do not have the flag: a link is as good there. */
static int link_new(const char *from, const char *to)
{
    struct walk old, new = { .dir = -1 };
    int failed = walk_begin(&old, from) < 0 || walk_begin(&new, to) < 0 ? -1 : 0;

    if (!failed)
        failed =
            !walk_may_change() ? -1 : linkat(old.dir, old.last, new.dir, new.last, 0);
    walk_end(&new);
    walk_end(&old);
    return failed;
}

int walk_rename_new(const char *from, const char *to)
{
    int failed = rename_with(from, to, RENAME_NOREPLACE);

    if (failed && (errno == EINVAL || errno == ENOSYS))
        failed = link_new(from, to) != 0 ? -1 : walk_unlink(from);
    return failed;
}
