/* runner/spool/arrivals.h - the names in a spool that may be jobs, in the order in which
 * they arrived. */
#ifndef RUNNER_SPOOL_ARRIVALS_H
#define RUNNER_SPOOL_ARRIVALS_H

#include "base/error.h"

/* Read the folder that is open as `dir`, and call `found` for each name; readdir returns
 * them in no order. A name that was missed because the machine failed makes this fail,
 * after the others. `path` names the folder in messages. */
bool arrivals_read(int dir, const char *path,
                   void (*found)(void *context, const char *name), void *context,
                   struct error *err);

#endif
