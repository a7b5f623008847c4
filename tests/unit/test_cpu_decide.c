/* tests/unit/test_cpu_decide.c - whether a step is applied, depending on the gradients'
 * sum of squares. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(decide)

static struct step_scalars *numbers_new(enum scaling scaling, double scale, double most)
{
    struct precision precision = { .scaling = scaling, .loss_scale = scale };
    struct step_scalars *numbers = machines_memory(sizeof(*numbers));

    *numbers = (struct step_scalars) { .max_grad_norm = most, .step = 1 };
    scaler_init(&numbers->scaler, &precision);
    return numbers;
}

/* Clipped or not, scaled or not: torch's clip_grad_norm_ after unscaling. */
static void test_decide_clips_the_unscaled_norm(void **state)
{
    static const struct {
        double scale, most, square_sum, norm, factor;
    } cases[] = {
        { 1, 1, 0.25, 0.5, 1 },
        { 1, 1, 16, 4, 1 / (4 + 1e-6) },
        { 1, 0, 16, 4, 1 },
        { 1024, 1, 16 * 0x1p20, 4, 1 / (4 + 1e-6) / 1024 },
        { 1024, 0, 16 * 0x1p20, 4, 1.0 / 1024 },
        { 1, 1, 0, 0, 1 },
    };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++)
        for (size_t i = 0; i < TS_COUNT(cases); i++) {
            struct backend *be = machines->backends[m];
            struct step_scalars *n =
                numbers_new(SCALING_STATIC, cases[i].scale, cases[i].most);

            n->square_sum = cases[i].square_sum;
            machine_run(be, run_decide, &(struct op_decide) { n });
            assert_true(n->finite == 1);
            assert_true(n->norm == cases[i].norm);
            assert_true(n->factor == cases[i].factor);
            machines_memory_free(n);
        }
}

/* Over a thousand steps, some of which overflow, the scaler agrees with
 * precision/scaler.h. */
static void test_decide_updates_the_scaler_as_documented(void **state)
{
    static const enum scaling scalings[] = { SCALING_NONE, SCALING_STATIC,
                                             SCALING_DYNAMIC };
    static const double bad[] = { INFINITY, NAN, -1 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++)
        for (size_t s = 0; s < TS_COUNT(scalings); s++) {
            struct backend *be = machines->backends[m];
            struct step_scalars *n = numbers_new(scalings[s], SCALER_START, 1);
            struct scaler wanted;

            n->scaler.interval = 7;
            wanted = n->scaler;
            for (int i = 0; i < 1000; i++) {
                bool finite = i < 300 ? i % 10 != 3 : i % 10 == 3;

                n->square_sum = finite ? 4 : bad[i % 3];
                n->halted = 0;
                machine_run(be, run_decide, &(struct op_decide) { n });
                scaler_record(&wanted, finite);
                assert_int_equal(n->finite, finite);
                assert_int_equal(isfinite(n->norm) != 0, finite);
                assert_memory_equal(&n->scaler, &wanted, sizeof(wanted));
            }
            machines_memory_free(n);
        }
}

/* The scale grows no larger than fp32 allows, and shrinks no smaller than 1. */
static void test_decide_keeps_the_scale_in_bounds(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];
        struct step_scalars *n = numbers_new(SCALING_DYNAMIC, SCALER_START, 1);

        n->scaler.interval = 1;
        n->square_sum = 1;
        for (int i = 0; i < 200; i++)
            machine_run(be, run_decide, &(struct op_decide) { n });
        assert_true(n->scaler.scale == 0x1p126);
        n->square_sum = NAN;
        for (int i = 0; i < 200; i++) {
            n->halted = 0;
            machine_run(be, run_decide, &(struct op_decide) { n });
        }
        assert_true(n->scaler.scale == 1);
        assert_int_equal(n->scaler.skipped_in_row, 200);
        machines_memory_free(n);
    }
}

/* After a skipped step, all are skipped until the host writes the scalars again. */
static void test_decide_halts_after_a_skipped_step(void **state)
{
    static const struct {
        double square_sum;
        int32_t finite;
    } steps[] = { { 4, 1 }, { INFINITY, 0 }, { 4, 0 }, { 4, 0 } };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];
        struct step_scalars *n = numbers_new(SCALING_DYNAMIC, SCALER_START, 1);

        for (size_t i = 0; i < TS_COUNT(steps); i++) {
            n->square_sum = steps[i].square_sum;
            machine_run(be, run_decide, &(struct op_decide) { n });
            assert_int_equal(n->finite, steps[i].finite);
            assert_int_equal(n->halted, !steps[i].finite);
        }
        n->halted = 0;
        machine_run(be, run_decide, &(struct op_decide) { n });
        assert_int_equal(n->finite, 1);
        machines_memory_free(n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decide_clips_the_unscaled_norm),
        cmocka_unit_test(test_decide_updates_the_scaler_as_documented),
        cmocka_unit_test(test_decide_keeps_the_scale_in_bounds),
        cmocka_unit_test(test_decide_halts_after_a_skipped_step),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
