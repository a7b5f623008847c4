/*
 * base/file.h - read a file whole, replace a file whole, locks.
 * Durability: data written here is on disk when the call returns true: data is fsynced
 * before the rename, and the directory after it (fsync(2)).  A failed fsync is never
 * retried on the same file: kernels mark the pages clean after reporting the error.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/path.h"
#include "base/text.h"

/* Read a regular file of at most `max` bytes.  Follows links; does not block on a FIFO.
 * *out must be initialized: its contents are replaced, and its ceiling is raised to max.
 * *st may be NULL.  ERROR_DATA if the file is not regular or too large. */
bool file_read(const char *name, size_t max, struct text *out, struct stat *st,
               struct error *err);
/* The same, relative to a directory descriptor (AT_FDCWD allowed), never following a
 * link. */
bool file_read_at(int dir, const char *name, size_t max, struct text *out,
                  struct stat *st, struct error *err);

/* Read at most the first `max` bytes of a regular file that a job names. */
bool file_read_start(const char *name, size_t max, struct text *out, struct error *err);

/* Read at most the last `max` bytes of a regular file relative to a directory descriptor,
 * never following a link.  A longer file is read from its first whole line within them.
 * The file may grow meanwhile. */
bool file_read_end_at(int dir, const char *name, size_t max, struct text *out,
                      struct error *err);

bool file_write_all(int fd, const void *data, size_t len, struct error *err);

/* Functions that change files do it as base/walk.h: a link at the end of a name is not
 * followed, nor one on the way by which another user could lead elsewhere. The umask
 * applies to modes. */

/* Replace `name` with the text: write .NAME.tmp-PID in the same directory with `mode`,
 * flush it, rename it, flush the directory.  On any failure before the rename the old
 * file stays and the temporary file is removed. */
bool file_replace(const char *name, const void *data, size_t len, mode_t mode,
                  struct error *err);
/* Create `name` with O_EXCL and write the text, flushed with its directory.  errno is
 * EEXIST if it exists. */
bool file_create(const char *name, const void *data, size_t len, mode_t mode,
                 struct error *err);
/* Append one whole line (a newline is added) with a single write; fsync if `durable`.  If
 * a crash or a full disk cut off the last line, end it first. */
bool file_append_line(const char *name, const char *line, size_t len, mode_t mode,
                      bool durable, struct error *err);

/* succeeds if it exists */
bool file_make_dir(const char *name, mode_t mode, struct error *err);
bool file_make_dirs(const char *name, mode_t mode, struct error *err); /* with parents */
bool file_sync_dir(const char *name, struct error *err);
/* Remove a directory and everything below it, never following links; a link or a plain
 * file is removed itself.  A missing one is success. */
bool file_remove_tree(const char *name, struct error *err);
/* These answer no if the machine fails, and note the fault (base/fault.h). */
bool file_exists(const char *name);
bool file_is_dir(const char *name);
bool file_stat(const char *name, struct stat *st);
bool file_lstat(const char *name, struct stat *st);
/* As opendir(3) and readdir(3); `name` of the directory is for the note of a fault. */
DIR *file_open_dir(const char *name);
struct dirent *file_next(DIR *dir, const char *name);

/*
 * Take an advisory lock (flock) on `name`, created 0600 if missing.  The lock belongs to
 * the open file description: a child that inherits the descriptor keeps holding it, and
 * it is released when the last holder ends, however it ends. Return a descriptor
 * (close-on-exec: clear that for a child that should hold the lock), or -1 with errno:
 * *busy is set if another process holds the lock (err is not set then).
 */
int file_lock(const char *name, bool *busy, struct error *err);
/* The same, with a lock that others can share, but that excludes file_lock. */
int file_lock_shared(const char *name, bool *busy, struct error *err);
/* Return whether any process holds the lock alone.  Never waits, never creates the file.  A lock
 * that cannot be examined because of a fault of the machine counts as held. */
bool file_is_locked(const char *name);
/* The same for an open file, which this process has not locked. */
bool file_lock_is_held(int fd);
/* Return whether `name` certainly is no longer the file of `fd`. */
bool file_was_replaced(int fd, const char *name);

#endif
