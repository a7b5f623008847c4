/* bench/target.c - opens a device, waits for it and allocates its memory, or ends the
 * program. */
#include "config.h"

#include "bench/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TARGETS_MAX = 16 };

void target_stop(const char *text)
{
    fprintf(stderr, "bench: %s\n", text);
    exit(1);
}

const struct device *target_find(const char *name)
{
    static const struct device cpu = { .kind = DEVICE_CPU, .name = "cpu", .ordinal = -1 };
    static struct device devices[TARGETS_MAX];
    size_t ordinal = name ? strtoul(name, NULL, 10) : 0;
    char note[256] = "";

    if (name && strcmp(name, "cpu") == 0)
        return &cpu;
    if (ordinal >= backend_devices("cuda", devices, TARGETS_MAX, note, sizeof(note)))
        target_stop(note[0] ? note : "no such GPU");
    return &devices[ordinal];
}

/* With TRAINSPOOL_BENCH_DEBUG in the environment, the backend says what it does. */
static struct backend *open_with(struct backend_options options)
{
    const char *gradients = getenv("GRADIENTS_MIB");
    const bool verbose = getenv("TRAINSPOOL_BENCH_DEBUG") != NULL;
    struct error err = { 0 };
    struct backend *be;

    options.gradients_bytes = gradients ? strtoul(gradients, NULL, 10) << 20 : 0;
    options.log = log_new(STDERR_FILENO, verbose ? LOG_DEBUG : LOG_WARN);
    be = backend_open(&options, &err);
    if (!be)
        target_stop(err.text);
    return be;
}

struct backend *target_open(const struct device *device, int threads)
{
    return open_with((struct backend_options) { .device = device, .threads = threads });
}

struct backend *target_open_gpu(const struct device *device, size_t rounded_bytes,
                                const char *choices_dir)
{
    return open_with((struct backend_options) {
        .device = device, .rounded_bytes = rounded_bytes, .choices_dir = choices_dir });
}

void target_wait(struct backend *be)
{
    struct error err = { 0 };

    if (!be->ops->sync(be, &err))
        target_stop(err.text);
}

void *target_memory(struct backend *be, size_t bytes)
{
    struct error err = { 0 };
    void *block = be->ops->alloc(be, bytes, &err);

    if (!block)
        target_stop(err.text);
    return block;
}
