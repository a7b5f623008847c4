/* patcher/history/jobfile.c - read and atomically replace one job file. */
#include "config.h"

#include "patcher/history/jobfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/leftovers.h"
#include "base/shared_lock.h"
#include "base/user_names.h"
#include "base/walk.h"
#include "patcher/history/backup.h"
#include "patcher/document/document.h"

enum { LOCK_TRIES = 200, LOCK_NANOSECONDS = 50 * 1000 * 1000 };

bool jobfile_read(struct jobfile *file, const char *name, struct error *err)
{
    struct stat st;

    *file = (struct jobfile) { .name = name };
    text_init(&file->text, 0);
    if (lstat(name, &st) != 0)
        return error_errno(err, "cannot open %s", name);
    file->link = S_ISLNK(st.st_mode);
    if (!file_read(name, DOCUMENT_MAX_BYTES, &file->text, &file->st, err))
        return false;
    digest_bytes(file->text.data, file->text.len, file->digest);
    return true;
}

void jobfile_clear(struct jobfile *file)
{
    text_clear(&file->text);
}

/* A file that a user makes belongs to that user: a copy of one of root would no longer be
 * root's, who may have wanted to keep others from changing it. */
static const char *describe_owner(struct jobfile *file)
{
    struct user_names *names = user_names_new();
    char owner[USER_NAME_ROOM], user[USER_NAME_ROOM];

    user_names_find(names, file->st.st_uid, owner);
    user_names_find(names, geteuid(), user);
    user_names_free(names);
    if (geteuid() == 0)
        snprintf(file->barrier, sizeof(file->barrier),
                 "it belongs to another user, %s; patch it as that user", owner);
    else
        snprintf(file->barrier, sizeof(file->barrier),
                 "it belongs to another user, %s, and a patched file would belong to %s; "
                 "chown %s %.80s allows that",
                 owner, user, user, path_base(file->name));
    return file->barrier;
}

const char *jobfile_barrier(struct jobfile *file)
{
    if (file->link)
        return "it is a symbolic link, which replacing it would break";
    if (file->st.st_nlink > 1)
        return "it has several hard links, which replacing it would separate";
    if (file->st.st_uid != geteuid())
        return describe_owner(file);
    if (!(file->st.st_mode & S_IWUSR) || access(file->name, W_OK) != 0)
        return "it is read-only";
    return NULL;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool jobfile_is_same(const struct jobfile *file)
{
    struct error ignored = { 0 };
    struct jobfile on_disk;
    bool same = jobfile_read(&on_disk, file->name, &ignored) &&
                on_disk.link == file->link && on_disk.st.st_dev == file->st.st_dev &&
                on_disk.st.st_ino == file->st.st_ino &&
                same_time(on_disk.st.st_mtim, file->st.st_mtim) &&
                strcmp(on_disk.digest, file->digest) == 0;

    jobfile_clear(&on_disk);
    return same;
}

int jobfile_lock(const char *name, struct error *err)
{
    const struct timespec pause = { 0, LOCK_NANOSECONDS };
    char *run, *path;
    bool busy = true;
    int fd = -1;

    if (!backup_run_dir(name, &run, err))
        return -1;
    path = path_join(run, "patch.lock");
    for (int i = 0; fd < 0 && busy; i++) {
        if (i >= LOCK_TRIES && !shared_lock_is_doubtful(path))
            break;
        if (i > 0)
            nanosleep(&pause, NULL);
        busy = false;
        fd = shared_lock(path, &busy, err);
    }
    if (fd < 0 && busy)
        error_set(err, ERROR_SYSTEM, "another patch has locked %s", path);
    free(path);
    free(run);
    return fd;
}

void jobfile_unlock(const char *name, int lock)
{
    char *run = path_run_dir(name), *path = path_join(run, "patch.lock");

    shared_unlock(lock, path);
    free(path);
    free(run);
}

/* The kernel may refuse its own attributes; those set by a user or an ACL must be
 * copied. */
static bool copy_attributes(const char *from, int to, struct error *err)
{
    char names[4096], value[4096];
    ssize_t len = listxattr(from, names, sizeof(names));

    if (len < 0)
        return errno == ENOTSUP || errno == ENOENT || /* gone: the file is stale */
               error_errno(err, "cannot list the attributes of %s", from);
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        ssize_t bytes = getxattr(from, name, value, sizeof(value));

        if (bytes >= 0 && fsetxattr(to, name, value, (size_t)bytes, 0) == 0)
            continue;
        if (!text_starts(name, "security.") && !text_starts(name, "trusted."))
            return error_errno(err, "cannot preserve the attribute %s of %s", name, from);
    }
    return true;
}

static bool fill(int fd, const struct jobfile *file, const char *data, size_t len,
                 struct error *err)
{
    struct error why = { 0 };

    if (!file_write_all(fd, data, len, &why))
        return error_set(err, why.code, "%s: %s", file->name, why.text);
    if (fchown(fd, (uid_t)-1, file->st.st_gid) != 0)
        return error_errno(err, "cannot preserve the group of %s", file->name);
    if (fchmod(fd, file->st.st_mode & 07777) != 0)
        return error_errno(err, "cannot preserve the mode of %s", file->name);
    return copy_attributes(file->name, fd, err) &&
           (fsync(fd) == 0 || error_errno(err, "cannot flush %s", file->name));
}

bool jobfile_replace(const struct jobfile *file, const char *data, size_t len,
                     bool *stale, struct error *err)
{
    char *temporary = leftover_name(file->name), *dir = path_dir(file->name);
    int flags = O_WRONLY | O_CREAT | O_EXCL;
    int fd = walk_open(temporary, flags, 0600);
    bool ok = false;

    *stale = false;
    if (fd < 0 && errno == EEXIST && walk_unlink(temporary) == 0)
        /* left by a process of this program that was killed */
        fd = walk_open(temporary, flags, 0600);
    if (fd < 0) {
        error_errno(err, "cannot create %s", temporary);
        goto out;
    }
    ok = fill(fd, file, data, len, err);
    if (close(fd) != 0 && ok)
        ok = error_errno(err, "cannot close %s", temporary);
    *stale = ok && !jobfile_is_same(file);
    if (ok && !*stale && walk_rename(temporary, file->name) != 0)
        ok = error_errno(err, "cannot replace %s", file->name);
    if (!ok || *stale)
        walk_unlink(temporary);
    else
        ok = file_sync_dir(dir, err);
out:
    free(temporary);
    free(dir);
    return ok;
}
