/*
 * runner/page/chart_scale.h - an axis: its ends, its ticks, and the position of a value
 * on it.
 */
#ifndef RUNNER_PAGE_CHART_SCALE_H
#define RUNNER_PAGE_CHART_SCALE_H

#include <stdbool.h>
#include <stddef.h>

enum { CHART_TICKS = 12 };

struct chart_scale {
    double low, high; /* ends, low < high, in units of the values */
    bool logarithmic;
    double ticks[CHART_TICKS];
    size_t tick_count;
    char labels[CHART_TICKS][16];
};

/* Ways to build a scale for values from `low` to `high`, both finite. */
enum chart_kind {
    CHART_LINEAR,
    CHART_STEPS, /* whole values, ends as given: the axis of steps */
    CHART_AUTO,  /* logarithmic if the values are above 0 and span CHART_SPAN */
    CHART_POWERS /* logarithmic by powers of 2 */
};
#define CHART_SPAN 50.0

void chart_scale(struct chart_scale *out, enum chart_kind kind, double low, double high);
/* Return the position of a value: 0 at the low end, 1 at the high one, clamped to this
 * range. */
double chart_position(const struct chart_scale *scale, double value);

#endif
