/* base/clock.c - monotonic and wall clock, and the wall clock as text. */
#include "config.h"

#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static double read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* CLOCK_BOOTTIME also counts the time the machine sleeps, so durations match what a
 * person would measure. */
double clock_seconds(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

double clock_coarse(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

double clock_cpu(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

void clock_compact(char out[32])
{
    struct timespec now;
    struct tm utc;
    size_t len;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    len = strftime(out, 32, "%Y%m%dT%H%M%S", &utc);
    snprintf(out + len, 32 - len, ".%06ldZ", now.tv_nsec / 1000);
}

void clock_iso(char out[32])
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
