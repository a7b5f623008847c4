/* runner/commands/dry_run.h - what run and submit would do, without writing anything. */
#ifndef RUNNER_COMMANDS_DRY_RUN_H
#define RUNNER_COMMANDS_DRY_RUN_H

#include "patcher/relocation.h"
#include "runner/options/options.h"
#include "runner/output/report.h"

/* Print the script that sbatch would get, or the device on which the job would run; or the
 * findings for which it would not.  Return the exit status. */
int dry_run_of_run(const struct options *options);

/* Print the script of a job that a watch of operand 0 would submit; nothing of another job.
 * name: the job in that folder.  ERROR_JOB: it would be refused. */
bool dry_run_of_submit(const struct options *options, const char *name,
                       const struct relocation *moved, struct report *report,
                       struct error *err);

#endif
