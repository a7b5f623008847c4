/* tests/unit/test_slurm_array.c - the files of arrays: what a process that comes later
 * finds. */
#include "config.h"

#include "runner/cluster/slurm_array.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/unit/unit.h"

static const char *const tasks[] = { "a-1", "b-2", "c-3" };

static void write_array(const char *dir, const char *name, size_t from, size_t count)
{
    struct slurm_array array = { .tasks = (const char **)tasks + from, .count = count };
    struct error err = { 0 };

    strcpy(array.name, name);
    assert_true(slurm_array_write(dir, &array, &err));
}

static void note(const char *dir, const char *name, int64_t id, const char *why)
{
    struct slurm_array array = { .id = id,
                                 .state =
                                     why ? SLURM_ARRAY_REFUSED : SLURM_ARRAY_SUBMITTED };
    struct error err = { 0 };

    strcpy(array.name, name);
    strcpy(array.why, why ? why : "");
    assert_true(slurm_array_note(dir, &array, &err));
}

static void test_slurm_arrays_are_found_by_their_submissions(void **state)
{
    struct arena *arena = arena_new();
    char *dir = unit_dir_new();
    struct slurm_arrays arrays;
    const struct slurm_array *found;
    int64_t task;

    (void)state;
    write_array(dir, "s-1", 0, 2);
    write_array(dir, "s-2", 2, 1);
    slurm_arrays_read(dir, arena, &arrays);
    assert_int_equal(arrays.count, 2);
    found = slurm_arrays_find(&arrays, "b-2", &task);
    assert_non_null(found);
    assert_string_equal(found->name, "s-1");
    assert_int_equal(task, 1);
    assert_int_equal(found->state, SLURM_ARRAY_OPEN);
    assert_null(slurm_arrays_find(&arrays, "b-3", &task));

    note(dir, "s-1", 42, NULL);
    note(dir, "s-2", 0, "Invalid partition");
    slurm_arrays_read(dir, arena, &arrays);
    found = slurm_arrays_find(&arrays, "a-1", &task);
    assert_int_equal(found->state, SLURM_ARRAY_SUBMITTED);
    assert_int_equal(found->id, 42);
    found = slurm_arrays_find(&arrays, "c-3", &task);
    assert_int_equal(found->state, SLURM_ARRAY_REFUSED);
    assert_string_equal(found->why, "Invalid partition");
    arena_free(arena);
    unit_dir_free(dir);
}

static void test_slurm_arrays_leave_damaged_files_out(void **state)
{
    static const char *const texts[] = {
        "", "{", "[]", "{\"tasks\": []}", "{\"tasks\": [1]}", "{\"tasks\": \"a-1\"}"
    };
    struct arena *arena = arena_new();
    char *dir = unit_dir_new(), *file = path_join(dir, "s-1.json"),
         *id = path_join(dir, "s-2.id"), *hidden = path_join(dir, ".s-2.json.tmp-1");
    struct error err = { 0 };
    struct slurm_arrays arrays;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_true(file_replace(file, texts[i], strlen(texts[i]), 0600, &err));
        slurm_arrays_read(dir, arena, &arrays);
        if (arrays.count != 0)
            fail_msg("%s is no array", texts[i]);
    }
    write_array(dir, "s-2", 0, 1);
    assert_true(file_replace(id, "soon\n", 5, 0600, &err));
    assert_true(file_replace(hidden, "{\"tasks\": [\"x\"]}", 16, 0600, &err));
    slurm_arrays_read(dir, arena, &arrays);
    assert_int_equal(arrays.count, 1);
    assert_int_equal(arrays.list[0].state, SLURM_ARRAY_OPEN);
    slurm_arrays_read("/nowhere", arena, &arrays);
    assert_int_equal(arrays.count, 0);
    free(hidden);
    free(id);
    free(file);
    arena_free(arena);
    unit_dir_free(dir);
}

static void test_slurm_array_keeps_the_script_of_one_that_was_submitted(void **state)
{
    struct arena *arena = arena_new();
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct slurm_arrays arrays;

    (void)state;
    write_array(dir, "s-1", 0, 2);
    note(dir, "s-1", 42, NULL);
    assert_true(
        file_replace(slurm_array_file(dir, "s-1", ".sh", arena), "x", 1, 0700, &err));
    slurm_arrays_remove(dir);
    slurm_arrays_read(dir, arena, &arrays);
    assert_int_equal(arrays.count, 0);
    assert_false(file_exists(slurm_array_file(dir, "s-1", ".id", arena)));
    assert_true(file_exists(slurm_array_file(dir, "s-1", ".sh", arena)));
    slurm_array_remove(dir, "s-1", true);
    assert_false(file_exists(slurm_array_file(dir, "s-1", ".sh", arena)));
    arena_free(arena);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm_arrays_are_found_by_their_submissions),
        cmocka_unit_test(test_slurm_arrays_leave_damaged_files_out),
        cmocka_unit_test(test_slurm_array_keeps_the_script_of_one_that_was_submitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
