/*
 * runner/output/meter.c - formats percent, a bar of ten cells, time, speed and the last
 * values.
 */
#include "config.h"

#include "runner/output/meter.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { CELLS = 10, EIGHTHS = 8 };

static const double redraw_seconds = 0.05;

/* A cell filled by 0 to 8 eighths (Unicode block elements). */
static const char *const cells[EIGHTHS + 1] = { " ", "▏", "▎", "▍", "▌",
                                                "▋", "▊", "▉", "█" };

static void add_bar(struct text *out, double share)
{
    int filled = (int)lround(share * CELLS * EIGHTHS);

    for (int i = 0; i < CELLS; i++) {
        int eighths = filled - i * EIGHTHS;

        text_adds(out, cells[eighths < 0 ? 0 : eighths > EIGHTHS ? EIGHTHS : eighths]);
    }
}

void meter_clock(double seconds, struct text *out)
{
    long long whole;

    if (!(seconds >= 0 && seconds < 1e9)) {
        text_adds(out, "?");
        return;
    }
    whole = llround(seconds);
    if (whole >= 3600)
        text_addf(out, "%lld:", whole / 3600);
    text_addf(out, "%02lld:%02lld", whole / 60 % 60, whole % 60);
}

double meter_seconds_left(const struct meter_reading *reading)
{
    int64_t left = reading->progress->total - reading->progress->step;

    if (reading->made <= 0 || left < 0)
        return NAN;
    return reading->seconds / (double)reading->made * (double)left;
}

static void add_speed(struct text *out, double seconds, int64_t made)
{
    if (made <= 0 || seconds <= 0)
        text_adds(out, "?it/s");
    else if (seconds > (double)made)
        text_addf(out, "%.2fs/it", seconds / (double)made);
    else
        text_addf(out, "%.2fit/s", (double)made / seconds);
}

/* 950, 8.1k, 12.3k, 1.2M */
static void add_count(struct text *out, double count)
{
    if (count >= 1e6)
        text_addf(out, "%.1fM", count / 1e6);
    else if (count >= 1e3)
        text_addf(out, "%.1fk", count / 1e3);
    else
        text_addf(out, "%.0f", count);
}

/* Cut at `width` characters; every character here is one column wide. */
static void cut(struct text *out, size_t from, size_t width)
{
    size_t columns = 0;

    for (size_t i = from; i < out->len; i++) {
        bool begins = ((unsigned char)out->data[i] & 0xc0) != 0x80;

        if (begins && columns++ == width) {
            out->len = i;
            out->data[i] = 0;
        }
    }
}

void meter_text(const struct meter_reading *reading, size_t width, struct text *out)
{
    const struct trainer_progress *progress = reading->progress;
    size_t from = out->len;
    double share =
        progress->total > 0 ? (double)progress->step / (double)progress->total : 0;

    share = share > 1 ? 1 : share;
    text_addf(out, "%3.0f%%|", floor(100 * share + 0.5));
    add_bar(out, share);
    text_addf(out, "| %" PRId64 "/%" PRId64 " [", progress->step, progress->total);
    meter_clock(reading->seconds, out);
    text_addc(out, '<');
    meter_clock(meter_seconds_left(reading), out);
    text_adds(out, ", ");
    add_speed(out, reading->seconds, reading->made);
    if (!progress->evaluates || !isnan(progress->loss))
        text_addf(out, ", loss=%.3g", progress->loss);
    if (!progress->evaluates)
        text_addf(out, ", grad_norm=%.3g", progress->grad_norm);
    if (progress->tokens_per_second > 0) {
        text_adds(out, ", ");
        add_count(out, progress->tokens_per_second);
        text_adds(out, " tok/s");
    }
    text_addc(out, ']');
    if (width > 0)
        cut(out, from, width);
}

struct meter_reading meter_read(const struct meter *meter,
                                const struct trainer_progress *progress)
{
    return (struct meter_reading) { .progress = progress,
                                    .made = progress->step - meter->first,
                                    .seconds = clock_seconds() - meter->started };
}

void meter_open(struct meter *meter, FILE *out, bool terminal)
{
    *meter = (struct meter) { .out = out, .terminal = terminal, .first = -1 };
    text_init(&meter->last, 0);
}

static size_t terminal_width(FILE *out)
{
    struct winsize size;

    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return 0;
    return size.ws_col - 1u; /* some terminals wrap after the last column */
}

/* Return to the first column and clear the rest of the line. */
static void wipe(struct meter *meter)
{
    if (meter->drawn)
        fputs("\r\033[K", meter->out);
    meter->drawn = false;
}

static void draw(struct meter *meter)
{
    if (!meter->out || !meter->terminal || meter->last.len == 0)
        return;
    wipe(meter);
    fwrite(meter->last.data, 1, meter->last.len, meter->out);
    fflush(meter->out);
    meter->drawn = true;
    meter->at = clock_seconds();
}

void meter_step(struct meter *meter, const struct trainer_progress *progress)
{
    struct meter_reading reading;
    double now = clock_seconds();

    if (meter->first < 0) {
        meter->first = progress->step - 1;
        meter->started = now - progress->seconds;
    }
    if (!meter->out || !meter->terminal)
        return;
    reading = meter_read(meter, progress);
    text_reset(&meter->last);
    meter_text(&reading, terminal_width(meter->out), &meter->last);
    if (now - meter->at >= redraw_seconds || progress->step >= progress->total)
        draw(meter);
}

void meter_log(struct meter *meter, const char *logged)
{
    if (meter->out)
        meter_note(meter, meter->out, logged);
}

void meter_note(struct meter *meter, FILE *out, const char *line)
{
    struct text shown;

    text_init(&shown, 0);
    text_add_visible(&shown, line, strcspn(line, "\n"));
    text_addc(&shown, '\n');
    if (meter->out) {
        wipe(meter);
        fflush(meter->out);
    }
    fwrite(shown.data, 1, shown.len, out);
    fflush(out);
    text_clear(&shown);
    draw(meter);
}

void meter_close(struct meter *meter)
{
    if (meter->out && meter->terminal) {
        draw(meter);
        if (meter->drawn)
            fputc('\n', meter->out);
        fflush(meter->out);
    }
    text_clear(&meter->last);
    meter->out = NULL;
}
