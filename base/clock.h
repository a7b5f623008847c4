/* base/clock.h - durations use CLOCK_BOOTTIME; wall time is only for people. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

double clock_seconds(void); /* since a fixed instant, never goes backward */
/* Cheap, to some milliseconds; from another instant, and without a machine's sleep. */
double clock_coarse(void);
double clock_cpu(void);           /* CPU time of this thread */
double clock_wall(void);          /* seconds since 1970 */
void clock_compact(char out[32]); /* UTC, 20261120T140848.123456Z: sorts as text */
void clock_iso(char out[32]);     /* UTC, 2026-11-20T14:08:48Z */

#endif
