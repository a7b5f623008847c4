/* runner/spool/spool_folder.c - looks at the spool before a watch opens it. */
#include "config.h"

#include "runner/spool/spool_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/path.h"
#include "base/walk.h"
#include "runner/spool/node_files.h"
#include "runner/spool/node_signs.h"
#include "runner/spool/spool.h"

#define SIGN_NAME "alive"

enum { INNER_MODE = 0700, INNER_SHARED_MODE = 0755, FILE_MODE = 0644 };

bool spool_folder_trust(int dir, const char *path, struct error *err)
{
    struct stat st;
    int fault;

    if (fstat(dir, &st) != 0)
        return error_errno(err, "cannot access %s", path);
    if (!owner_is_trusted(st.st_uid))
        return error_set(err, ERROR_USAGE, "%s belongs to another user", path);
    /* in a sticky folder, no user can replace what belongs to another */
    if (!(st.st_mode & S_ISVTX) && owner_shares(&st, &fault))
        return error_set(err, ERROR_USAGE,
                         "other users may write to %s; run chmod go-w %s, or chmod +t %s",
                         path, path, path);
    return true;
}

bool spool_folder_is_shared(int dir)
{
    struct stat st;
    int fault;

    return geteuid() == 0 && fstat(dir, &st) == 0 && st.st_mode & S_ISVTX &&
           owner_shares(&st, &fault);
}

static bool trust_inner(int inner, const char *path, struct error *err)
{
    struct stat st;
    int fault;

    if (fstat(inner, &st) != 0)
        return error_errno(err, "cannot access %s/%s", path, SPOOL_INNER);
    return (owner_is_trusted(st.st_uid) && !owner_shares(&st, &fault)) ||
           error_set(err, ERROR_USAGE, "%s/%s belongs to another user; remove it", path,
                     SPOOL_INNER);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static struct flock whole_file(short type)
{
    return (struct flock) { .l_type = type, .l_whence = SEEK_SET };
}

/* Who may only read a file can lock it for reading (fcntl(2)). As the lock for writing is
 * taken before others can open the file, they can neither prevent it nor have one that
 * shows a watch that does not run. flock(2) would let any reader do both. */
static int show_sign(const char *node)
{
    static const char temporary[] = SPOOL_INNER "/.alive.tmp";
    struct flock lock = whole_file(F_WRLCK);
    char *name = node[0] ? node_file(".", node, ".alive")
                         : memory_strdup(SPOOL_INNER "/" SIGN_NAME);
    int fd;

    walk_unlink(temporary);
    fd = walk_open(temporary, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0 && fchmod(fd, FILE_MODE) == 0 &&
        walk_rename(temporary, name) == 0) {
        free(name);
        return fd;
    }
    free(name);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Make the file that users open to wake the watch (watch_wake). */
static bool show_wake(void)
{
    int fd = walk_open(SPOOL_INNER "/" WATCH_WAKE_NAME, O_RDONLY | O_CREAT, FILE_MODE);
    bool ok = fd >= 0 && fchmod(fd, FILE_MODE) == 0;

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Without the sign, or if the modes cannot be changed, only other users miss something. */
static void show(struct spool_inner *inner, const char *node)
{
    inner->sign = show_sign(node);
    if (!show_wake() || fchmod(inner->dir, INNER_SHARED_MODE) != 0)
        close_fd(&inner->sign);
}

/* A watch that has the folder alone, as one of an earlier version does, locks out all
 * others. */
static int take_lock(const char *path, const char *node, bool *busy, struct error *err)
{
    int lock = (node[0] ? file_lock_shared : file_lock)(SPOOL_INNER "/lock", busy, err);

    if (*busy && node[0])
        error_set(err, ERROR_SYSTEM,
                  "%s has a watch that does not share it; end that one, or start it with "
                  "--node",
                  path);
    return lock;
}

bool spool_inner_open(int dir, const char *path, const char *node,
                      struct spool_inner *out, bool *busy, struct error *err)
{
    *out = (struct spool_inner) { -1, -1, -1 };
    if (mkdirat(dir, SPOOL_INNER, INNER_MODE) != 0 && errno != EEXIST)
        return error_errno(err, "cannot create %s/%s", path, SPOOL_INNER);
    out->dir = openat(dir, SPOOL_INNER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out->dir < 0)
        return error_errno(err, "cannot open %s/%s", path, SPOOL_INNER);
    if (!trust_inner(out->dir, path, err))
        return false;
    if (node[0] && mkdirat(dir, NODE_FILES, INNER_SHARED_MODE) != 0 && errno != EEXIST)
        return error_errno(err, "cannot create %s/%s", path, NODE_FILES);
    out->lock = take_lock(path, node, busy, err);
    if (out->lock >= 0 && spool_folder_is_shared(dir))
        show(out, node);
    return out->lock >= 0;
}

void spool_inner_close(struct spool_inner *inner)
{
    close_fd(&inner->sign);
    close_fd(&inner->lock);
    close_fd(&inner->dir);
}

char *spool_folder_path(const char *path)
{
    char *plain = memory_strdup(path), *dir, *real, *joined;
    size_t len = strlen(plain);
    const char *base;

    while (len > 1 && plain[len - 1] == '/')
        plain[--len] = 0;
    base = path_base(plain);
    if (!base[0] || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        real = realpath(plain, NULL);
        joined = memory_strdup(real ? real : plain);
    } else {
        dir = path_dir(plain);
        real = realpath(dir, NULL);
        joined = path_join(real ? real : dir, base);
        free(dir);
    }
    free(real);
    free(plain);
    return joined;
}

struct watch *spool_folder_watch(const char *path, int dir, int inner, struct error *err)
{
    char *above = path_dir(path);
    struct watched watched = {
        .dir = dir, .inner = inner, .parent = -1, .name = path_base(path)
    };
    struct watch *watch;

    /* two inotify watches of one folder are the same watch: the root has no parent */
    if (strcmp(above, path) != 0)
        watched.parent = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    watch = watch_open(&watched, err);
    if (watched.parent >= 0)
        close(watched.parent);
    free(above);
    return watch;
}

bool spool_is_watched(const char *path)
{
    char *lock = path_join(path, SPOOL_INNER "/lock");
    char *sign = path_join(path, SPOOL_INNER "/" SIGN_NAME);
    bool watched = file_is_locked(lock) || node_sign_is_shown(sign);
    struct node_sign *nodes = NULL;
    size_t count = watched ? 0 : node_signs_read(path, &nodes);

    for (size_t i = 0; i < count; i++)
        watched |= nodes[i].alive;
    free(nodes);
    free(lock);
    free(sign);
    return watched;
}
