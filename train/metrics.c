/* train/metrics.c - metrics.jsonl, one object per logged step, and the same metrics for
 * TensorBoard. */
#include "config.h"

#include "train/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "train/files/tensorboard.h"

#define METRICS_MAX ((size_t)1 << 30)

struct metrics {
    char *name;
    struct tensorboard *board; /* NULL: none */
    bool board_lost;           /* a failure of the board was logged */
    int64_t lines_lost;        /* consecutive lines that could not be written */
    struct log *log;
};

/* Return whether the line is complete and not past the step that the run resumes
 * after. */
static bool line_is_kept(const char *line, size_t len, int64_t resume_step)
{
    json_t *value = json_read_text(line, len, "metrics", 1, NULL);
    int64_t step = json_get_int(value, "step", INT64_MAX, "metrics", NULL);

    json_decref(value);
    return step <= resume_step;
}

/* Remove the lines that an interrupted attempt wrote after its last checkpoint. */
static bool metrics_truncate(const char *name, int64_t resume_step, struct error *err)
{
    struct text was, now;
    bool ok = true;

    if (!file_exists(name))
        return true;
    text_init(&was, METRICS_MAX);
    text_init(&now, METRICS_MAX);
    ok = file_read(name, METRICS_MAX, &was, NULL, err);
    for (const char *line = was.data; ok && line < was.data + was.len;) {
        const char *end = memchr(line, '\n', (size_t)(was.data + was.len - line));

        if (!end) /* the writer was killed within this line */
            break;
        if (line_is_kept(line, (size_t)(end - line), resume_step))
            text_add(&now, line, (size_t)(end + 1 - line));
        line = end + 1;
    }
    if (ok && now.len != was.len)
        ok = file_replace(name, now.data, now.len, 0644, err);
    text_clear(&was);
    text_clear(&now);
    return ok;
}

struct metrics *metrics_open(const char *name, int64_t resume_step, struct log *log,
                             struct error *err)
{
    struct metrics *metrics;

    if (!metrics_truncate(name, resume_step, err))
        return NULL;
    metrics = memory_alloc(sizeof(*metrics));
    metrics->name = memory_strdup(name);
    metrics->log = log;
    return metrics;
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    tensorboard_close(metrics->board);
    free(metrics->name);
    free(metrics);
}

/* Log only the first failure: later ones most likely have the same cause. */
static void report_board(struct metrics *metrics, const struct error *err)
{
    if (err->code == ERROR_NONE)
        return;
    if (!metrics->board_lost)
        log_line(metrics->log, LOG_WARN, "tensorboard: %s; continuing without",
                 err->text);
    metrics->board_lost = true;
}

void metrics_open_tensorboard(struct metrics *metrics, const char *dir, int64_t first,
                              const char *about)
{
    struct error err = { 0 };

    metrics->board = tensorboard_open(dir, first, &err);
    if (metrics->board && about)
        tensorboard_text(metrics->board, "job/text_summary", about, &err);
    report_board(metrics, &err);
}

/* A full disk does not end a run: log the first lost line, and when writing works
 * again. */
static void report_line(struct metrics *metrics, bool ok, const struct error *err)
{
    if (!ok && metrics->lines_lost++ == 0)
        log_line(metrics->log, LOG_WARN, "metrics: %s; continuing without", err->text);
    if (!ok || metrics->lines_lost == 0)
        return;
    log_line(metrics->log, LOG_INFO,
             "metrics: writing again, %" PRId64 " lines are missing",
             metrics->lines_lost);
    metrics->lines_lost = 0;
}

/* Takes ownership of the object. */
static void metrics_write(struct metrics *metrics, json_t *object)
{
    struct error err = { 0 }, lost = { 0 };
    struct text line;
    bool ok;

    text_init(&line, 0);
    json_write(object, &line);
    ok = file_append_line(metrics->name, line.data, line.len, 0644, false, &err);
    report_line(metrics, ok, &err);
    if (metrics->board) {
        tensorboard_metrics(metrics->board, object, &lost);
        report_board(metrics, &lost);
    }
    json_decref(object);
    text_clear(&line);
}

void metrics_step(struct metrics *metrics, const struct metric *metric)
{
    json_t *object = json_object();

    json_object_set_new(object, "step", json_integer(metric->step));
    json_object_set_new(object, "epoch", json_number(metric->epoch));
    json_object_set_new(object, "loss", json_number(metric->loss));
    if (metric->distilled) {
        json_object_set_new(object, "ce_loss", json_number(metric->ce_loss));
        json_object_set_new(object, "kd_loss", json_number(metric->kd_loss));
    }
    if (metric->prefers)
        progress_rewards_json(&metric->rewards, "", object);
    json_object_set_new(object, "grad_norm", json_number(metric->grad_norm));
    json_object_set_new(object, "learning_rate", json_number(metric->learning_rate));
    json_object_set_new(object, "loss_scale", json_number(metric->loss_scale));
    json_object_set_new(object, "skipped", json_integer(metric->skipped));
    json_object_set_new(object, "tokens", json_integer((json_int_t)metric->tokens));
    json_object_set_new(object, "tokens_per_second",
                        json_number(metric->tokens_per_second));
    json_object_set_new(object, "memory", json_integer((json_int_t)metric->memory));
    metrics_write(metrics, object);
}

void metrics_eval(struct metrics *metrics, int64_t step, double epoch,
                  const struct evaluation *evaluation)
{
    json_t *object = json_object();

    json_object_set_new(object, "step", json_integer(step));
    json_object_set_new(object, "epoch", json_number(epoch));
    progress_evaluation_json(evaluation, object);
    if (!evaluation->prefers && !evaluation->weighted)
        json_object_set_new(object, "eval_perplexity",
                            json_number(exp(evaluation->loss)));
    metrics_write(metrics, object);
}

void metrics_results(struct metrics *metrics, const json_t *results)
{
    json_t *object = json_object();

    json_object_set_new(object, "step", json_integer(0));
    json_object_set_new(object, "epoch", json_number(0));
    json_object_update(object, (json_t *)(uintptr_t)results);
    metrics_write(metrics, object);
}
