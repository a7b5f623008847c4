/*
 * runner/page/chart.c - draws a chart as an SVG of 1000 x 1000 units, independent of its
 * size on the page: vector-effect keeps the width of lines, labels are HTML next to the
 * SVG, dots are lines of zero length with round ends.
 */
#include "config.h"

#include "runner/page/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum {
    UNITS = 1000,
    SMOOTH_FROM = 60,  /* minimum number of points for a moving mean */
    SMOOTH_SHARE = 30, /* points in its window */
};

/* ---- Thinning ---- */

static size_t column_of(double x, double low, double high)
{
    double place = high > low ? (x - low) / (high - low) * CHART_COLUMNS : 0;

    return place > 0 ? (size_t)fmin(place, CHART_COLUMNS - 1) : 0;
}

/* Return the end of the column that starts at point `first`. */
static size_t column_end(const struct chart_series *series, size_t first, double low,
                         double high)
{
    size_t column = column_of(series->x[first], low, high), end = first + 1;

    while (end < series->count && column_of(series->x[end], low, high) == column)
        end++;
    return end;
}

/* From the points `first` up to `end`, keep the smallest, the largest, and one
 * that is not finite, in their order. */
static size_t keep_column(const struct chart_series *series, size_t first, size_t end,
                          size_t *out)
{
    size_t least = SIZE_MAX, most = SIZE_MAX, broken = SIZE_MAX, count = 0;

    for (size_t i = first; i < end; i++) {
        double y = series->y[i];

        if (!isfinite(y))
            broken = broken == SIZE_MAX ? i : broken;
        else {
            least = least == SIZE_MAX || y < series->y[least] ? i : least;
            most = most == SIZE_MAX || y > series->y[most] ? i : most;
        }
    }
    for (size_t i = first; i < end; i++)
        if (i == least || i == most || i == broken)
            out[count++] = i;
    return count;
}

size_t *chart_downsample(const struct chart_series *series, double x_low, double x_high,
                         size_t *count)
{
    size_t *kept = memory_resize(NULL, series->count + 1, sizeof(*kept));

    *count = 0;
    if (series->count <= 2 * CHART_COLUMNS) {
        for (size_t i = 0; i < series->count; i++)
            kept[(*count)++] = i;
        return kept;
    }
    for (size_t first = 0, end; first < series->count; first = end) {
        end = column_end(series, first, x_low, x_high);
        *count += keep_column(series, first, end, kept + *count);
    }
    return kept;
}

/* ---- The drawing ---- */

struct drawing {
    const struct chart *chart;
    struct chart_scale x, y;
    struct text *out;
};

static double x_of(const struct drawing *d, double value)
{
    return UNITS * chart_position(&d->x, value);
}

static double y_of(const struct drawing *d, double value)
{
    return UNITS * (1 - chart_position(&d->y, value));
}

/* Add a line through the finite points, broken at points that are not finite. */
static void add_line(const struct drawing *d, const struct chart_series *series,
                     const char *inspection)
{
    size_t count, *kept;
    bool pen = false;

    kept = chart_downsample(series, d->chart->x_low, d->chart->x_high, &count);
    text_addf(d->out, "<path class=\"line %s %s\" data-name=\"%s\" d=\"",
              series->inspection, inspection, series->name);
    for (size_t i = 0; i < count; i++) {
        double value = series->y[kept[i]];

        if (isfinite(value))
            text_addf(d->out, "%c%.2f %.2f", pen ? 'L' : 'M', x_of(d, series->x[kept[i]]),
                      y_of(d, value));
        pen = isfinite(value);
    }
    text_adds(d->out, "\"/>\n");
    free(kept);
}

/* Add points of zero length: all of them, or those without a line and those not
 * finite. */
static void add_dots(const struct drawing *d, const struct chart_series *series,
                     bool broken, const char *inspection)
{
    size_t count, *kept, dots = 0;
    struct text path;

    text_init(&path, 0);
    kept = chart_downsample(series, d->chart->x_low, d->chart->x_high, &count);
    for (size_t i = 0; i < count; i++) {
        double value = series->y[kept[i]];

        if (isfinite(value) == broken)
            continue;
        text_addf(&path, "M%.2f %.2fh0", x_of(d, series->x[kept[i]]),
                  broken ? 0.0 : y_of(d, value));
        dots++;
    }
    if (dots > 0)
        text_addf(d->out, "<path class=\"dots %s\" d=\"%s\"/>\n", inspection, path.data);
    free(kept);
    text_clear(&path);
}

/* Compute the means of a curve's columns (of its points if they are few), without columns
 * that have no finite value; x and y have room for all points. */
static size_t column_means(const struct drawing *d, const struct chart_series *series,
                           double *x, double *y)
{
    bool each = series->count <= 2 * CHART_COLUMNS;
    size_t count = 0;

    for (size_t first = 0, end; first < series->count; first = end) {
        size_t finite = 0;

        x[count] = y[count] = 0;
        end = each ? first + 1
                   : column_end(series, first, d->chart->x_low, d->chart->x_high);
        for (size_t i = first; i < end; i++)
            if (isfinite(series->y[i])) {
                x[count] += series->x[i];
                y[count] += series->y[i];
                finite++;
            }
        x[count] /= (double)finite;
        y[count] /= (double)finite;
        count += finite > 0;
    }
    return count;
}

/* Add a moving mean. Sum each window from scratch: a spike must not remain in a running
 * sum. */
static void add_mean(const struct drawing *d, const struct chart_series *series)
{
    double *x = memory_resize(NULL, 3 * series->count, sizeof(*x)),
           *y = x + series->count;
    double *mean = y + series->count;
    size_t count = column_means(d, series, x, y), half = count / SMOOTH_SHARE / 2 + 1;
    struct chart_series drawn = *series;

    drawn.x = x;
    drawn.y = mean;
    drawn.count = count;
    for (size_t i = 0; i < count; i++) {
        size_t edge = i < count - 1 - i ? i : count - 1 - i;
        size_t each = edge < half ? edge : half; /* as many points before as after */
        size_t first = i - each, end = i + each + 1;

        mean[i] = 0;
        for (size_t j = first; j < end; j++)
            mean[i] += y[j];
        mean[i] /= (double)(end - first);
    }
    add_line(d, &drawn, "mean");
    free(x);
}

static void add_series(const struct drawing *d, const struct chart_series *series)
{
    bool both = d->chart->mean && !series->dots && series->count >= SMOOTH_FROM;

    add_line(d, series, both ? "faint" : "");
    if (both)
        add_mean(d, series);
    if (series->dots || series->count == 1)
        add_dots(d, series, false, series->inspection);
    add_dots(d, series, true, "broken");
}

static void add_marks(const struct drawing *d)
{
    for (size_t i = 0; i < d->chart->mark_count; i++) {
        const struct chart_mark *mark = &d->chart->marks[i];
        double x = x_of(d, mark->x);

        if (strcmp(mark->inspection, "skipped") == 0)
            text_addf(d->out, "<path class=\"mark skipped\" d=\"M%.2f 1000v-45\"/>\n", x);
        else
            text_addf(d->out, "<path class=\"mark %s\" d=\"M%.2f 1000V0\"/>\n",
                      mark->inspection, x);
    }
}

static void add_grid(const struct drawing *d)
{
    text_adds(d->out, "<path class=\"grid\" d=\"");
    for (size_t i = 0; i < d->y.tick_count; i++)
        text_addf(d->out, "M0 %.2fH1000", y_of(d, d->y.ticks[i]));
    text_adds(d->out, "\"/>\n");
}

/* ---- Description ---- */

static void add_value(const struct chart *chart, double value, struct text *out)
{
    char shown[32];

    html_number(value, chart->number, shown);
    text_addf(out, "%s%s%s", shown, chart->unit[0] ? " " : "", chart->unit);
}

static void describe_range(const struct chart *chart, const struct chart_series *series,
                           struct text *out)
{
    size_t least = SIZE_MAX, most = SIZE_MAX, broken = 0;

    for (size_t i = 0; i < series->count; i++) {
        if (!isfinite(series->y[i])) {
            broken++;
            continue;
        }
        least = least == SIZE_MAX || series->y[i] < series->y[least] ? i : least;
        most = most == SIZE_MAX || series->y[i] > series->y[most] ? i : most;
    }
    if (least != SIZE_MAX && series->count > 1) {
        text_adds(out, ", lowest ");
        add_value(chart, series->y[least], out);
        text_addf(out, " at step %.0f, highest ", series->x[least]);
        add_value(chart, series->y[most], out);
        text_addf(out, " at step %.0f", series->x[most]);
    }
    if (broken > 0)
        text_addf(out, ", not finite at %zu of %zu points", broken, series->count);
}

static void describe(const struct chart *chart, struct text *out)
{
    for (size_t i = 0; i < chart->series_count; i++) {
        const struct chart_series *series = &chart->series[i];
        size_t last = series->count - 1;

        if (series->count == 0)
            continue;
        html_text(out, series->name);
        text_adds(out, ": ");
        add_value(chart, series->y[0], out);
        text_addf(out, " at step %.0f", series->x[0]);
        if (last > 0) {
            text_adds(out, ", ");
            add_value(chart, series->y[last], out);
            text_addf(out, " at step %.0f", series->x[last]);
        }
        describe_range(chart, series, out);
        text_adds(out, ". ");
    }
}

/* ---- The figure ---- */

static void add_key(struct text *out, const char *inspection, const char *name)
{
    text_addf(out, "<span class=\"key %s\"><i></i>", inspection);
    html_text(out, name);
    text_adds(out, "</span>");
}

static bool has_broken(const struct chart *chart)
{
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t i = 0; i < chart->series[s].count; i++)
            if (!isfinite(chart->series[s].y[i]))
                return true;
    return false;
}

/* The title names a single curve; several curves, and each kind of mark, get a key. */
static void add_legend(const struct chart *chart, struct text *out)
{
    text_adds(out, "<span class=\"keys\">");
    for (size_t i = 0; chart->series_count > 1 && i < chart->series_count; i++)
        if (chart->series[i].count > 0)
            add_key(out, chart->series[i].inspection, chart->series[i].name);
    for (size_t i = 0; i < chart->mark_count; i++) {
        size_t before = 0;

        while (before < i &&
               strcmp(chart->marks[before].inspection, chart->marks[i].inspection) != 0)
            before++;
        if (before == i)
            add_key(out, chart->marks[i].inspection, chart->marks[i].name);
    }
    if (has_broken(chart))
        add_key(out, "broken", "not finite");
    text_adds(out, "</span>");
}

static void add_caption(const struct drawing *d)
{
    const struct chart *chart = d->chart;

    text_addf(d->out, "<figcaption><h3>%s", chart->title);
    if (chart->unit[0] || d->y.logarithmic)
        text_addf(d->out, " <small>%s%s%s</small>", chart->unit,
                  chart->unit[0] && d->y.logarithmic ? ", " : "",
                  d->y.logarithmic ? "log scale" : "");
    text_adds(d->out, "</h3>");
    add_legend(chart, d->out);
    text_adds(d->out, "<output></output></figcaption>\n");
}

static void add_axes(const struct drawing *d)
{
    size_t widest = 0;

    for (size_t i = 0; i < d->y.tick_count; i++)
        widest = strlen(d->y.labels[i]) > widest ? strlen(d->y.labels[i]) : widest;
    text_addf(d->out, "<div class=\"y\" aria-hidden=\"true\" style=\"width:%zuch\">",
              widest);
    for (size_t i = 0; i < d->y.tick_count; i++)
        text_addf(d->out, "<span style=\"top:%.2f%%\">%s</span>",
                  y_of(d, d->y.ticks[i]) * 100 / UNITS, d->y.labels[i]);
    text_adds(d->out, "</div>\n<div class=\"x\" aria-hidden=\"true\">");
    for (size_t i = 0; i < d->x.tick_count; i++)
        text_addf(d->out, "<span style=\"left:%.2f%%\">%s</span>",
                  x_of(d, d->x.ticks[i]) * 100 / UNITS, d->x.labels[i]);
    text_adds(d->out, "</div>\n");
}

/* Store the ends as data, so that a script can convert positions back into values. */
static void add_svg(const struct drawing *d)
{
    const struct chart *chart = d->chart;

    text_addf(d->out,
              "<div class=\"area\"><svg viewBox=\"0 0 1000 1000\" "
              "preserveAspectRatio=\"none\" role=\"img\" aria-labeledby=\"%s-t %s-d\" "
              "data-x=\"%.17g %.17g\" data-y=\"%.17g %.17g %d\">\n"
              "<title id=\"%s-t\">%s</title>\n"
              "<desc id=\"%s-d\">",
              chart->id, chart->id, d->x.low, d->x.high, d->y.low, d->y.high,
              d->y.logarithmic, chart->id, chart->title, chart->id);
    describe(chart, d->out);
    text_adds(d->out, "</desc>\n");
    add_grid(d);
    add_marks(d);
    for (size_t i = 0; i < chart->series_count; i++)
        if (chart->series[i].count > 0)
            add_series(d, &chart->series[i]);
    text_adds(d->out, "</svg></div>\n");
}

static bool range_of(const struct chart *chart, double *low, double *high)
{
    bool any = false;

    *low = INFINITY;
    *high = -INFINITY;
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t i = 0; i < chart->series[s].count; i++) {
            double y = chart->series[s].y[i];

            any = true;
            if (isfinite(y)) {
                *low = fmin(*low, y);
                *high = fmax(*high, y);
            }
        }
    if (any && !(*low <= *high))
        *low = 0, *high = 1; /* nothing but NaN: shown anyway */
    return any;
}

bool chart_add(const struct chart *chart, struct text *out)
{
    struct drawing drawing = { .chart = chart, .out = out };
    double low, high;

    if (!range_of(chart, &low, &high))
        return !out->overflow;
    chart_scale(&drawing.x, CHART_STEPS, chart->x_low, chart->x_high);
    chart_scale(&drawing.y, chart->kind, low, high);
    text_addf(out, "<figure class=\"chart%s\" id=\"%s\">\n", chart->wide ? " wide" : "",
              chart->id);
    add_caption(&drawing);
    text_adds(out, "<div class=\"plot\">\n");
    add_svg(&drawing);
    add_axes(&drawing);
    text_adds(out, "</div>\n</figure>\n");
    return !out->overflow;
}
