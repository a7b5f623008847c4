/* tests/unit/test_cpu_unchecked.c - loops compiled without sanitizers do not hide reads
 * of invalid memory. */
#include "config.h"

#include "kernels/cpu/cpu_unchecked.h"

#include <sys/wait.h>

#include "kernels/backend.h"
#include "tests/unit/unit.h"

enum { ROWS = 9, COLS = 20, DEPTH = 40, NUMBERS = ROWS * DEPTH };

/* Return how a separate process that does this ends. */
static int status_of(void (*run)(const float *), const float *at)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        fclose(stderr);
        close(STDERR_FILENO);
        run(at);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void read_all(const float *at)
{
    unchecked_region(at, NUMBERS * sizeof(*at));
}

static void read_rows(const float *at)
{
    unchecked_rows(at, ROWS, (DEPTH - 1) * sizeof(*at), DEPTH * sizeof(*at));
}

/* Multiply `at` (ROWS, DEPTH) by some (DEPTH, COLS), with our own kernels. */
static void multiply(const float *at)
{
    static const struct device cpu = { .kind = DEVICE_CPU };
    static float b[DEPTH * COLS], out[ROWS * COLS];
    struct backend_options with = { .device = &cpu, .threads = 1, .no_onednn = true };
    struct error err = { 0 };
    struct backend *be = backend_open(&with, &err);
    struct op_matmul op = {
        .a = { .data = (void *)(uintptr_t)at,
               .format = FORMAT_FP32,
               .rows = ROWS,
               .cols = DEPTH,
               .stride = DEPTH },
        .b = { .data = b,
               .format = FORMAT_FP32,
               .rows = DEPTH,
               .cols = COLS,
               .stride = COLS },
        .out = { .data = out,
                 .format = FORMAT_FP32,
                 .rows = ROWS,
                 .cols = COLS,
                 .stride = COLS },
        .alpha = 1,
    };

    if (!be)
        _exit(0); /* no test takes this status for a sanitizer's */
    be->ops->matmul(be, &op);
    be->ops->sync(be, &err);
    backend_close(be);
}

static void check(void (*run)(const float *), size_t there, bool ends)
{
    float *at = calloc(there, sizeof(*at));

    assert_int_equal(status_of(run, at) != 0, ends);
    free(at);
}

static void test_unchecked_detects_reads_of_invalid_memory(void **state)
{
    (void)state;
    if (!UNCHECKED_REGIONS)
        skip();
    check(read_all, NUMBERS, false);
    check(read_all, NUMBERS - 1, true);
    check(read_rows, NUMBERS - 1, false);
    check(read_rows, NUMBERS - 2, true);
}

static void test_unchecked_matmuls_read_only_valid_memory(void **state)
{
    (void)state;
    if (!UNCHECKED_REGIONS)
        skip();
    check(multiply, NUMBERS, false);
    check(multiply, NUMBERS - 1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchecked_detects_reads_of_invalid_memory),
        cmocka_unit_test(test_unchecked_matmuls_read_only_valid_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
