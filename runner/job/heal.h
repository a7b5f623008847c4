/*
 * runner/job/heal.h - a run that met a problem which a patch may remedy: memory ran out,
 * or it diverged. The process that records its end counts the problem and makes the job
 * new, with the problem in its record (heal_begin, one write of state.json); the process
 * that admits it next patches the job file with the rules of the problem (heal_job). In between, at any point:
 *
 *   the job file has the digest `digest`    the patch is still to be made
 *   ... the digest `healed`                 it is made; the text is still to be frozen
 *   ... any other                           someone changed it: it is another job
 *
 * The run keeps its checkpoints: they have the digest of the text that it began with
 * (`origin`), and are counted in optimizer steps, which take the same samples before and
 * after the patch.
 */
#ifndef RUNNER_JOB_HEAL_H
#define RUNNER_JOB_HEAL_H

#include "runner/job/admit.h"

/* Return the problem that an error reports. */
enum ailment heal_ailment(const struct error *err);
/* Return whether the run may be healed once more. */
bool heal_is_left(const struct job_record *record);
/* Record the problem of a job that is running or about to start; the caller holds the
 * lock. bad_from: checkpoints of this step and later came after the problem; 0: none. */
bool heal_begin(const struct job *job, struct job_record *record, enum ailment ailment,
                const char *reason, int64_t bad_from, struct error *err);
/* Note that the bad checkpoints are out of the way; later ones of this step are good. */
void heal_note_resumed(const struct job *job, struct job_record *record);
/* Return whether the job waits to be healed. */
bool heal_is_due(const struct job_record *record);
/* Admit such a job as admit_job does, after a patch of its file. If no patch can help, or
 * the patched job would be rejected, the file stays as it is and the job has failed. */
bool heal_job(const struct job *job, const struct admit_options *options,
              struct job_record *record, struct inspection *inspection,
              struct error *err);

#endif
