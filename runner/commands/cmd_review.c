/*
 * runner/commands/cmd_review.c - review: shows what changed in a job since it was
 * dropped, and why.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <string.h>

#include "runner/output/report_json.h"
#include "runner/output/review.h"

static int cmd_review(const struct options *options);

const struct command command_review = {
    .name = "review",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_END },
    .help = "show what patches changed in a job, and why",
    .run = cmd_review,
};

/* ---- JSON ---- */

static json_t *findings_array(const struct history *history)
{
    json_t *list = json_array();

    for (size_t i = 0; i < history->count; i++) {
        const struct history_change *change = &history->list[i];
        json_t *one = json_copy(change->edit);

        json_object_set_new(one, "time", report_json_string(change->time));
        json_object_set_new(one, "line_now",
                            change->line ? json_integer((json_int_t)change->line)
                                         : json_null());
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *review_object(const struct review *review)
{
    json_t *object = json_object();
    struct text diff;

    text_init(&diff, 0);
    review_add(review, false, &diff);
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "job", report_json_string(review->job));
    json_object_set_new(object, "diff", report_json_string(diff.data));
    json_object_set_new(object, "findings", findings_array(&review->history));
    json_object_set(object, "changes", review->history.journal);
    text_clear(&diff);
    return object;
}

/* ---- The command ---- */

static void show(struct report *report, struct review *review,
                 const struct options *options, struct error *err)
{
    struct diff_options how = review_diff(review);

    if (options->json)
        report_json(report, review_object(review), err);
    else if (review->lost)
        report_line(report,
                    "%s: its backups are missing, so its original text is unknown; "
                    "changes.jsonl lists what was patched",
                    review->job);
    else if (review->was.len == review->now.len &&
             memcmp(review->was.data, review->now.data, review->was.len) == 0)
        report_line(report, "%s: unchanged%s", review->job,
                    review->history.count > 0 ? "; its patches are undone" : "");
    else
        report_diff(report, &review->was, &review->now, &how, err);
}

static int cmd_review(const struct options *options)
{
    const char *job = options->operands[0];
    struct error err = { 0 };
    struct report report;
    struct review review;

    report_init(&report, options);
    if (review_read(job, job, &review, &err)) {
        review.color = report.color;
        show(&report, &review, options, &err);
    }
    if (err.code)
        report_error(options->program, &err);
    review_clear(&review);
    return report_exit(err.code);
}
