/* tests/unit/test_roots.c - where a job may write, whatever "..", links and permissions
 * its path goes through. */
#include "config.h"

#include "base/roots.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

enum { STRANGER = 65534 };

struct tree {
    char *dir, *data;
    char here[4096];
};

/* spool/, with links out of it and within, and data/ next to it. */
static int set_up(void **state)
{
    struct tree *tree = memory_alloc(sizeof(*tree));
    char *real;

    assert_non_null(getcwd(tree->here, sizeof(tree->here)));
    tree->dir = unit_dir_new();
    assert_int_equal(chmod(tree->dir, 0755), 0);
    real = realpath(tree->dir, NULL);
    tree->data = path_join(real, "data");
    free(real);
    assert_int_equal(chdir(tree->dir), 0);
    assert_int_equal(mkdir("spool", 0755), 0);
    assert_int_equal(mkdir("spool/inner", 0755), 0);
    assert_int_equal(mkdir("data", 0755), 0);
    assert_int_equal(symlink("../data", "spool/out"), 0);
    assert_int_equal(symlink(tree->data, "spool/absolute"), 0);
    assert_int_equal(symlink("inner", "spool/within"), 0);
    assert_int_equal(symlink("missing", "spool/dangling"), 0);
    assert_int_equal(symlink("circle", "spool/circle"), 0);
    assert_int_equal(symlink("/etc", "data/etc"), 0);
    *state = tree;
    return 0;
}

static int tear_down(void **state)
{
    struct tree *tree = *state;

    assert_int_equal(chdir(tree->here), 0);
    unit_dir_free(tree->dir);
    free(tree->data);
    free(tree);
    return 0;
}

static void expect(const struct roots *roots, const char *path, enum roots_answer answer)
{
    char where[PATH_MAX];
    enum roots_answer got = roots_check(roots, path, where);

    if (got != answer)
        fail_msg("%s: %d, not %d (%s)", path, got, answer, where);
}

static void expect_relative(const char *home, uid_t owner)
{
    static const struct {
        const char *path;
        enum roots_answer answer;
    } cases[] = {
        { "model", ROOTS_ALLOW },
        { ".", ROOTS_ALLOW },
        { "a/b/c", ROOTS_ALLOW },
        { "inner/../x", ROOTS_ALLOW },
        { "within/x", ROOTS_ALLOW },
        { "dangling", ROOTS_ALLOW }, /* never followed by a write */
        { "..", ROOTS_CLIMB },
        { "a/../../x", ROOTS_CLIMB },
        { "out", ROOTS_LINK },
        { "out/x/y", ROOTS_LINK },
        { "absolute/x", ROOTS_LINK },
        { "within/../out/x", ROOTS_LINK },
        { "circle/x", ROOTS_LINK },
    };
    const struct roots roots = { home, NULL, owner };

    for (size_t i = 0; i < TS_COUNT(cases); i++)
        expect(&roots, cases[i].path, cases[i].answer);
}

static void test_roots_keep_relative_paths_in_the_folder(void **state)
{
    (void)state;
    expect_relative("spool", geteuid());
    assert_int_equal(chdir("spool"), 0);
    expect_relative(".", geteuid());
    assert_int_equal(chdir(".."), 0);
}

static void test_roots_keep_absolute_paths_in_the_folder(void **state)
{
    const struct roots roots = { "spool", NULL, geteuid() };
    char *spool = realpath("spool", NULL), *inner = path_join(spool, "inner/x"),
         *out = path_join(spool, "out/x");

    (void)state;
    expect(&roots, inner, ROOTS_ALLOW);
    expect(&roots, out, ROOTS_LINK);
    free(out);
    free(inner);
    free(spool);
}

static void test_roots_of_a_list_are_the_only_ones(void **state)
{
    const struct tree *tree = *state;
    const char *const list[] = { "/nowhere", tree->data, NULL };
    const struct roots roots = { "spool", list, geteuid() };
    char *below = path_join(tree->data, "a/b"), *climbs = path_join(tree->data, "../x"),
         *link = path_join(tree->data, "etc/x"), *longer = path_join(tree->data, "");

    memcpy(longer + strlen(longer) - 1, "2", 1);
    expect(&roots, tree->data, ROOTS_ALLOW);
    expect(&roots, below, ROOTS_ALLOW);
    expect(&roots, climbs, ROOTS_OUTSIDE);
    expect(&roots, longer, ROOTS_OUTSIDE);
    expect(&roots, link, ROOTS_LINK);
    expect(&roots, "/tmp/x", ROOTS_OUTSIDE);
    expect(&roots, "/nowhere/x", ROOTS_OUTSIDE);
    expect(&roots, "model", ROOTS_ALLOW);
    free(longer);
    free(link);
    free(climbs);
    free(below);
}

static void test_roots_leave_the_system_out_for_root(void **state)
{
    const struct tree *tree = *state;
    const struct roots roots = { "spool", NULL, 0 };
    char *link = path_join(tree->data, "etc/x");

    expect(&roots, tree->data, ROOTS_ALLOW);
    expect(&roots, "/", ROOTS_SYSTEM);
    expect(&roots, "//./", ROOTS_SYSTEM);
    expect(&roots, "/usr/x/y", ROOTS_SYSTEM);
    expect(&roots, "/etc", ROOTS_SYSTEM);
    expect(&roots, link, ROOTS_SYSTEM);
    expect(&roots, "/proc/self/cwd/../data", ROOTS_ALLOW); /* wherever it leads */
    free(link);
}

static void test_roots_of_a_user_are_where_the_user_may_write(void **state)
{
    const struct tree *tree = *state;
    const struct roots roots = { "spool", NULL, STRANGER };
    char *below = path_join(tree->data, "a/b");

    if (geteuid() != 0) {
        print_message("# SKIP only root can give a folder to another user\n");
        skip();
    }
    expect(&roots, below, ROOTS_DENIED);
    expect(&roots, "/", ROOTS_DENIED);
    expect(&roots, "/etc/x", ROOTS_DENIED);
    assert_int_equal(chown("data", STRANGER, (gid_t)-1), 0);
    expect(&roots, below, ROOTS_ALLOW);
    assert_int_equal(chmod("data", 0555), 0);
    expect(&roots, below, ROOTS_DENIED);
    assert_int_equal(chown("data", 0, 0), 0);
    assert_int_equal(chmod("data", 01777), 0);
    expect(&roots, below, ROOTS_ALLOW);
    /* the user cannot reach it */
    assert_int_equal(chmod(".", 0700), 0);
    expect(&roots, below, ROOTS_DENIED);
    free(below);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_roots_keep_relative_paths_in_the_folder),
        TEST(test_roots_keep_absolute_paths_in_the_folder),
        TEST(test_roots_of_a_list_are_the_only_ones),
        TEST(test_roots_leave_the_system_out_for_root),
        TEST(test_roots_of_a_user_are_where_the_user_may_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
