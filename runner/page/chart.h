/*
 * runner/page/chart.h - a curve as HTML: a figure with an inline SVG and a title and a
 * description in words.  It stretches with the page while its text and lines do not, and
 * needs no script.
 */
#ifndef RUNNER_PAGE_CHART_H
#define RUNNER_PAGE_CHART_H

#include "base/text.h"
#include "runner/page/chart_scale.h"
#include "runner/page/html.h"

/* Points by rising x; y may be NaN or infinite, which is shown as a mark of its own. */
struct chart_series {
    const char *name;       /* for the legend and the description */
    const char *inspection; /* class of the style: "train", "eval" */
    const double *x, *y;
    size_t count;
    bool dots; /* the points are few and each is shown */
};

/* Something at one place of x. */
struct chart_mark {
    double x;
    const char *inspection; /* "skipped", "resumed", "best" */
    const char *name;       /* for the legend, once for each look */
};

struct chart {
    const char *id;           /* unique in the page, letters alone */
    const char *title, *unit; /* unit may be "" */
    enum chart_kind kind;
    enum html_number number; /* of its values in words */
    const struct chart_series *series;
    size_t series_count;
    const struct chart_mark *marks;
    size_t mark_count;
    double x_low, x_high; /* of the axis: all charts of a page have the same */
    bool wide;
    bool mean; /* a moving mean too, where there are points enough for one */
};

/* Columns of a curve that has more points: of each, the least and the largest number are
 * drawn, so no spike is lost. */
#define CHART_COLUMNS 600

/* Nothing is added where there is no point at all. */
bool chart_add(const struct chart *chart, struct text *out);

/* Points of a series that are drawn, by rising index; malloc'ed.  For a test. */
size_t *chart_thin(const struct chart_series *series, double x_low, double x_high,
                   size_t *count);

#endif
