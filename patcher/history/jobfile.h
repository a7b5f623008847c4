/* patcher/history/jobfile.h - one job file on disk.  Readers never see a partial file,
 * and changes made by other programs in the meantime are not lost. */
#ifndef PATCHER_HISTORY_JOBFILE_H
#define PATCHER_HISTORY_JOBFILE_H

#include "base/digest.h"
#include "base/file.h"

struct jobfile {
    const char *name; /* borrowed */
    struct text text;
    char digest[DIGEST_TEXT];
    struct stat st; /* of the file; of the target if it is a link */
    bool link;
    char barrier[400]; /* used by jobfile_barrier */
};

/* Read a regular file of at most 1 MiB, otherwise ERROR_DATA.  Follows a link. */
bool jobfile_read(struct jobfile *file, const char *name, struct error *err);
void jobfile_clear(struct jobfile *file);

/* Return why the file must not be replaced (TS011), or NULL; valid as long as *file. */
const char *jobfile_barrier(struct jobfile *file);
/* Return whether inode, times and bytes are still those that were read (TS010). */
bool jobfile_is_same(const struct jobfile *file);

/* Lock NAME.run/patch.lock among all machines, created with its folder; wait up to ten
 * seconds, or longer for a machine that gives no sign of life (base/shared_lock.h).  Return
 * a descriptor, or -1. */
int jobfile_lock(const char *name, struct error *err);
void jobfile_unlock(const char *name, int lock);

/*
 * Replace the file with the text and keep mode, owner and extended attributes: write a
 * temporary file next to it, flush, rename, flush the directory.  If the file has changed
 * since it was read, set *stale, leave it unchanged and return true.
 */
bool jobfile_replace(const struct jobfile *file, const char *data, size_t len,
                     bool *stale, struct error *err);

#endif
