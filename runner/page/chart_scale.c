/*
 * runner/page/chart_scale.c - places ticks at 1, 2 and 5 times a power of ten, or at
 * powers.
 */
#include "config.h"

#include "runner/page/chart_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INTERVALS = 4, INTERVALS_STEPS = 6 }; /* approximate number on an axis */

/* Return the step of 1, 2 or 5 times a power of ten that gives about this many intervals,
 * the nearest by logarithm. */
static double nice_step(double span, int intervals)
{
    double rough = span / intervals, power = pow(10, floor(log10(rough)));
    double part = rough / power;

    return power * (part < 1.42 ? 1 : part < 3.17 ? 2 : part < 7.08 ? 5 : 10);
}

static void add_tick(struct chart_scale *scale, double value, const char *label)
{
    if (scale->tick_count == CHART_TICKS)
        return;
    scale->ticks[scale->tick_count] = value;
    snprintf(scale->labels[scale->tick_count], sizeof(scale->labels[0]), "%s", label);
    scale->tick_count++;
}

/* Turn 2.0e-05 into 2.0e-5. */
static void trim_exponent(char *label)
{
    char *to = strchr(label, 'e'), *from = to;

    if (!to)
        return;
    from += from[1] == '-' ? 2 : 1;
    to += to[1] == '-' ? 2 : 1;
    from += strspn(from, "+0");
    memmove(to, from, strlen(from) + 1);
}

static void label_small(double value, double step, double most, char out[16])
{
    int digits = (int)(floor(log10(most) + 1e-9) - floor(log10(step) + 1e-9));

    if (value == 0)
        snprintf(out, 16, "0");
    else
        snprintf(out, 16, "%.*e", digits > 0 && digits < 5 ? digits : 0, value);
    trim_exponent(out);
}

/* Label all ticks of an axis in one unit and with the same number of digits: 2 k, 2.5 k,
 * 3 k would be hard to read. `most` is the largest value of the axis. */
static void label_linear(double value, double step, double most, char out[16])
{
    static const struct {
        double from, unit;
        const char *name;
    } units[] = { { 1e15, 1e12, "T" },
                  { 1e9, 1e9, "G" },
                  { 1e6, 1e6, "M" },
                  { 1e4, 1e3, "k" },
                  { 0, 1, "" } };
    size_t u = 0;
    int digits;

    if (most < 1e-3) {
        label_small(value, step, most, out);
        return;
    }
    while (most < units[u].from)
        u++;
    digits = (int)-floor(log10(step / units[u].unit) + 1e-9);
    snprintf(out, 16, "%.*f%s", digits > 0 ? (digits < 9 ? digits : 9) : 0,
             value / units[u].unit + 0.0, value != 0 ? units[u].name : "");
}

static void tick_linear(struct chart_scale *scale, double step)
{
    double most = fmax(fabs(scale->low), fabs(scale->high));
    char label[16];

    for (double i = ceil(scale->low / step - 1e-6); i * step <= scale->high + step * 1e-6;
         i++) {
        label_linear(i * step, step, most, label);
        add_tick(scale, i * step, label);
    }
}

static void make_linear(struct chart_scale *scale)
{
    double step = nice_step(scale->high - scale->low, INTERVALS);

    scale->low = fmin(scale->low, floor(scale->low / step + 1e-6) * step);
    scale->high = fmax(scale->high, ceil(scale->high / step - 1e-6) * step);
    tick_linear(scale, step);
}

static void make_steps(struct chart_scale *scale)
{
    tick_linear(scale, fmax(1, nice_step(scale->high - scale->low, INTERVALS_STEPS)));
}

/* Powers of ten, plus 2 and 5 times them if few are on the axis. */
static void make_decades(struct chart_scale *scale)
{
    static const double parts[] = { 1, 2, 5 };
    double first = floor(log10(scale->low)), last = ceil(log10(scale->high));
    bool fine = log10(scale->high / scale->low) < 2.2;
    double every = ceil((last - first) / INTERVALS_STEPS);

    scale->logarithmic = true;
    for (double power = first; power <= last; power += fmax(every, 1))
        for (size_t p = 0; p < (fine ? 3 : 1); p++) {
            double value = parts[p] * pow(10, power);
            char label[16];

            if (value < scale->low * 0.999 || value > scale->high * 1.001)
                continue;
            snprintf(label, sizeof(label),
                     value >= 1e5 || value < 1e-3 ? "%.0e" : "%.10g", value);
            trim_exponent(label);
            add_tick(scale, value, label);
        }
}

/* At least one power of two is between the ends, so that the axis has a label. */
static void make_powers(struct chart_scale *scale)
{
    double first = floor(log2(scale->low) + 1e-9), last = ceil(log2(scale->high) - 1e-9);
    double every;

    if (last - first < 2) {
        first -= 1;
        last += 1;
    }
    every = ceil((last - first) / INTERVALS);
    scale->logarithmic = true;
    scale->low = exp2(first);
    scale->high = exp2(last);
    for (double power = last; power >= first && scale->tick_count < CHART_TICKS;
         power -= every) {
        char label[16];

        snprintf(label, sizeof(label), fabs(power) < 30 ? "%.6g" : "%.1e", exp2(power));
        add_tick(scale, exp2(power), label);
    }
}

void chart_scale(struct chart_scale *out, enum chart_kind kind, double low, double high)
{
    double around = fmax(fabs(low), fabs(high));

    *out = (struct chart_scale) { .low = low, .high = high };
    if (kind == CHART_POWERS && low > 0) {
        make_powers(out);
        return;
    }
    if (kind == CHART_STEPS) {
        if (!(high > low))
            out->low = low - 1, out->high = high + 1;
        make_steps(out);
        return;
    }
    if (kind == CHART_AUTO && low > 0 && high / low >= CHART_SPAN) {
        make_decades(out);
        return;
    }
    /* a single value: put it in the middle of the axis */
    if (!(high - low > around * 1e-9)) {
        out->low = low - (around > 0 ? around / 2 : 1);
        out->high = high + (around > 0 ? around / 2 : 1);
    }
    make_linear(out);
}

double chart_position(const struct chart_scale *scale, double value)
{
    double place = scale->logarithmic
                       ? log(value / scale->low) / log(scale->high / scale->low)
                       : (value - scale->low) / (scale->high - scale->low);

    return place > 0 ? fmin(place, 1) : 0;
}
