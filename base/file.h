/*
 * base/file.h - read a file whole, replace a file whole, locks, and names beside a file.
 *
 * Durability: what is written here is on disk when the call returns true: data is fsynced
 * before the rename, and the directory after it (fsync(2)).  An fsync that failed is
 * never tried again on the same file: kernels mark the pages clean after reporting.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/text.h"

/* Read a regular file of at most `max` bytes.  Follows links; does not block on a FIFO.
 * *out must be initialised: what it holds is replaced, and its ceiling raised to max.
 * *st may be NULL.  ERROR_DATA when it is not a regular file or too large. */
bool file_read(const char *name, size_t max, struct text *out, struct stat *st,
               struct error *err);
/* The same below a directory descriptor (AT_FDCWD allowed), never following a link. */
bool file_read_at(int dir, const char *name, size_t max, struct text *out,
                  struct stat *st, struct error *err);

/* At most the last `max` bytes of a regular file below a directory descriptor, never
 * following a link; where it has more, from the first whole line on.  It may grow
 * meanwhile. */
bool file_read_end_at(int dir, const char *name, size_t max, struct text *out,
                      struct error *err);

bool file_write_all(int fd, const void *data, size_t len, struct error *err);

/* Replace `name` by the text: written to .NAME.tmp-PID in the same directory with `mode`,
 * flushed, renamed, directory flushed.  On any failure before the rename the old file
 * stays, and no temporary file is left.  The mode is as given, whatever the umask. */
bool file_replace(const char *name, const void *data, size_t len, mode_t mode,
                  struct error *err);
/* Create `name` with O_EXCL | O_NOFOLLOW and the text, flushed with its directory.  errno
 * EEXIST where it exists. */
bool file_create(const char *name, const void *data, size_t len, mode_t mode,
                 struct error *err);
/* Append one whole line (a newline is added) with a single write; fsync if `durable`.  A
 * last line that was cut off, by a crash or a full disk, is ended first. */
bool file_append_line(const char *name, const char *line, size_t len, mode_t mode,
                      bool durable, struct error *err);

bool file_make_dir(const char *name, mode_t mode, struct error *err);  /* exists: fine */
bool file_make_dirs(const char *name, mode_t mode, struct error *err); /* with parents */
bool file_sync_dir(const char *name, struct error *err);
/* Remove a directory and all below it, never following links; a link or a file itself is
 * removed too.  Missing is success. */
bool file_remove_tree(const char *name, struct error *err);
bool file_exists(const char *name);
bool file_is_dir(const char *name);

/*
 * An advisory lock (flock) on `name`, created 0600 if missing.  The lock belongs to the
 * open file description: a child that inherits the descriptor holds it on, and it is gone
 * when the last holder ends, however it ends.
 * Returns a descriptor (close-on-exec: a child that shall hold it clears that), or -1:
 * *busy tells that somebody else holds it (then err is not set).
 */
int file_lock(const char *name, bool *busy, struct error *err);
/* Is the lock held by anybody?  Never waits, never creates. */
bool file_locked(const char *name);

/* Names.  The results are malloc'ed; the caller frees. */
/* An absolute name stays as it is, and so does any name in ".". */
char *path_join(const char *dir, const char *name);
char *path_dir(const char *name);        /* "." where there is none */
const char *path_base(const char *name); /* points into name */
/* gsm8k.yaml or gsm8k.yml -> gsm8k.run, in the same directory; any other name gets .run
 * added */
char *path_run_dir(const char *job);
/* A gsm8k.yml beside a gsm8k.yaml would share its folder, which is the other's: that
 * name, or NULL where nobody else has it.  The caller frees. */
char *path_run_owner(const char *job);
/* Does nobody else have the folder?  ERROR_USAGE, with the remedy. */
bool path_run_free(const char *job, struct error *err);

#endif
