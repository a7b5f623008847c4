/* runner/cmd_backups.c - backups, undo: the file as it was, and putting it back. */
#include "config.h"

#include "runner/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "patcher/history/backup.h"
#include "patcher/document/document.h"
#include "patcher/history/history.h"
#include "patcher/history/journal.h"
#include "runner/output/report_json.h"
#include "runner/output/review.h"

static json_t *backup_object(const struct backup *backup)
{
    json_t *object = json_object();

    json_object_set_new(object, "id", report_json_string(backup->id));
    json_object_set_new(object, "path", report_json_string(backup->path));
    json_object_set_new(object, "sha256", json_string(backup->digest));
    json_object_set_new(object, "bytes", json_integer((json_int_t)backup->bytes));
    return object;
}

static bool were_lost(const char *job)
{
    struct error err = { 0 };
    struct review review;
    bool lost = review_read(job, job, &review, &err) && review.lost;

    review_clear(&review);
    return lost;
}

int cmd_backups(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    struct backup *list = NULL;
    size_t count = 0;

    report_init(&report, options);
    if (!backup_list(options->operands[0], &list, &count, &err)) {
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    for (size_t i = 0; i < count; i++) {
        if (options->json)
            report_json(&report, backup_object(&list[i]), &err);
        else
            report_line(&report, "%s  %7zu bytes  %s", list[i].id, list[i].bytes,
                        list[i].path);
    }
    if (count == 0 && !options->json && !options->quiet)
        report_line(&report, "%s: no backups; %s", options->operands[0],
                    were_lost(options->operands[0])
                        ? "those of its patches are gone from its run folder"
                        : "the job was never changed");
    backup_free(list, count);
    return report_exit(err.code);
}

/* What --force would undo as well, for a person to decide; nothing where that is not
 * known. */
static void show_changes(struct report *report, const char *job, const char *to)
{
    const struct diff_options how = { .from = "as trainspool left it",
                                      .to = "as it is",
                                      .context = 3 };
    const struct diff_options back = { .from = "as trainspool left it",
                                       .to = "as --force would put it back",
                                       .context = 3 };
    struct text was, now, before;

    text_init(&was, DOCUMENT_MAX_BYTES);
    text_init(&now, DOCUMENT_MAX_BYTES);
    text_init(&before, DOCUMENT_MAX_BYTES);
    if (history_left(job, &was) && file_read(job, DOCUMENT_MAX_BYTES, &now, NULL, NULL)) {
        report_diff(report, &was, &now, &how, NULL);
        if (!to && history_found(job, &before))
            report_diff(report, &was, &before, &back, NULL);
    }
    text_clear(&was);
    text_clear(&now);
    text_clear(&before);
}

int cmd_undo(const struct options *options)
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
        report_line(&report,
                    "%s: put back as in %s; trainspool undo again brings back what was "
                    "there",
                    options->operands[0], restored ? restored : "the last backup");
    free(restored);
    return EXIT_FINE;
}
