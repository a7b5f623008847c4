/*
 * patcher/history/backup.h - the file as it was, before it is changed: NAME.run/backups/
 * UTC-compact.SHA8.yaml, mode 0600, byte for byte, never overwritten; an equal one is not
 * written twice.
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

/* NAME.run of a job, made (0700) where it is missing; malloc'ed.  ERROR_SYSTEM if it is
 * no directory, or a link: nothing is written through one. */
bool backup_run_dir(const char *job, char **path, struct error *err);
/* *path is malloc'ed: the backup written, or the equal one that was there. */
bool backup_write(const char *job, const char *data, size_t len, char **path,
                  struct error *err);
/* Newest first, those cut off by a crash left out; none where there is no folder.
 * malloc'ed, freed with backup_free. */
bool backup_list(const char *job, struct backup **out, size_t *count, struct error *err);
void backup_free(struct backup *list, size_t count);
/* The one whose id, base name or path is `id`, or begins with it if only one does.
 * ERROR_USAGE if none or several. */
const struct backup *backup_find(const struct backup *list, size_t count, const char *id,
                                 struct error *err);

#endif
