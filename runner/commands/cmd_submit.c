/*
 * runner/commands/cmd_submit.c - submit: copies a job into a spool by rename, so that it
 * is complete at once.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "patcher/document/document.h"
#include "runner/spool/drop.h"
#include "runner/output/report.h"
#include "runner/spool/spool.h"

static int cmd_submit(const struct options *options);

const struct command command_submit = {
    .name = "submit",
    .operands = "DIR JOB...",
    .min_operands = 2,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_FORCE, OPTION_END },
    .help = "copy jobs into a watched folder, each complete at once",
    .details = "Relative paths in a job are relative to the watched folder.",
    .run = cmd_submit,
};

static bool submit(const struct options *options, const char *dir, const char *job,
                   struct report *report, struct error *err)
{
    char *target = path_join(dir, path_base(job));
    struct text text;
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    if (!drop_name_is_valid(path_base(job)))
        ok = error_set(err, ERROR_USAGE,
                       "%s: the name of a job must end in .yaml or .yml", job);
    else if (!options->force && file_exists(target))
        ok =
            error_set(err, ERROR_USAGE, "%s already exists; --force replaces it", target);
    else
        ok = file_read(job, DOCUMENT_MAX_BYTES, &text, NULL, err) &&
             file_replace(target, text.data, text.len, 0644, err);
    if (ok && !options->quiet)
        report_line(report, "%s", target);
    text_clear(&text);
    free(target);
    return ok;
}

static int cmd_submit(const struct options *options)
{
    const char *dir = options->operands[0];
    struct error err = { 0 };
    struct report report;
    int worst = EXIT_FINE;

    report_init(&report, options);
    if (!file_is_dir(dir)) {
        error_set(&err, ERROR_USAGE, "%s is not a folder", dir);
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    for (size_t i = 1; i < options->operand_count; i++) {
        int status;

        error_clear(&err);
        if (!submit(options, dir, options->operands[i], &report, &err))
            report_error(options->program, &err);
        status = report_exit(err.code);
        worst = status > worst ? status : worst;
    }
    if (!options->quiet && !spool_is_watched(dir))
        report_line(&report, "no watch is running on %s yet: trainspool watch %s", dir,
                    dir);
    return worst;
}
