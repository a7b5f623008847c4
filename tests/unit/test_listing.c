/* tests/unit/test_listing.c - the jobs of a folder as seen from outside. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/spool/listing.h"

static void write_file(const char *dir, const char *name, const char *text)
{
    char *path = path_join(dir, name), *parent = path_dir(path);
    struct error err = { 0 };

    assert_true(file_make_dirs(parent, 0700, &err));
    assert_true(file_replace(path, text, strlen(text), 0644, &err));
    free(parent);
    free(path);
}

static int set_up(void **state)
{
    *state = unit_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    unit_dir_free(*state);
    return 0;
}

/* Return "NAME STATE" of the jobs shown, each with a semicolon. */
static char *summary(const struct listing *listing)
{
    struct listed job;
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < listing->count; i++)
        if (listing_read(listing, i, &job)) {
            text_addf(&out, "%s %s;", job.name, listed_state(&job));
            listed_clear(&job);
        }
    return text_detach(&out, NULL);
}

static void assert_summary(const char *dir, const char *expected)
{
    struct listing listing = { 0 };
    struct error err = { 0 };
    char *is;

    assert_true(listing_add_folder(&listing, dir, &err));
    is = summary(&listing);
    assert_string_equal(is, expected);
    free(is);
    listing_clear(&listing);
}

static void test_listing_is_sorted_and_ignores_other_files(void **state)
{
    assert_summary(*state, "");
    write_file(*state, "b.yaml", "");
    write_file(*state, "a.yml", "");
    write_file(*state, ".hidden.yaml", "");
    write_file(*state, "c.txt", "");
    write_file(*state, "b.run/state.json", "{\"state\":\"done\"}\n");
    assert_summary(*state, "a new;b done;");
    write_file(*state, "a-10-seed-1.yaml", "");
    write_file(*state, "a-2-seed-1.yaml", "");
    write_file(*state, "a1.yaml", "");
    assert_summary(*state, "a new;a-10-seed-1 new;a-2-seed-1 new;a1 new;b done;");
}

static void test_listing_shows_a_job_that_cannot_be_read(void **state)
{
    struct listing listing = { 0 };
    struct listed job;
    struct error err = { 0 };

    write_file(*state, "a.yaml", "");
    write_file(*state, "a.run/state.json/x", "");
    write_file(*state, "b.yaml", "");
    write_file(*state, "b.run/state.json", "{\"state\":\"failed\"}\n");
    assert_summary(*state, "a blocked;b failed;");
    assert_true(listing_add_folder(&listing, *state, &err));
    assert_true(listing_read(&listing, 0, &job));
    assert_false(job.unread);
    assert_non_null(strstr(job.record.reason, "state.json is a directory"));
    listed_clear(&job);
    listing_clear(&listing);
}

static void test_listing_shows_removed_jobs_while_they_run_or_wait(void **state)
{
    write_file(*state, "done.run/state.json", "{\"state\":\"done\"}\n");
    write_file(*state, "ready.run/state.json", "{\"state\":\"ready\"}\n");
    write_file(*state, "running.run/state.json", "{\"state\":\"running\"}\n");
    write_file(*state, "other", "");
    write_file(*state, "other.run/state.json", "{\"state\":\"ready\"}\n");
    assert_summary(*state, "ready ready;running crashed;");
}

static void test_listing_shows_that_two_jobs_share_a_folder(void **state)
{
    write_file(*state, "a.yaml", "");
    write_file(*state, "a.yml", "");
    write_file(*state, "a.run/state.json", "{\"state\":\"done\"}\n");
    assert_summary(*state, "a done;a rejected;");
}

static void test_listing_accepts_single_jobs(void **state)
{
    char *path = path_join(*state, "a.yaml"), *is;
    struct listing listing = { 0 };

    write_file(*state, "a.run/state.json", "{\"state\":\"stopped\"}\n");
    listing_add_job(&listing, path);
    is = summary(&listing);
    assert_string_equal(is, "a stopped;");
    free(is);
    free(path);
    listing_clear(&listing);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_listing_is_sorted_and_ignores_other_files),
        IN_FOLDER(test_listing_shows_a_job_that_cannot_be_read),
        IN_FOLDER(test_listing_shows_removed_jobs_while_they_run_or_wait),
        IN_FOLDER(test_listing_shows_that_two_jobs_share_a_folder),
        IN_FOLDER(test_listing_accepts_single_jobs),
    };

    return cmocka_run_group_tests_name("listing", tests, NULL, NULL);
}
