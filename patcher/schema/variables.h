/* patcher/schema/variables.h - trainspool.env of a job that trainspool trains: variables
 * that are added to the clean environment of its process. */
#ifndef PATCHER_SCHEMA_VARIABLES_H
#define PATCHER_SCHEMA_VARIABLES_H

#include "patcher/document/document.h"
#include "train/plan.h"

enum { VARIABLES_MAX = 64 };

/* In the arena, and in the document. */
struct variables {
    const struct plan_variable *list;
    size_t count;
};

/* Return whether a job may set the variable to the value. *err, with ERROR_JOB, does not
 * show the value, which may be a secret. */
bool variable_check(const struct entry *entry, struct error *err);
/* Read the variables of trainspool.env that pass variable_check, at most VARIABLES_MAX;
 * none if another program trains the job. */
void variables_read(const struct document *document, struct arena *arena,
                    struct variables *out);

#endif
