/* tests/unit/test_emulation_hopper.c - the emulated machine multiplies as the warpgroups
 * of capability 9.0 do, and detects planted errors. */
#include "config.h"

#include "tests/emulation/emulation.h"

#include <math.h>

#include "base/size.h"
#include "precision/format.h"
#include "tests/emulation/emulation_hopper_samples.h"
#include "tests/unit/unit.h"

enum { SIZE = 64 };

struct matrices {
    float *d;
    uint16_t *a, *b;
};

static void *memory(size_t bytes)
{
    void *data;

    assert_int_equal(cudaMalloc(&data, bytes), cudaSuccess);
    return data;
}

static struct matrices start(int capability)
{
    const struct emulation_device device = { "Emulated", capability, 4, 1 << 20 };
    struct matrices m;

    emulation_reset(&device, 1);
    emulation_quiet(true);
    m = (struct matrices) { memory(SIZE * SIZE * sizeof(*m.d)),
                            memory(SIZE * SIZE * sizeof(*m.a)),
                            memory(SIZE * SIZE * sizeof(*m.b)) };
    for (int i = 0; i < SIZE * SIZE; i++) {
        m.a[i] = format_to_fp16((float)(i * 7919 % 17 - 8));
        m.b[i] = format_to_fp16((float)(i * 104729 % 13 - 6));
    }
    return m;
}

static cudaError_t run(const struct matrices *m, enum hopper_sample sample)
{
    cudaError_t status = hopper_sample_launch(sample, m->d, m->a, m->b);

    return status == cudaSuccess ? cudaStreamSynchronize(NULL) : status;
}

static void assert_multiplied(const struct matrices *m, bool turned)
{
    for (int i = 0; i < SIZE * SIZE; i++) {
        int row = i / SIZE, col = i % SIZE;
        float sum = 0;

        for (int k = 0; k < SIZE; k++)
            sum += format_from_fp16(m->a[row * SIZE + k]) *
                   format_from_fp16(m->b[turned ? k * SIZE + col : col * SIZE + k]);
        assert_true(m->d[i] == sum);
    }
}

static void test_hopper_matmul_reads_each_layout(void **state)
{
    static const enum hopper_sample samples[] = { HOPPER_SAMPLE_UPRIGHT,
                                                  HOPPER_SAMPLE_TURNED,
                                                  HOPPER_SAMPLE_REGISTERS };

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (size_t i = 0; i < TS_COUNT(samples); i++) {
            struct matrices m = start(90);

            emulation_seed(seed);
            assert_int_equal(run(&m, samples[i]), cudaSuccess);
            assert_multiplied(&m, i > 0);
        }
}

static void test_hopper_sums_are_nan_before_the_wait(void **state)
{
    struct matrices m = start(90);

    (void)state;
    assert_int_equal(run(&m, HOPPER_SAMPLE_NO_WAIT), cudaSuccess);
    for (int i = 0; i < SIZE * SIZE; i++)
        assert_true(isnan(m.d[i]));
}

static void test_hopper_errors_are_detected(void **state)
{
    static const struct {
        enum hopper_sample sample;
        const char *word;
    } cases[] = {
        { HOPPER_SAMPLE_NO_BEGIN, "without hopper_begin" },
        { HOPPER_SAMPLE_UNPUBLISHED, "has not published" },
        { HOPPER_SAMPLE_OVERWRITTEN, "has changed before the wait" },
        { HOPPER_SAMPLE_LEFT_OVERWRITTEN, "has changed before the wait" },
        { HOPPER_SAMPLE_GATE_STAYS_CLOSED, "waits for parity 0 of the gate" },
        { HOPPER_SAMPLE_GATE_UNINITIALIZED, "is not initialized" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct matrices m = start(90);

        assert_int_equal(run(&m, cases[i].sample), cudaErrorLaunchFailure);
        if (!strstr(emulation_failure(), cases[i].word))
            fail_msg("%s: %s", cases[i].word, emulation_failure());
    }
}

static void test_hopper_matmul_requires_its_capability(void **state)
{
    struct matrices m = start(80);

    (void)state;
    assert_int_equal(run(&m, HOPPER_SAMPLE_UPRIGHT), cudaErrorLaunchFailure);
    assert_non_null(strstr(emulation_failure(), "requires compute capability 9.0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hopper_matmul_reads_each_layout),
        cmocka_unit_test(test_hopper_sums_are_nan_before_the_wait),
        cmocka_unit_test(test_hopper_errors_are_detected),
        cmocka_unit_test(test_hopper_matmul_requires_its_capability),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
