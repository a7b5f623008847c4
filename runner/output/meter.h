/*
 * runner/output/meter.h - the line that redraws while a job trains:
 *     6%|▋         | 7/117 [00:15<03:54, 2.13s/it, loss=2.27, grad_norm=1.55, 8.1k tok/s]
 * It is drawn on a terminal only; elsewhere the logged lines alone are shown.
 */
#ifndef RUNNER_OUTPUT_METER_H
#define RUNNER_OUTPUT_METER_H

#include <stdio.h>

#include "base/text.h"
#include "train/trainer.h"

struct meter {
    FILE *out; /* NULL: show nothing at all */
    bool terminal;
    bool drawn;     /* the line is on the screen */
    int64_t first;  /* step that this attempt began behind: speed counts from there */
    double started; /* clock_seconds */
    double at;      /* when it was last drawn */
    struct text last;
};

void meter_open(struct meter *meter, FILE *out, bool terminal);
void meter_step(struct meter *meter, const struct trainer_progress *progress);
/* A line that stays, above the one that redraws. */
void meter_log(struct meter *meter, const char *logged);
/* Leave the last state of the line on the screen. */
void meter_close(struct meter *meter);

/* The line itself after `made` steps in `seconds`, at most `width` columns (0: any). */
struct meter_reading {
    const struct trainer_progress *progress;
    int64_t made;
    double seconds;
};
struct meter_reading meter_read(const struct meter *meter,
                                const struct trainer_progress *progress);
void meter_text(const struct meter_reading *reading, size_t width, struct text *out);
/* Seconds that the rest will take at the speed so far; NaN: not known. */
double meter_left(const struct meter_reading *reading);
/* "03:54", "1:02:03"; "?" for what is no time. */
void meter_clock(double seconds, struct text *out);

#endif
