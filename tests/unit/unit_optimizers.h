/*
 * tests/unit/unit_optimizers.h - steps of the real optimizers: tests/golden/optimizers.py.
 */
#ifndef TESTS_UNIT_UNIT_OPTIMIZERS_H
#define TESTS_UNIT_UNIT_OPTIMIZERS_H

#include <math.h>

#include "base/json.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

enum { GOLDEN_STEPS = 6, GOLDEN_LIMIT = 1 << 22 };
static const double golden_rates[GOLDEN_STEPS] = { 0.01, 0.02, 0.02, 0.005, 0.01, 0.001 };

static inline json_t *golden_case(const char *name)
{
    char *file = unit_source("tests/golden/optimizers.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(file, GOLDEN_LIMIT, &err), *found;

    if (!golden)
        fail_msg("%s", err.text);
    found = json_incref(json_object_get(golden, name));
    assert_non_null(found);
    json_decref(golden);
    free(file);
    return found;
}

/* The values of the script's elements(). */
static inline void golden_fill(struct operand *x, uint64_t seed)
{
    for (size_t i = 0; i < x->numbers; i++) {
        uint32_t hash = (uint32_t)(i * 2654435761u + seed * 2246822519u);
        double whole;

        hash ^= hash >> 16;
        hash *= 0x45d9f3bu;
        whole = (double)((hash ^ hash >> 16) % 2049) - 1024;
        x->real[i] = (double)(float)(whole * whole * whole / 0x1p30);
    }
    operand_write(x);
    memcpy(x->initial, x->block, x->bytes);
}

/* Compare every `each`-th value, within `units` epsilons of the largest. */
static inline void golden_near(const json_t *wanted, const double *x, size_t each,
                               double units)
{
    double most = 0;

    for (size_t i = 0; i < json_array_size(wanted); i++)
        most = fmax(most, fabs(json_number_value(json_array_get(wanted, i))));
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        double value = json_number_value(json_array_get(wanted, i));

        if (!(fabs(x[i * each] - value) <= units * most * 0x1p-23))
            fail_msg("element %zu: %.9g, not %.9g", i * each, x[i * each], value);
    }
}

#endif
