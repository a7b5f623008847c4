/*
 * runner/job/note.h - files whose existence means something, such as a hold, and whose
 * only line says who made them and when: "by ada since 2026-11-20T14:08:48Z".
 */
#ifndef RUNNER_JOB_NOTE_H
#define RUNNER_JOB_NOTE_H

#include "base/text.h"

enum { NOTE_ROOM = 256 };

/* Make the file, or replace it; it is on disk then, and so is its folder's own name,
 * which may be new. why: appended to the line; NULL: nothing. */
bool note_write(const char *name, const char *why, struct error *err);
/* Find out whether the file exists, whatever it is, and copy the line if it can be read.
 * `name` is relative to an open directory (AT_FDCWD allowed). ERROR_FAULT if that cannot
 * be found out for now. */
bool note_read(int dir, const char *name, bool *exists, char line[NOTE_ROOM],
               struct error *err);
/* Remove the file; that is on disk then. A missing one is success. */
bool note_remove(const char *name, struct error *err);

#endif
