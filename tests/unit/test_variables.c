/* tests/unit/test_variables.c - the environment variables of a job. */
#include "config.h"

#include "patcher/schema/variables.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static size_t count_of(const char *env, const char *more)
{
    struct arena *arena = arena_new();
    const char *text = arena_printf(arena, "trainspool:\n  env: %s\n%s", env, more);
    struct document document;
    struct variables variables;
    size_t count;

    document_read(text, strlen(text), arena, &document);
    variables_read(&document, arena, &variables);
    count = variables.count;
    arena_free(arena);
    return count;
}

static void test_variables_keep_values_as_written(void **state)
{
    static const char text[] = "trainspool: {env: {A: 010, B: 'x y', C_1: false, D: ''}}";
    static const char *const expected[] = { "A=010", "B=x y", "C_1=false", "D=" };
    struct arena *arena = arena_new();
    struct document document;
    struct variables variables;

    (void)state;
    document_read(text, strlen(text), arena, &document);
    variables_read(&document, arena, &variables);
    assert_int_equal(variables.count, TS_COUNT(expected));
    for (size_t i = 0; i < variables.count; i++)
        assert_string_equal(
            arena_printf(arena, "%s=%s", variables.list[i].name, variables.list[i].value),
            expected[i]);
    arena_free(arena);
}

/* Each is compared with the environment, and the program executed again until all agree. */
static void test_variables_take_a_name_once(void **state)
{
    (void)state;
    assert_int_equal(count_of("{A: 1, A: 2, B: 3}", ""), 2);
}

static void test_variables_leave_out_what_is_refused(void **state)
{
    static const char *const refused[] = { "LD_PRELOAD",
                                           "LD_LIBRARY_PATH",
                                           "LD_",
                                           "GLIBC_TUNABLES",
                                           "MALLOC_PERTURB_",
                                           "CUDA_INJECTION64_PATH",
                                           "NVTX_INJECTION64_PATH",
                                           "NCCL_TUNER_PLUGIN",
                                           "CUDA_MPS_PIPE_DIRECTORY",
                                           "CUDA_VISIBLE_DEVICES",
                                           "CUDA_DEVICE_ORDER",
                                           "ASAN_OPTIONS",
                                           "TRAINSPOOL_SANDBOX",
                                           "PATH",
                                           "HOME",
                                           "1A",
                                           "a.b",
                                           "'a=b'",
                                           "''" };
    static const char *const allowed[] = { "LD",         "MY_LD_PRELOAD",
                                           "PATHS",      "HOME_1",
                                           "NCCL_DEBUG", "CUDA_MODULE_LOADING",
                                           "PLUGIN_OF",  "_" };
    char env[80];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(refused); i++) {
        snprintf(env, sizeof(env), "{%s: x, B: y}", refused[i]);
        assert_int_equal(count_of(env, ""), 1);
    }
    for (size_t i = 0; i < TS_COUNT(allowed); i++) {
        snprintf(env, sizeof(env), "{%s: x, B: y}", allowed[i]);
        assert_int_equal(count_of(env, ""), 2);
    }
}

static void test_variables_require_a_map_and_a_native_run(void **state)
{
    (void)state;
    assert_int_equal(count_of("{A: 1}", "  target: native\n"), 1);
    assert_int_equal(count_of("{A: 1}", "  target: external\n"), 0);
    assert_int_equal(count_of("/opt/venv", ""), 0);
    assert_int_equal(count_of("[A]", ""), 0);
    assert_int_equal(count_of("", ""), 0);
    assert_int_equal(count_of("{A: [1], B: {C: 1}, D: null, E: ${F}, F: \"a\\0b\"}", ""),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables_keep_values_as_written),
        cmocka_unit_test(test_variables_take_a_name_once),
        cmocka_unit_test(test_variables_leave_out_what_is_refused),
        cmocka_unit_test(test_variables_require_a_map_and_a_native_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
