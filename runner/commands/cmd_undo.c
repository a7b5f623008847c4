/* runner/commands/cmd_undo.c - undo: restores a job file from a backup. */
#include "config.h"

#include "runner/commands/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "patcher/document/document.h"
#include "patcher/history/history.h"
#include "patcher/history/journal.h"
#include "runner/output/report.h"

static int cmd_undo(const struct options *options);

const struct command command_undo = {
    .name = "undo",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_TO, OPTION_FORCE, OPTION_END },
    .help = "restore what the last patch replaced; a second undo redoes it",
    .run = cmd_undo,
};

/* Show what --force would undo in addition, so that the user can decide; show nothing if
 * that is unknown. */
static void show_changes(struct report *report, const char *job, const char *to)
{
    const struct diff_options how = { .from = "after the last patch",
                                      .to = "current",
                                      .context = 3 };
    const struct diff_options back = { .from = "after the last patch",
                                       .to = "after undo --force",
                                       .context = 3 };
    struct text was, now, before;

    text_init(&was, DOCUMENT_MAX_BYTES);
    text_init(&now, DOCUMENT_MAX_BYTES);
    text_init(&before, DOCUMENT_MAX_BYTES);
    if (history_text_after(job, &was) &&
        file_read(job, DOCUMENT_MAX_BYTES, &now, NULL, NULL)) {
        report_diff(report, &was, &now, &how, NULL);
        if (!to && history_text_before(job, &before))
            report_diff(report, &was, &before, &back, NULL);
    }
    text_clear(&was);
    text_clear(&now);
    text_clear(&before);
}

static int cmd_undo(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    char *restored = NULL;

    report_init(&report, options);
    if (!journal_undo(options->operands[0], options->to, options->force, &restored,
                      &err)) {
        if (err.code == ERROR_JOB && !options->force && !options->quiet)
            show_changes(&report, options->operands[0], options->to);
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    if (!options->quiet)
        report_line(&report, "%s: restored from %s; run trainspool undo again to redo",
                    options->operands[0], restored ? restored : "the last backup");
    free(restored);
    return EXIT_FINE;
}
