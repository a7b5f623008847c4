/*
 * runner/output/meter.h - the status line that is redrawn while a job trains:
 *
 *   6%|▋         | 7/117 [00:15<03:54, 2.13s/it, loss=2.27, grad_norm=1.55, 8.1k tok/s]
 *
 * It is drawn only on a terminal; elsewhere only the logged lines appear.
 */
#ifndef RUNNER_OUTPUT_METER_H
#define RUNNER_OUTPUT_METER_H

#include <stdio.h>

#include "base/text.h"
#include "train/trainer.h"

struct meter {
    FILE *out; /* NULL: show nothing */
    bool terminal;
    bool drawn;     /* the line is on the screen */
    int64_t first;  /* step after which this attempt began: speed counts from there */
    double started; /* clock_seconds */
    double at;      /* when it was last drawn */
    struct text last;
};

void meter_open(struct meter *meter, FILE *out, bool terminal);
void meter_step(struct meter *meter, const struct trainer_progress *progress);
/* Print a permanent line above the status line. */
void meter_log(struct meter *meter, const char *logged);
/* Print a permanent line on `out`, which may be another stream of the same terminal. */
void meter_note(struct meter *meter, FILE *out, const char *line);
/* Leave the last state of the line on the screen. */
void meter_close(struct meter *meter);

/* Format the line after `made` steps in `seconds`, at most `width` columns (0: any). */
struct meter_reading {
    const struct trainer_progress *progress;
    int64_t made;
    double seconds;
};
struct meter_reading meter_read(const struct meter *meter,
                                const struct trainer_progress *progress);
void meter_text(const struct meter_reading *reading, size_t width, struct text *out);
/* Return the seconds that the rest will take at the speed so far; NaN: unknown. */
double meter_seconds_left(const struct meter_reading *reading);
/* Format "03:54", "1:02:03"; "?" if it is not a time. */
void meter_clock(double seconds, struct text *out);

#endif
