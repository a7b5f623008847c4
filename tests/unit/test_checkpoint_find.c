/* tests/unit/test_checkpoint_find.c - a folder that cannot be read is not an empty one, and a
 * checkpoint is removed whole. */
#include "config.h"

#include "train/checkpoint/checkpoint_find.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "base/walk.h"
#include "tests/unit/unit.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/manifest.h"

static void test_checkpoint_list_reports_a_folder_that_cannot_be_read(void **state)
{
    char dir[] = "/tmp/trainspool-unit-XXXXXX";
    struct checkpoint_found *found;
    struct error err = { 0 }, begin = { 0 }, prune = { 0 };
    const uid_t user = geteuid();

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(checkpoint_list(dir, NULL, &found, &err), 0);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(chmod(dir, 0111), 0);
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(checkpoint_list(dir, NULL, &found, &err), 0);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, dir));
    assert_false(checkpoint_begin(dir, NULL, 0, &begin));
    assert_int_equal(begin.code, ERROR_SYSTEM);
    assert_false(checkpoint_prune(dir, NULL, 1, NULL, &prune));
    assert_int_equal(prune.code, ERROR_SYSTEM);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(rmdir(dir), 0);
    error_clear(&err);
    assert_int_equal(checkpoint_list(dir, NULL, &found, &err), 0);
    assert_int_equal(err.code, ERROR_NONE); /* it does not exist */
}

static int changes_left; /* until this process ends, as if it were killed */

static bool end_at_change(void)
{
    if (changes_left-- == 0)
        _exit(1);
    return true;
}

static void make_checkpoint(const char *dir, int step)
{
    static const char *const files[] = { "config.json", "model.safetensors",
                                         "state.json" };
    struct error err = { 0 };
    char name[64], *folder;

    snprintf(name, sizeof(name), "checkpoint-%d", step);
    folder = path_join(dir, name);
    assert_true(file_make_dir(folder, 0755, &err));
    for (size_t i = 0; i < TS_COUNT(files); i++) {
        char *file = path_join(folder, files[i]);

        assert_true(file_create(file, "x", 1, 0644, &err));
        free(file);
    }
    assert_true(manifest_write(folder, NULL, NULL, NULL, &err));
    free(folder);
}

/* Killed at any change: what is left of a checkpoint is complete, or the next run removes
 * it. */
static void test_checkpoint_prune_leaves_no_part_of_a_checkpoint(void **state)
{
    int status = 1, kills = 0;

    (void)state;
    for (; status != 0; kills++) {
        char *dir = unit_dir_new(), *old = path_join(dir, "checkpoint-1");
        struct error err = { 0 };
        pid_t pid;

        make_checkpoint(dir, 1);
        make_checkpoint(dir, 2);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            changes_left = kills;
            walk_check_before_changes(end_at_change);
            _exit(checkpoint_prune(dir, NULL, 1, NULL, &err) ? 0 : 2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        assert_true(checkpoint_remove_temporary(dir, &err));
        if (file_exists(old))
            assert_true(manifest_check(old, true, NULL, &err));
        if (status != 0)
            assert_true(kills < 20);
        else
            assert_false(file_exists(old));
        free(old);
        unit_dir_free(dir);
    }
    assert_true(kills > 4); /* the rename, three files, the manifest, the folder */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_list_reports_a_folder_that_cannot_be_read),
        cmocka_unit_test(test_checkpoint_prune_leaves_no_part_of_a_checkpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
