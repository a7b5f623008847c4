/* base/file.c - whole-file reads and writes; readers never see a partial file. */
#include "config.h"

#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/leftovers.h"
#include "base/walk.h"

enum { READ_BYTES = 64 << 10 };

bool file_stat(const char *name, struct stat *st)
{
    if (stat(name, st) == 0)
        return true;
    fault_note("cannot examine", name);
    return false;
}

bool file_lstat(const char *name, struct stat *st)
{
    if (lstat(name, st) == 0)
        return true;
    fault_note("cannot examine", name);
    return false;
}

bool file_exists(const char *name)
{
    struct stat st;

    return file_stat(name, &st);
}

bool file_is_dir(const char *name)
{
    struct stat st;

    return file_stat(name, &st) && S_ISDIR(st.st_mode);
}

DIR *file_open_dir(const char *name)
{
    DIR *dir = opendir(name);

    if (!dir)
        fault_note("cannot open the directory", name);
    return dir;
}

struct dirent *file_next(DIR *dir, const char *name)
{
    struct dirent *entry;

    errno = 0;
    entry = readdir(dir);
    if (!entry)
        fault_note("cannot read the directory", name);
    return entry;
}

static bool read_all(int fd, const char *name, size_t max, struct text *out,
                     struct error *err)
{
    char *buffer = memory_alloc(READ_BYTES);
    bool ok = false;
    ssize_t got;

    text_reset(out);
    if (out->max < max)
        out->max = max;
    for (;;) {
        got = read(fd, buffer, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if ((size_t)got > max - out->len || !text_add(out, buffer, (size_t)got)) {
            error_set(err, ERROR_DATA, "%s has more than %zu bytes", name, max);
            goto out;
        }
    }
    ok = got == 0 || error_errno(err, "cannot read %s", name);
out:
    free(buffer);
    return ok;
}

static bool read_open(int fd, const char *name, size_t max, struct text *out,
                      struct stat *st, struct error *err)
{
    struct stat own;

    st = st ? st : &own;
    if (fstat(fd, st) != 0)
        return error_errno(err, "cannot stat %s", name);
    if (S_ISDIR(st->st_mode))
        return error_set(err, ERROR_DATA, "%s is a directory; name a file in it", name);
    if (!S_ISREG(st->st_mode))
        return error_set(err, ERROR_DATA, "%s is not a regular file", name);
    if ((uintmax_t)st->st_size > max)
        return error_set(err, ERROR_DATA, "%s has %jd bytes, more than %zu", name,
                         (intmax_t)st->st_size, max);
    return read_all(fd, name, max, out, err);
}

/* O_NONBLOCK: opening a FIFO without a writer would block forever. */
static bool read_at(int dir, const char *name, int flags, size_t max, struct text *out,
                    struct stat *st, struct error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    bool ok;

    if (fd < 0 && errno == ELOOP && flags & O_NOFOLLOW)
        return error_set(err, ERROR_DATA, "%s is a symbolic link, which is not followed",
                         name);
    if (fd < 0)
        return error_errno(err, "cannot open %s", name);
    ok = read_open(fd, name, max, out, st, err);
    close(fd);
    return ok;
}

bool file_read(const char *name, size_t max, struct text *out, struct stat *st,
               struct error *err)
{
    return read_at(AT_FDCWD, name, 0, max, out, st, err);
}

bool file_read_at(int dir, const char *name, size_t max, struct text *out,
                  struct stat *st, struct error *err)
{
    return read_at(dir, name, O_NOFOLLOW, max, out, st, err);
}

/* Read at most `len` bytes from the given offset on. */
static bool read_some(int fd, const char *name, off_t from, size_t len, struct text *out,
                      struct error *err)
{
    char *buffer = memory_alloc(READ_BYTES);
    ssize_t got = 1;

    while (len > 0 && got > 0) {
        got = pread(fd, buffer, len < READ_BYTES ? len : READ_BYTES, from);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got > 0) {
            text_add(out, buffer, (size_t)got);
            from += got;
            len -= (size_t)got;
        }
    }
    free(buffer);
    return got >= 0 || error_errno(err, "cannot read %s", name);
}

bool file_read_start(const char *name, size_t max, struct text *out, struct error *err)
{
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    bool ok = false;

    text_reset(out);
    if (out->max < max)
        out->max = max;
    if (fd < 0)
        return error_errno_data(err, "cannot open %s", name);
    if (fstat(fd, &st) != 0)
        error_errno_data(err, "cannot stat %s", name);
    else if (!S_ISREG(st.st_mode))
        error_set(err, ERROR_DATA, "%s is not a regular file", name);
    else
        ok = read_some(fd, name, 0, max, out, err);
    close(fd);
    return ok;
}

/* Remove the first line, which begins before the part that was read. */
static void drop_first_line(struct text *text)
{
    const char *newline = memchr(text->data, '\n', text->len);
    size_t cut = newline ? (size_t)(newline - text->data) + 1 : text->len;

    memmove(text->data, text->data + cut, text->len - cut + 1);
    text->len -= cut;
}

bool file_read_end_at(int dir, const char *name, size_t max, struct text *out,
                      struct error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    bool ok = false, cut = false;

    text_reset(out);
    if (out->max < max)
        out->max = max;
    if (fd < 0)
        return error_errno(err, "cannot open %s", name);
    if (fstat(fd, &st) != 0) {
        error_errno(err, "cannot stat %s", name);
    } else if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_DATA, "%s is not a regular file", name);
    } else {
        cut = (uintmax_t)st.st_size > max;
        ok = read_some(fd, name, cut ? st.st_size - (off_t)max : 0, max, out, err);
    }
    if (ok && cut)
        drop_first_line(out);
    close(fd);
    return ok;
}

bool file_write_all(int fd, const void *data, size_t len, struct error *err)
{
    const char *at = data;

    while (len > 0) {
        ssize_t put = write(fd, at, len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return error_errno(err, "cannot write");
        at += put;
        len -= (size_t)put;
    }
    return true;
}

bool file_sync_dir(const char *name, struct error *err)
{
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok;

    if (fd < 0)
        return error_errno(err, "cannot open the directory %s", name);
    /* EINVAL: the file system does not support fsync on this file */
    ok = fsync(fd) == 0 || errno == EINVAL ||
         error_errno(err, "cannot flush the directory %s", name);
    close(fd);
    return ok;
}

static bool sync_parent(const char *name, struct error *err)
{
    char *dir = path_dir(name);
    bool ok = file_sync_dir(dir, err);

    free(dir);
    return ok;
}

/* Write and flush a newly created file, and close it; `shown` is its name in errors. */
static bool fill_and_close(int fd, const char *shown, const void *data, size_t len,
                           struct error *err)
{
    struct error why = { 0 };
    bool ok = false;

    if (!file_write_all(fd, data, len, &why))
        error_set(err, why.code, "%s: %s", shown, why.text);
    else if (fsync(fd) != 0)
        error_errno(err, "cannot flush %s", shown);
    else
        ok = true;
    if (close(fd) != 0 && ok)
        ok = error_errno(err, "cannot close %s", shown);
    return ok;
}

static int create_new(const char *name, mode_t mode)
{
    return walk_open(name, O_WRONLY | O_CREAT | O_EXCL, mode);
}

bool file_create(const char *name, const void *data, size_t len, mode_t mode,
                 struct error *err)
{
    int fd = create_new(name, mode);

    if (fd < 0)
        return error_errno(err, "cannot create %s", name);
    if (!fill_and_close(fd, name, data, len, err)) {
        walk_unlink(name);
        return false;
    }
    return sync_parent(name, err);
}

bool file_replace(const char *name, const void *data, size_t len, mode_t mode,
                  struct error *err)
{
    char *temporary = leftover_name(name);
    int fd = create_new(temporary, mode);
    bool ok = false;

    /* a process with the same pid died before its rename */
    if (fd < 0 && errno == EEXIST && walk_unlink(temporary) == 0)
        fd = create_new(temporary, mode);
    if (fd < 0) {
        error_errno(err, "cannot create %s", temporary);
        goto out;
    }
    ok = fill_and_close(fd, name, data, len, err) &&
         (walk_rename(temporary, name) == 0 ||
          error_errno(err, "cannot replace %s", name));
    if (ok)
        ok = sync_parent(name, err);
    else
        walk_unlink(temporary);
out:
    free(temporary);
    return ok;
}

/* Return whether the last line was cut off, by a crash or a full disk: the next line must
 * not join it. */
static bool ends_within_a_line(int fd, const struct stat *st)
{
    char last;

    return st->st_size > 0 && pread(fd, &last, 1, st->st_size - 1) == 1 && last != '\n';
}

static bool append_open(int fd, const char *name, const char *line, size_t len,
                        bool durable, struct error *err)
{
    struct stat st;
    struct iovec parts[3] = { { "\n", 0 }, { (void *)line, len }, { "\n", 1 } };
    ssize_t put;

    if (fstat(fd, &st) != 0)
        return error_errno(err, "cannot stat %s", name);
    parts[0].iov_len = ends_within_a_line(fd, &st);
    do
        put = writev(fd, parts, 3);
    while (put < 0 && errno == EINTR);
    if (put < 0)
        return error_errno(err, "cannot append to %s", name);
    if ((size_t)put != parts[0].iov_len + len + 1) {
        errno = ENOSPC;
        return error_errno(err, "cannot append to %s", name);
    }
    if (!durable)
        return true;
    if (fsync(fd) != 0)
        return error_errno(err, "cannot flush %s", name);
    return st.st_size > 0 || sync_parent(name, err);
}

bool file_append_line(const char *name, const char *line, size_t len, mode_t mode,
                      bool durable, struct error *err)
{
    int fd = walk_open(name, O_RDWR | O_APPEND | O_CREAT, mode);
    bool ok;

    assert(!memchr(line, '\n', len));
    if (fd < 0 && errno == ENXIO)
        return error_set(err, ERROR_SYSTEM, "%s is not a regular file", name);
    if (fd < 0)
        return error_errno(err, "cannot open %s", name);
    ok = append_open(fd, name, line, len, durable, err);
    close(fd);
    return ok;
}

bool file_make_dir(const char *name, mode_t mode, struct error *err)
{
    int why;

    if (walk_mkdir(name, mode) == 0)
        return sync_parent(name, err);
    why = errno;
    if (why == EEXIST && file_is_dir(name))
        return true;
    errno = why;
    return error_errno(err, "cannot create the directory %s", name);
}

bool file_make_dirs(const char *name, mode_t mode, struct error *err)
{
    char *path = memory_strdup(name);
    bool ok = true;

    for (char *at = path + 1; ok && path[0] && *at; at++) {
        if (*at != '/')
            continue;
        *at = 0;
        ok = file_is_dir(path) || file_make_dir(path, mode, err);
        *at = '/';
    }
    ok = ok && (file_is_dir(path) || file_make_dir(path, mode, err));
    free(path);
    return ok;
}

static bool remove_at(int dir, const char *name, struct error *err);

static bool remove_below(int fd, struct error *err)
{
    DIR *entries = fdopendir(fd);
    struct dirent *entry;
    bool ok = true;

    if (!entries) {
        error_errno(err, "cannot read a directory");
        close(fd);
        return false;
    }
    while (ok && (errno = 0, entry = readdir(entries)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ok = remove_at(fd, entry->d_name, err);
    if (ok && errno)
        ok = error_errno(err, "cannot read a directory");
    closedir(entries);
    return ok;
}

static bool remove_at(int dir, const char *name, struct error *err)
{
    int fd;

    if (!walk_may_change())
        return error_errno(err, "cannot remove %s", name);
    /* unlink of a directory returns EISDIR on Linux, EPERM by POSIX */
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR && errno != EPERM)
        return error_errno(err, "cannot remove %s", name);
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "cannot open the directory %s", name);
    if (!remove_below(fd, err))
        return false;
    return (walk_may_change() && unlinkat(dir, name, AT_REMOVEDIR) == 0) ||
           errno == ENOENT || error_errno(err, "cannot remove the directory %s", name);
}

bool file_remove_tree(const char *name, struct error *err)
{
    struct walk walk;
    bool ok;

    if (walk_begin(&walk, name) < 0)
        return errno == ENOENT || errno == ENOTDIR ||
               error_errno(err, "cannot remove %s", name);
    ok = remove_at(walk.dir, walk.last, err);
    walk_end(&walk);
    return ok;
}

/* Return whether `name` is still the file of `fd`.  It may have been removed between open
 * and flock. */
static bool is_still_there(int fd, const char *name)
{
    struct stat ours, theirs;

    return fstat(fd, &ours) == 0 && lstat(name, &theirs) == 0 &&
           ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static int lock_as(int operation, const char *name, bool *busy, struct error *err)
{
    /* file_is_locked() takes a shared lock briefly: retry before reporting the lock as
     * busy */
    static const struct timespec moment = { .tv_nsec = 5000000 };
    enum { TRIES = 5 };

    *busy = false;
    for (int tries = 0; tries < TRIES; tries++) {
        int fd = walk_open(name, O_RDWR | O_CREAT, 0600);

        if (fd < 0) {
            error_errno(err, "cannot open the lock %s", name);
            return -1;
        }
        if (flock(fd, operation | LOCK_NB) == 0) {
            if (is_still_there(fd, name))
                return fd;
        } else if (errno == EWOULDBLOCK) {
            nanosleep(&moment, NULL);
        } else if (errno != EINTR) {
            int number = errno;

            error_errno(err, "cannot lock %s", name);
            close(fd);
            errno = number;
            return -1;
        }
        close(fd);
    }
    *busy = true;
    return -1;
}

int file_lock(const char *name, bool *busy, struct error *err)
{
    return lock_as(LOCK_EX, name, busy, err);
}

int file_lock_shared(const char *name, bool *busy, struct error *err)
{
    return lock_as(LOCK_SH, name, busy, err);
}

bool file_was_replaced(int fd, const char *name)
{
    struct stat ours, theirs;

    if (lstat(name, &theirs) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return fstat(fd, &ours) == 0 &&
           (ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev);
}

bool file_lock_is_held(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        return errno == EWOULDBLOCK || fault_is(errno);
    flock(fd, LOCK_UN);
    return false;
}

bool file_is_locked(const char *name)
{
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    bool held;

    if (fd < 0)
        return fault_is(errno);
    held = file_lock_is_held(fd);
    close(fd);
    return held;
}
