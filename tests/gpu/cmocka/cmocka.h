/*
 * tests/gpu/cmocka/cmocka.h - the subset of cmocka that the unit tests use.
 * tests/gpu/run.sh uses it on machines without libcmocka.  Prints TAP.
 */
#ifndef TESTS_GPU_CMOCKA_H
#define TESTS_GPU_CMOCKA_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state; /* NULL: use the state of the group */
};

enum cmocka_result { CMOCKA_PASSED, CMOCKA_FAILED, CMOCKA_SKIPPED };

/* Weak, so that all files of a program share one. */
__attribute__((weak)) jmp_buf cmocka_jump;

__attribute__((unused, noreturn, format(printf, 3, 4))) static void
cmocka_fail(const char *file, int line, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    printf("# %s:%d: ", file, line);
    vprintf(format, list);
    printf("\n");
    va_end(list);
    longjmp(cmocka_jump, CMOCKA_FAILED);
}

#define cmocka_check(condition, ...) \
    ((condition) ? (void)0 : cmocka_fail(__FILE__, __LINE__, __VA_ARGS__))
#define fail_msg(...)      cmocka_fail(__FILE__, __LINE__, __VA_ARGS__)
#define skip()             longjmp(cmocka_jump, CMOCKA_SKIPPED)
#define print_message      printf
#define assert_true(x)     cmocka_check(x, "%s", #x)
#define assert_false(x)    cmocka_check(!(x), "not %s", #x)
#define assert_null(x)     cmocka_check(!(x), "%s is not NULL", #x)
#define assert_non_null(x) cmocka_check(x, "%s is NULL", #x)
#define assert_int_equal(a, b)                                               \
    cmocka_check((uintmax_t)(a) == (uintmax_t)(b), "%s is %jd, not %jd", #a, \
                 (intmax_t)(a), (intmax_t)(b))
#define assert_int_not_equal(a, b) \
    cmocka_check((uintmax_t)(a) != (uintmax_t)(b), "%s is %jd", #a, (intmax_t)(a))
#define assert_ptr_equal(a, b) \
    cmocka_check((const void *)(a) == (const void *)(b), "%s is not %s", #a, #b)
#define assert_in_range(x, low, high)                     \
    cmocka_check((uintmax_t)(x) >= (uintmax_t)(low) &&    \
                     (uintmax_t)(x) <= (uintmax_t)(high), \
                 "%s is %jd", #x, (intmax_t)(x))
#define assert_float_equal(a, b, near)                                                  \
    cmocka_check(fabs((double)(a) - (double)(b)) <= (double)(near), "%s is %g, not %g", \
                 #a, (double)(a), (double)(b))
#define assert_string_equal(a, b) \
    cmocka_check(strcmp(a, b) == 0, "%s is '%s', not '%s'", #a, a, b)
#define assert_string_not_equal(a, b) cmocka_check(strcmp(a, b) != 0, "%s is '%s'", #a, a)
#define assert_memory_equal(a, b, bytes) \
    cmocka_check(memcmp(a, b, bytes) == 0, "%s and %s differ", #a, #b)
#define assert_memory_not_equal(a, b, bytes) \
    cmocka_check(memcmp(a, b, bytes) != 0, "%s and %s are the same", #a, #b)

#define cmocka_unit_test(f)     \
    {                           \
#f, f, NULL, NULL, NULL \
    }
#define cmocka_unit_test_prestate(f, state) \
    {                                       \
#f, f, NULL, NULL, state            \
    }
#define cmocka_unit_test_setup_teardown(f, setup, teardown) \
    {                                                       \
#f, f, setup, teardown, NULL                        \
    }
#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    cmocka_run(tests, sizeof(tests) / sizeof(*(tests)), setup, teardown)

static int cmocka_try(const struct CMUnitTest *test, void **state)
{
    int end = setjmp(cmocka_jump);

    if (end != CMOCKA_PASSED)
        return end;
    if (test->setup_func && test->setup_func(state) != 0)
        return CMOCKA_FAILED;
    test->test_func(state);
    return test->teardown_func && test->teardown_func(state) != 0 ? CMOCKA_FAILED
                                                                  : CMOCKA_PASSED;
}

__attribute__((unused)) static int cmocka_run(const struct CMUnitTest *tests,
                                              size_t count, int (*setup)(void **),
                                              int (*teardown)(void **))
{
    static void *group;
    static int failed;
    static size_t at;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (setjmp(cmocka_jump) != CMOCKA_PASSED || (setup && setup(&group) != 0)) {
        printf("1..1\nnot ok 1 - setup of the group\n");
        return 1;
    }
    printf("1..%zu\n", count);
    for (at = 0; at < count; at++) {
        void *state = tests[at].initial_state ? tests[at].initial_state : group;
        int end = cmocka_try(&tests[at], &state);

        printf("%sok %zu - %s%s\n", end == CMOCKA_FAILED ? "not " : "", at + 1,
               tests[at].name, end == CMOCKA_SKIPPED ? " # SKIP" : "");
        failed += end == CMOCKA_FAILED;
    }
    if (setjmp(cmocka_jump) == CMOCKA_PASSED && teardown)
        teardown(&group);
    return failed;
}

#endif
