/*
 * patcher/history/jobfile.h - one job file on the disk, read and replaced so that nobody ever
 * sees half of it and nothing that somebody else wrote meanwhile is lost.
 */
#ifndef PATCHER_HISTORY_JOBFILE_H
#define PATCHER_HISTORY_JOBFILE_H

#include "base/digest.h"
#include "base/file.h"

struct jobfile {
    const char *name; /* borrowed */
    struct text text;
    char digest[DIGEST_TEXT];
    struct stat st; /* of the file; of what a link points at */
    bool link;
};

/* At most 1 MiB and a regular file; else ERROR_DATA.  A link is followed. */
bool jobfile_read(struct jobfile *file, const char *name, struct error *err);
void jobfile_clear(struct jobfile *file);

/* Why the file is not to be replaced (TS011), or NULL. */
const char *jobfile_barrier(const struct jobfile *file);
/* Is it still the file that was read: inode, times, bytes?  TS010. */
bool jobfile_is_same(const struct jobfile *file);

/* NAME.run/patch.lock, made with its folder; waits up to ten seconds.  A descriptor, or
 * -1. */
int jobfile_lock(const char *name, struct error *err);

/*
 * Replace the file by the text: same mode, owner and extended attributes, written beside
 * it, flushed, renamed, the directory flushed.  *stale: it had changed since it was read,
 * and was left alone (true is returned).
 */
bool jobfile_replace(const struct jobfile *file, const char *data, size_t len,
                     bool *stale, struct error *err);

#endif
