/* tests/unit/test_rules_missing.c - a check ends also where the working directory cannot be
 * examined, because it was deleted or belongs to someone else. */
#include "config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "patcher/patcher.h"
#include "tests/unit/unit.h"

static bool is_deleted; /* the working directory */

/* Fail for the working directory if the test says so. */
int stat(const char *restrict name, struct stat *restrict st)
{
    if (is_deleted && name[0] != '/') {
        errno = ENOENT;
        return -1;
    }
    return fstatat(AT_FDCWD, name, st, 0);
}

/* Check a job in the working directory; fail if it takes too long. */
static void check(const char *text, struct patch *patch)
{
    const struct patch_options options = { .job = "job.yaml" };
    struct error err = { 0 };

    alarm(20);
    if (!patcher_check(text, strlen(text), &options, patch, &err))
        fail_msg("%s", err.text);
    alarm(0);
}

static const struct finding *find(const struct patch *patch, const char *key)
{
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (strcmp(finding->rule, "TS713") == 0 && finding->key &&
            strcmp(finding->key, key) == 0)
            return finding;
    }
    return NULL;
}

/* No file is in the way of output_dir, and the model is missing. */
static void test_missing_check_ends_without_a_working_directory(void **state)
{
    struct patch patch;

    (void)state;
    is_deleted = true;
    check("model_name_or_path: model\ndataset: data.jsonl\noutput_dir: out/results\n",
          &patch);
    assert_null(find(&patch, "output_dir"));
    assert_non_null(find(&patch, "model_name_or_path"));
    assert_int_equal(find(&patch, "model_name_or_path")->severity, SEVERITY_WARNING);
    patch_clear(&patch);
    is_deleted = false;
}

/* A file in the way is an error; a folder that is missing is not. */
static void test_missing_output_below_a_file_is_refused(void **state)
{
    char *dir = unit_dir_new(), *file = path_join(dir, "file");
    struct patch patch;
    struct text job;

    (void)state;
    assert_true(file_replace(file, "", 0, 0600, NULL));
    text_init(&job, 0);
    text_addf(&job, "model_name_or_path: model\noutput_dir: %s/a/b\n", file);
    check(job.data, &patch);
    assert_non_null(find(&patch, "output_dir"));
    assert_int_equal(find(&patch, "output_dir")->severity, SEVERITY_ERROR);
    patch_clear(&patch);
    text_reset(&job);
    text_addf(&job, "model_name_or_path: model\noutput_dir: %s/a/b\n", dir);
    check(job.data, &patch);
    assert_null(find(&patch, "output_dir"));
    patch_clear(&patch);
    text_clear(&job);
    free(file);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_check_ends_without_a_working_directory),
        cmocka_unit_test(test_missing_output_below_a_file_is_refused),
    };

    return cmocka_run_group_tests_name("rules_missing", tests, NULL, NULL);
}
