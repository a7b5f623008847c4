/* tests/unit/test_drop.c - which files are jobs, and when they are complete. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/size.h"
#include "runner/spool/drop.h"

struct fixture {
    char *path;
    int dir;
};

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->path = unit_dir_new();
    fixture->dir = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = fixture;
    return fixture->dir < 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    close(fixture->dir);
    unit_dir_free(fixture->path);
    free(fixture);
    return 0;
}

static int create_file(struct fixture *fixture, const char *name, const char *data)
{
    int fd = openat(fixture->dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_true(write(fd, data, strlen(data)) == (ssize_t)strlen(data));
    return fd;
}

static enum drop_verdict inspect(struct fixture *fixture, const char *name,
                                 enum watch_hint hint, struct drop *drop)
{
    struct drop_history history = { 0 };

    drop_note_event(&history, hint, 0);
    return drop_inspect(fixture->dir, name, 0, &history, drop);
}

static void test_drop_accepts_names_of_finished_files(void **state)
{
    static const char *const good[] = { "a.yaml", "a.yml", "job 1.yaml", "jöb.yaml",
                                        "4913.yaml" };
    static const char *const bad[] = { "a.txt",       ".a.yaml",    "a.yaml~",
                                       "#a.yaml#",    "#a.yaml",    "a.tmp.yaml",
                                       "a.part.yaml", ".yaml",      "a.yaml.XXXX",
                                       "4913",        "sedA1b2C3",  "a\nb.yaml",
                                       "a\033.yaml",  "a\x7f.yaml", "a\xc2\x9b.yaml",
                                       "a\xff.yaml",  "",           ".#a.yaml" };
    char long_name[256];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(good); i++)
        assert_true(drop_name_is_valid(good[i]));
    for (size_t i = 0; i < TS_COUNT(bad); i++)
        assert_false(drop_name_is_valid(bad[i]));
    memset(long_name, 'a', sizeof(long_name));
    memcpy(long_name + 196, ".yaml", 6);
    assert_false(drop_name_is_valid(long_name));
    assert_true(drop_name_is_valid(long_name + 1));
}

static void test_drop_renamed_is_complete_at_once(void **state)
{
    struct drop drop;

    close(create_file(*state, "a.yaml", "stage: sft"));
    assert_int_equal(inspect(*state, "a.yaml", WATCH_RENAMED, &drop), DROP_COMPLETE);
}

/* Check a file at several times, each in seconds after the first check. */
static enum drop_verdict check_at(struct fixture *fixture, struct drop_history *history,
                                  double now)
{
    struct drop drop;

    return drop_inspect(fixture->dir, "a.yaml", now, history, &drop);
}

static void test_drop_written_file_must_stop_changing(void **state)
{
    struct drop_history history = { 0 };
    struct drop drop;

    close(create_file(*state, "a.yaml", "stage: sft\n"));
    assert_int_equal(inspect(*state, "a.yaml", WATCH_WRITTEN, &drop), DROP_WAIT);
    assert_true(drop.again > 0.5 && drop.again <= 1);
    drop_note_event(&history, WATCH_WRITTEN, 0);
    assert_int_equal(check_at(*state, &history, 0), DROP_WAIT);
    assert_int_equal(check_at(*state, &history, 0.9), DROP_WAIT);
    assert_int_equal(check_at(*state, &history, 1), DROP_COMPLETE);
}

static void test_drop_without_a_final_newline_waits_longer(void **state)
{
    struct drop drop;

    close(create_file(*state, "a.yaml", "stage: sft"));
    assert_int_equal(inspect(*state, "a.yaml", WATCH_WRITTEN, &drop), DROP_WAIT);
    assert_true(drop.again > 1);
}

/* Times of files say nothing: they come from another clock. */
static void test_drop_age_does_not_count(void **state)
{
    static const struct timespec past[2] = { { .tv_sec = 1000000000 },
                                             { .tv_sec = 1000000000 } };
    static const struct timespec longer_than_a_tick = { .tv_nsec = 250000000 };
    struct fixture *fixture = *state;
    struct drop_history history = { 0 };

    close(create_file(fixture, "a.yaml", "stage: sft\n"));
    assert_int_equal(utimensat(fixture->dir, "a.yaml", past, 0), 0);
    nanosleep(&longer_than_a_tick, NULL);
    assert_int_equal(check_at(fixture, &history, 0), DROP_WAIT);
    assert_int_equal(check_at(fixture, &history, 1.9), DROP_WAIT);
    assert_int_equal(check_at(fixture, &history, 2), DROP_COMPLETE);
    history = (struct drop_history) { 0 };
    drop_note_event(&history, WATCH_WRITTEN, 0);
    assert_int_equal(check_at(fixture, &history, 0), DROP_WAIT);
}

static void test_drop_each_write_starts_the_wait_again(void **state)
{
    struct fixture *fixture = *state;
    struct drop_history history = { 0 };

    close(create_file(fixture, "a.yaml", "stage: sft\n"));
    drop_note_event(&history, WATCH_WRITTEN, 0);
    assert_int_equal(check_at(fixture, &history, 0), DROP_WAIT);
    drop_note_event(&history, WATCH_WRITTEN, 0.9); /* size and times may be as before */
    assert_int_equal(check_at(fixture, &history, 1), DROP_WAIT);
    close(create_file(fixture, "a.yaml", "stage: sft\nbf16: true\n"));
    assert_int_equal(check_at(fixture, &history, 3), DROP_WAIT);
    assert_int_equal(check_at(fixture, &history, 4.9), DROP_WAIT);
    assert_int_equal(check_at(fixture, &history, 5), DROP_COMPLETE);
}

/* A file that was renamed and then changed, of which the event was lost. */
static void test_drop_a_rename_counts_for_one_text(void **state)
{
    struct fixture *fixture = *state;
    struct drop_history history = { 0 };

    close(create_file(fixture, "a.yaml", "stage: sft\n"));
    drop_note_event(&history, WATCH_RENAMED, 0);
    assert_int_equal(check_at(fixture, &history, 0), DROP_COMPLETE);
    assert_int_equal(check_at(fixture, &history, 1), DROP_COMPLETE);
    close(create_file(fixture, "a.yaml", "stage: pt\nbf16"));
    assert_int_equal(check_at(fixture, &history, 10), DROP_WAIT);
    drop_note_event(&history, WATCH_RENAMED, 10);
    assert_int_equal(check_at(fixture, &history, 10), DROP_COMPLETE);
}

static void test_drop_with_an_end_marker_is_complete(void **state)
{
    struct drop drop;

    close(create_file(*state, "a.yaml", "stage: sft\n...\n"));
    close(create_file(*state, "b.yaml", "stage: sft\n..."));
    close(create_file(*state, "c.yaml", "stage: a...\n"));
    assert_int_equal(inspect(*state, "a.yaml", WATCH_SEEN, &drop), DROP_COMPLETE);
    assert_int_equal(inspect(*state, "b.yaml", WATCH_SEEN, &drop), DROP_COMPLETE);
    assert_int_equal(inspect(*state, "c.yaml", WATCH_SEEN, &drop), DROP_WAIT);
}

static void test_drop_is_never_complete_while_open_for_writing(void **state)
{
    struct drop drop;
    int fd = create_file(*state, "a.yaml", "stage: sft\n...\n");

    assert_int_equal(inspect(*state, "a.yaml", WATCH_RENAMED, &drop), DROP_WAIT);
    close(fd);
    assert_int_equal(inspect(*state, "a.yaml", WATCH_RENAMED, &drop), DROP_COMPLETE);
}

static void test_drop_refuses_special_files(void **state)
{
    struct fixture *fixture = *state;
    struct drop drop;

    close(create_file(fixture, "real", "stage: sft\n"));
    assert_int_equal(symlinkat("real", fixture->dir, "link.yaml"), 0);
    assert_int_equal(symlinkat("/nowhere", fixture->dir, "dangling.yaml"), 0);
    assert_int_equal(mkdirat(fixture->dir, "dir.yaml", 0700), 0);
    assert_int_equal(mkfifoat(fixture->dir, "fifo.yaml", 0600), 0);
    assert_int_equal(inspect(fixture, "link.yaml", WATCH_RENAMED, &drop), DROP_REFUSED);
    assert_non_null(strstr(drop.reason, "symbolic link"));
    assert_int_equal(inspect(fixture, "dangling.yaml", WATCH_RENAMED, &drop),
                     DROP_REFUSED);
    assert_int_equal(inspect(fixture, "dir.yaml", WATCH_RENAMED, &drop), DROP_REFUSED);
    assert_int_equal(inspect(fixture, "fifo.yaml", WATCH_RENAMED, &drop), DROP_REFUSED);
    assert_int_equal(inspect(fixture, "gone.yaml", WATCH_RENAMED, &drop), DROP_GONE);
}

static void test_drop_refuses_a_file_others_may_write(void **state)
{
    struct fixture *fixture = *state;
    struct drop drop;

    close(create_file(fixture, "a.yaml", "stage: sft\n"));
    assert_int_equal(fchmodat(fixture->dir, "a.yaml", 0666, 0), 0);
    assert_int_equal(inspect(fixture, "a.yaml", WATCH_RENAMED, &drop), DROP_REFUSED);
}

static void test_drop_refuses_a_large_file_without_reading_it(void **state)
{
    struct fixture *fixture = *state;
    struct drop drop;
    int fd = create_file(fixture, "a.yaml", "");

    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    close(fd);
    assert_int_equal(inspect(fixture, "a.yaml", WATCH_RENAMED, &drop), DROP_REFUSED);
}

static void test_drop_tolerates_a_second_link_briefly(void **state)
{
    struct fixture *fixture = *state;
    struct drop_history history = { .first = 10 };
    struct drop drop;

    drop_note_event(&history, WATCH_RENAMED, 10);
    close(create_file(fixture, "a.yaml", "stage: sft\n"));
    assert_int_equal(linkat(fixture->dir, "a.yaml", fixture->dir, "b.yaml", 0), 0);
    assert_int_equal(drop_inspect(fixture->dir, "b.yaml", 20, &history, &drop),
                     DROP_WAIT);
    assert_int_equal(drop_inspect(fixture->dir, "b.yaml", 80, &history, &drop),
                     DROP_REFUSED);
    assert_int_equal(unlinkat(fixture->dir, "a.yaml", 0), 0);
    assert_int_equal(drop_inspect(fixture->dir, "b.yaml", 90, &history, &drop),
                     DROP_WAIT);
    assert_int_equal(drop_inspect(fixture->dir, "b.yaml", 92, &history, &drop),
                     DROP_COMPLETE);
}

static void test_drop_digest_notices_a_change(void **state)
{
    struct fixture *fixture = *state;
    char digest[65], expected[65];
    struct error err = { 0 };
    struct drop drop;

    close(create_file(fixture, "a.yaml", "stage: sft\n"));
    assert_int_equal(inspect(fixture, "a.yaml", WATCH_RENAMED, &drop), DROP_COMPLETE);
    assert_true(drop_digest(fixture->dir, "a.yaml", &drop, digest, &err));
    digest_bytes("stage: sft\n", 11, expected);
    assert_string_equal(digest, expected);
    close(create_file(fixture, "a.yaml", "stage: pt and more\n"));
    assert_false(drop_digest(fixture->dir, "a.yaml", &drop, digest, &err));
    assert_int_equal(err.code, ERROR_DATA);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drop_accepts_names_of_finished_files),
        IN_FOLDER(test_drop_renamed_is_complete_at_once),
        IN_FOLDER(test_drop_written_file_must_stop_changing),
        IN_FOLDER(test_drop_without_a_final_newline_waits_longer),
        IN_FOLDER(test_drop_age_does_not_count),
        IN_FOLDER(test_drop_each_write_starts_the_wait_again),
        IN_FOLDER(test_drop_a_rename_counts_for_one_text),
        IN_FOLDER(test_drop_with_an_end_marker_is_complete),
        IN_FOLDER(test_drop_is_never_complete_while_open_for_writing),
        IN_FOLDER(test_drop_refuses_special_files),
        IN_FOLDER(test_drop_refuses_a_file_others_may_write),
        IN_FOLDER(test_drop_refuses_a_large_file_without_reading_it),
        IN_FOLDER(test_drop_tolerates_a_second_link_briefly),
        IN_FOLDER(test_drop_digest_notices_a_change),
    };

    return cmocka_run_group_tests_name("drop", tests, NULL, NULL);
}
