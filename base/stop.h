/*
 * base/stop.h - requests to stop, by signal.
 *
 * systemd and timeout(1) signal every process of a unit or group, and a parent passes on
 * what it receives, so one request may arrive several times. All signals within
 * STOP_TOGETHER_SECONDS of the first are one request, from any sender; a later one asks
 * to end at once.
 */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <signal.h>
#include <stdbool.h>

#define STOP_TOGETHER_SECONDS 2.0

/* The signals that ask to stop: SIGTERM, SIGINT, and SIGHUP unless nohup(1) ignores it. */
void stop_signals(sigset_t *out);

/* A request as its receiver sees it; starts as { 0 }. */
struct stop_request {
    int number; /* of the first signal, SIGTERM for SIGHUP; 0: none yet */
    double first;
};
/* Note a signal. Return true if it asks to end at once. */
bool stop_request_add(struct stop_request *request, int number);

/* Catch these signals, in the thread that calls it, on a stack of their own: its stack pointer may
 * be anywhere while it is in a library. Return the flag that the first one sets to its number,
 * SIGTERM for SIGHUP. One that asks to end at once ends this process. */
volatile sig_atomic_t *stop_catch(void);
/* Do not catch them: each ends this process. */
void stop_ignore_none(void);

/* Ask another process, which has called stop_catch, to stop. Any number of these requests
 * is one request. */
bool stop_ask(pid_t pid);

#endif
