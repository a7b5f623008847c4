/*
 * runner/commands/cmd_report.c - report: writes the report page of an existing run again.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include "runner/job/job.h"
#include "runner/page/page.h"
#include "runner/output/report.h"

static int cmd_report(const struct options *options);

const struct command command_report = {
    .name = "report",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_OUTPUT, OPTION_END },
    .help = "write the report page of a run: curves, changes, plan, environment",
    .details =
        "The page is NAME.run/report.html, which a run also writes at each "
        "evaluation and checkpoint and at its end: one file that loads nothing and "
        "needs no script.  --output writes it to that file, replacing it.",
    .run = cmd_report,
};

static int cmd_report(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    struct job job;

    report_init(&report, options);
    job_init(&job, options->operands[0]);
    if (!page_write(&job, options->output, &err))
        report_error(options->program, &err);
    else if (!options->quiet && options->output)
        report_line(&report, "%s: wrote the report %s", job.path, options->output);
    else if (!options->quiet)
        report_line(&report, "%s: wrote the report %s/report.html", job.path,
                    job.run_dir);
    job_clear(&job);
    return report_exit(err.code);
}
