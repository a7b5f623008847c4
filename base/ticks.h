/* base/ticks.h - threads of this process that call a function again and again. */
#ifndef BASE_TICKS_H
#define BASE_TICKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct tick {
    void (*call)(void);
    double seconds; /* between two calls */
};

/* Start a thread for each, for as long as the process lives. Once per process; a child that is
 * forked has none, and may start its own. */
bool ticks_start(const struct tick list[], size_t count, struct error *err);
/* End the threads and start them again: Landlock holds for threads that begin after the one
 * that calls this has entered it. Waits for calls that have begun. Without threads, do
 * nothing. */
bool ticks_restart(struct error *err);

#endif
