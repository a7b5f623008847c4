/* tests/unit/test_manifest.c - the manifest detects incomplete and damaged folders. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/files/manifest.h"

static char *folder_new(void)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");
    struct error err = { 0 };

    if (!file_create(name, "weights", 7, 0644, &err) ||
        !manifest_write(dir, "abc", NULL, NULL, &err))
        fail_msg("%s", err.text);
    free(name);
    return dir;
}

static void test_manifest_of_a_complete_folder(void **state)
{
    char *dir = folder_new();
    struct error err = { 0 };

    (void)state;
    assert_true(manifest_check(dir, true, NULL, &err));
    assert_true(manifest_has_job(dir, "abc"));
    assert_false(manifest_has_job(dir, "abd"));
    unit_dir_free(dir);
}

/* Only a deep check detects a change that keeps the size. */
static void test_manifest_detects_damage(void **state)
{
    char *dir = folder_new(), *name = path_join(dir, "model.safetensors");
    struct error err = { 0 };

    (void)state;
    assert_true(file_replace(name, "weighty", 7, 0644, &err));
    assert_true(manifest_check(dir, false, NULL, &err));
    assert_false(manifest_check(dir, true, NULL, &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_true(file_replace(name, "weight", 6, 0644, &err));
    assert_false(manifest_check(dir, false, NULL, &err));
    error_clear(&err);
    assert_int_equal(unlink(name), 0);
    assert_false(manifest_check(dir, false, NULL, &err));
    assert_non_null(strstr(err.text, "missing"));
    free(name);
    unit_dir_free(dir);
}

/* A folder is untouched as long as it holds what the manifest lists, and nothing else. */
static void test_manifest_knows_an_untouched_folder(void **state)
{
    char *dir = folder_new(), *name = path_join(dir, "model.safetensors"),
         *other = path_join(dir, ".notes");
    struct timespec later[2] = { { 0, UTIME_OMIT }, { 4102444800, 0 } };
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct manifest_facts facts;
    struct error err = { 0 };

    (void)state;
    assert_true(manifest_read_facts(fd, &facts));
    assert_true(facts.untouched);
    assert_string_equal(facts.job, "abc");
    assert_true(facts.bytes > 7 && facts.made > 0);
    assert_true(file_create(other, "", 0, 0644, &err));
    assert_true(manifest_read_facts(fd, &facts));
    assert_false(facts.untouched);
    assert_true(manifest_remove_files(fd, &err));
    assert_false(file_exists(name));
    assert_true(file_exists(other));
    assert_false(manifest_read_facts(fd, &facts));
    assert_int_equal(unlink(other), 0);
    assert_true(file_create(name, "weights", 7, 0644, &err));
    assert_true(manifest_write(dir, "abc", NULL, NULL, &err));
    assert_int_equal(utimensat(AT_FDCWD, name, later, 0), 0);
    assert_true(manifest_read_facts(fd, &facts));
    assert_false(facts.untouched);
    close(fd);
    free(other);
    free(name);
    unit_dir_free(dir);
}

/* Digests of large files take long: a stop ends a check, but not the end of a save. */
static void test_manifest_stops(void **state)
{
    volatile sig_atomic_t stop = 1;
    struct heartbeat heartbeat = { .stop = &stop };
    char *dir = folder_new(), *name = path_join(dir, MANIFEST_NAME);
    struct error err = { 0 };

    (void)state;
    assert_false(manifest_check(dir, true, &heartbeat, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    error_clear(&err);
    assert_int_equal(unlink(name), 0);
    assert_true(manifest_write(dir, "abc", NULL, &heartbeat, &err));
    assert_true(manifest_check(dir, true, NULL, &err));
    free(name);
    unit_dir_free(dir);
}

/* Each file is in one share, whatever the sizes and the number of shares. */
static void test_manifest_is_checked_in_shares(void **state)
{
    static const char *const names[] = { "a", "b", "c", "empty", "model.safetensors" };
    static const size_t sizes[] = { 1, 5000, 300, 0, 7 };
    char *dir = folder_new(), *manifest = path_join(dir, MANIFEST_NAME), *path[5];
    char bytes[5000] = { 0 };
    struct error err = { 0 };

    (void)state;
    assert_int_equal(unlink(manifest), 0);
    for (int i = 0; i < 5; i++) {
        path[i] = path_join(dir, names[i]);
        assert_true(file_replace(path[i], bytes, sizes[i], 0644, &err));
    }
    assert_true(manifest_write(dir, "abc", NULL, NULL, &err));
    for (int i = 0; i < 5; i++) {
        if (sizes[i] == 0)
            continue;
        bytes[0] = 'x';
        assert_true(file_replace(path[i], bytes, sizes[i], 0644, &err));
        bytes[0] = 0;
        for (size_t parts = 1; parts <= 9; parts++) {
            size_t found = 0;

            for (size_t part = 0; part < parts; part++)
                found += !manifest_check_part(dir, part, parts, NULL, NULL);
            assert_int_equal(found, 1);
        }
        assert_true(file_replace(path[i], bytes, sizes[i], 0644, &err));
    }
    assert_true(manifest_check(dir, true, NULL, &err));
    for (int i = 0; i < 5; i++)
        free(path[i]);
    free(manifest);
    unit_dir_free(dir);
}

/* A file that was hashed while it was written is not read again, but must be there. */
static void test_manifest_takes_known_files(void **state)
{
    const struct manifest_file right = { 7, "what the writer says" }, longer = { 8, "" };
    char *dir = folder_new(), *name = path_join(dir, "model.safetensors");
    char *manifest = path_join(dir, MANIFEST_NAME);
    struct timespec later[2] = { { 0, UTIME_OMIT }, { 4102444800, 0 } };
    struct manifest_known known = { .files = json_object(), .patience = 0.2 };
    json_t *read;
    struct error err = { 0 };
    struct manifest_facts facts;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_int_equal(unlink(manifest), 0);
    assert_int_equal(utimensat(AT_FDCWD, name, later, 0), 0); /* a clock that is ahead */
    manifest_note(known.files, "model.safetensors", &right);
    assert_true(manifest_write(dir, "abc", &known, NULL, &err));
    read = json_read_file(manifest, 4096, &err);
    assert_true(json_equal(json_object_get(read, "files"), known.files));
    assert_true(manifest_check(dir, false, NULL, &err));
    assert_true(manifest_read_facts(fd, &facts));
    assert_true(facts.untouched);
    json_decref(read);
    assert_int_equal(unlink(manifest), 0);
    manifest_note(known.files, "model.safetensors", &longer);
    assert_false(manifest_write(dir, "abc", &known, NULL, &err));
    assert_non_null(
        strstr(err.text, "model.safetensors has 7 bytes, but 8 were written"));
    assert_false(file_exists(manifest));
    error_clear(&err);
    assert_int_equal(unlink(name), 0);
    assert_false(manifest_write(dir, "abc", &known, NULL, &err));
    assert_non_null(strstr(err.text, "model.safetensors was written, but cannot be"));
    json_decref(known.files);
    close(fd);
    free(manifest);
    free(name);
    unit_dir_free(dir);
}

static void test_manifest_stays_in_its_folder(void **state)
{
    static const char hostile[] =
        "{\"files\": {\"../outside\": {\"bytes\": 0, \"sha256\": \"\"}}}";
    char *dir = folder_new(), *name = path_join(dir, MANIFEST_NAME);
    struct error err = { 0 };

    (void)state;
    assert_true(file_replace(name, hostile, sizeof(hostile) - 1, 0644, &err));
    assert_false(manifest_check(dir, true, NULL, &err));
    assert_non_null(strstr(err.text, "outside"));
    error_clear(&err);
    assert_int_equal(unlink(name), 0);
    assert_false(manifest_check(dir, false, NULL, &err));
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest_of_a_complete_folder),
        cmocka_unit_test(test_manifest_detects_damage),
        cmocka_unit_test(test_manifest_knows_an_untouched_folder),
        cmocka_unit_test(test_manifest_stops),
        cmocka_unit_test(test_manifest_is_checked_in_shares),
        cmocka_unit_test(test_manifest_takes_known_files),
        cmocka_unit_test(test_manifest_stays_in_its_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
