/* runner/cmd_check.c - check: every finding of each job at once; writes nothing. */
#include "config.h"

#include "runner/commands.h"

#include "runner/inspect.h"
#include "runner/report_json.h"

static void show(struct report *report, const struct options *options,
                 const struct inspection *inspection, struct error *err)
{
    if (options->json) {
        report_json(report, report_json_patch(&inspection->patch, inspection->device),
                    err);
        return;
    }
    report_findings(report, &inspection->patch);
    report_summary(report, &inspection->patch);
}

static int check(struct report *report, const struct options *options,
                 const struct inspect_options *how)
{
    struct error err = { 0 };
    struct inspection inspection;
    int status;

    if (inspect_job(how, &inspection, &err)) {
        show(report, options, &inspection, &err);
        status = report_status(&inspection.patch, options, true);
    } else {
        report_json_failure(report, options, how->job, &err);
        status = report_exit(err.code);
    }
    inspect_clear(&inspection);
    return status;
}

int cmd_check(const struct options *options)
{
    struct error err = { 0 };
    struct machine machine;
    struct report report;
    int worst = EXIT_FINE;

    report_init(&report, options);
    if (!machine_open(options->device, &machine, &err)) {
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    for (size_t i = 0; i < options->operand_count; i++) {
        struct inspect_options how = { .machine = &machine, .job = options->operands[i] };
        int status = check(&report, options, &how);

        worst = status > worst ? status : worst;
    }
    return worst;
}
