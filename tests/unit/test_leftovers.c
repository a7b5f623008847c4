/* tests/unit/test_leftovers.c - which temporary files of killed processes are removed. */
#include "config.h"

#include "base/leftovers.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* Return the id of a process that has ended. */
static pid_t dead(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void make(const char *dir, const char *format, pid_t pid)
{
    char name[64], *path;

    snprintf(name, sizeof(name), format, (long)pid);
    path = path_join(dir, name);
    assert_true(file_create(path, "half", 4, 0600, NULL));
    free(path);
}

static size_t count(const char *dir)
{
    DIR *stream = opendir(dir);
    size_t found = 0;

    while (readdir(stream))
        found++;
    closedir(stream);
    return found - 2;
}

static void test_leftovers_of_dead_processes_are_removed(void **state)
{
    char *dir = unit_dir_new();
    pid_t pid = dead();

    (void)state;
    make(dir, ".state.json.tmp-%ld", pid);
    make(dir, ".a.tmp-b.tmp-%ld", pid);
    assert_int_equal(leftovers_remove(dir, "state.json"), 1);
    assert_int_equal(leftovers_remove(dir, "a.tmp-b"), 1);
    make(dir, ".b.tmp-%ld", pid);
    assert_int_equal(leftovers_remove(dir, NULL), 1);
    assert_int_equal(count(dir), 0);
    unit_dir_free(dir);
}

static void test_leftovers_spare_other_names(void **state)
{
    static const char *const others[] = {
        "state.json.tmp-%ld",   ".tmp-%ld",    ".state.json-%ld",
        ".state.json.tmp-x%ld", ".a.tmp-%ldx", ".state.json.tmp-",
    };
    char *dir = unit_dir_new();
    pid_t pid = dead();
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        make(dir, others[i], pid);
    make(dir, ".living.tmp-%ld", getpid());
    snprintf(name, sizeof(name), "%s/.link.tmp-%ld", dir, (long)pid);
    assert_return_code(symlink("/nowhere", name), 0);
    assert_int_equal(leftovers_remove(dir, NULL), 0);
    assert_int_equal(count(dir), 8);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leftovers_of_dead_processes_are_removed),
        cmocka_unit_test(test_leftovers_spare_other_names),
    };

    return cmocka_run_group_tests_name("leftovers", tests, NULL, NULL);
}
