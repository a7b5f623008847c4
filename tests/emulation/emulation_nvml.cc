/* tests/emulation/emulation_nvml.cc - NVML's interface, in place of
 * kernels/cuda/cuda_nvml.c: the health that a test gives to one card; the others are well. */
#include "tests/emulation/emulation.h"

#include <stdlib.h>

extern "C" {
#include "kernels/cuda/cuda_nvml.h"
}

static struct emulation_health health;

void emulation_set_health(const struct emulation_health *of_card)
{
    health = *of_card;
}

static int nothing(void)
{
    return NVML_SUCCESS;
}

/* The address of a bus: see cudaDeviceGetPCIBusId. */
static int find(const char *bus_id, void **gpu)
{
    static char cards[256];
    long card = strtol(bus_id + 5, NULL, 16) - 1;

    if (health.find != NVML_SUCCESS && card == health.card)
        return health.find;
    *gpu = &cards[card];
    if (card == health.card)
        *gpu = &health;
    return NVML_SUCCESS;
}

static int memory(void *gpu, struct nvml_memory *out)
{
    (void)gpu;
    *out = { health.total, health.free, health.total - health.free };
    return health.total ? NVML_SUCCESS : 3;
}

static int errors(void *gpu, int kind, int since, unsigned long long *count)
{
    if (kind != NVML_UNCORRECTED || since != NVML_SINCE_LOAD)
        return 2; /* NVML_ERROR_INVALID_ARGUMENT */
    *count = gpu == &health ? health.errors : 0;
    return health.query;
}

static int remapped(void *gpu, unsigned *corrected, unsigned *uncorrected,
                    unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = *pending = 1;
    *failed = gpu == &health && health.bad_rows;
    return health.query;
}

static int fields(void *gpu, int count, struct nvml_field *list)
{
    for (int i = 0; i < count; i++) {
        list[i].result =
            list[i].field == NVML_RECOVERY && !health.silent ? NVML_SUCCESS : 3;
        list[i].value.number = gpu == &health ? health.recovery : 0;
    }
    return health.query;
}

extern "C" bool cuda_nvml_open(struct cuda_nvml *out)
{
    *out = {};
    out->init = out->shutdown = nothing;
    out->find = find;
    if (!health.old) {
        out->memory = memory;
        out->errors = errors;
        out->remapped = remapped;
        out->fields = fields;
    }
    return !health.missing;
}

extern "C" void cuda_nvml_close(struct cuda_nvml *nvml)
{
    *nvml = {};
}
