/* tests/unit/test_torch_build.c - which builds of PyTorch run on which cards. */
#include "config.h"

#include "patcher/rules/torch_build.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct version parse_version(const char *text)
{
    struct version version;

    assert_true(version_read(text, &version));
    return version;
}

static const struct torch_build *find(const char *torch, const char *toolkit)
{
    const struct torch_build *rows, *found = NULL;
    struct version release = parse_version(torch), with = parse_version(toolkit);
    size_t count = torch_builds(&rows);

    for (size_t i = 0; i < count; i++)
        if (torch_build_matches(&rows[i], &release, &with)) {
            assert_null(found); /* one row for each pair */
            found = &rows[i];
        }
    return found;
}

static void test_machine_code_runs_within_a_major_version(void **state)
{
    (void)state;
    const struct torch_build build = { .code = "6.0 8.0 8.6 12.0" };
    const struct {
        int capability;
        bool runs;
    } cards[] = { { 50, false },  { 60, true },  { 61, true },  { 62, true },
                  { 70, false },  { 75, false }, { 80, true },  { 86, true },
                  { 87, true },   { 89, true },  { 90, false }, { 100, false },
                  { 110, false }, { 120, true }, { 121, true }, { 130, false } };

    for (size_t i = 0; i < TS_COUNT(cards); i++)
        assert_int_equal(torch_build_runs_on(&build, cards[i].capability), cards[i].runs);
}

static void test_older_code_of_a_major_version_is_required(void **state)
{
    (void)state;
    const struct torch_build build = { .code = "8.6 10.0" };

    assert_false(torch_build_runs_on(&build, 80));
    assert_true(torch_build_runs_on(&build, 89));
    assert_true(torch_build_runs_on(&build, 103));
    assert_false(torch_build_runs_on(&build, 120));
}

static void test_ptx_runs_on_every_later_card(void **state)
{
    (void)state;
    const struct torch_build build = { .code = "8.0 9.0", .ptx = 90 };

    assert_true(torch_build_runs_on(&build, 120));
    assert_true(torch_build_runs_on(&build, 130));
    assert_true(torch_build_runs_on(&build, 100));
    assert_false(torch_build_runs_on(&build, 75));
}

/* The answers of the release notes and of reports, not of the table. */
static void test_published_builds(void **state)
{
    (void)state;
    const struct {
        const char *torch, *toolkit;
        int capability;
        bool runs;
    } known[] = {
        { "2.5.1", "12.4", 120, false }, /* LLaMA-Factory#6958 */
        { "2.6.0", "12.6", 120, false }, /* pytorch#159207 */
        { "2.6.0", "12.4", 90, true },   { "2.7.1", "12.8", 120, true },
        { "2.7.0", "12.6", 120, false }, { "2.7.0", "12.8", 70, false },
        { "2.7.0", "12.6", 61, true },   { "2.8.0", "12.8", 61, false },
        { "2.8.0", "12.8", 70, true },   { "2.8.0", "12.9", 70, true },
        { "2.8.0", "12.6", 60, true },   { "2.9.1", "13.0", 70, false },
        { "2.10.0", "12.8", 70, true },  { "2.11.0", "12.8", 70, false }, /* #172352 */
        { "2.11.0", "12.6", 70, true },  { "2.14.0", "12.6", 100, false },
        { "2.14.0", "13.2", 103, true }, { "2.0.1", "11.7", 90, false },
        { "2.0.1", "11.7", 89, true },   { "2.0.1", "11.8", 90, true },
        { "2.1", "12.1", 37, false },    { "2.1", "11.8", 37, true },
    };

    for (size_t i = 0; i < TS_COUNT(known); i++) {
        const struct torch_build *build = find(known[i].torch, known[i].toolkit);

        assert_non_null(build);
        if (torch_build_runs_on(build, known[i].capability) != known[i].runs)
            fail_msg("torch %s, CUDA %s, capability %d", known[i].torch, known[i].toolkit,
                     known[i].capability);
    }
    assert_null(find("2.5", "12.8"));
    assert_null(find("2.15", "13.0"));
}

/* A version may have fewer parts than the row, or more; a release has at least two. */
static void test_builds_match_versions_of_any_length(void **state)
{
    (void)state;
    const struct torch_build build = { .torch = "2.5", .toolkit = "12.4" };
    const struct {
        const char *torch, *toolkit;
        bool matches;
    } rows[] = {
        { "2.5", "12", true },       { "2.5.1", "12.4.1", true },
        { "2.5", "12.1", false },    { "2.5", "11", false },
        { "2.50", "12.4", false },   { "2.4.1", "12.4", false },
        { "2.5.1", "12.40", false },
    };

    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct version torch = parse_version(rows[i].torch),
                       toolkit = parse_version(rows[i].toolkit);

        assert_int_equal(torch_build_matches(&build, &torch, &toolkit), rows[i].matches);
    }
}

/* "2" is any release, also 2.0. */
static void test_a_major_version_matches_no_build(void **state)
{
    (void)state;
    const struct torch_build build = { .torch = "2.0", .toolkit = "11.8" };
    struct version torch = parse_version("2");

    assert_false(torch_build_matches(&build, &torch, NULL));
}

static void check_remedy(const char *torch, int capability, const char *release,
                         const char *toolkit)
{
    struct version version = parse_version(torch);
    const struct torch_build *build = torch_build_for(&version, capability);

    assert_non_null(build);
    assert_string_equal(build->torch, release);
    assert_string_equal(build->toolkit, toolkit);
}

static void test_remedy_prefers_the_same_release(void **state)
{
    (void)state;
    check_remedy("2.9.1", 60, "2.9", "12.6");
    check_remedy("2.11.0+cu128", 70, "2.11", "12.6");
    check_remedy("2.0.1", 90, "2.0", "11.8");
    check_remedy("2.7.0", 120, "2.7", "12.8");
}

static void test_remedy_falls_back_to_the_nearest_release(void **state)
{
    (void)state;
    check_remedy("2.5.1", 120, "2.7", "12.8");  /* the first later one */
    check_remedy("1.10.0", 80, "1.12", "11.6"); /* with its last toolkit */
    check_remedy("2.12.0", 37, "2.7", "11.8");  /* the last earlier one */
    check_remedy("2.15.0", 60, "2.14", "12.6");
    assert_string_equal(torch_build_for(NULL, 60)->torch, "2.14");
    assert_null(torch_build_for(NULL, 35));
}

static void test_rows_are_ordered_and_name_a_source(void **state)
{
    (void)state;
    const struct torch_build *rows;
    size_t count = torch_builds(&rows);

    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(rows[i].source) > 8);
        if (i > 0) {
            struct version before = parse_version(rows[i - 1].torch),
                           after = parse_version(rows[i].torch);

            assert_true(version_compare(&before, &after) <= 0);
        }
        /* CUDA 13 release notes: no code before 7.5; CUDA 12: none before 5.0;
         * Blackwell since 12.8 */
        if (rows[i].toolkit[0] == '1' && rows[i].toolkit[1] == '3')
            assert_false(torch_build_runs_on(&rows[i], 72));
        if (rows[i].toolkit[1] != '1')
            assert_false(torch_build_runs_on(&rows[i], 37));
        if (torch_build_runs_on(&rows[i], 120)) {
            struct version toolkit = parse_version(rows[i].toolkit),
                           least = parse_version("12.8");

            assert_true(version_compare(&toolkit, &least) >= 0);
        }
    }
}

static void test_jetson_boards_have_builds_of_their_own(void **state)
{
    (void)state;
    assert_false(torch_build_serves(87));
    assert_true(torch_build_serves(89));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_code_runs_within_a_major_version),
        cmocka_unit_test(test_older_code_of_a_major_version_is_required),
        cmocka_unit_test(test_ptx_runs_on_every_later_card),
        cmocka_unit_test(test_published_builds),
        cmocka_unit_test(test_builds_match_versions_of_any_length),
        cmocka_unit_test(test_a_major_version_matches_no_build),
        cmocka_unit_test(test_remedy_prefers_the_same_release),
        cmocka_unit_test(test_remedy_falls_back_to_the_nearest_release),
        cmocka_unit_test(test_rows_are_ordered_and_name_a_source),
        cmocka_unit_test(test_jetson_boards_have_builds_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
