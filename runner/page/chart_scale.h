/* runner/page/chart_scale.h - an axis: its ends, its ticks, and where a number lies on it. */
#ifndef RUNNER_PAGE_CHART_SCALE_H
#define RUNNER_PAGE_CHART_SCALE_H

#include <stdbool.h>
#include <stddef.h>

enum { CHART_TICKS = 12 };

struct chart_scale {
    double low, high; /* ends, low < high; of the numbers themselves */
    bool logarithmic;
    double ticks[CHART_TICKS];
    size_t tick_count;
    char labels[CHART_TICKS][16];
};

/* How a scale is made for numbers that begin at `low` and end at `high`, both finite. */
enum chart_kind {
    CHART_LINEAR,
    CHART_STEPS, /* whole numbers, ends as given: the axis of steps */
    CHART_AUTO,  /* logarithmic where the numbers are above 0 and span CHART_SPAN */
    CHART_POWERS /* logarithmic by powers of 2 */
};
#define CHART_SPAN 50.0

void chart_scale(struct chart_scale *out, enum chart_kind kind, double low, double high);
/* 0 at the low end, 1 at the high one; what lies beyond is taken to the end. */
double chart_place(const struct chart_scale *scale, double value);

#endif
