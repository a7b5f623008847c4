/* runner/page/page_charts.c - the curves, and their values as tables. */
#include "config.h"

#include "runner/page/page_sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "runner/page/chart.h"

enum { ROWS = 24 }; /* of a table of values */

/* Curves with known names; other eval_NAME series are drawn after them. */
static const struct {
    const char *id, *title, *unit;
    enum chart_kind kind;
    enum html_number number;
    const char *train, *eval; /* names in metrics.jsonl; NULL: none */
    bool wide, marked, mean;
} curves[] = {
    { "loss", "Loss", "", CHART_AUTO, HTML_PLAIN, "loss", "eval_loss", true, true, true },
    { "labels", "Cross-entropy loss", "", CHART_AUTO, HTML_PLAIN, "ce_loss", NULL, false,
      true, true },
    { "taught", "Distillation loss", "", CHART_AUTO, HTML_PLAIN, "kd_loss", NULL, false,
      true, true },
    { "preferred", "Reward accuracy", "", CHART_LINEAR, HTML_PLAIN, "rewards/accuracies",
      "eval_rewards/accuracies", false, true, true },
    { "margins", "Reward margin", "", CHART_LINEAR, HTML_PLAIN, "rewards/margins",
      "eval_rewards/margins", false, true, true },
    { "chosen", "Reward, chosen answers", "", CHART_LINEAR, HTML_PLAIN, "rewards/chosen",
      "eval_rewards/chosen", false, true, true },
    { "rejected", "Reward, rejected answers", "", CHART_LINEAR, HTML_PLAIN,
      "rewards/rejected", "eval_rewards/rejected", false, true, true },
    { "likely", "Log-likelihood, chosen answers", "", CHART_LINEAR, HTML_PLAIN,
      "logps/chosen", "eval_logps/chosen", false, true, true },
    { "unlikely", "Log-likelihood, rejected answers", "", CHART_LINEAR, HTML_PLAIN,
      "logps/rejected", "eval_logps/rejected", false, true, true },
    { "reward", "Reward of sampled answers", "", CHART_LINEAR, HTML_PLAIN, "reward",
      "eval_reward", true, true, true },
    { "deviation", "Reward, standard deviation", "", CHART_LINEAR, HTML_PLAIN,
      "reward_std", "eval_reward_std", false, true, true },
    { "answers", "Length of sampled answers", "tokens", CHART_LINEAR, HTML_PLAIN,
      "completions/mean_length", "eval_completions/mean_length", false, true, true },
    { "truncated", "Answers at the maximum length", "", CHART_LINEAR, HTML_PLAIN,
      "completions/clipped_ratio", "eval_completions/clipped_ratio", false, true, true },
    { "distance", "Distance from the reference", "", CHART_LINEAR, HTML_PLAIN, "kl", NULL,
      false, true, true },
    { "clipped", "Clipped ratios", "", CHART_LINEAR, HTML_PLAIN, "clip_ratio/region_mean",
      NULL, false, true, true },
    { "norm", "Gradient norm", "", CHART_AUTO, HTML_PLAIN, "grad_norm", NULL, false, true,
      true },
    { "rate", "Learning rate", "", CHART_LINEAR, HTML_PLAIN, "learning_rate", NULL, false,
      false, false },
    { "scale", "Loss scale", "", CHART_POWERS, HTML_PLAIN, "loss_scale", NULL, false,
      true, false },
    { "speed", "Speed", "tokens/s", CHART_LINEAR, HTML_SHORT, "tokens_per_second", NULL,
      false, false, true },
};

/* Return whether a series is drawn above, or is not worth a curve. */
static bool is_known(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(curves); i++)
        if (curves[i].eval && strcmp(curves[i].eval, name) == 0)
            return true;
    return strcmp(name, "eval_perplexity") == 0;
}

/* ---- Marks ---- */

struct marks {
    struct chart_mark *list; /* malloc'ed */
    size_t count;
    size_t common; /* the first of them; every curve with marks shows all marks */
};

static void marks_add(struct marks *marks, double x, const char *inspection,
                      const char *name)
{
    marks->list = memory_resize(marks->list, marks->count + 1, sizeof(*marks->list));
    marks->list[marks->count++] = (struct chart_mark) { x, inspection, name };
}

/* The count of skipped steps grew since the previously logged step; marks that would
 * overlap become one. */
static void mark_skipped(const struct page_data *data, struct marks *marks)
{
    const struct page_series *skipped = page_data_find(data, "skipped");
    double was = 0, drawn = -INFINITY, apart = data->last_step / CHART_COLUMNS;

    for (size_t i = 0; skipped && i < skipped->count; i++) {
        if (skipped->y[i] > was && skipped->x[i] - drawn >= apart) {
            marks_add(marks, skipped->x[i], "skipped", "steps skipped");
            drawn = skipped->x[i];
        }
        was = skipped->y[i];
    }
}

/* Find the best evaluation after step 0, by the job's metric; SIZE_MAX: there is none. */
static size_t best_of(const struct page_series *series, bool greater)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < series->count; i++) {
        double y = greater ? -series->y[i] : series->y[i];

        if (series->x[i] > 0 && isfinite(y) &&
            (best == SIZE_MAX || y < (greater ? -series->y[best] : series->y[best])))
            best = i;
    }
    return best;
}

static void find_marks(const struct page_data *data, struct marks *out)
{
    const json_t *how = json_object_get(data->facts, "evaluation");
    const char *metric = page_string(how, "metric");
    const struct page_series *eval =
        page_data_find(data, metric[0] ? metric : "eval_loss");
    bool greater = json_is_true(json_object_get(how, "greater_is_better"));
    size_t best = eval ? best_of(eval, greater) : SIZE_MAX;

    *out = (struct marks) { 0 };
    for (size_t i = 0; i < data->resumed_count; i++)
        if (data->resumed[i] <= data->last_step)
            marks_add(out, data->resumed[i], "resumed", "resumed from a checkpoint");
    mark_skipped(data, out);
    out->common = out->count;
    if (best != SIZE_MAX && eval->count > 2)
        marks_add(out, eval->x[best], "best", "best evaluation");
}

/* ---- Curves ---- */

static void add_curve(const struct page_data *data, struct chart *chart,
                      const struct page_series *train, const struct page_series *eval,
                      struct text *out)
{
    struct chart_series series[2];

    if (train)
        series[chart->series_count++] =
            (struct chart_series) { "training", "train",      train->x,
                                    train->y,   train->count, false };
    if (eval)
        series[chart->series_count++] =
            (struct chart_series) { "evaluation", "eval",      eval->x,
                                    eval->y,      eval->count, eval->count <= 60 };
    chart->series = series;
    chart->x_low = 0;
    chart->x_high = fmax(data->last_step, 1);
    chart_add(chart, out);
}

/* A loss scale that is always 1 means no scaling. */
static bool is_idle(const struct page_series *series)
{
    for (size_t i = 0; i < series->count; i++)
        if (series->y[i] != 1)
            return false;
    return strcmp(series->name, "loss_scale") == 0;
}

static void add_known(const struct page_data *data, const struct marks *marks,
                      struct text *out)
{
    for (size_t i = 0; i < TS_COUNT(curves); i++) {
        const struct page_series *train = page_data_find(data, curves[i].train);
        struct chart chart = { .id = curves[i].id,
                               .title = curves[i].title,
                               .unit = curves[i].unit,
                               .kind = curves[i].kind,
                               .number = curves[i].number,
                               .marks = marks->list,
                               .mark_count = curves[i].eval     ? marks->count
                                             : curves[i].marked ? marks->common
                                                                : 0,
                               .wide = curves[i].wide,
                               .mean = curves[i].mean };

        if (!train || !is_idle(train))
            add_curve(data, &chart, train,
                      curves[i].eval ? page_data_find(data, curves[i].eval) : NULL, out);
    }
}

/* Turn "eval_answer_rate" into "Answer rate". */
static void make_title(const char *name, struct text *out)
{
    struct text plain;

    text_init(&plain, 0);
    text_adds(&plain, name + strlen("eval_"));
    for (size_t i = 0; i < plain.len; i++)
        if (plain.data[i] == '_')
            plain.data[i] = ' ';
    if (plain.data[0] >= 'a' && plain.data[0] <= 'z')
        plain.data[0] -= 'a' - 'A';
    html_text(out, plain.data);
    text_clear(&plain);
}

static void add_others(const struct page_data *data, struct text *out)
{
    for (size_t i = 0; i < data->series_count; i++) {
        const struct page_series *series = &data->series[i];
        struct text title;
        char id[32];

        if (!text_starts(series->name, "eval_") || is_known(series->name))
            continue;
        text_init(&title, 0);
        make_title(series->name, &title);
        snprintf(id, sizeof(id), "eval-%zu", i);
        add_curve(data, &(struct chart) { .id = id, .title = title.data, .unit = "" },
                  NULL, series, out);
        text_clear(&title);
    }
}

/* ---- Tables ---- */

static bool in_table(const char *name, bool evaluations)
{
    return text_starts(name, "eval_") == evaluations && strcmp(name, "skipped") != 0 &&
           strcmp(name, "tokens") != 0 && strcmp(name, "memory") != 0 &&
           strcmp(name, "epoch") != 0;
}

static double value_at(const struct page_series *series, double x, bool *found)
{
    size_t low = 0, high = series->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (series->x[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < series->count && series->x[low] == x;
    return *found ? series->y[low] : NAN;
}

static void add_cells(const struct page_data *data, double step, bool evaluations,
                      struct text *out)
{
    char shown[32];
    bool found;

    html_number(step, HTML_WHOLE, shown);
    text_addf(out, "<tr><th scope=\"row\">%s</th>", shown);
    for (size_t i = 0; i < data->series_count; i++) {
        const struct page_series *series = &data->series[i];
        double value = value_at(series, step, &found);

        if (!in_table(series->name, evaluations))
            continue;
        html_number(value, HTML_PLAIN, shown);
        text_addf(out, "<td>%s</td>", found ? shown : "");
    }
    text_adds(out, "</tr>\n");
}

/* Choose some steps of a series, evenly spaced, including the first and the last. */
static void add_table(const struct page_data *data, const struct page_series *series,
                      bool evaluations, const char *title, struct text *out)
{
    size_t rows = series->count < ROWS ? series->count : ROWS;

    text_addf(out,
              "<details><summary>%s as a table%s</summary>\n"
              "<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n"
              "<table class=\"numbers\">\n"
              "<thead><tr><th scope=\"col\">step</th>",
              title, rows < series->count ? " (excerpt)" : "", title);
    for (size_t i = 0; i < data->series_count; i++)
        if (in_table(data->series[i].name, evaluations)) {
            text_adds(out, "<th scope=\"col\">");
            html_text(out, data->series[i].name);
            text_adds(out, "</th>");
        }
    text_adds(out, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < rows; i++) {
        size_t at = rows > 1 ? i * (series->count - 1) / (rows - 1) : 0;

        add_cells(data, series->x[at], evaluations, out);
    }
    text_adds(out, "</tbody>\n</table>\n</div>\n</details>\n");
}

void page_curves(const struct page_data *data, struct text *out)
{
    const struct page_series *loss = page_data_find(data, "loss");
    const struct page_series *eval = page_data_find(data, "eval_loss");
    struct marks marks;

    if (data->series_count == 0)
        return;
    find_marks(data, &marks);
    text_adds(out,
              "<p class=\"note\">The x axis of every chart is the optimizer step.</p>\n"
              "<div class=\"charts\">\n");
    add_known(data, &marks, out);
    add_others(data, out);
    text_adds(out, "</div>\n");
    if (loss)
        add_table(data, loss, false, "Logged steps", out);
    if (eval)
        add_table(data, eval, true, "Evaluations", out);
    free(marks.list);
}
