/* precision/memory.c - the bytes a plan needs, and the bytes there are. */
#include "config.h"

#include "precision/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_PRESET 0.95 /* the rest is for what a driver and other programs take */

bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err)
{
    char *end;

    if (wanted == NULL) {
        *out = (uint64_t)((double)device->available * SHARE_PRESET);
        return true;
    }
    if (strchr(wanted, '%') != NULL) {
        double share = strtod(wanted, &end);

        if (end == wanted || strcmp(end, "%") != 0 || !(share > 0 && share <= 100))
            return error_set(err, ERROR_JOB,
                             "memory_limit must be a share such as 80%% or a size such as "
                             "12GiB, not '%s'",
                             wanted);
        *out = (uint64_t)((double)device->available * share / 100);
        return true;
    }
    if (!device_parse_bytes(wanted, out) || *out == 0)
        return error_set(err, ERROR_JOB,
                         "memory_limit must be a share such as 80%% or a size such as "
                         "12GiB, not '%s'",
                         wanted);
    return true;
}

uint64_t memory_held(const struct device *device)
{
    if (device->kind == DEVICE_CPU)
        return 0;
    return (device->here ? 0 : MEMORY_CUDA_CONTEXT) + MEMORY_CUDA_CODE +
           MEMORY_CUDA_PRODUCTS + MEMORY_CUDA_SCRATCH;
}

void memory_finish(struct memory_use *use, uint64_t limit)
{
    use->total = use->weights + use->gradients + use->optimizer + use->activations +
                 use->workspace;
    use->limit = limit;
    use->fits = limit == 0 || use->total <= limit;
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
    snprintf(out, 16, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}
