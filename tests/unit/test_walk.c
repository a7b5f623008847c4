/* tests/unit/test_walk.c - no name of another user leads a write elsewhere. */
#include "config.h"

#include "base/walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { STRANGER = 65534 };

struct tree {
    char *dir;
    char here[4096];
};

/* safe/ is ours, and holds `secret`; shared/ is writable for everyone. */
static int set_up(void **state)
{
    struct tree *tree = memory_alloc(sizeof(*tree));
    int fd;

    assert_non_null(getcwd(tree->here, sizeof(tree->here)));
    tree->dir = unit_dir_new();
    assert_int_equal(chdir(tree->dir), 0);
    assert_int_equal(mkdir("safe", 0755), 0);
    assert_int_equal(mkdir("shared", 0755), 0);
    assert_int_equal(chmod("shared", 01777), 0);
    fd = open("safe/secret", O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "secret\n", 7), 7);
    close(fd);
    *state = tree;
    return 0;
}

static int tear_down(void **state)
{
    struct tree *tree = *state;

    assert_int_equal(chdir(tree->here), 0);
    unit_dir_free(tree->dir);
    free(tree);
    return 0;
}

static void need_root(void)
{
    if (geteuid() == 0)
        return;
    print_message("# SKIP only root can make files of another user\n");
    skip();
}

static void link_of(uid_t owner, const char *target, const char *name)
{
    assert_int_equal(symlink(target, name), 0);
    assert_int_equal(lchown(name, owner, (gid_t)-1), 0);
}

static void expect_opens(const char *name)
{
    int fd = walk_open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);

    if (fd < 0)
        fail_msg("%s: %s", name, strerror(errno));
    close(fd);
}

static void expect_refused(const char *name, int why)
{
    assert_int_equal(walk_open(name, O_WRONLY | O_CREAT | O_APPEND, 0644), -1);
    assert_int_equal(errno, why);
}

static void test_walk_follows_no_link_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(symlink("../safe/secret", "shared/log"), 0);
    expect_refused("shared/log", ELOOP);
    assert_int_equal(walk_open("shared/log", O_WRONLY | O_CREAT | O_EXCL, 0644), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(symlink("../safe/new", "shared/dangling"), 0);
    expect_refused("shared/dangling", ELOOP);
    assert_false(file_exists("safe/new"));
}

static void test_walk_follows_our_links_on_the_way(void **state)
{
    (void)state;
    assert_int_equal(symlink("safe", "link"), 0);
    assert_int_equal(symlink("link/../link", "again"), 0);
    expect_opens("link/a");
    expect_opens("./again//b");
    assert_true(file_exists("safe/a"));
    assert_true(file_exists("safe/b"));
    assert_int_equal(walk_mkdir("link/folder/", 0755), 0);
    assert_int_equal(walk_rename("again/a", "safe/folder/a"), 0);
    assert_int_equal(walk_rename_new("safe/folder/a", "again/c"), 0);
    close(walk_open("safe/folder/a", O_WRONLY | O_CREAT | O_EXCL, 0600));
    assert_int_equal(walk_rename_new("again/c", "safe/folder/a"), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(walk_rename("again/c", "safe/folder/a"), 0);
    assert_int_equal(walk_unlink("again/folder/a"), 0);
    assert_false(file_exists("safe/folder/a"));
    assert_int_equal(walk_rmdir("again/folder"), 0);
    assert_false(file_exists("safe/folder"));
    assert_int_equal(walk_mkdir("link/folder/", 0755), 0);
    expect_refused("link/missing/a", ENOENT);
    expect_refused("link/secret/a", ENOTDIR);
    assert_int_equal(symlink("circle", "circle"), 0);
    expect_refused("circle/a", ELOOP);
}

static void test_walk_does_not_let_strangers_lead_elsewhere(void **state)
{
    char absolute[4096];

    (void)state;
    need_root();
    assert_non_null(realpath("safe", absolute));
    link_of(STRANGER, "../safe", "shared/relative");
    link_of(STRANGER, absolute, "shared/absolute");
    link_of(0, "relative", "shared/ours");
    assert_int_equal(mkdir("shared/theirs", 0755), 0);
    assert_int_equal(chown("shared/theirs", STRANGER, (gid_t)-1), 0);
    link_of(STRANGER, "theirs", "shared/fine");
    link_of(STRANGER - 1, "fine", "shared/two");
    expect_refused("shared/relative/secret", ENOLINK);
    expect_refused("shared/absolute/secret", ENOLINK);
    expect_refused("shared/ours/secret", ENOLINK);
    expect_refused("shared/two/a", ENOLINK);
    expect_opens("shared/fine/a");
    assert_int_equal(walk_mkdir("shared/relative/folder", 0755), -1);
    assert_int_equal(walk_unlink("shared/relative/secret"), -1);
    assert_int_equal(walk_rename("shared/relative/secret", "shared/secret"), -1);
    assert_int_equal(walk_rename("shared/theirs/a", "shared/relative/secret"), -1);
}

static void test_walk_refuses_what_others_prepared(void **state)
{
    (void)state;
    assert_int_equal(link("safe/secret", "shared/second"), 0);
    expect_refused("shared/second", EMLINK);
    assert_int_equal(walk_open("shared/second", O_WRONLY | O_TRUNC, 0), -1);
    expect_opens("safe/secret"); /* in a folder of ours, a second name is our business */
    assert_int_equal(mkfifo("shared/fifo", 0644), 0);
    expect_refused("shared/fifo", ENXIO);
}

static void test_walk_writes_like_the_system_call(void **state)
{
    struct text text;
    int fd;

    (void)state;
    fd = walk_open("safe/secret", O_WRONLY | O_TRUNC, 0);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    text_init(&text, 0);
    assert_true(file_read("safe/secret", 100, &text, NULL, NULL));
    assert_int_equal(text.len, 0);
    text_clear(&text);
    assert_int_equal(walk_mkdir("/", 0755), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(walk_mkdir("", 0755), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_files_are_written_the_same_way(void **state)
{
    struct error err = { 0 };

    (void)state;
    need_root();
    link_of(STRANGER, "../safe", "shared/way");
    assert_false(file_replace("shared/way/secret", "x", 1, 0644, &err));
    assert_non_null(
        strstr(err.text, "a symbolic link on the way belongs to another user"));
    assert_false(file_create("shared/way/new", "x", 1, 0644, NULL));
    assert_false(file_append_line("shared/way/secret", "x", 1, 0644, false, NULL));
    assert_false(file_make_dirs("shared/way/a/b", 0755, NULL));
    assert_false(file_remove_tree("shared/way/secret", NULL));
    assert_true(file_exists("safe/secret"));
    assert_false(file_exists("safe/a"));
}

static void test_owner_shares_what_others_may_write(void **state)
{
    static const struct {
        mode_t mode;
        gid_t group;
        bool shares;
    } cases[] = {
        { 0755, 0, false },        { 0600, 0, false },       { 0757, 0, true },
        { 0775, 0, false },        { 0775, STRANGER, true }, { 0755, STRANGER, false },
        { 01777, STRANGER, true },
    };
    int fault;

    (void)state;
    assert_true(owner_is_trusted(0));
    assert_true(owner_is_trusted(geteuid()));
    assert_false(owner_is_trusted(geteuid() + 1));
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        assert_int_equal(owner_shares(&(struct stat) { .st_mode = cases[i].mode,
                                                       .st_gid = cases[i].group },
                                      &fault),
                         cases[i].shares);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_walk_follows_no_link_at_the_end),
        TEST(test_walk_follows_our_links_on_the_way),
        TEST(test_walk_does_not_let_strangers_lead_elsewhere),
        TEST(test_walk_refuses_what_others_prepared),
        TEST(test_walk_writes_like_the_system_call),
        TEST(test_files_are_written_the_same_way),
        TEST(test_owner_shares_what_others_may_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
