/* tests/unit/test_file.c - files are written whole or not at all; locks follow a child;
 * names. */
#include "config.h"

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static char *dir; /* each test has its own directory */

static int set_up(void **state)
{
    (void)state;
    dir = unit_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unit_dir_free(dir);
    return 0;
}

static int count_entries(const char *name)
{
    DIR *entries = opendir(name);
    int count = -2; /* . and .. */

    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

static void assert_holds(const char *name, const char *want)
{
    struct text text;
    struct error err = { 0 };

    text_init(&text, 0);
    if (!file_read(name, 1 << 20, &text, NULL, &err))
        fail_msg("%s", err.text);
    assert_string_equal(text.data, want);
    text_clear(&text);
}

static void test_file_read_returns_contents_and_stat(void **state)
{
    char *name = path_join(dir, "job");
    struct text text;
    struct stat st;
    struct error err = { 0 };

    (void)state;
    text_init(&text, 4);
    assert_true(file_create(name, "a\0b\n12", 6, 0640, &err));
    assert_true(file_read(name, 6, &text, &st, &err));
    assert_int_equal(text.len, 6);
    assert_memory_equal(text.data, "a\0b\n12", 7);
    assert_int_equal(st.st_size, 6);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_true(file_read(name, 6, &text, NULL, &err));
    assert_int_equal(text.len, 6);
    text_clear(&text);
    free(name);
}

static void test_file_read_refuses_oversize(void **state)
{
    char *name = path_join(dir, "large");
    struct text text;
    struct error err = { 0 };

    (void)state;
    text_init(&text, 0);
    assert_true(file_create(name, "1234567", 7, 0600, &err));
    assert_false(file_read(name, 6, &text, NULL, &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    /* a file whose size is known only after reading it */
    assert_false(file_read("/proc/self/status", 10, &text, NULL, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_true(text.len <= 10);
    text_clear(&text);
    free(name);
}

static void test_file_read_refuses_special_files(void **state)
{
    char *fifo = path_join(dir, "fifo"), *missing = path_join(dir, "missing");
    struct text text;
    struct error err = { 0 };

    (void)state;
    text_init(&text, 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_false(file_read(fifo, 100, &text, NULL, &err)); /* and does not block */
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_false(file_read(dir, 100, &text, NULL, &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_false(file_read("/dev/zero", 100, &text, NULL, &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_false(file_read(missing, 100, &text, NULL, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    text_clear(&text);
    free(fifo);
    free(missing);
}

static void test_file_read_at_follows_no_link(void **state)
{
    char *name = path_join(dir, "file"), *alias = path_join(dir, "alias");
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct text text;
    struct error err = { 0 };

    (void)state;
    text_init(&text, 0);
    assert_true(file_create(name, "text", 4, 0600, &err));
    assert_int_equal(symlink("file", alias), 0);
    assert_true(file_read(alias, 100, &text, NULL, &err));
    assert_true(file_read_at(fd, "file", 100, &text, NULL, &err));
    assert_string_equal(text.data, "text");
    assert_false(file_read_at(fd, "alias", 100, &text, NULL, &err));
    assert_int_equal(err.code, ERROR_DATA);
    text_clear(&text);
    close(fd);
    free(name);
    free(alias);
}

static void test_file_replace_changes_text_and_follows_the_umask(void **state)
{
    char *name = path_join(dir, "state.json");
    struct stat st;
    struct error err = { 0 };
    mode_t mask = umask(027);

    (void)state;
    assert_true(file_replace(name, "one", 3, 0600, &err));
    assert_true(file_replace(name, "two", 3, 0666, &err));
    umask(mask);
    assert_holds(name, "two");
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(count_entries(dir), 1);
    free(name);
}

/* A reader with the old file open continues to read the old text. */
static void test_file_replace_leaves_the_old_file_to_its_readers(void **state)
{
    char *name = path_join(dir, "job"), got[4] = "";
    struct error err = { 0 };
    int fd;

    (void)state;
    assert_true(file_replace(name, "old", 3, 0600, &err));
    fd = open(name, O_RDONLY);
    assert_true(file_replace(name, "new", 3, 0600, &err));
    assert_int_equal(read(fd, got, 3), 3);
    assert_string_equal(got, "old");
    close(fd);
    free(name);
}

static void test_file_replace_keeps_the_old_file_on_failure(void **state)
{
    char *name = path_join(dir, "job"), *data = memory_alloc(10000);
    struct error err = { 0 };

    (void)state;
    assert_true(file_replace(name, "old", 3, 0600, &err));
    unit_disk_full(4096);
    assert_false(file_replace(name, data, 10000, 0600, &err));
    unit_disk_free();
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_holds(name, "old");
    assert_int_equal(count_entries(dir), 1);
    free(data);
    free(name);
}

static void test_file_replace_of_a_directory_leaves_no_temporary(void **state)
{
    char *name = path_join(dir, "sub"), *lost = path_join(dir, "no/where");
    struct error err = { 0 };

    (void)state;
    assert_true(file_make_dir(name, 0700, &err));
    assert_false(file_replace(name, "x", 1, 0600, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_true(file_is_dir(name));
    assert_int_equal(count_entries(dir), 1);
    error_clear(&err);
    assert_false(file_replace(lost, "x", 1, 0600, &err));
    free(name);
    free(lost);
}

static void test_file_replace_reuses_the_temporary_of_a_dead_process(void **state)
{
    char *name = path_join(dir, "job");
    struct error err = { 0 };
    struct text left;

    (void)state;
    text_init(&left, 0);
    text_addf(&left, "%s/.job.tmp-%ld", dir, (long)getpid());
    assert_true(file_create(left.data, "half", 4, 0600, &err));
    assert_true(file_replace(name, "whole", 5, 0600, &err));
    assert_holds(name, "whole");
    assert_int_equal(count_entries(dir), 1);
    text_clear(&left);
    free(name);
}

static void test_file_create_never_overwrites(void **state)
{
    char *name = path_join(dir, "backup"), *alias = path_join(dir, "alias");
    struct error err = { 0 };

    (void)state;
    assert_true(file_create(name, "first", 5, 0600, &err));
    errno = 0;
    assert_false(file_create(name, "second", 6, 0600, &err));
    assert_int_equal(errno, EEXIST);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_holds(name, "first");
    error_clear(&err);
    assert_int_equal(symlink("elsewhere", alias), 0);
    assert_false(file_create(alias, "x", 1, 0600, &err));
    assert_int_equal(count_entries(dir), 2);
    free(name);
    free(alias);
}

static void test_file_append_line_adds_whole_lines(void **state)
{
    char *name = path_join(dir, "changes.jsonl");
    struct error err = { 0 };

    (void)state;
    assert_true(file_append_line(name, "{\"a\":1}", 7, 0600, true, &err));
    assert_true(file_append_line(name, "{\"b\":2}", 7, 0600, false, &err));
    assert_holds(name, "{\"a\":1}\n{\"b\":2}\n");
    free(name);
}

static void test_file_append_line_ends_a_torn_line(void **state)
{
    char *name = path_join(dir, "changes.jsonl");
    struct error err = { 0 };

    (void)state;
    assert_true(file_create(name, "{\"a\":1}\n{\"b\"", 12, 0600, &err));
    assert_true(file_append_line(name, "{\"c\":3}", 7, 0600, true, &err));
    assert_holds(name, "{\"a\":1}\n{\"b\"\n{\"c\":3}\n");
    free(name);
}

static void test_file_make_dirs_and_remove_tree(void **state)
{
    char *outside = path_join(dir, "outside"), *tree = path_join(dir, "tree");
    char *deep = path_join(tree, "a/b//c/"), *file = path_join(deep, "file");
    char *alias = path_join(tree, "alias"), *kept = path_join(outside, "kept");
    struct error err = { 0 };

    (void)state;
    assert_true(file_make_dirs(deep, 0755, &err));
    assert_true(file_make_dirs(deep, 0755, &err));
    assert_true(file_make_dir(outside, 0755, &err));
    assert_true(file_create(file, "x", 1, 0600, &err));
    assert_true(file_create(kept, "x", 1, 0600, &err));
    assert_false(file_make_dir(file, 0755, &err));
    error_clear(&err);
    assert_int_equal(symlink("../outside", alias), 0);
    assert_true(file_remove_tree(tree, &err));
    assert_false(file_exists(tree));
    assert_true(file_exists(kept));
    assert_true(file_remove_tree(tree, &err));
    free(kept);
    free(alias);
    free(file);
    free(deep);
    free(tree);
    free(outside);
}

static void test_file_lock_has_one_holder(void **state)
{
    char *name = path_join(dir, "lock");
    struct error err = { 0 };
    bool busy;
    int fd, second;

    (void)state;
    assert_false(file_is_locked(name));
    assert_int_equal(count_entries(dir), 0);
    fd = file_lock(name, &busy, &err);
    assert_true(fd >= 0);
    assert_true(file_is_locked(name));
    second = file_lock(name, &busy, &err);
    assert_int_equal(second, -1);
    assert_true(busy);
    assert_int_equal(err.code, ERROR_NONE);
    close(fd);
    assert_false(file_is_locked(name));
    fd = file_lock(name, &busy, &err);
    assert_true(fd >= 0);
    assert_false(busy);
    close(fd);
    free(name);
}

static void test_file_lock_reports_an_invalid_path(void **state)
{
    char *name = path_join(dir, "no/lock");
    struct error err = { 0 };
    bool busy = true;

    (void)state;
    assert_int_equal(file_lock(name, &busy, &err), -1);
    assert_false(busy);
    assert_int_equal(err.code, ERROR_SYSTEM);
    free(name);
}

/* The parent may release its descriptor: the lock lives as long as the child, however the
 * child ends. */
static void test_file_lock_is_inherited(void **state)
{
    char *name = path_join(dir, "lock");
    struct error err = { 0 };
    int ends[2], fd, status;
    bool busy;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fd = file_lock(name, &busy, &err);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        execlp("cat", "cat", (char *)NULL);
        _exit(127);
    }
    close(fd);
    assert_true(file_is_locked(name));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_false(file_is_locked(name));
    close(ends[0]);
    close(ends[1]);
    free(name);
}

/* Takes ownership of got. */
static void assert_path(char *got, const char *want)
{
    assert_string_equal(got, want);
    free(got);
}

static void test_file_inputs_are_in_the_folder_or_here(void **state)
{
    char *folder = path_join(dir, "jobs"), *inner = path_join(folder, "both"), *before;
    struct error err = { 0 };

    (void)state;
    before = getcwd(NULL, 0);
    assert_non_null(before);
    assert_int_equal(chdir(dir), 0);
    assert_true(file_make_dirs("jobs/both", 0755, &err));
    assert_true(file_make_dirs("both", 0755, &err) && file_make_dirs("here", 0755, &err));
    assert_path(path_input("jobs", "both"), "jobs/both");
    assert_path(path_input("jobs", "here"), "here");
    assert_path(path_input("jobs", "nowhere"), "jobs/nowhere");
    assert_path(path_input(".", "here"), "here");
    assert_path(path_input("jobs", inner), inner);
    free(inner);
    assert_true(path_is_from_here("jobs", "here"));
    assert_false(path_is_from_here("jobs", "both"));
    assert_false(path_is_from_here(".", "here"));
    assert_false(path_is_from_here("jobs", "nowhere"));
    assert_int_equal(chdir(before), 0);
    free(before);
    free(folder);
}

static void test_file_names_are_joined_and_split(void **state)
{
    (void)state;
    assert_path(path_join("a", "b"), "a/b");
    assert_path(path_join("a/", "b"), "a/b");
    assert_path(path_join("a", "/b"), "/b");
    assert_path(path_join("", "b"), "b");
    assert_path(path_absolute("/a/./b/../../c//d/"), "/c/d");
    assert_path(path_absolute("/../.."), "/");
    assert_path(path_dir("a/b.yaml"), "a");
    assert_path(path_dir("a//b.yaml"), "a");
    assert_path(path_dir("b.yaml"), ".");
    assert_path(path_dir("/b.yaml"), "/");
    assert_path(path_dir("//b.yaml"), "/");
    assert_string_equal(path_base("a/b.yaml"), "b.yaml");
    assert_string_equal(path_base("b.yaml"), "b.yaml");
    assert_path(path_run_dir("x/gsm8k.yaml"), "x/gsm8k.run");
    assert_path(path_run_dir("gsm8k.yml"), "gsm8k.run");
    assert_path(path_run_dir("gsm8k.json"), "gsm8k.json.run");
    assert_path(path_run_dir("a.b.yaml"), "a.b.run");
    assert_path(path_run_dir("x/.yaml"), "x/.yaml.run");
    assert_null(path_run_owner("a.yaml"));
    assert_null(path_run_owner("a.yml"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* The end of a long file begins with a whole line, and links are not followed. */
static void test_file_end_begins_with_a_line(void **state)
{
    char *top = unit_dir_new(), *name = path_join(top, "log"),
         *link = path_join(top, "l");
    static const char lines[] = "first\nsecond\nthird\nhal";
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_true(file_create(name, lines, strlen(lines), 0600, NULL));
    assert_true(file_read_end_at(AT_FDCWD, name, 100, &text, NULL));
    assert_string_equal(text.data, lines);
    assert_true(file_read_end_at(AT_FDCWD, name, strlen(lines), &text, NULL));
    assert_string_equal(text.data, lines);
    assert_true(file_read_end_at(AT_FDCWD, name, 12, &text, NULL));
    assert_string_equal(text.data, "third\nhal");
    assert_true(file_read_end_at(AT_FDCWD, name, 2, &text, NULL));
    assert_string_equal(text.data, "");
    assert_int_equal(symlink("log", link), 0);
    assert_false(file_read_end_at(AT_FDCWD, link, 100, &text, NULL));
    assert_false(file_read_end_at(AT_FDCWD, top, 100, &text, NULL));
    text_clear(&text);
    free(name);
    free(link);
    unit_dir_free(top);
}

static void test_file_start_is_read(void **state)
{
    char *top = unit_dir_new(), *name = path_join(top, "log");
    struct error err = { 0 };
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_true(file_create(name, "first\nsecond", 12, 0600, NULL));
    assert_true(file_read_start(name, 7, &text, NULL));
    assert_string_equal(text.data, "first\ns");
    assert_true(file_read_start(name, 100, &text, NULL));
    assert_string_equal(text.data, "first\nsecond");
    assert_false(file_read_start(top, 7, &text, NULL));
    assert_int_equal(unlink(name), 0);
    assert_false(file_read_start(name, 7, &text, &err));
    assert_int_equal(err.code, ERROR_DATA);
    text_clear(&text);
    free(name);
    unit_dir_free(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_file_read_returns_contents_and_stat),
        TEST(test_file_read_refuses_oversize),
        TEST(test_file_read_refuses_special_files),
        TEST(test_file_read_at_follows_no_link),
        TEST(test_file_replace_changes_text_and_follows_the_umask),
        TEST(test_file_replace_leaves_the_old_file_to_its_readers),
        TEST(test_file_replace_keeps_the_old_file_on_failure),
        TEST(test_file_replace_of_a_directory_leaves_no_temporary),
        TEST(test_file_replace_reuses_the_temporary_of_a_dead_process),
        TEST(test_file_create_never_overwrites),
        TEST(test_file_append_line_adds_whole_lines),
        TEST(test_file_append_line_ends_a_torn_line),
        TEST(test_file_make_dirs_and_remove_tree),
        TEST(test_file_lock_has_one_holder),
        TEST(test_file_lock_reports_an_invalid_path),
        TEST(test_file_lock_is_inherited),
        TEST(test_file_inputs_are_in_the_folder_or_here),
        cmocka_unit_test(test_file_names_are_joined_and_split),
        cmocka_unit_test(test_file_start_is_read),
        cmocka_unit_test(test_file_end_begins_with_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
