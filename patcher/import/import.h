/*
 * patcher/import/import.h - convert a file of Axolotl, torchtune or LLaMA-Factory v1, or a
 * Python script, to a job with the same training, and report the outcome for every key.
 *
 * Keys that cannot be carried over become comments in the job, with the reason.  A file
 * whose training is not supported (reward models, images, diffusion) is refused: a job
 * made from it would train something else.
 */
#ifndef PATCHER_IMPORT_IMPORT_H
#define PATCHER_IMPORT_IMPORT_H

#include "base/text.h"
#include "patcher/schema/dialect.h"

enum import_outcome {
    IMPORT_CARRIED, /* in the job, under `into` */
    IMPORT_DIFFERS, /* not in the job, and the result may differ */
    IMPORT_IDLE,    /* not in the job, without effect on the result */
    IMPORT_OUTCOMES
};
extern const char *const import_outcome_names[IMPORT_OUTCOMES]; /* as in --json */

/* The outcome for one key of the source. */
struct import_key {
    const char *name; /* "optimizer.lr", "datasets[0].type" */
    struct mark at;
    enum import_outcome outcome;
    const char *into; /* the job's key; NULL: not IMPORT_CARRIED */
    const char *why;  /* NULL: IMPORT_CARRIED */
};

/* Everything except the text is allocated from the arena passed to import_read. */
struct import {
    const char *tool; /* "Axolotl" */
    const struct import_key *keys;
    size_t key_count;
    struct text text; /* the job */
};

/*
 * Convert a file.  `file` is its name in messages and in the job's first line; the list of
 * datasets that a LLaMA-Factory v1 file names is read from the working folder, or from that
 * of `file`.  Errors
 * have a position: ERROR_DATA for a text that is not a file of these tools, is already a
 * job, or trains nothing; ERROR_JOB for training that is not supported. The caller clears
 * *out with import_clear in any case.
 */
bool import_read(const char *file, const char *data, size_t len, struct arena *arena,
                 struct import *out, struct error *err);
void import_clear(struct import *import);

#endif
