/*
 * runner/job/outputs.h - the files and folders that a job writes, by the table of keys:
 * whether it may, and creating the folders.
 */
#ifndef RUNNER_JOB_OUTPUTS_H
#define RUNNER_JOB_OUTPUTS_H

#include "base/roots.h"
#include "base/text.h"
#include "patcher/schema/schema.h"
#include "runner/job/job.h"
#include "train/plan.h"

/* Bind the text's keys alone: no rule, no model, no device. */
void outputs_bind_plan(const struct job *job, const struct text *text,
                       struct arena *arena, struct plan *plan);

/* Call `each` with every path of the plan, read or written; NULL ones are left out. */
typedef void outputs_path(void *context, const struct key *key, const char *path);
void outputs_each_path(const struct plan *plan, outputs_path *each, void *context);
/* Return whether a path names a file, not a folder. */
bool outputs_is_file(const char *path);

/* Check again what TS710 checked when the job was admitted, just before anything is
 * written: links may have changed. roots->home: NULL for the folder of the job. ERROR_JOB. */
bool outputs_check(const struct job *job, const struct text *text,
                   const struct roots *roots, struct error *err);
/* Create the folders, as far as possible. */
void outputs_create(const struct plan *plan);
/* Create those of the text, and give each that is new to the group of --group (NULL: do
 * nothing). */
bool outputs_share(const struct job *job, const struct text *text, const char *group,
                   struct error *err);

#endif
