/* tests/unit/test_assembly.c - ranks that find each other by a file, and those that do not
 * come or leave. */
#include "config.h"

#include "runner/cluster/assembly.h"

#include "tests/unit/unit_assembly.h"

/* ---- Meetings that succeed ---- */

static void meet_and_pair(int size)
{
    clear();
    for (int r = size - 1; r >= 0; r--)
        seat(r, size)->then = THEN_PAIR;
    start_all();
    wait_for_all();
    for (size_t i = 0; i < used; i++)
        expect_met(&places[i]);
    assert_int_equal(places[used - 1].mode, 0600);
    assert_false(file_is_there(file));
}

static void test_assembly_connects_all_ranks(void **state)
{
    (void)state;
    meet_and_pair(4);
    meet_and_pair(2);
    meet_and_pair(16);
}

static void test_assembly_hears_ranks_in_any_order(void **state)
{
    (void)state;
    for (int r = 0; r < 4; r++) {
        struct place *place = seat(r, 4);

        place->then = THEN_PAIR;
        place->wait = r == 0 ? 0.3 : r == 1 ? 0.9 : 0;
    }
    start_all();
    wait_for_all();
    for (size_t i = 0; i < used; i++)
        expect_met(&places[i]);
}

static void test_assembly_raises_the_limit_of_open_files(void **state)
{
    (void)state;
    for (int r = 0; r < 16; r++) {
        struct place *place = seat(r, 16);

        place->then = THEN_PAIR;
        place->files = 20;
        place->files_most = 256;
    }
    start_all();
    wait_for_all();
    for (size_t i = 0; i < used; i++)
        expect_met(&places[i]);
}

/* ---- Ranks that do not come, or leave ---- */

static void test_assembly_refuses_too_few_open_files(void **state)
{
    (void)state;
    seat(0, 16)->files = places[0].files_most = 79;
    start_all();
    wait_for_all();
    expect_refused(
        &places[0], ERROR_SYSTEM,
        "rank 0 of 16 needs 80 open files, and this process may open 79: raise "
        "the limit (ulimit -Hn)");
}

static void test_assembly_names_missing_ranks(void **state)
{
    (void)state;
    seat(0, 4)->patience = 1;
    seat(2, 4);
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM,
                   "ranks 1, 3 of 4 did not connect within 1 s");
    assert_true(places[0].seconds >= 1 && places[0].seconds < 1 + SOON);
    assert_false(file_is_there(file));

    clear();
    seat(0, 20)->patience = 1;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM,
                   "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more of 20 did not");

    clear();
    seat(0, 2)->patience = 1;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM, "rank 1 of 2 did not");
}

static void test_assembly_reports_that_rank_0_is_missing(void **state)
{
    (void)state;
    seat(1, 2)->patience = 1;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM, "rank 0 did not write ");
    assert_true(places[0].seconds >= 1 && places[0].seconds < 1 + SOON);

    write_ranks(file, "start", some_key, closed_port());
    clear();
    seat(1, 2)->patience = 1;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM, "cannot reach rank 0 at 127.0.0.1, port ");
}

static void test_assembly_reports_a_file_that_cannot_be_written(void **state)
{
    char *nowhere = path_join(folder, "no/such/ranks.json");

    (void)state;
    seat(0, 2)->file = nowhere;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM, "no/such/");
    assert_true(places[0].seconds < SOON);
    free(nowhere);
}

static void test_assembly_stops_on_request(void **state)
{
    (void)state;
    seat(0, 3)->stop_after = 0.5;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_STOPPED, "stopped");
    assert_true(places[0].seconds < 0.5 + 1);

    clear();
    seat(1, 3)->stop_after = 0.5;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_STOPPED, "stopped");
    assert_true(places[0].seconds < 0.5 + 1);
}

static void test_assembly_fails_when_a_rank_leaves_before_pairs(void **state)
{
    (void)state;
    for (int gone = 0; gone < 4; gone++) {
        clear();
        for (int r = 0; r < 4; r++)
            seat(r, 4)->then = r == gone ? THEN_LEAVE : THEN_PAIR;
        start_all();
        wait_for_all();
        for (int r = 0; r < 4; r++)
            if (r != gone) {
                assert_false(places[r].ok);
                assert_int_equal(places[r].leaked, 0);
                if (places[r].err.code != ERROR_SYSTEM || !places[r].err.text[0])
                    fail_msg("rank %d: no reason", r);
                if (places[r].seconds > 2 * SOON)
                    fail_msg("rank %d: noticed after %g s that %d left", r,
                             places[r].seconds, gone);
            }
        unlink(file);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_assembly_connects_all_ranks),
        TEST(test_assembly_hears_ranks_in_any_order),
        TEST(test_assembly_raises_the_limit_of_open_files),
        TEST(test_assembly_refuses_too_few_open_files),
        TEST(test_assembly_names_missing_ranks),
        TEST(test_assembly_reports_that_rank_0_is_missing),
        TEST(test_assembly_reports_a_file_that_cannot_be_written),
        TEST(test_assembly_stops_on_request),
        TEST(test_assembly_fails_when_a_rank_leaves_before_pairs),
    };
#undef TEST

    share_places();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
