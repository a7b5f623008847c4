/* runner/commands/cmd_patch.c - patch: makes the safe edits, or shows them as a diff. */
#include "config.h"

#include "runner/commands/commands.h"

#include "runner/job/inspect.h"
#include "runner/output/report_json.h"

static int cmd_patch(const struct options *options);

const struct command command_patch = {
    .name = "patch",
    .operands = "JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_DEVICE, OPTION_TARGET, OPTION_VERSIONS,
                                          OPTION_JSON, OPTION_DIFF, OPTION_UNSAFE,
                                          OPTION_SELECT, OPTION_IGNORE, OPTION_FAIL_ON,
                                          OPTION_EXIT_ZERO, OPTION_END },
    .scripts = true,
    .help = "make the safe edits in a job file and keep a backup",
    .details = "Only the named values change: comments, order and line ends stay.  The "
               "original file is kept in NAME.run/backups; trainspool undo restores it.",
    .run = cmd_patch,
};

static void show_diff(struct report *report, const struct patch *patch, struct error *err)
{
    struct diff_options how = { .from = patch->job, .to = patch->job, .context = 3 };
    /* borrowed: nothing is added to them */
    struct text was = { .data = (char *)patch->document.data,
                        .len = patch->document.len };
    struct text now = { .data = (char *)patch->text, .len = patch->len };

    report_diff(report, &was, &now, &how, err);
}

/* The diff shows only edits. Print what else affects the exit status on standard error,
 * so that the diff can be redirected to a file. */
static void report_left(const struct report *report, const struct options *options,
                        const struct patch *patch)
{
    struct error left = { 0 };
    size_t count = 0;

    for (size_t i = 0; i < patch->findings.count; i++)
        count += !patch->findings.list[i].resolved &&
                 (int)patch->findings.list[i].severity >= report->least;
    if (count == 0)
        return;
    error_at(&left, ERROR_JOB, patch->job, (struct mark) { 0 },
             "%zu finding%s left that no edit fixes; trainspool check lists %s", count,
             count == 1 ? " is" : "s are", count == 1 ? "it" : "them");
    report_error(options->program, &left);
}

static void show(struct report *report, const struct options *options,
                 const struct inspection *inspection, struct error *err)
{
    if (options->json) {
        report_json(report, report_json_patch(&inspection->patch, inspection->device),
                    err);
        return;
    }
    if (options->diff && inspection->patch.changed)
        show_diff(report, &inspection->patch, err);
    if (options->diff) {
        report_left(report, options, &inspection->patch);
        return;
    }
    report_findings(report, &inspection->patch);
    report_summary(report, &inspection->patch);
}

static int patch(struct report *report, const struct options *options,
                 const struct inspect_options *how)
{
    struct error err = { 0 };
    struct inspection inspection;
    int status;

    if (inspect_job(how, &inspection, &err)) {
        show(report, options, &inspection, &err);
        status = report_status(&inspection.patch, options, options->diff);
    } else {
        report_json_failure(report, options, how->job, &err);
        status = report_exit(err.code);
    }
    inspect_clear(&inspection);
    return status;
}

static int cmd_patch(const struct options *options)
{
    struct error err = { 0 };
    struct machine machine;
    struct selection selection = { 0 };
    struct program program = { 0 };
    struct report report;
    int worst = EXIT_FINE;

    report_init(&report, options);
    if (!machine_open_check(options->device, &machine, &err) ||
        !selection_read(options, &selection, &err) ||
        !program_read(options, &program, &err)) {
        report_error(options->program, &err);
        selection_clear(&selection);
        program_clear(&program);
        return report_exit(err.code);
    }
    machine.target = options->target;
    for (size_t i = 0; i < options->operand_count; i++) {
        struct inspect_options how = { .machine = &machine,
                                       .counts = true,
                                       .selection = &selection,
                                       .program = &program,
                                       .job = options->operands[i],
                                       .unsafe = options->unsafe,
                                       .edit =
                                           options->diff ? INSPECT_LOOK : INSPECT_WRITE,
                                       .place = INSPECT_ANYWHERE };
        int status = patch(&report, options, &how);

        worst = status > worst ? status : worst;
    }
    selection_clear(&selection);
    program_clear(&program);
    return worst;
}
