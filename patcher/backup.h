/*
 * patcher/backup.h - the file as it was, before it is changed: NAME.run/backups/
 * UTC-compact.SHA8.yaml, mode 0600, byte for byte, never overwritten; an equal one is not written
 * twice.
 */
#ifndef PATCHER_BACKUP_H
#define PATCHER_BACKUP_H

#include "base/text.h"

struct backup {
    char *id;   /* "20261120T140848.123456Z.1a2b3c4d" */
    char *path;
    char digest[65];
    size_t bytes;
};

/* *path is malloc'ed: the backup written, or the equal one that was there. */
bool backup_write(const char *job, const char *data, size_t len, char **path,
                  struct error *err);
/* Newest first; malloc'ed, freed with backup_free. */
bool backup_list(const char *job, struct backup **out, size_t *count, struct error *err);
void backup_free(struct backup *list, size_t count);

#endif
