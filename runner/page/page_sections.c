/*
 * runner/page/page_sections.c - the text sections of a page: summary, generations,
 * changes, plan, environment, events.
 */
#include "config.h"

#include "runner/page/page_sections.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/schema/redact.h"
#include "precision/memory.h"

enum { SAMPLE_BYTES = 6000 }; /* of one text; a generation that did not end is cut */

const char *page_state(const struct page_data *data)
{
    return data->record.state == JOB_RUNNING && !data->running
               ? "crashed"
               : job_state_names[data->record.state];
}

const char *page_string(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

double page_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

void page_row(struct text *out, const char *name, const char *value)
{
    if (!value[0])
        return;
    text_addf(out, "<tr><th scope=\"row\">%s</th><td>", name);
    html_text(out, value);
    text_adds(out, "</td></tr>\n");
}

void page_row_number(struct text *out, const char *name, const json_t *object,
                     const char *key, const char *unit)
{
    double value = page_number(object, key);
    char shown[32], line[64];

    if (isnan(value))
        return;
    html_number(value, HTML_PLAIN, shown);
    snprintf(line, sizeof(line), "%s%s%s", shown, unit[0] ? " " : "", unit);
    page_row(out, name, line);
}

/* ---- Summary ---- */

static void add_figure(struct text *out, const char *name, const char *value,
                       const char *more)
{
    text_addf(out, "<div><dt>%s</dt><dd>%s", name, value);
    if (more[0]) {
        text_adds(out, "<small>");
        html_text(out, more);
        text_adds(out, "</small>");
    }
    text_adds(out, "</dd></div>\n");
}

static void figure_loss(const struct page_data *data, struct text *out)
{
    const struct page_series *loss = page_data_find(data, "loss");
    char last[32], first[32], more[64];

    if (!loss)
        return;
    html_number(loss->y[loss->count - 1], HTML_PLAIN, last);
    html_number(loss->y[0], HTML_PLAIN, first);
    snprintf(more, sizeof(more), "%s at step %.0f", first, loss->x[0]);
    add_figure(out, "Training loss", last, loss->count > 1 ? more : "");
}

static void figure_evaluation(const struct page_data *data, struct text *out)
{
    const struct page_series *eval = page_data_find(data, "eval_loss");
    char shown[32], more[64];
    size_t best = 0;

    if (!eval)
        return;
    for (size_t i = 1; i < eval->count; i++)
        if (eval->y[i] < eval->y[best] || isnan(eval->y[best]))
            best = i;
    html_number(eval->y[best], HTML_PLAIN, shown);
    snprintf(more, sizeof(more), "at step %.0f", eval->x[best]);
    add_figure(out, "Best evaluation loss", shown, more);
}

/* Add the accuracy of answers: the last one and the one before training. */
static void figure_accuracy(const struct page_data *data, struct text *out)
{
    const struct page_series *right = page_data_find(data, "eval_accuracy");
    char shown[32], more[64] = "";

    if (!right)
        return;
    snprintf(shown, sizeof(shown), "%.3g %%", 100 * right->y[right->count - 1]);
    if (right->count > 1)
        snprintf(more, sizeof(more), "%.3g %% at step %.0f", 100 * right->y[0],
                 right->x[0]);
    add_figure(out, "Accuracy", shown, more);
}

static void figure_steps(const struct page_data *data, struct text *out)
{
    char done[32], all[32], more[64];

    if (data->record.total == 0)
        return;
    html_number((double)data->record.step, HTML_WHOLE, done);
    html_number((double)data->record.total, HTML_WHOLE, all);
    snprintf(more, sizeof(more), "of %s", all);
    add_figure(out, "Steps", done, more);
}

static void figure_skipped(const struct page_data *data, struct text *out)
{
    double skipped = page_data_last(data, "skipped"),
           scale = page_data_last(data, "loss_scale");
    char shown[32], more[64] = "", last[32];

    if (isnan(skipped) || (skipped == 0 && scale == 1))
        return;
    html_number(skipped, HTML_WHOLE, shown);
    html_number(scale, HTML_PLAIN, last);
    if (scale != 1)
        snprintf(more, sizeof(more), "loss scale %s", last);
    add_figure(out, "Skipped steps", shown, more);
}

static void figure_last(const struct page_data *data, const char *series,
                        const char *name, const char *more, struct text *out)
{
    double value = page_data_last(data, series);
    char shown[32];

    if (isnan(value))
        return;
    html_number(value, HTML_SHORT, shown);
    add_figure(out, name, shown, more);
}

static void figure_memory(const struct page_data *data, struct text *out)
{
    double bytes = page_data_last(data, "memory");
    char shown[16];

    if (!(bytes > 0 && bytes < 1e18))
        return;
    memory_text((uint64_t)bytes, shown);
    add_figure(out, "Memory", shown, "peak");
}

void page_figures(const struct page_data *data, struct text *out)
{
    if (data->series_count == 0) {
        text_adds(out, "<p>No step was logged yet.</p>\n");
        return;
    }
    text_adds(out, "<dl class=\"figures\">\n");
    figure_loss(data, out);
    figure_evaluation(data, out);
    figure_accuracy(data, out);
    figure_steps(data, out);
    figure_skipped(data, out);
    figure_last(data, "tokens", "Tokens", "trained on", out);
    figure_last(data, "tokens_per_second", "Speed", "tokens per second, last logged",
                out);
    figure_memory(data, out);
    text_adds(out, "</dl>\n");
}

/* ---- Generations ---- */

static void add_side(struct text *out, const char *name, const char *text, bool whole)
{
    size_t len = strnlen(text, SAMPLE_BYTES);

    if (!text[0])
        return;
    while (text[len] && len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--; /* do not cut a character */
    text_addf(out, "<div%s><dt>%s</dt><dd>", whole ? " class=\"whole\"" : "", name);
    html_text_len(out, text, len);
    text_adds(out, text[len] ? " ...</dd></div>\n" : "</dd></div>\n");
}

/* Add a completion, titled for example "After step 120: correct". */
static void add_answer(struct text *out, const char *name, const char *text,
                       const json_t *right)
{
    char title[64];

    snprintf(title, sizeof(title), "%s%s", name,
             json_is_true(right)    ? ": correct"
             : json_is_false(right) ? ": wrong"
                                    : "");
    add_side(out, title, text, false);
}

void page_samples(const struct page_data *data, struct text *out)
{
    char after[40];
    size_t i;
    json_t *sample;

    json_array_foreach(data->samples, i, sample)
    {
        text_adds(out, "<dl class=\"sample\">\n");
        add_side(out, "Prompt", page_string(sample, "prompt"), true);
        snprintf(after, sizeof(after),
                 page_number(sample, "step") > 0 ? "After step %.0f" : "After",
                 fmin(page_number(sample, "step"), 1e15));
        add_answer(out, "Before", page_string(sample, "before"),
                   json_object_get(sample, "correct_before"));
        add_answer(out, after, page_string(sample, "after"),
                   json_object_get(sample, "correct"));
        add_side(out, "Expected", page_string(sample, "expected"), true);
        text_adds(out, "</dl>\n");
    }
}

/* ---- Changes to the job ---- */

/* The markup of a line of a unified diff, by its first character. */
static const struct {
    char first;
    const char *open, *close;
} diff_lines[] = {
    { '+', "<ins>", "</ins>" },
    { '-', "<del>", "</del>" },
    { '@', "<span class=\"hunk\">", "</span>" },
    { '#', "<span class=\"why\">", "</span>" },
    { ' ', "<span>", "</span>" },
};

/* "# TS105: ..." is a remark of ours; a line of the job has a space, + or - before it. */
static void add_diff_line(struct text *out, const char *line, size_t len)
{
    for (size_t i = 0; i < TS_COUNT(diff_lines); i++) {
        size_t skip = *line == '#' ? 2 : 0;

        if (len == 0 || *line != diff_lines[i].first)
            continue;
        text_adds(out, diff_lines[i].open);
        html_text_len(out, line + skip, len - skip);
        text_adds(out, diff_lines[i].close);
    }
}

static void add_diff(const struct text *diff, struct text *out)
{
    const char *line = diff->data, *end;
    size_t number = 0;

    text_adds(out, "<pre class=\"diff\">");
    for (; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        if (++number > 2) /* the names of the two texts */
            add_diff_line(out, line, (size_t)(end - line));
    }
    text_adds(out, "</pre>\n");
}

void page_changes(const struct page_data *data, struct text *out)
{
    struct text diff;

    if (!data->has_review)
        return;
    text_init(&diff, 0);
    if (review_add(&data->review, true, &diff) && diff.len > 0) {
        text_adds(out, "<p class=\"note\">The original job file and the text that this "
                       "run follows. Each change is followed by its rule and reason; "
                       "<code>trainspool explain RULE</code> has details.</p>\n");
        add_diff(&diff, out);
    } else {
        text_adds(out, "<p>None: this run follows the original job file.</p>\n");
    }
    text_clear(&diff);
}

/* ---- The plan ---- */

static void row_precision(const json_t *precision, struct text *out)
{
    struct text line;
    double norm = page_number(precision, "max_grad_norm");
    const char *scaling = page_string(precision, "loss_scaling");
    const char *frozen = page_string(precision, "frozen_dtype");
    char shown[32], bits[48] = "";

    if (page_number(precision, "quantization_bit") > 0)
        snprintf(bits, sizeof(bits), ", linear layers in %.0f bits",
                 page_number(precision, "quantization_bit"));
    text_init(&line, 0);
    text_addf(&line, "%s: %s", page_string(precision, "mode"),
              page_string(precision, "message"));
    page_row(out, "Precision", line.data);
    text_reset(&line);
    text_addf(&line, "compute %s, trainable weights %s%s%s%s",
              page_string(precision, "compute_dtype"),
              page_string(precision, "trainable_dtype"),
              frozen[0] ? ", frozen weights " : "", frozen, bits);
    page_row(out, "Formats", line.data);
    html_number(page_number(precision, "loss_scale"), HTML_PLAIN, shown);
    text_reset(&line);
    text_addf(&line, "%s%s%s", scaling, strcmp(scaling, "none") == 0 ? "" : ", from ",
              strcmp(scaling, "none") == 0 ? "" : shown);
    page_row(out, "Loss scaling", line.data);
    html_number(norm, HTML_PLAIN, shown);
    text_reset(&line);
    text_addf(&line, norm > 0 ? "gradient norm at most %s" : "off", shown);
    page_row(out, "Clipping", line.data);
    text_clear(&line);
}

static void row_batch(const json_t *batch, struct text *out)
{
    double ranks = page_number(batch, "devices");
    char line[160];

    if (isnan(ranks))
        return;
    snprintf(line, sizeof(line), "%.0f x %.0f micro-batches",
             page_number(batch, "per_device_train_batch_size"),
             page_number(batch, "gradient_accumulation_steps"));
    if (ranks > 1)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), " x %.0f ranks",
                 ranks);
    snprintf(line + strlen(line), sizeof(line) - strlen(line), " = %.0f samples per step",
             page_number(batch, "effective"));
    page_row(out, "Batch", line);
}

static void row_memory(const json_t *memory, struct text *out)
{
    static const char *const parts[] = { "weights", "gradients", "optimizer",
                                         "activations", "workspace" };
    double total = page_number(memory, "total"), bytes;
    struct text line;
    char shown[16];

    if (!(total >= 0 && total < 1e18))
        return;
    text_init(&line, 0);
    memory_text((uint64_t)total, shown);
    text_addf(&line, "%s:", shown);
    for (size_t i = 0; i < TS_COUNT(parts); i++) {
        bytes = page_number(memory, parts[i]);
        memory_text(bytes > 0 && bytes < 1e18 ? (uint64_t)bytes : 0, shown);
        text_addf(&line, "%s %s %s", i > 0 ? "," : "", parts[i], shown);
    }
    page_row(out, "Memory", line.data);
    text_clear(&line);
}

void page_plan(const struct page_data *data, struct text *out)
{
    const json_t *model = json_object_get(data->facts, "model");
    const json_t *numbers = json_object_get(data->facts, "data");
    const json_t *steps = json_object_get(data->facts, "steps");

    if (!data->facts)
        return;
    text_adds(out, "<table class=\"pairs\">\n<tbody>\n");
    page_row(out, "Model", page_string(model, "path"));
    page_row(out, "Method", page_string(model, "method"));
    page_row_number(out, "LoRA rank", model, "lora_rank", "");
    page_row_number(out, "Parameters", model, "parameters", "");
    page_row_number(out, "Trainable parameters", model, "trainable", "");
    row_precision(json_object_get(data->facts, "precision"), out);
    row_batch(json_object_get(data->facts, "batch"), out);
    page_row_number(out, "Steps", steps, "total", "");
    page_row_number(out, "Steps per epoch", steps, "per_epoch", "");
    page_row_number(out, "Samples", numbers, "samples", "");
    if (page_number(numbers, "eval_samples") > 0)
        page_row_number(out, "Evaluation samples", numbers, "eval_samples", "");
    page_row_number(out, "Tokens in the data", numbers, "tokens", "");
    page_row_number(out, "Longest sample", numbers, "longest", "tokens");
    row_memory(json_object_get(data->facts, "memory"), out);
    text_adds(out, "</tbody>\n</table>\n");
}

/* ---- Environment ---- */

void page_environment(const struct page_data *data, struct text *out)
{
    const json_t *all = json_object_get(data->facts, "environment");
    const json_t *device = json_object_get(all, "device");
    char attempt[24] = "";

    if (!all)
        return;
    text_adds(out, "<table class=\"pairs\">\n<tbody>\n");
    page_row(out, "Device", page_string(device, "name"));
    page_row(out, "Compute capability", page_string(device, "compute_capability"));
    page_row(out, "Backend", page_string(all, "backend"));
    page_row(out, "Driver", page_string(all, "driver"));
    page_row(out, "Processor", page_string(all, "cpu"));
    if (page_number(all, "threads") > 0)
        page_row_number(out, "Threads requested", all, "threads", "");
    page_row(out, "System", page_string(all, "system"));
    page_row(out, "trainspool", page_string(data->facts, "version"));
    page_row(out, "SHA-256 of the program", page_string(data->facts, "program_sha256"));
    page_row(out, "Queued", data->record.queued);
    page_row(out, "Started", data->record.started);
    page_row(out, "Ended", data->record.ended);
    if (data->record.attempt > 1)
        snprintf(attempt, sizeof(attempt), "%" PRId64, data->record.attempt);
    page_row(out, "Attempt", attempt);
    page_row(out, "SHA-256 of the job", data->record.digest);
    text_adds(out, "</tbody>\n</table>\n");
}

/* ---- Events ---- */

void page_events(const struct page_data *data, struct text *out)
{
    if (data->event_count == 0)
        return;
    text_addf(out,
              "<p class=\"note\">Log lines other than steps%s; <code>train.log</code> "
              "has all lines.</p>\n"
              "<table class=\"events\">\n"
              "<thead><tr><th scope=\"col\">time</th><th scope=\"col\">level</th><th "
              "scope=\"col\">event</th></tr></thead>\n"
              "<tbody>\n",
              data->events_left_out > 0 ? ", the most recent ones" : "");
    for (size_t i = 0; i < data->event_count; i++) {
        const struct page_event *event = &data->events[i];
        bool loud =
            strcmp(event->level, "warn") == 0 || strcmp(event->level, "error") == 0;

        text_adds(out, "<tr><td>");
        html_text(out, event->time);
        text_addf(out, "</td><td class=\"%s\">", loud ? event->level : "info");
        html_text(out, event->level);
        text_adds(out, "</td><td>");
        html_text(out, event->said);
        text_adds(out, "</td></tr>\n");
    }
    text_adds(out, "</tbody>\n</table>\n");
}

/* ---- Job file ---- */

void page_text(const struct page_data *data, struct text *out)
{
    struct text shown;

    if (!data->has_review)
        return;
    text_init(&shown, 0);
    if (redact_text(data->review.now.data, data->review.now.len, &shown)) {
        text_adds(out, "<details><summary>Text of the job, without secrets</summary>\n"
                       "<pre>");
        html_text_len(out, shown.data, shown.len);
        text_adds(out, "</pre>\n</details>\n");
    }
    text_clear(&shown);
}
