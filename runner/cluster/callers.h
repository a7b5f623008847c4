/*
 * runner/cluster/callers.h - connections whose first message has not come in full: a silent
 * caller delays no other.
 */
#ifndef RUNNER_CLUSTER_CALLERS_H
#define RUNNER_CLUSTER_CALLERS_H

#include <stddef.h>

#include "base/error.h"

struct callers;

/* bytes: of a first message, which may take `seconds`. */
struct callers *callers_new(size_t bytes, double seconds);
/*
 * Accept connections for up to `seconds`, and return the first one whose message is
 * complete, with the message in *message; the caller closes it.  -1 without an error: none
 * came.
 */
int callers_next(struct callers *callers, int listener, double seconds, void *message,
                 struct error *err);
/* Close those whose message is not complete.  NULL is allowed. */
void callers_free(struct callers *callers);

#endif
