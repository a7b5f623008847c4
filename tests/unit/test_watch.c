/* tests/unit/test_watch.c - hints from inotify; skips where inotify is not available. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/spool/watch.h"

struct spot {
    char *path, *inner_path;
    int dir, inner;
    struct watch *watch;
    char names[256]; /* "name:hint " for each hint */
    size_t count;
};

static int set_up(void **state)
{
    struct spot *spot = memory_alloc(sizeof(*spot));
    struct error err = { 0 };
    char *parent_path;
    int parent;

    spot->path = unit_dir_new();
    spot->inner_path = path_join(spot->path, ".inner");
    spot->dir = open(spot->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(spot->dir, ".inner", 0700);
    spot->inner = openat(spot->dir, ".inner", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    parent_path = path_dir(spot->path);
    parent = open(parent_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    spot->watch = watch_open(&(struct watched) { .dir = spot->dir,
                                                 .inner = spot->inner,
                                                 .parent = parent,
                                                 .name = path_base(spot->path) },
                             &err);
    close(parent);
    free(parent_path);
    *state = spot;
    return spot->dir < 0 || spot->inner < 0;
}

static int tear_down(void **state)
{
    struct spot *spot = *state;

    watch_close(spot->watch);
    close(spot->dir);
    close(spot->inner);
    free(spot->inner_path);
    unit_dir_free(spot->path);
    free(spot);
    return 0;
}

static void on_name(void *context, const char *name, enum watch_hint hint)
{
    struct spot *spot = context;
    size_t len = strlen(spot->names);

    if (len < sizeof(spot->names) - 32)
        snprintf(spot->names + len, sizeof(spot->names) - len, "%s:%d ", name, (int)hint);
    spot->count++;
}

static struct watch_changes read_news(struct spot *spot)
{
    struct watch_changes news;

    spot->names[0] = 0;
    spot->count = 0;
    watch_read(spot->watch, on_name, spot, &news);
    return news;
}

static void put(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static void test_watch_distinguishes_writing_from_renaming(void **state)
{
    struct spot *spot = *state;

    if (!spot->watch)
        skip();
    put(spot->dir, "a");
    assert_false(read_news(spot).gone);
    assert_string_equal(spot->names, "a:0 a:1 ");
    assert_int_equal(renameat(spot->dir, "a", spot->dir, "b"), 0);
    read_news(spot);
    assert_string_equal(spot->names, "b:2 ");
    assert_int_equal(unlinkat(spot->dir, "b", 0), 0);
    read_news(spot);
    assert_string_equal(spot->names, "");
}

static void test_watch_follows_the_folder_and_reports_its_move(void **state)
{
    struct spot *spot = *state;
    struct watch_changes news;
    char moved[300];

    if (!spot->watch)
        skip();
    snprintf(moved, sizeof(moved), "%s.moved", spot->path);
    assert_int_equal(rename(spot->path, moved), 0);
    news = read_news(spot);
    assert_true(news.gone);
    assert_true(news.doubt);
    put(spot->dir, "a");
    read_news(spot);
    assert_string_equal(spot->names, "a:0 a:1 ");
    assert_int_equal(rename(moved, spot->path), 0);
}

/* An inode that is still open is not deleted, and sends no event. */
static void test_watch_rechecks_a_removed_folder(void **state)
{
    struct spot *spot = *state;
    struct error err = { 0 };

    if (!spot->watch)
        skip();
    assert_true(file_remove_tree(spot->path, &err));
    assert_true(read_news(spot).doubt);
}

static void test_watch_can_be_woken(void **state)
{
    struct spot *spot = *state;

    if (!spot->watch)
        skip();
    put(spot->inner, "other");
    assert_false(read_news(spot).woken);
    watch_wake(spot->inner_path);
    assert_true(read_news(spot).woken);
    assert_int_equal(spot->count, 0);
}

/* Two open file descriptions: the kernel's limit is far above, so the queue fills
 * quickly. */
static void test_watch_reports_lost_events(void **state)
{
    struct spot *spot = *state;
    struct text limit;
    struct error err = { 0 };
    struct watch_changes news;
    long most;

    if (!spot->watch)
        skip();
    text_init(&limit, 0);
    if (!file_read("/proc/sys/fs/inotify/max_queued_events", 64, &limit, NULL, &err))
        skip();
    most = atol(limit.data);
    text_clear(&limit);
    if (most <= 0 || most > 100000)
        skip();
    put(spot->dir, "a");
    put(spot->dir, "b");
    /* consecutive equal events are merged: alternate between two names */
    for (long i = 0; i < most; i++)
        assert_int_equal(
            renameat(spot->dir, i % 2 ? "c" : "a", spot->dir, i % 2 ? "a" : "c"), 0);
    news = read_news(spot);
    assert_true(news.overflow);
    assert_false(read_news(spot).overflow);
}

#define SPOT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPOT(test_watch_distinguishes_writing_from_renaming),
        SPOT(test_watch_follows_the_folder_and_reports_its_move),
        SPOT(test_watch_rechecks_a_removed_folder),
        SPOT(test_watch_can_be_woken),
        SPOT(test_watch_reports_lost_events),
    };

    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
