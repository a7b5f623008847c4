/* tests/unit/test_repository.c - .trainspool.toml: where it is found, and what it says. */
#include "config.h"

#include "runner/job/repository.h"

#include "base/file.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static void test_repository_reads_a_device(void **state)
{
    static const struct {
        const char *text, *device;
    } cases[] = {
        { "device = \"V100 32GB\"\n", "V100 32GB" },
        { "device=\"T4\"", "T4" },
        { "  device\t=\t'sm_75:24GiB'  # ours\n", "sm_75:24GiB" },
        { "# nothing\n\n   \n", "" },
        { "", "" },
        { "# first\r\ndevice = \"a \\\"b\\\\\"\r\n\r\n", "a \"b\\" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct repository repository = { .file = "f" };
        struct error err = { 0 };

        if (!repository_read(cases[i].text, &repository, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_string_equal(repository.device, cases[i].device);
    }
}

static void test_repository_refuses_other_text_with_its_position(void **state)
{
    static const struct {
        const char *text;
        uint32_t line, column;
    } cases[] = {
        { "devise = \"T4\"\n", 1, 1 },
        { "\n  devices = \"T4\"\n", 2, 3 },
        { "[gpu]\n", 1, 1 },
        { "device: T4\n", 1, 1 }, /* YAML */
        { "device \"T4\"\n", 1, 8 },
        { "device = T4\n", 1, 10 },
        { "device = \"T4\n", 1, 13 },
        { "device = \"\"\n", 1, 12 },
        { "device = \"T4\" \"A2\"\n", 1, 15 },
        { "device = \"\\n\"\n", 1, 12 },
        { "device = \"T4\"\ndevice = \"T4\"\n", 2, 7 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct repository repository = { .file = "f" };
        struct error err = { 0 };

        assert_false(repository_read(cases[i].text, &repository, &err));
        assert_int_equal(err.code, ERROR_USAGE);
        if (err.at.line != cases[i].line || err.at.column != cases[i].column)
            fail_msg("%s: %u:%u", cases[i].text, err.at.line, err.at.column);
    }
}

static void test_repository_refuses_a_long_text(void **state)
{
    struct repository repository = { .file = "f" };
    struct error err = { 0 };
    char text[200] = "device = \"";

    (void)state;
    memset(text + strlen(text), 'x', 120);
    strcat(text, "\"");
    assert_false(repository_read(text, &repository, &err));
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char *path = path_join(folder, name);

    assert_true(file_replace(path, text, strlen(text), 0644, NULL));
    free(path);
}

static const char *device_for(const char *folder, const char *job)
{
    static struct repository repository;
    struct error err = { 0 };
    char *path = path_join(folder, job);

    if (!repository_find(path, &repository, &err))
        fail_msg("%s", err.text);
    free(path);
    return repository.device;
}

/* TMPDIR may be in a repository. */
static bool is_in_repository(const char *folder)
{
    char *at = realpath(folder, NULL);
    bool found = false;

    while (at && at[1] && !found) {
        char *git = path_join(at, ".git"), *parent = path_dir(at);

        found = file_exists(git);
        free(git);
        free(at);
        at = parent;
    }
    free(at);
    return found;
}

static void test_repository_is_found_upward_to_the_root(void **state)
{
    char *folder = unit_dir_new();
    (void)state;
    char *team = path_join(folder, "root/team/jobs"),
         *git = path_join(folder, "root/.git"),
         *outside = path_join(folder, "outside/jobs");

    assert_true(file_make_dirs(team, 0755, NULL));
    assert_true(file_make_dirs(git, 0755, NULL));
    assert_true(file_make_dirs(outside, 0755, NULL));
    assert_string_equal(device_for(folder, "root/team/jobs/a.yaml"), "");
    write_file(folder, "root/" REPOSITORY_FILE, "device = \"A100\"\n");
    assert_string_equal(device_for(folder, "root/team/jobs/a.yaml"), "A100");
    assert_string_equal(device_for(folder, "root/a.yaml"), "A100");
    write_file(folder, "root/team/" REPOSITORY_FILE, "device = \"T4\"\n");
    assert_string_equal(device_for(folder, "root/team/jobs/a.yaml"), "T4"); /* nearest */
    assert_string_equal(device_for(folder, "root/a.yaml"), "A100");
    /* what lies above the root of a repository, or above a folder outside of one, is
     * another's */
    write_file(folder, REPOSITORY_FILE, "device = \"H100\"\n");
    assert_string_equal(device_for(folder, "root/a.yaml"), "A100");
    if (!is_in_repository(folder))
        assert_string_equal(device_for(folder, "outside/jobs/a.yaml"), "");
    assert_string_equal(device_for(folder, "a.yaml"), "H100");
    free(team);
    free(git);
    free(outside);
    unit_dir_free(folder);
}

static void test_repository_without_a_folder_is_empty(void **state)
{
    (void)state;
    assert_string_equal(device_for("/nonexistent", "a.yaml"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repository_reads_a_device),
        cmocka_unit_test(test_repository_refuses_other_text_with_its_position),
        cmocka_unit_test(test_repository_refuses_a_long_text),
        cmocka_unit_test(test_repository_is_found_upward_to_the_root),
        cmocka_unit_test(test_repository_without_a_folder_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
