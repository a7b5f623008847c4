/*
 * runner/job/old_files.h - what may be removed next to a job that has ended: backups
 * between the first and the newest, TensorBoard files of earlier attempts, checkpoints
 * other than the last and the best.
 *
 * Nothing else is ever removed, and of these only what trainspool made and no one has
 * changed since. All of it is opened and removed without following a link.
 */
#ifndef RUNNER_JOB_OLD_FILES_H
#define RUNNER_JOB_OLD_FILES_H

#include <dirent.h>

#include "runner/job/job.h"

/* keep_days: remove what is older; max_bytes: of all old files together, the oldest go first.
 * -1: any. */
struct old_limits {
    int64_t keep_days, max_bytes;
};

enum old_kind { OLD_BACKUP, OLD_EVENTS, OLD_CHECKPOINT };

struct old_file {
    enum old_kind kind;
    char *job;    /* the path of its job; malloc'ed, as are the next */
    char *folder; /* that it is in */
    char *name;
    int64_t bytes, made;   /* made: seconds since 1970 */
    struct old_limits own; /* of its job */
};

struct old_files {
    struct old_file *list; /* malloc'ed */
    size_t count, room;
    struct error err; /* why old files are missing here */
};

/* Return whether the work on a job is over, so that its old files can go. Root removes only
 * its own, not those of other users. */
bool old_files_may_go(const struct job *job, struct job_record *record);
/* Add the old files of a job; none if old_files_may_go says no, or if others may write to
 * its folder. None either, with the reason in out->err, if something cannot be read: what is
 * not seen may be what makes another file an old one. */
void old_files_find(const char *path, struct old_files *out);
/* As fdopendir of "." and as readdir; an error is noted in out->err. */
DIR *old_files_open(struct old_files *out, int dir, const char *folder);
const struct dirent *old_files_next(struct old_files *out, DIR *listing,
                                    const char *folder);
/* Append a copy. */
void old_files_add(struct old_files *files, const struct old_file *file);
void old_files_clear(struct old_files *files);

/* Remove one. A checkpoint gets a hidden name first: one that is removed in part is never
 * taken for a checkpoint, and the next pass removes the rest. */
bool old_file_remove(const struct old_file *file, struct error *err);

#endif
