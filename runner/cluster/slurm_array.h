/*
 * runner/cluster/slurm_array.h - the files of an array of submissions to Slurm, all in one
 * folder:
 *
 *   NAME.json      the submissions, by their tasks: on disk before sbatch is called, and
 *                  never changed, so that another process finds by the name of the array
 *                  what became of it
 *   NAME.id        Slurm's number of the array, once it is known
 *   NAME.refused   why Slurm did not take it
 *   NAME.sh, NAME.log   the batch script, and the output of Slurm itself
 */
#ifndef RUNNER_CLUSTER_SLURM_ARRAY_H
#define RUNNER_CLUSTER_SLURM_ARRAY_H

#include "base/arena.h"
#include "runner/cluster/slurm.h"

enum slurm_array_state {
    SLURM_ARRAY_OPEN, /* it is not known whether sbatch was called */
    SLURM_ARRAY_SUBMITTED,
    SLURM_ARRAY_REFUSED
};

struct slurm_array {
    char name[SLURM_NAME];
    enum slurm_array_state state;
    int64_t id;         /* SUBMITTED */
    char why[400];      /* REFUSED */
    const char **tasks; /* names of the submissions */
    size_t count;
};

struct slurm_arrays {
    struct slurm_array *list;
    size_t count;
};

/* The name of a file of an array, such as ".sh"; in the arena. */
char *slurm_array_file(const char *folder, const char *name, const char *ending,
                       struct arena *arena);
/* Read all arrays of a folder, in the arena.  One whose file is damaged is left out. */
void slurm_arrays_read(const char *folder, struct arena *arena, struct slurm_arrays *out);
/* Return the array that has the submission, and its task; NULL: none. */
const struct slurm_array *slurm_arrays_find(const struct slurm_arrays *arrays,
                                            const char *submission, int64_t *task);

/* Write NAME.json, on disk when this returns. */
bool slurm_array_write(const char *folder, const struct slurm_array *array,
                       struct error *err);
/* Note the state of an array, which is no longer SLURM_ARRAY_OPEN. */
bool slurm_array_note(const char *folder, const struct slurm_array *array,
                      struct error *err);
/* Remove the record of an array that is over, and its script if it was not submitted. */
void slurm_array_remove(const char *folder, const char *name, bool script);
/* Remove the records of all arrays of a folder, which need not exist. */
void slurm_arrays_remove(const char *folder);

#endif
