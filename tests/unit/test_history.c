/* tests/unit/test_history.c - the lines of edits are found after later changes. */
#include "config.h"

#include "patcher/history/history.h"

#include "patcher/history/journal.h"
#include "patcher/patcher.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

struct fixture {
    char *dir, *job;
};

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->dir = unit_dir_new();
    fixture->job = path_join(fixture->dir, "job.yaml");
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

static void write_job(const struct fixture *fixture, const char *text)
{
    assert_true(file_replace(fixture->job, text, strlen(text), 0644, NULL));
}

static void patch_job(const struct fixture *fixture)
{
    struct device device;
    struct patch_options options = { .job = fixture->job, .device = &device };
    struct patch patch;

    assert_true(device_find("T4", &device, NULL));
    assert_true(patcher_patch_file(&options, &patch, NULL));
    assert_true(patch.changed);
    patch_clear(&patch);
}

static void read_history(const struct fixture *fixture, struct history *out)
{
    struct text now;

    text_init(&now, 0);
    assert_true(file_read(fixture->job, 1 << 20, &now, NULL, NULL));
    assert_true(history_read(fixture->job, &now, out, NULL));
    text_clear(&now);
}

static void test_history_follows_edits_and_new_lines(void **state)
{
    const struct fixture *fixture = *state;
    struct history history;

    write_job(fixture,
              "model_name_or_path: m\ndataset: d\nbf16: true\nlearning_rate: 1e-4");
    patch_job(fixture); /* bf16: false, followed by fp16: true */
    read_history(fixture, &history);
    assert_int_equal(history.count, 2);
    assert_int_equal(history.unknown_patches, 0);
    assert_int_equal(history.list[0].line, 3);
    assert_int_equal(history.list[1].line, 4);
    history_clear(&history);
    write_job(fixture, "# mine\n\nmodel_name_or_path: m\nfp16: true\nbf16: auto\n");
    read_history(fixture, &history);
    assert_int_equal(history.list[0].line, 0);
    assert_int_equal(history.list[1].line, 4);
    history_clear(&history);
}

static void test_history_without_patches_is_empty(void **state)
{
    const struct fixture *fixture = *state;
    struct history history;

    write_job(fixture, "seed: 1\n");
    read_history(fixture, &history);
    assert_int_equal(history.count, 0);
    assert_int_equal(history.unknown_patches, 0);
    history_clear(&history);
}

static void test_history_counts_patches_it_cannot_replay(void **state)
{
    const struct fixture *fixture = *state;
    struct history history;
    char *backups = path_join(fixture->dir, "job.run/backups");

    write_job(fixture, "model_name_or_path: m\ndataset: d\nbf16: true\n");
    patch_job(fixture);
    assert_true(file_remove_tree(backups, NULL));
    read_history(fixture, &history);
    assert_int_equal(history.count, 0);
    assert_int_equal(history.unknown_patches, 1);
    history_clear(&history);
    free(backups);
}

static void assert_text_after(const struct fixture *fixture, const char *expected)
{
    struct text text;

    text_init(&text, 0);
    assert_int_equal(history_text_after(fixture->job, &text), expected != NULL);
    if (expected)
        assert_string_equal(text.data, expected);
    text_clear(&text);
}

static void test_history_knows_the_text_after_a_patch_or_undo(void **state)
{
    static const char dropped[] = "model_name_or_path: m\ndataset: d\nbf16: true\n";
    static const char patched[] =
        "model_name_or_path: m\ndataset: d\nbf16: false\nfp16: true\n";
    const struct fixture *fixture = *state;
    char *backups = path_join(fixture->dir, "job.run/backups");

    write_job(fixture, dropped);
    assert_text_after(fixture, NULL);
    patch_job(fixture);
    assert_text_after(fixture, patched);
    write_job(fixture, "mine: 1\n");
    assert_text_after(fixture, patched);
    assert_true(journal_undo(fixture->job, NULL, true, NULL, NULL));
    assert_text_after(fixture, dropped);
    write_job(fixture, "mine: 2\n");
    assert_text_after(fixture, dropped);
    assert_true(file_remove_tree(backups, NULL));
    assert_text_after(fixture, NULL);
    free(backups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_history_follows_edits_and_new_lines, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_history_without_patches_is_empty, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_history_counts_patches_it_cannot_replay,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_history_knows_the_text_after_a_patch_or_undo,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
