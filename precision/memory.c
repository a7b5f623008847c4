/* precision/memory.c - the bytes a plan needs, and the bytes available. */
#include "config.h"

#include "precision/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_DEFAULT 0.95 /* the rest is left to the driver and other programs */

bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err)
{
    char *end;

    if (!wanted) {
        *out = (uint64_t)((double)device->available * SHARE_DEFAULT);
        return true;
    }
    if (strchr(wanted, '%')) {
        double share = strtod(wanted, &end);

        if (end == wanted || strcmp(end, "%") != 0 || !(share > 0 && share <= 100))
            return error_set(err, ERROR_JOB,
                             "memory_limit must be a share such as 80%% or a size such "
                             "as 12GiB, not '%s'",
                             wanted);
        *out = (uint64_t)((double)device->available * share / 100);
        return true;
    }
    if (!device_parse_bytes(wanted, out) || *out < DEVICE_MEMORY_LEAST)
        return error_set(err, ERROR_JOB,
                         "memory_limit must be a share such as 80%% or a size such as "
                         "12GiB, not '%s'",
                         wanted);
    return true;
}

struct memory_range memory_range_sum(struct memory_range a, struct memory_range b)
{
    return (struct memory_range) { a.low + b.low, a.expected + b.expected,
                                   a.high + b.high };
}

struct memory_range memory_range_exact(uint64_t bytes)
{
    return (struct memory_range) { bytes, bytes, bytes };
}

static struct memory_range used_by_threads(int threads)
{
    return (struct memory_range) { .high = MEMORY_CPU_SUMS +
                                           (uint64_t)(threads > 0 ? threads : 1) *
                                               MEMORY_CPU_THREAD };
}

struct memory_range memory_overhead(const struct device *device, int threads)
{
    const uint64_t context = device->here ? 0 : MEMORY_CUDA_CONTEXT;
    const uint64_t spread =
        (device->here ? 0 : MEMORY_CUDA_CONTEXT_SPREAD) + MEMORY_CUDA_CODE_SPREAD;
    const uint64_t sure =
        context + MEMORY_CUDA_CODE + MEMORY_CUDA_MATMULS + MEMORY_CUDA_SCRATCH;

    if (device->kind == DEVICE_CPU)
        return used_by_threads(threads > 0 ? threads : device->threads);
    return (struct memory_range) { sure - spread, sure, sure + spread };
}

/* The formula of memory.h; a rank has at most as many neighbors as there are other
 * ranks. */
static uint64_t used_by_nccl(uint64_t ranks, uint64_t local, uint64_t neighbors,
                             uint64_t channels, uint64_t shared)
{
    const uint64_t others = ranks - 1;

    return MEMORY_NCCL_CODE + MEMORY_NCCL_TABLES +
           channels * (neighbors < others ? neighbors : others) * MEMORY_NCCL_NEIGHBOR +
           (local > 1 ? shared * (local + 1) * MEMORY_NCCL_SHARED : 0);
}

struct memory_range memory_group_overhead(const struct device *device, size_t ranks,
                                          size_t local)
{
    if (device->kind == DEVICE_CPU || ranks < 2)
        return memory_range_exact(0);
    return (struct memory_range) { MEMORY_NCCL_CODE / 2,
                                   used_by_nccl(ranks, local, 2, 24, 16),
                                   used_by_nccl(ranks, local, 3, 32, 24) };
}

uint64_t memory_cpu_group(size_t ranks)
{
    const size_t most = MEMORY_MESH_VALUES / MEMORY_MESH_SLICE;

    return ranks < 2 ? 0 : (ranks < most ? ranks : most) * MEMORY_CPU_RANK;
}

void memory_finish(struct memory_use *use, uint64_t limit)
{
    use->total = use->weights + use->gradients + use->optimizer + use->activations +
                 use->workspace;
    if (use->low == 0 || use->low > use->total)
        use->low = use->total;
    if (use->high < use->total)
        use->high = use->total;
    use->limit = limit;
    use->fits = limit == 0 || use->total <= limit;
}

bool memory_is_close(const struct memory_use *use)
{
    return use->limit > 0 && use->total <= use->limit && use->high > use->limit;
}

void memory_text(uint64_t bytes, char out[16])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    int unit = 0;

    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 16, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
}
