/*
 * runner/spool/spool_metrics.h - a spool in the text format of Prometheus, for the text
 * file collector of its node exporter.  Names and units follow
 * https://prometheus.io/docs/practices/naming/.
 */
#ifndef RUNNER_SPOOL_SPOOL_METRICS_H
#define RUNNER_SPOOL_SPOOL_METRICS_H

#include "runner/spool/overview.h"

enum { SPOOL_WAIT_BUCKETS = 9 };

/* Counted by a watch since it started. */
struct spool_counters {
    double watch_started; /* wall time */
    uint64_t starts, restarts, crashes, heals;
    uint64_t ended[JOB_STATES];
    /* of first starts: seconds since the arrival of the job */
    uint64_t waits[SPOOL_WAIT_BUCKETS], wait_count;
    double wait_seconds;
};

void spool_counters_wait(struct spool_counters *counters, double seconds);

/* Append the metrics of this node, "" for a watch that has the spool to itself.  The working
 * directory is the spool. */
bool spool_metrics_write(const struct spool_counters *counters,
                         const struct overview *overview, const char *node,
                         struct text *out);

#endif
