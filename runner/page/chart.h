/*
 * runner/page/chart.h - a curve as HTML: a figure with an inline SVG, a title and a
 * description in words. It stretches with the page while its text and lines do not, and
 * needs no script.
 */
#ifndef RUNNER_PAGE_CHART_H
#define RUNNER_PAGE_CHART_H

#include "base/text.h"
#include "runner/page/chart_scale.h"
#include "runner/page/html.h"

/* Points by increasing x; y may be NaN or infinite, which is shown as a separate mark. */
struct chart_series {
    const char *name;       /* for the legend and the description */
    const char *inspection; /* CSS class: "train", "eval" */
    const double *x, *y;
    size_t count;
    bool dots; /* the points are few, so each is shown */
};

/* An event at one x position. */
struct chart_mark {
    double x;
    const char *inspection; /* "skipped", "resumed", "best" */
    const char *name;       /* for the legend, once per kind */
};

struct chart {
    const char *id;           /* unique in the page, only letters */
    const char *title, *unit; /* unit may be "" */
    enum chart_kind kind;
    enum html_number number; /* formats a value as text */
    const struct chart_series *series;
    size_t series_count;
    const struct chart_mark *marks;
    size_t mark_count;
    double x_low, x_high; /* of the axis: all charts of a page have the same */
    bool wide;
    bool mean; /* also draw a moving mean if there are enough points */
};

/* Columns of a curve that has more points: the smallest and the largest value of each
 * column are drawn, so no spike is lost. */
#define CHART_COLUMNS 600

/* Append the chart; add nothing if it has no points. */
bool chart_add(const struct chart *chart, struct text *out);

/* Return the points of a series that are drawn, by increasing index; malloc'ed. For
 * tests. */
size_t *chart_downsample(const struct chart_series *series, double x_low, double x_high,
                         size_t *count);

#endif
