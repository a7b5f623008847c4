/*
 * patcher/import/import.h - a file of Axolotl or torchtune as a job: the same training in the
 * words of this program, and what became of every key.
 *
 * What cannot be carried over is a comment in the job, with its reason.  A file that
 * trains in a way not done here (preference pairs, images, diffusion) is refused: a job
 * of it would train something else.
 */
#ifndef PATCHER_IMPORT_IMPORT_H
#define PATCHER_IMPORT_IMPORT_H

#include "base/text.h"
#include "patcher/schema/dialect.h"

enum import_fate {
    IMPORT_CARRIED, /* it is in the job, under `into` */
    IMPORT_DIFFERS, /* it is not, and the result may be another */
    IMPORT_IDLE,    /* it is not, and nothing is lost */
    IMPORT_FATES
};
extern const char *const import_fate_names[IMPORT_FATES]; /* as --json says */

/* What became of one key of the source. */
struct import_key {
    const char *name; /* "optimizer.lr", "datasets[0].type" */
    struct mark at;
    enum import_fate fate;
    const char *into; /* the job's key; NULL: not IMPORT_CARRIED */
    const char *why;  /* NULL: IMPORT_CARRIED */
};

/* Lives in the arena that import_read was given, but for the text. */
struct import {
    const char *tool; /* "Axolotl" */
    const struct import_key *keys;
    size_t key_count;
    struct text text; /* the job */
};

/*
 * `file` is the name for messages and for the job's first line.  Errors have a place:
 * ERROR_DATA for a text that is no file of these tools, a job already, or one that trains
 * nothing; ERROR_JOB for one that trains in a way not done here.
 * *out is given back with import_clear, whatever came of it.
 */
bool import_read(const char *file, const char *data, size_t len, struct arena *arena,
                 struct import *out, struct error *err);
void import_clear(struct import *import);

#endif
