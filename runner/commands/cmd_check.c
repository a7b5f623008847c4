/*
 * runner/commands/cmd_check.c - check: reports every finding of each job; writes nothing.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <inttypes.h>

#include "runner/job/cluster_trial.h"
#include "runner/job/inspect.h"
#include "runner/job/trial.h"
#include "runner/output/report_json.h"
#include "runner/output/report_sarif.h"

static int cmd_check(const struct options *options);

const struct command command_check = {
    .name = "check",
    .operands = "JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_DEVICE, OPTION_TARGET, OPTION_VERSIONS,
                                          OPTION_JSON, OPTION_SARIF, OPTION_SELECT,
                                          OPTION_IGNORE, OPTION_FAIL_ON, OPTION_EXIT_ZERO,
                                          OPTION_END },
    .scripts = true,
    .help = "list all findings of a job without changing it",
    .details =
        "The exit status is 1 if an error finding is left or trainspool patch would "
        "make an edit, 2 if the file is not a job.",
    .run = cmd_check,
};

struct checking {
    const struct options *options;
    struct machine machine;
    struct selection selection;
    struct program program;
    struct report report;
    json_t *sarif;          /* NULL: not requested */
    size_t unread;          /* jobs whose data could be read, but were not */
    int64_t media, skipped; /* in those that were read; skipped: not decoded */
    bool silent;            /* Slurm does not answer */
};

static void show(struct checking *checking, const struct inspection *inspection,
                 struct error *err)
{
    struct report *report = &checking->report;

    if (checking->sarif) {
        report_sarif_add(checking->sarif, &inspection->patch, checking->options->verbose);
        return;
    }
    if (checking->options->json) {
        report_json(report, report_json_patch(&inspection->patch, inspection->device),
                    err);
        return;
    }
    report_findings(report, &inspection->patch);
    report_summary(report, &inspection->patch);
}

/* Read the data of a job as a run would, unless too many jobs are checked. */
static void read_data(struct checking *checking, struct patch *patch)
{
    struct steps steps;

    if (checking->options->operand_count <= TRIAL_MAX_JOBS) {
        trial_add(&checking->selection, patch, &steps);
        checking->media += steps.media;
        checking->skipped += steps.skipped;
    } else if (trial_applies(&checking->selection, patch)) {
        checking->unread++;
    }
}

static void report_unread(const struct checking *checking)
{
    if (checking->unread > 0)
        fprintf(stderr,
                "%s: the data of %zu jobs were not read; check reads them when it is "
                "given at most %d jobs\n",
                checking->options->program, checking->unread, TRIAL_MAX_JOBS);
}

static void report_skipped(const struct checking *checking)
{
    if (checking->skipped > 0)
        fprintf(stderr,
                "%s: %" PRId64 " of %" PRId64
                " images and sounds were not decoded: check "
                "takes one second for them and leaves out large images; a run reads all "
                "before its first step\n",
                checking->options->program, checking->skipped, checking->media);
}

static int check(struct checking *checking, const char *job)
{
    struct inspect_options how = { .machine = &checking->machine,
                                   .selection = &checking->selection,
                                   .program = &checking->program,
                                   .job = job,
                                   .counts = true,
                                   .place = INSPECT_ANYWHERE };
    struct error err = { 0 };
    struct inspection inspection;
    int status;

    if (inspect_job(&how, &inspection, &err)) {
        read_data(checking, &inspection.patch);
        cluster_trial_add(checking->options, &checking->selection, &checking->silent,
                          &inspection.patch);
        show(checking, &inspection, &err);
        status = report_status(&inspection.patch, checking->options, true);
    } else {
        report_json_failure(&checking->report, checking->options, job, &err);
        if (checking->sarif)
            report_sarif_failure(checking->sarif, job, &err);
        status = report_exit(err.code);
    }
    inspect_clear(&inspection);
    return status;
}

static int cmd_check(const struct options *options)
{
    struct checking checking = { .options = options };
    struct error err = { 0 };
    int worst = EXIT_FINE;

    report_init(&checking.report, options);
    if (options->json && options->sarif) {
        error_set(&err, ERROR_USAGE,
                  "--json and --sarif exclude each other: give only one");
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    if (!machine_open_check(options->device, &checking.machine, &err) ||
        !selection_read(options, &checking.selection, &err) ||
        !program_read(options, &checking.program, &err)) {
        report_error(options->program, &err);
        selection_clear(&checking.selection);
        program_clear(&checking.program);
        return report_exit(err.code);
    }
    checking.machine.target = options->target;
    if (options->sarif)
        checking.sarif = report_sarif_new();
    for (size_t i = 0; i < options->operand_count; i++) {
        int status = check(&checking, options->operands[i]);

        worst = status > worst ? status : worst;
    }
    if (checking.sarif)
        report_json(&checking.report, checking.sarif, &err);
    report_unread(&checking);
    report_skipped(&checking);
    selection_clear(&checking.selection);
    program_clear(&checking.program);
    return worst;
}
