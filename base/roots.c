/* base/roots.c - finds the existing folder that a path leads to, and who may write there. */
#include "config.h"

#include "base/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/path.h"
#include "base/size.h"

/* Of the Filesystem Hierarchy Standard 3.0: what no job's output belongs into. */
static const char *const system_folders[] = { "/bin",   "/boot", "/dev",   "/etc",
                                              "/lib",   "/proc", "/run",   "/sbin",
                                              "/sys",   "/usr",  "/lib32", "/lib64",
                                              "/libx32" };

enum { GROUPS_MAX = 1024, ENTRY_BYTES = 16 << 10 };

static int open_beneath(int root, const char *path)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Open the longest part of the path that exists, below `root`, or anywhere for -1. */
static int open_existing(int root, const char *path)
{
    char part[PATH_MAX];
    int fd;

    if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (;;) {
        char *slash;

        fd = root >= 0 ? open_beneath(root, part[0] ? part : ".")
                       : open(part, O_PATH | O_CLOEXEC);
        if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
            return fd;
        slash = strrchr(part, '/');
        if (slash == part && part[1])
            part[1] = 0;
        else if (slash && slash > part)
            *slash = 0;
        else if (part[0] && part[0] != '/')
            strcpy(part, ".");
        else
            return fd;
    }
}

/* The path of an open file or folder. */
static bool real_path(int fd, char out[PATH_MAX])
{
    char link[64];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, out, PATH_MAX - 1);
    out[len > 0 ? len : 0] = 0;
    return len > 0;
}

/* ---- Below a folder ---- */

/* Return what follows the root in the path, or NULL if it is not below it. */
static const char *below(const char *path, const char *root)
{
    size_t len = strlen(root);

    while (len > 0 && root[len - 1] == '/')
        len--;
    if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len]))
        return NULL;
    return path + len + strspn(path + len, "/");
}

static enum roots_answer unknown(const char *path)
{
    fault_note("cannot examine", path);
    return ROOTS_UNKNOWN;
}

/* Check a path relative to the root. */
static enum roots_answer check_below(const char *root, const char *rest,
                                     char where[PATH_MAX])
{
    int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
    enum roots_answer answer = ROOTS_ALLOW;

    if (dir < 0)
        return errno == ENOENT ? ROOTS_OUTSIDE : unknown(root);
    fd = open_existing(dir, rest);
    if (fd < 0 && errno == ENOSYS) /* older than Linux 5.6: nothing else is safe */
        answer = ROOTS_UNKNOWN;
    else if (fd < 0 && errno == EXDEV)
        answer = ROOTS_LINK;
    else if (fd < 0)
        answer = errno == ELOOP ? ROOTS_LINK : unknown(rest);
    if (fd >= 0)
        close(fd);
    close(dir);
    if (answer == ROOTS_LINK && (fd = open_existing(-1, rest)) >= 0) {
        if (rest[0] == '/' || strcmp(root, ".") == 0)
            real_path(fd, where);
        close(fd);
    }
    return answer;
}

static enum roots_answer check_list(const struct roots *roots, const char *path,
                                    char where[PATH_MAX])
{
    for (size_t i = 0; roots->list[i]; i++) {
        const char *rest = below(path, roots->list[i]);

        if (rest)
            return path_climbs(rest) ? ROOTS_OUTSIDE
                                     : check_below(roots->list[i], rest, where);
    }
    return ROOTS_OUTSIDE;
}

/* ---- What the owner may do ---- */

/* The groups of a user; their number. */
static int groups_of(uid_t user, gid_t list[GROUPS_MAX])
{
    char bytes[ENTRY_BYTES];
    struct passwd entry, *found = NULL;
    int count = GROUPS_MAX;
    int failed = getpwuid_r(user, &entry, bytes, sizeof(bytes), &found);

    if (!found) {
        errno = failed;
        fault_note("cannot find", "the owner of the job");
        return 0;
    }
    return getgrouplist(entry.pw_name, entry.pw_gid, list, &count) < 0 ? 0 : count;
}

static bool has_bits(const struct stat *st, uid_t user, const gid_t *groups, int count,
                     mode_t bits)
{
    if (st->st_uid == user)
        return ((st->st_mode >> 6) & bits) == bits;
    for (int i = 0; i < count; i++)
        if (st->st_gid == groups[i])
            return ((st->st_mode >> 3) & bits) == bits;
    return (st->st_mode & bits) == bits;
}

/* Return whether the user may write into the folder, and reach it. */
static bool user_may_write(int fd, uid_t user)
{
    gid_t groups[GROUPS_MAX];
    int count = groups_of(user, groups), dir = dup(fd);
    mode_t bits = S_IWOTH | S_IXOTH;
    struct stat st, above;
    bool ok = dir >= 0;

    while (ok &&
           (ok = fstat(dir, &st) == 0 && has_bits(&st, user, groups, count, bits))) {
        int up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

        close(dir);
        dir = up;
        ok = dir >= 0 && fstat(dir, &above) == 0;
        if (ok && above.st_ino == st.st_ino && above.st_dev == st.st_dev)
            break; /* the root */
        bits = S_IXOTH;
    }
    if (dir >= 0)
        close(dir);
    return ok;
}

/* The kernel knows more than modes: access lists, and what is mounted read-only. */
static bool we_may_write(int fd)
{
    char link[64];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return faccessat(AT_FDCWD, link, W_OK | X_OK, AT_EACCESS) == 0;
}

static bool is_system(const char *path, const struct stat *st)
{
    if (st->st_mode & S_IWOTH) /* such as /dev/shm */
        return false;
    for (size_t i = 0; i < TS_COUNT(system_folders); i++)
        if (below(path, system_folders[i]))
            return true;
    return false;
}

/* Check the folder that exists for a path outside the job's folder. */
static enum roots_answer check_folder(const struct roots *roots, int fd,
                                      const char *where, bool whole)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return ROOTS_UNKNOWN;
    if (!S_ISDIR(st.st_mode)) /* the writer reports what is in the way */
        return ROOTS_ALLOW;
    if (roots->owner == 0)
        return is_system(where, &st) || (whole && strcmp(where, "/") == 0) ? ROOTS_SYSTEM
                                                                           : ROOTS_ALLOW;
    if (roots->owner == geteuid() ? we_may_write(fd) : user_may_write(fd, roots->owner))
        return ROOTS_ALLOW;
    return ROOTS_DENIED;
}

static enum roots_answer check_anywhere(const struct roots *roots, const char *path,
                                        char where[PATH_MAX])
{
    int fd = open_existing(-1, path);
    enum roots_answer answer;

    if (fd < 0)
        return errno == EACCES && roots->owner != 0 ? ROOTS_DENIED : unknown(path);
    answer = real_path(fd, where)
                 ? check_folder(roots, fd, where, path[strspn(path, "/.")] == 0)
                 : unknown(path);
    close(fd);
    return answer;
}

enum roots_answer roots_check(const struct roots *roots, const char *path,
                              char where[PATH_MAX])
{
    char home[PATH_MAX];
    const char *rest;

    where[0] = 0;
    if (path[0] != '/')
        return path_climbs(path) ? ROOTS_CLIMB : check_below(roots->home, path, where);
    if (roots->list)
        return check_list(roots, path, where);
    if (realpath(roots->home, home) && (rest = below(path, home)) && !path_climbs(rest))
        return check_below(roots->home, rest, where);
    return check_anywhere(roots, path, where);
}
