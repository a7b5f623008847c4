/* bench/stopwatch.c - replaces the backend's table of operations by one that times
 * matmuls. */
#include "config.h"

#include "bench/stopwatch.h"

#include "base/clock.h"

static void timed_matmul(struct backend *be, const struct op_matmul *op)
{
    struct stopwatch *watch = (struct stopwatch *)(void *)be->ops;
    double start = clock_seconds();

    watch->real->matmul(be, op);
    watch->seconds += clock_seconds() - start;
}

void stopwatch_start(struct stopwatch *watch, struct backend *be)
{
    watch->real = be->ops;
    watch->ops = *be->ops;
    watch->ops.matmul = timed_matmul;
    be->ops = &watch->ops;
}

void stopwatch_stop(struct stopwatch *watch, struct backend *be)
{
    be->ops = watch->real;
}
