/*
 * patcher/history/backup.h - copies of a job from before each change: NAME.run/backups/
 * UTC-compact.SHA8.yaml, mode 0600, byte for byte, never overwritten.  The same contents
 * are not written twice.
 */
#ifndef PATCHER_HISTORY_BACKUP_H
#define PATCHER_HISTORY_BACKUP_H

#include "base/text.h"

struct backup {
    char *id; /* "20261120T140848.123456Z.1a2b3c4d" */
    char *path;
    char digest[65];
    size_t bytes;
};

/* Return NAME.run of a job, malloc'ed, and create it (0700) if it is missing.
 * ERROR_SYSTEM if it is not a directory or is a link: nothing is written through a
 * link. */
bool backup_run_dir(const char *job, char **path, struct error *err);
/* Write a backup.  *path is malloc'ed: the backup written, or the existing one with the
 * same contents. */
bool backup_write(const char *job, const char *data, size_t len, char **path,
                  struct error *err);
/* List the backups, newest first, without those truncated by a crash; none if there is no
 * folder.  The list is malloc'ed and freed with backup_free. */
bool backup_list(const char *job, struct backup **out, size_t *count, struct error *err);
void backup_free(struct backup *list, size_t count);
/* Find the backup whose id, base name or path is `id`, or the only one that starts with
 * it.  ERROR_USAGE if none or several match. */
const struct backup *backup_find(const struct backup *list, size_t count, const char *id,
                                 struct error *err);

#endif
