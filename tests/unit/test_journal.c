/* tests/unit/test_journal.c - undo restores the previous text; a second undo redoes the
 * change. */
#include "config.h"

#include "patcher/history/journal.h"

#include <unistd.h>

#include "base/digest.h"
#include "patcher/history/backup.h"
#include "tests/unit/unit.h"

struct fixture {
    char *dir, *job;
};

static void put(const char *path, const char *text)
{
    struct error err = { 0 };

    if (!file_replace(path, text, strlen(text), 0644, &err))
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->dir = unit_dir_new();
    fixture->job = path_join(fixture->dir, "job.yaml");
    put(fixture->job, "first\n");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    unit_dir_free(fixture->dir);
    free(fixture->job);
    free(fixture);
    return 0;
}

static void assert_holds(const struct fixture *fixture, const char *expected)
{
    struct text text;

    text_init(&text, 0);
    assert_true(file_read(fixture->job, 1000, &text, NULL, NULL));
    assert_string_equal(text.data, expected);
    text_clear(&text);
}

/* Do what a patch from one text to the other does. */
static char *patch(const struct fixture *fixture, const char *old_text,
                   const char *new_text)
{
    static const char *const rules[] = { "TS102", "TS105", NULL };
    char before[DIGEST_TEXT], after[DIGEST_TEXT], *backup;
    struct error err = { 0 };
    struct journal_entry entry = { .action = "patch",
                                   .before = before,
                                   .after = after,
                                   .rules = rules,
                                   .policy = "sound",
                                   .device = "Tesla T4" };

    digest_bytes(old_text, strlen(old_text), before);
    digest_bytes(new_text, strlen(new_text), after);
    if (!backup_write(fixture->job, old_text, strlen(old_text), &backup, &err))
        fail_msg("%s", err.text);
    entry.backup = path_base(backup);
    put(fixture->job, new_text);
    if (!journal_add(fixture->job, &entry, &err))
        fail_msg("%s", err.text);
    return backup;
}

static void undo(const struct fixture *fixture, const char *id)
{
    struct error err = { 0 };
    char *restored;

    if (!journal_undo(fixture->job, id, false, &restored, &err))
        fail_msg("%s", err.text);
    assert_true(file_exists(restored));
    free(restored);
}

static void test_journal_records_changes(void **state)
{
    const struct fixture *fixture = *state;
    json_t *lines = journal_read(fixture->job, NULL), *line;

    assert_int_equal(json_array_size(lines), 0);
    json_decref(lines);
    free(patch(fixture, "first\n", "second\n"));
    lines = journal_read(fixture->job, NULL);
    assert_int_equal(json_array_size(lines), 1);
    line = json_array_get(lines, 0);
    assert_string_equal(json_string_value(json_object_get(line, "action")), "patch");
    assert_string_equal(json_string_value(json_object_get(line, "job")), "job.yaml");
    assert_string_equal(json_string_value(json_object_get(line, "device")), "Tesla T4");
    assert_int_equal(json_array_size(json_object_get(line, "rules")), 2);
    assert_int_equal(strlen(json_string_value(json_object_get(line, "time"))), 20);
    json_decref(lines);
}

/* What was removed is in the file, and is no change that an undo could take back. */
static void test_journal_keeps_removals_apart(void **state)
{
    const struct fixture *fixture = *state;
    char *run = path_run_dir(fixture->job), *name = path_join(run, "changes.jsonl");
    struct error err = { 0 };
    struct text text;
    json_t *lines;

    free(patch(fixture, "first\n", "second\n"));
    assert_true(
        journal_add_removal(fixture->job, json_pack("[s]", "checkpoint-20"), 1000, &err));
    lines = journal_read(fixture->job, NULL);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
    text_init(&text, 0);
    assert_true(file_read(name, 10000, &text, NULL, &err));
    assert_non_null(strstr(text.data, "\"removed\":[\"checkpoint-20\"],\"bytes\":1000}"));
    text_clear(&text);
    undo(fixture, NULL);
    assert_holds(fixture, "first\n");
    free(name);
    free(run);
}

static void test_journal_skips_malformed_lines(void **state)
{
    static const char text[] =
        "{\"action\":\"patch\",\"n\":1}\n{\"action\":\"pa\nnull\n[1]\n{}\n\n"
        "{\"action\":5}\n{\"action\":\"undo\",\"n\":2}\n{\"action\":\"u";
    json_t *lines = journal_parse(text, sizeof(text) - 1);

    (void)state;
    assert_int_equal(json_array_size(lines), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(lines, 1), "n")),
                     2);
    json_decref(lines);
}

static void test_journal_undo_of_undo_redoes(void **state)
{
    const struct fixture *fixture = *state;
    json_t *lines;

    free(patch(fixture, "first\n", "second\n"));
    undo(fixture, NULL);
    assert_holds(fixture, "first\n");
    undo(fixture, NULL);
    assert_holds(fixture, "second\n");
    undo(fixture, NULL);
    assert_holds(fixture, "first\n");
    lines = journal_read(fixture->job, NULL);
    assert_int_equal(json_array_size(lines), 4);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(lines, 3), "action")), "undo");
    json_decref(lines);
}

static void test_journal_undo_to_any_backup(void **state)
{
    const struct fixture *fixture = *state;
    char *first = patch(fixture, "first\n", "second\n");

    free(patch(fixture, "second\n", "third\n"));
    undo(fixture, first);
    assert_holds(fixture, "first\n");
    undo(fixture, NULL);
    assert_holds(fixture, "third\n");
    free(first);
}

/* Killed after replacing the file, before writing the line of the journal. */
static void test_journal_undo_finds_an_unrecorded_patch(void **state)
{
    const struct fixture *fixture = *state;
    char *backup;

    assert_true(backup_write(fixture->job, "first\n", 6, &backup, NULL));
    put(fixture->job, "second\n");
    undo(fixture, NULL);
    assert_holds(fixture, "first\n");
    undo(fixture, NULL);
    assert_holds(fixture, "second\n");
    free(backup);
}

static void test_journal_undo_refuses_after_later_changes(void **state)
{
    const struct fixture *fixture = *state;
    struct error err = { 0 };
    struct backup *list;
    size_t count;

    free(patch(fixture, "first\n", "second\n"));
    put(fixture->job, "mine\n");
    assert_false(journal_undo(fixture->job, NULL, false, NULL, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_holds(fixture, "mine\n");
    assert_true(journal_undo(fixture->job, NULL, true, NULL, NULL));
    assert_holds(fixture, "first\n");
    assert_true(backup_list(fixture->job, &list, &count, NULL));
    assert_int_equal(count, 2); /* "mine" is kept too */
    backup_free(list, count);
    undo(fixture, NULL);
    assert_holds(fixture, "mine\n");
}

static void test_journal_undo_requires_a_change(void **state)
{
    const struct fixture *fixture = *state;
    char *run = path_run_dir(fixture->job);
    struct error err = { 0 };
    char *backup;

    assert_false(journal_undo(fixture->job, NULL, false, NULL, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_false(file_exists(run)); /* and writes nothing */
    error_clear(&err);
    backup = patch(fixture, "first\n", "second\n");
    assert_false(journal_undo(fixture->job, "1999", false, NULL, &err));
    assert_int_equal(err.code, ERROR_USAGE);
    error_clear(&err);
    assert_int_equal(unlink(backup), 0);
    assert_false(journal_undo(fixture->job, NULL, false, NULL, &err));
    assert_non_null(strstr(err.text, "no longer exists"));
    assert_holds(fixture, "second\n");
    free(backup);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_journal_records_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_journal_keeps_removals_apart, set_up,
                                        tear_down),
        cmocka_unit_test(test_journal_skips_malformed_lines),
        cmocka_unit_test_setup_teardown(test_journal_undo_of_undo_redoes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_journal_undo_finds_an_unrecorded_patch,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_journal_undo_to_any_backup, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_journal_undo_refuses_after_later_changes,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_journal_undo_requires_a_change, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
