/* tests/unit/test_arena.c - allocations are zeroed, aligned and disjoint; overflow ends
 * the process. */
#include "config.h"

#include "base/arena.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_arena_is_zeroed_and_aligned(void **state)
{
    static const size_t sizes[] = {
        0, 1, 15, 16, 17, 1000, 16384, 16385, 65536, 1000000
    };
    struct arena *arena = arena_new();

    (void)state;
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            unsigned char *p = arena_alloc(arena, sizes[i]);

            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(p[k], 0);
            memset(p, 0xff, sizes[i]);
        }
    arena_free(arena);
}

static void test_arena_allocations_do_not_overlap(void **state)
{
    enum { PIECES = 3000 };
    struct arena *arena = arena_new();
    unsigned char *pieces[PIECES];

    (void)state;
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = arena_alloc(arena, 1 + i % 97);
        memset(pieces[i], (int)(i % 251), 1 + i % 97);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < 1 + i % 97; k++)
            assert_int_equal(pieces[i][k], i % 251);
    arena_free(arena);
}

static void test_arena_copies_strings(void **state)
{
    struct arena *arena = arena_new();

    (void)state;
    assert_null(arena_strdup(arena, NULL));
    assert_string_equal(arena_strdup(arena, "fp16"), "fp16");
    assert_string_equal(arena_copy(arena, "model_dtype: x", 11), "model_dtype");
    assert_string_equal(arena_copy(arena, NULL, 0), "");
    assert_string_equal(arena_printf(arena, "%d of %s", 7, "ten"), "7 of ten");
    arena_free(arena);
    arena_free(NULL);
}

/* Sizes whose multiplication wraps around to 4 bytes. */
static void overflow_array(void)
{
    arena_array(arena_new(), SIZE_MAX / 4 + 2, 4);
}

static void overflow_resize(void)
{
    free(memory_resize(NULL, SIZE_MAX / 4 + 2, 4));
}

static void overflow_copy(void)
{
    arena_copy(arena_new(), "", SIZE_MAX);
}

/* Run it in a child with standard error closed; return the exit status. */
static int status_of(void (*function)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        close(STDERR_FILENO);
        function();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_arena_overflow_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(status_of(overflow_array), 3);
    assert_int_equal(status_of(overflow_resize), 3);
    assert_int_equal(status_of(overflow_copy), 3);
}

static void test_size_detects_overflow(void **state)
{
    size_t out;

    (void)state;
    assert_true(size_mul(1 << 20, 1 << 20, &out));
    assert_int_equal(out, (size_t)1 << 40);
    assert_false(size_mul((size_t)1 << 40, (size_t)1 << 40, &out));
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_false(size_add(SIZE_MAX, 1, &out));
    assert_int_equal(size_round(0, 16), 0);
    assert_int_equal(size_round(1, 16), 16);
    assert_int_equal(size_round(16, 16), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_is_zeroed_and_aligned),
        cmocka_unit_test(test_arena_allocations_do_not_overlap),
        cmocka_unit_test(test_arena_copies_strings),
        cmocka_unit_test(test_arena_overflow_ends_the_process),
        cmocka_unit_test(test_size_detects_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
