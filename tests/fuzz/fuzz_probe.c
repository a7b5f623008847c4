/* tests/fuzz/fuzz_probe.c - output of a probe: it is rejected, or reads back the same
 * after it was written.  Input: the lines of a probe, a zero byte, and the `device` of a
 * job. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "precision/probe.h"
#include "runner/job/steps.h"

static void take(const struct probe *probe, const char *requested)
{
    const struct device *devices[DEVICE_RANKS_MAX];

    for (size_t ranks = 1; ranks <= DEVICE_RANKS_MAX; ranks += 5) {
        struct error err = { 0 };
        size_t count = probe_select(probe, requested, ranks, devices, &err);

        FUZZ_HOLDS(count > 0 ? count <= DEVICE_RANKS_MAX : err.text[0]);
        for (size_t i = 0; i < count; i++)
            FUZZ_HOLDS(devices[i] >= probe->devices &&
                       devices[i] < probe->devices + probe->count);
        if (count > 0)
            FUZZ_HOLDS(probe_peers(probe, devices[0]) >= 0);
    }
    probe_without_code(probe, requested);
}

static void check_same(const struct probe *a, const struct probe *b)
{
    FUZZ_HOLDS(a->count == b->count && strcmp(a->note, b->note) == 0);
    for (size_t i = 0; i < a->count; i++) {
        const struct device *x = &a->devices[i], *y = &b->devices[i];

        FUZZ_HOLDS(x->kind == y->kind && strcmp(x->name, y->name) == 0);
        FUZZ_HOLDS(x->major == y->major && x->minor == y->minor);
        FUZZ_HOLDS(x->memory == y->memory && x->available == y->available);
        FUZZ_HOLDS(x->ordinal == y->ordinal && x->threads == y->threads);
        FUZZ_HOLDS(x->runnable == y->runnable);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len };
    char *lines = fuzz_word(fuzz_take(&rest, 0)), *requested = fuzz_word(rest);
    struct probe probe, again;
    struct steps steps;
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (probe_read(lines, &probe, &err)) {
        FUZZ_HOLDS(probe.count >= 1 && probe.count <= PROBE_MAX);
        probe_write(&probe, &text);
        FUZZ_HOLDS(probe_read(text.data, &again, &err));
        check_same(&probe, &again);
        take(&probe, requested);
    } else {
        FUZZ_HOLDS(err.code == ERROR_SYSTEM && err.text[0]);
    }
    text_reset(&text);
    if (steps_read(lines, &steps)) {
        steps_write(&steps, &text);
        FUZZ_HOLDS(steps_read(text.data, &steps));
    }
    text_clear(&text);
    free(lines);
    free(requested);
    return 0;
}
