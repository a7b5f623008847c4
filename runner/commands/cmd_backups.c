/* runner/commands/cmd_backups.c - backups: lists the backups of a job file. */
#include "config.h"

#include "runner/commands/commands.h"

#include "patcher/history/backup.h"
#include "runner/output/report_json.h"
#include "runner/output/review.h"

static int cmd_backups(const struct options *options);

const struct command command_backups = {
    .name = "backups",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_END },
    .help = "list the backups of a job, newest first",
    .run = cmd_backups,
};

static json_t *backup_object(const struct backup *backup)
{
    json_t *object = json_object();

    json_object_set_new(object, "id", report_json_string(backup->id));
    json_object_set_new(object, "path", report_json_string(backup->path));
    json_object_set_new(object, "sha256", json_string(backup->digest));
    json_object_set_new(object, "bytes", json_integer((json_int_t)backup->bytes));
    return object;
}

static bool are_missing(const char *job)
{
    struct error err = { 0 };
    struct review review;
    bool lost = review_read(job, job, &review, &err) && review.lost;

    review_clear(&review);
    return lost;
}

static int cmd_backups(const struct options *options)
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
                    are_missing(options->operands[0])
                        ? "the backups of its patches are missing from its run folder"
                        : "the job was never changed");
    backup_free(list, count);
    return report_exit(err.code);
}
