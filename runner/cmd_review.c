/*
 * runner/cmd_review.c - review: the job as dropped and as it is, each change with its
 * rule and reason.  The journal knows which rules were applied and for which device;
 * looking at the first backup again gives their places and sentences.
 */
#include "config.h"

#include "runner/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "patcher/backup.h"
#include "patcher/journal.h"
#include "patcher/redact.h"
#include "runner/inspect.h"
#include "runner/report_json.h"

struct review {
    struct report *report;
    const char *job;
    json_t *journal;
    struct text was, now;
    struct inspection look; /* at the text as dropped */
    bool looked;
};

static bool journal_names(const json_t *journal, const char *rule)
{
    size_t i, j;
    json_t *entry, *name;

    json_array_foreach(journal, i, entry) json_array_foreach(
        json_object_get(entry, "rules"), j,
        name) if (json_is_string(name) &&
                  strcmp(json_string_value(name), rule) == 0) return true;
    return false;
}

/* Was this finding's edit made? */
static bool applied(const struct review *review, const struct finding *finding)
{
    return finding->was && finding->now && journal_names(review->journal, finding->rule);
}

/* Under each hunk: the findings of its lines. */
static void add_reasons(void *context, size_t first, size_t last, struct text *out)
{
    const struct review *review = context;
    const struct findings *findings = &review->look.patch.findings;
    size_t found = 0;

    for (size_t i = 0; review->looked && i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];

        if (finding->at.line < first || finding->at.line > last ||
            !applied(review, finding))
            continue;
        text_addf(out, "# %s: ", finding->rule);
        report_visible(out, finding->message);
        if (finding->because) {
            text_adds(out, " (");
            report_visible(out, finding->because);
            text_adds(out, ")");
        }
        text_addc(out, '\n');
        found++;
    }
    if (found == 0)
        text_adds(out, "# not changed by trainspool\n");
}

/* The device of the first patch, so that the same findings come again. */
static const char *journal_device(const json_t *journal)
{
    const json_t *device = json_object_get(json_array_get(journal, 0), "device");

    return json_is_string(device) ? json_string_value(device) : NULL;
}

static bool look_again(struct review *review, struct error *err)
{
    struct machine machine;
    struct inspect_options how = { .machine = &machine,
                                   .job = review->job,
                                   .unsafe = true };
    const char *device = journal_device(review->journal);

    if (!device || !machine_open(device, &machine, NULL))
        if (!machine_open(NULL, &machine, err))
            return false;
    review->looked =
        inspect_text(&how, review->was.data, review->was.len, &review->look, err);
    return review->looked;
}

static json_t *applied_findings(const struct review *review)
{
    const struct findings *findings = &review->look.patch.findings;
    struct finding one;
    struct findings alone = { .list = &one, .count = 1 };
    json_t *list = json_array(), *single;

    for (size_t i = 0; i < findings->count; i++) {
        if (!applied(review, &findings->list[i]))
            continue;
        one = findings->list[i];
        one.fixed = true;
        single = report_json_findings(&alone);
        json_array_extend(list, single);
        json_decref(single);
    }
    return list;
}

static json_t *review_object(const struct review *review)
{
    struct diff_options how = { .from = "as dropped", .to = "as it is", .context = 3 };
    json_t *object = json_object();
    struct text was, now, diff;

    text_init(&was, 0);
    text_init(&now, 0);
    text_init(&diff, 0);
    if (redact_text(review->was.data, review->was.len, &was) &&
        redact_text(review->now.data, review->now.len, &now))
        diff_unified(was.data, was.len, now.data, now.len, &how, &diff);
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "job", report_json_string(review->job));
    json_object_set_new(object, "diff", report_json_string(diff.data));
    json_object_set_new(object, "findings", applied_findings(review));
    json_object_set(object, "changes", review->journal);
    text_clear(&was);
    text_clear(&now);
    text_clear(&diff);
    return object;
}

static void show(struct review *review, const struct options *options, struct error *err)
{
    struct diff_options how = { .from = "as dropped",
                                .to = "as it is",
                                .context = 3,
                                .hunk = add_reasons,
                                .hunk_context = review };

    if (options->json)
        report_json(review->report, review_object(review), err);
    else if (review->was.len == review->now.len &&
             memcmp(review->was.data, review->now.data, review->was.len) == 0)
        report_line(review->report, "%s: as it was dropped", review->job);
    else
        report_diff(review->report, &review->was, &review->now, &how, err);
}

static bool read_texts(struct review *review, struct error *err)
{
    struct backup *list = NULL;
    size_t count = 0;
    bool ok = file_read(review->job, DOCUMENT_MAX_BYTES, &review->now, NULL, err) &&
              backup_list(review->job, &list, &count, err);

    if (ok && count > 0)
        ok = file_read(list[count - 1].path, DOCUMENT_MAX_BYTES, &review->was, NULL, err);
    else if (ok)
        ok = text_add(&review->was, review->now.data, review->now.len);
    backup_free(list, count);
    return ok;
}

int cmd_review(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    struct review review = { .report = &report, .job = options->operands[0] };

    report_init(&report, options);
    text_init(&review.was, DOCUMENT_MAX_BYTES);
    text_init(&review.now, DOCUMENT_MAX_BYTES);
    if (read_texts(&review, &err) && (review.journal = journal_read(review.job, &err)) &&
        look_again(&review, &err))
        show(&review, options, &err);
    if (err.code)
        report_error(options->program, &err);
    inspect_clear(&review.look);
    json_decref(review.journal);
    text_clear(&review.was);
    text_clear(&review.now);
    return report_exit(err.code);
}
