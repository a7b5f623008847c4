/*
 * runner/spool/pause.h - a pause of a whole spool: no job starts until it ends. It is the
 * file DIR/.trainspool/paused, on disk before a command reports it.
 */
#ifndef RUNNER_SPOOL_PAUSE_H
#define RUNNER_SPOOL_PAUSE_H

#include "runner/job/note.h"

struct pause {
    bool on;
    char reason[NOTE_ROOM + 64]; /* "paused by ada since 2026-11-20T14:08:48Z" */
};

/* `inner` is the spool's folder SPOOL_INNER, relative to an open directory (AT_FDCWD
 * allowed). ERROR_FAULT if it cannot be found out for now. */
bool pause_read(int dir, const char *inner, struct pause *out, struct error *err);
/* Read it again. Return whether it began or ended; after a fault of the machine, the last
 * answer counts. */
bool pause_changed(struct pause *pause, int inner);
/* Make the folder if it does not exist. why: NULL for none. */
bool pause_begin(const char *inner, const char *why, struct error *err);
bool pause_end(const char *inner, struct error *err);

#endif
