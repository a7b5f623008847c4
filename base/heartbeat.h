/*
 * base/heartbeat.h - long work reports that it continues, and learns that it should end.
 *
 * Whatever takes long (reading data, a model's layers, an evaluation, a file) calls
 * heartbeat_tick with each small part: a tick costs a look at the clock, so the parts may
 * be as short as a microsecond, and no part should take a second.
 */
#ifndef BASE_HEARTBEAT_H
#define BASE_HEARTBEAT_H

#include <signal.h>

#include "base/error.h"

#define HEARTBEAT_SECONDS 0.5

struct heartbeat {
    const volatile sig_atomic_t *stop; /* not 0: the work should end; NULL: never */
    /* Called by a tick, at most every HEARTBEAT_SECONDS; may set what `stop` points to.
     * Or NULL. */
    void (*beat)(void *context);
    void *context;
    double due; /* clock_seconds; starts as 0 */
};

/* Return false if the work should end. NULL: it never should. */
bool heartbeat_tick(struct heartbeat *heartbeat);
/* The same; the error is ERROR_STOPPED, "stopped while DOING". */
bool heartbeat_continue(struct heartbeat *heartbeat, const char *doing,
                        struct error *err);
/* Return whether the work should end, without a tick. */
bool heartbeat_stopped(const struct heartbeat *heartbeat);
/* Return one that beats as often but never stops, for work that must be finished. */
struct heartbeat heartbeat_unstopped(const struct heartbeat *heartbeat);
/* Sleep; return false as soon as the work should end. */
bool heartbeat_sleep(struct heartbeat *heartbeat, double seconds);

#endif
