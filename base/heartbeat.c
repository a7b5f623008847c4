/* base/heartbeat.c - ticks of long work. */
#include "config.h"

#include "base/heartbeat.h"

#include <stddef.h>
#include <time.h>

#include "base/clock.h"

bool heartbeat_stopped(const struct heartbeat *heartbeat)
{
    return heartbeat && heartbeat->stop && *heartbeat->stop != 0;
}

bool heartbeat_tick(struct heartbeat *heartbeat)
{
    double now;

    if (!heartbeat)
        return true;
    if (heartbeat->beat && (now = clock_seconds()) >= heartbeat->due) {
        heartbeat->due = now + HEARTBEAT_SECONDS;
        heartbeat->beat(heartbeat->context);
    }
    return !heartbeat_stopped(heartbeat);
}

bool heartbeat_continue(struct heartbeat *heartbeat, const char *doing, struct error *err)
{
    return heartbeat_tick(heartbeat) ||
           error_set(err, ERROR_STOPPED, "stopped while %s", doing);
}

struct heartbeat heartbeat_unstopped(const struct heartbeat *heartbeat)
{
    struct heartbeat unstopped = { 0 };

    if (heartbeat)
        unstopped = *heartbeat;
    unstopped.stop = NULL;
    return unstopped;
}

bool heartbeat_sleep(struct heartbeat *heartbeat, double seconds)
{
    double end = clock_seconds() + seconds;

    while (heartbeat_tick(heartbeat)) {
        if (clock_seconds() >= end)
            return true;
        nanosleep(&(struct timespec) { .tv_nsec = 100000000 }, NULL);
    }
    return false;
}
