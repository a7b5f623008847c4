/* bench/profile.c - replaces the backend's table of operations by one that times each. */
#include "config.h"

#include "bench/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/target.h"
#include "kernels/operations.h"

static struct profile *profile_of(struct backend *be)
{
    return (struct profile *)(void *)be->ops;
}

static struct profile_row *row_of(struct profile *profile, const char *name)
{
    size_t at = 0;

    while (at < profile->count && strcmp(profile->rows[at].name, name) != 0)
        at++;
    if (at == PROFILE_ROWS)
        return &profile->rows[PROFILE_ROWS - 1];
    if (at == profile->count) {
        snprintf(profile->rows[at].name, sizeof(profile->rows[at].name), "%s", name);
        profile->count++;
    }
    return &profile->rows[at];
}

/* Return the time at which an operation starts; 0 inside another one. */
static double begin(struct backend *be)
{
    struct profile *profile = profile_of(be);

    if (profile->inside)
        return 0;
    target_wait(be);
    profile->inside = true;
    return clock_seconds();
}

static void end(struct backend *be, const char *name, double flops, double start)
{
    struct profile *profile = profile_of(be);
    struct profile_row *row;

    if (start == 0)
        return;
    target_wait(be);
    row = row_of(profile, name);
    row->seconds += clock_seconds() - start;
    row->flops += flops;
    row->calls++;
    profile->inside = false;
}

static size_t depth_of(const struct op_matmul *op)
{
    return op->trans_a ? op->a.rows : op->a.cols;
}

static void name_matmul(const struct op_matmul *op, char *out, size_t room)
{
    snprintf(out, room, "matmul %zu x %zu x %zu, %s%s, %s to %s%s", op->out.rows,
             op->out.cols, depth_of(op), op->trans_a ? "T" : "N", op->trans_b ? "T" : "N",
             format_info(op->a.format)->name, format_info(op->out.format)->name,
             op->beta != 0 ? ", added" : "");
}

static void timed_matmul(struct backend *be, const struct op_matmul *op)
{
    double start = begin(be);
    char name[96];

    profile_of(be)->real->matmul(be, op);
    name_matmul(op, name, sizeof(name));
    end(be, name,
        2.0 * (double)op->out.rows * (double)op->out.cols * (double)depth_of(op), start);
}

#define TIMED(name, ...)                                                             \
    static void plainly_timed_##name(struct backend *be, const struct op_##name *op) \
    {                                                                                \
        double start = begin(be);                                                    \
                                                                                     \
        profile_of(be)->real->name(be, op);                                          \
        end(be, #name, 0, start);                                                    \
    }
OPERATIONS(TIMED)
#undef TIMED

void profile_start(struct profile *profile, struct backend *be)
{
    *profile = (struct profile) { .real = be->ops, .ops = *be->ops };
#define SET(name, ...) profile->ops.name = plainly_timed_##name;
    OPERATIONS(SET)
#undef SET
    profile->ops.matmul = timed_matmul;
    be->ops = &profile->ops;
}

void profile_stop(struct profile *profile, struct backend *be)
{
    be->ops = profile->real;
}

static int by_seconds(const void *a, const void *b)
{
    const struct profile_row *x = a, *y = b;

    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

void profile_print(struct profile *profile, size_t steps)
{
    double total = 0;

    qsort(profile->rows, profile->count, sizeof(*profile->rows), by_seconds);
    for (size_t i = 0; i < profile->count; i++)
        total += profile->rows[i].seconds;
    printf(
        "| operation | calls per step | ms per step | share | us per call | TFLOP/s |\n"
        "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];

        printf("| %s | %.0f | %.2f | %.1f %% | %.1f | ", row->name,
               (double)row->calls / (double)steps, 1e3 * row->seconds / (double)steps,
               100 * row->seconds / total, 1e6 * row->seconds / (double)row->calls);
        if (row->flops > 0)
            printf("%.1f |\n", 1e-12 * row->flops / row->seconds);
        else
            printf("- |\n");
    }
    printf("| all | | %.2f | | | |\n", 1e3 * total / (double)steps);
}
