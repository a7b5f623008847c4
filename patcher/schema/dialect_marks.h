/* patcher/schema/dialect_marks.h - which keys identify which tool, and how messages name
 * its files. */
#ifndef PATCHER_SCHEMA_DIALECT_MARKS_H
#define PATCHER_SCHEMA_DIALECT_MARKS_H

#include "patcher/schema/dialect.h"

/* A key that identifies a tool. */
struct dialect_mark {
    const char *path; /* "params", or "data.train_files" for a key within a block */
    enum dialect dialect;
    int weight; /* 3: no other tool has it; 1: other tools or jobs may have it */
};
extern const struct dialect_mark dialect_marks[];
extern const size_t dialect_mark_count;

/* How a message names the files of a tool. */
struct dialect_file {
    const char *what;     /* "an ms-swift file" */
    const char *advice;   /* what to do with it; NULL: which keys a job has */
    size_t least;         /* marks that the file must have at least; 0: 1 */
    enum trainer trainer; /* its target checks the file; TRAINER_NATIVE: none does */
};
extern const struct dialect_file dialect_files[DIALECT_NONE];

#endif
