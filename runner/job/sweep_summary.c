/* runner/job/sweep_summary.c - reads the states and the metrics of the jobs. */
#include "config.h"

#include "runner/job/sweep_summary.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { SUMMARY_MAX = 8 << 20, METRICS_MAX = 8 << 20, SUMMARY_MODE = 0644 };

/* ---- sweep.json ---- */

json_t *sweep_summary_read(const struct job *sweep)
{
    char *name = path_join(sweep->run_dir, "sweep.json");
    struct text text;
    json_t *summary = NULL;

    text_init(&text, SUMMARY_MAX);
    if (file_read_at(AT_FDCWD, name, SUMMARY_MAX, &text, NULL, NULL))
        summary = json_read_text(text.data, text.len, name, 1, NULL);
    text_clear(&text);
    free(name);
    return summary;
}

static bool write_file(const struct job *sweep, const char *base, const struct text *text,
                       struct error *err)
{
    char *name = path_join(sweep->run_dir, base);
    bool ok = file_replace(name, text->data, text->len, SUMMARY_MODE, err);

    free(name);
    return ok;
}

static bool write_summary(const struct job *sweep, const json_t *summary,
                          struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = json_write_pretty(summary, &text) && write_file(sweep, "sweep.json", &text, err);
    text_clear(&text);
    return ok;
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *string(const char *value)
{
    return json_visible(value, strlen(value));
}

/* "loss" of an evaluation is eval_loss; of other metrics, larger is better. */
static void set_metric(const struct plan *plan, json_t *summary)
{
    const char *given =
        plan->metric_for_best_model ? plan->metric_for_best_model : "loss";
    const bool whole = text_starts(given, "eval_");
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s%s", whole ? "" : "eval_", given);
    set(summary, "metric", string(name.data));
    set(summary, "greater_is_better",
        json_boolean(
            plan->greater_is_better == CHOICE_YES ||
            (plan->greater_is_better == CHOICE_AUTO && !text_ends(given, "loss"))));
    text_clear(&name);
}

static json_t *describe_job(const struct sweep *sweep, size_t index)
{
    json_t *job = json_object(), *values = json_object();

    for (size_t i = 0; i < sweep->axes.count; i++)
        set(values, sweep->axes.list[i].key,
            string(sweep_axes_value(&sweep->axes, index, i)));
    set(job, "name", string(sweep->jobs[index].name));
    set(job, "values", values);
    set(job, "digest", json_string(sweep->jobs[index].digest));
    return job;
}

bool sweep_summary_begin(const struct job *job, const struct sweep *sweep,
                         const struct plan *plan, struct error *err)
{
    json_t *summary = json_object(), *jobs = json_array();
    bool ok;

    set(summary, "job", string(job->name));
    set_metric(plan, summary);
    for (size_t i = 0; i < sweep->count; i++)
        json_array_append_new(jobs, describe_job(sweep, i));
    set(summary, "jobs", jobs);
    ok = write_summary(job, summary, err);
    json_decref(summary);
    return ok;
}

/* ---- Results ---- */

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *member(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

static bool is_better(double value, double than, bool greater)
{
    return !isnan(value) && (isnan(than) || (greater ? value > than : value < than));
}

/* Return the best value of a metric over a run; NaN: it has none. */
static double best_of_run(const struct job *job, const char *metric, bool greater)
{
    struct text text;
    double best = NAN;

    text_init(&text, METRICS_MAX);
    if (file_read_end_at(AT_FDCWD, job->metrics, METRICS_MAX, &text, NULL))
        for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
            json_t *object = NULL;

            *end = 0;
            if (strstr(line, metric))
                object =
                    json_read_text(line, (size_t)(end - line), job->metrics, 1, NULL);
            if (is_better(number(object, metric), best, greater))
                best = number(object, metric);
            json_decref(object);
        }
    text_clear(&text);
    return best;
}

/* Read what came of a job: its state, and the values to compare. */
static bool add_result(const struct job *sweep, json_t *entry, const char *metric,
                       bool greater, struct error *err)
{
    char *dir = path_dir(sweep->path), *base = path_join(dir, member(entry, "name"));
    struct job_record record;
    struct text path;
    struct job job;
    bool ok;

    text_init(&path, 0);
    text_addf(&path, "%s.yaml", base);
    job_init(&job, path.data);
    ok = job_read(&job, &record, err);
    if (ok) {
        set(entry, "state", json_string(job_state_names[record.state]));
        set(entry, "reason", string(record.reason));
        set(entry, "step", json_integer(record.step));
        set(entry, "loss", json_number(record.loss));
        set(entry, metric, json_number(best_of_run(&job, metric, greater)));
    }
    job_clear(&job);
    text_clear(&path);
    free(base);
    free(dir);
    return ok;
}

static bool is_done(const json_t *entry)
{
    return strcmp(member(entry, "state"), job_state_names[JOB_DONE]) == 0;
}

/* What the jobs are compared by: the last training loss if they have no evaluation. */
struct ranking {
    const char *metric;
    bool greater;
    const json_t *best; /* NULL: no job is done */
};

static void find_best(const json_t *jobs, struct ranking *out)
{
    const json_t *entry;
    double best = NAN;
    size_t i;

    json_array_foreach(jobs, i,
                       entry) if (is_done(entry) && is_better(number(entry, out->metric),
                                                              best, out->greater))
    {
        best = number(entry, out->metric);
        out->best = entry;
    }
}

static struct ranking rank(const json_t *summary)
{
    const json_t *jobs = json_object_get(summary, "jobs");
    struct ranking ranking = {
        member(summary, "metric"),
        json_is_true(json_object_get(summary, "greater_is_better")), NULL
    };

    find_best(jobs, &ranking);
    if (!ranking.best) {
        ranking.metric = "loss";
        ranking.greater = false;
        find_best(jobs, &ranking);
    }
    return ranking;
}

/* ---- sweep.md ---- */

/* A bar would end the cell. */
static void add_cell(struct text *out, const char *value)
{
    text_adds(out, " ");
    for (; *value; value++) {
        text_adds(out, *value == '|' ? "\\" : "");
        text_addc(out, *value);
    }
    text_adds(out, " |");
}

static void add_number(struct text *out, double value)
{
    char shown[32] = "";

    if (!isnan(value))
        snprintf(shown, sizeof(shown), "%.6g", value);
    add_cell(out, shown);
}

static void add_heads(struct text *out, json_t *values, const struct ranking *ranking)
{
    const char *key;
    json_t *value;

    text_adds(out, "| job |");
    json_object_foreach(values, key, value) add_cell(out, key);
    text_adds(out, " state | steps | loss |");
    if (strcmp(ranking->metric, "loss") != 0)
        add_cell(out, ranking->metric);
    text_adds(out, "\n|---|");
    json_object_foreach(values, key, value) text_adds(out, "---|");
    text_adds(out, strcmp(ranking->metric, "loss") != 0 ? "---|---|---|---|\n"
                                                        : "---|---|---|\n");
}

static void add_row(struct text *out, const json_t *entry, const struct ranking *ranking)
{
    const char *key;
    json_t *value;

    text_adds(out, "|");
    add_cell(out, member(entry, "name"));
    json_object_foreach(json_object_get(entry, "values"), key, value)
        add_cell(out, json_string_value(value) ? json_string_value(value) : "");
    add_cell(out, member(entry, "state"));
    add_number(out, number(entry, "step"));
    add_number(out, number(entry, "loss"));
    if (strcmp(ranking->metric, "loss") != 0)
        add_number(out, number(entry, ranking->metric));
    text_addc(out, '\n');
}

static bool write_table(const struct job *sweep, const json_t *summary,
                        const struct ranking *ranking, const char *reason,
                        struct error *err)
{
    const json_t *jobs = json_object_get(summary, "jobs"), *entry;
    struct text out;
    size_t i;
    bool ok;

    text_init(&out, 0);
    text_addf(&out, "# Sweep %s\n\n", sweep->name);
    add_heads(&out, json_object_get(json_array_get(jobs, 0), "values"), ranking);
    json_array_foreach(jobs, i, entry) add_row(&out, entry, ranking);
    text_addf(&out, "\nResult: %s.\n", reason);
    ok = write_file(sweep, "sweep.md", &out, err);
    text_clear(&out);
    return ok;
}

static void describe(const struct ranking *ranking, struct sweep_result *out)
{
    size_t used = 0;

    if (out->done < out->count)
        used = (size_t)snprintf(out->reason, sizeof(out->reason),
                                "%zu of %zu jobs %s not done; ", out->count - out->done,
                                out->count, out->count - out->done == 1 ? "is" : "are");
    if (ranking->best)
        snprintf(out->reason + used, sizeof(out->reason) - used,
                 "best is %.300s with %s %.6g", member(ranking->best, "name"),
                 ranking->metric, out->best);
    else
        snprintf(out->reason + used, sizeof(out->reason) - used, "no job has a result");
}

bool sweep_summary_finish(const struct job *sweep, struct sweep_result *out,
                          struct error *err)
{
    json_t *summary = sweep_summary_read(sweep), *entry;
    json_t *jobs = json_object_get(summary, "jobs");
    const bool greater = json_is_true(json_object_get(summary, "greater_is_better"));
    struct ranking ranking;
    bool ok = true;
    size_t i;

    *out = (struct sweep_result) { .count = json_array_size(jobs), .best = NAN };
    if (out->count == 0) {
        json_decref(summary);
        return error_set(err, ERROR_JOB, "cannot read %s/sweep.json", sweep->run_dir);
    }
    json_array_foreach(jobs, i, entry)
    {
        ok = ok && add_result(sweep, entry, member(summary, "metric"), greater, err);
        out->done += is_done(entry);
    }
    ranking = rank(summary);
    if (ranking.best) {
        out->best = number(ranking.best, ranking.metric);
        set(summary, "best", string(member(ranking.best, "name")));
    }
    describe(&ranking, out);
    ok = ok && write_table(sweep, summary, &ranking, out->reason, err) &&
         write_summary(sweep, summary, err);
    json_decref(summary);
    return ok;
}
