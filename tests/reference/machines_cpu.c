/* tests/reference/machines_cpu.c - the CPU with several thread counts and instruction
 * sets. */
#include "config.h"

#include "tests/reference/operand.h"

#include "tests/unit/unit.h"

enum { MACHINES = 6, MACHINES_ALIKE = 4 };

void machine_enter(struct backend *be)
{
    (void)be;
}

bool machine_has_fp8(struct backend *be)
{
    (void)be;
    return true;
}

size_t machine_cudnn_plans(struct backend *be)
{
    (void)be;
    return 0;
}

void *machines_memory(size_t bytes)
{
    return malloc(bytes);
}

void machines_memory_free(void *block)
{
    free(block);
}

bool machines_like_alignment(void)
{
    return false;
}

int machines_open(void **state)
{
    static const struct {
        const char *isa;
        int threads;
    } kinds[MACHINES] = {
        { "", 1 }, { "", 2 }, { "", 3 }, { "", 7 }, { "avx2", 2 }, { "generic", 2 },
    };
    static const struct device cpu = { .kind = DEVICE_CPU };
    struct machines *machines = calloc(1, sizeof(*machines));
    const char *asked = getenv("TRAINSPOOL_ISA");
    char *was = asked ? strdup(asked) : NULL;

    machines->count = MACHINES;
    machines->alike = MACHINES_ALIKE;
    for (size_t i = 0; i < MACHINES; i++) {
        struct backend_options options = { .device = &cpu, .threads = kinds[i].threads };
        struct error err = { 0 };

        if (*kinds[i].isa)
            setenv("TRAINSPOOL_ISA", kinds[i].isa, 1);
        else if (!was)
            unsetenv("TRAINSPOOL_ISA");
        machines->backends[i] = backend_open(&options, &err);
        if (!machines->backends[i])
            fail_msg("%s", err.text);
    }
    if (was)
        setenv("TRAINSPOOL_ISA", was, 1);
    else
        unsetenv("TRAINSPOOL_ISA");
    free(was);
    *state = machines;
    return 0;
}

int machines_close(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < machines->count; i++)
        backend_close(machines->backends[i]);
    free(machines);
    return 0;
}
