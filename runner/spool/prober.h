/*
 * runner/spool/prober.h - asks trainspool-train for the devices of this machine in a child
 * process: a driver takes long to answer, and one that hangs may never answer.
 */
#ifndef RUNNER_SPOOL_PROBER_H
#define RUNNER_SPOOL_PROBER_H

#include <sys/types.h>

#include "precision/probe.h"

/* Zeroed at first. */
struct prober {
    pid_t pid; /* 0: none */
    int answer;
    double deadline;
    struct text text; /* of the answer, as far as it came */
    /* killed, and not gone yet: a process that waits for a driver cannot be killed */
    pid_t dying;
};

enum prober_state {
    PROBER_IDLE,
    PROBER_WORKS,   /* SIGCHLD, or prober_due, is the time to look again */
    PROBER_ANSWERED /* *out is set: without GPUs, and with a note, if the probe failed */
};

/* Start a probe unless one runs; known: an earlier one, whose GPUs are only measured if that
 * is possible without a context; NULL: none. ERROR_FAULT; also if the last one hangs. */
bool prober_start(struct prober *prober, const struct probe *known, struct error *err);
/* Look whether it has answered; never block. */
enum prober_state prober_poll(struct prober *prober, struct probe *out);
/* Return when prober_poll gives up, by clock_seconds; infinity: no probe runs. */
double prober_due(const struct prober *prober);
void prober_close(struct prober *prober);

#endif
