/* tests/unit/test_diff.c - diffs: applying one gives the new text, and the format is
 * git's. */
#include "config.h"

#include "patcher/document/diff.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct diff_options plain = { .from = "a", .to = "b", .context = 3 };

static void assert_diff(const char *a, const char *b, const struct diff_options *options,
                        const char *expected)
{
    struct text out;

    text_init(&out, 0);
    assert_true(diff_unified(a, strlen(a), b, strlen(b), options, &out));
    assert_string_equal(out.data, expected);
    text_clear(&out);
}

static void test_diff_has_the_format_of_diff_u(void **state)
{
    (void)state;
    assert_diff("same\n", "same\n", &plain, "");
    assert_diff("a\n", "b\n", &plain, "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n");
    assert_diff("", "b\n", &plain, "--- a\n+++ b\n@@ -0,0 +1 @@\n+b\n");
    assert_diff("a\nb\n", "", &plain, "--- a\n+++ b\n@@ -1,2 +0,0 @@\n-a\n-b\n");
    assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n", &plain,
                "--- a\n+++ b\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n 8\n-9\n");
    assert_diff(
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n", &plain,
        "--- a\n+++ b\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n"
        "-9\n+y\n");
    assert_diff(
        "1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n", &plain,
        "--- a\n+++ b\n@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n");
}

static void test_diff_reports_a_missing_final_newline(void **state)
{
    (void)state;
    assert_diff(
        "a\nb", "a\nb\n", &plain,
        "--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
    assert_diff("a", "b", &plain,
                "--- a\n+++ b\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
                "\\ No newline at end of file\n");
}

static void test_diff_shows_control_characters_on_a_terminal(void **state)
{
    const struct diff_options visible = { .from = "a", .to = "b", .visible = true };

    (void)state;
    assert_diff("x\r\n", "\33[2Jx\r\n", &visible,
                "--- a\n+++ b\n@@ -1 +1 @@\n-x\\x0d\n+\\x1b[2Jx\\x0d\n");
    assert_diff("x\r\n", "\33x\r\n", &plain,
                "--- a\n+++ b\n@@ -1 +1 @@\n-x\r\n+\33x\r\n");
}

static void test_diff_has_the_colors_of_git(void **state)
{
    const struct diff_options use_color = { .from = "a", .to = "b", .use_color = true };

    (void)state;
    assert_diff(
        "a\n", "b\n", &use_color,
        "\33[1m--- a\33[m\n\33[1m+++ b\33[m\n\33[36m@@ -1 +1 @@\33[m\n\33[31m-a\33[m\n"
        "\33[32m+b\33[m\n");
}

static void add_line_numbers(void *context, const struct diff_hunk *hunk,
                             struct text *out)
{
    text_addf(out, "%s %zu-%zu %zu-%zu -%zu +", (const char *)context, hunk->old_first,
              hunk->old_last, hunk->new_first, hunk->new_last, hunk->removed);
    for (size_t i = hunk->new_first; i <= hunk->new_last; i++)
        text_addc(out, hunk->added[i - hunk->new_first] ? '1' : '0');
    text_addc(out, '\n');
}

static void test_diff_calls_back_after_each_hunk(void **state)
{
    struct diff_options options = {
        .from = "a", .to = "b", .hunk = add_line_numbers, .hunk_context = "lines"
    };

    (void)state;
    assert_diff("1\n2\n3\n", "x\n2\ny\n", &options,
                "--- a\n+++ b\n@@ -1 +1 @@\n-1\n+x\nlines 1-1 1-1 -1 +1\n"
                "@@ -3 +3 @@\n-3\n+y\nlines 3-3 3-3 -1 +1\n");
    options.context = 1;
    assert_diff("1\n2\n3\n4\n", "1\n3\nx\n4\n", &options,
                "--- a\n+++ b\n@@ -1,4 +1,4 @@\n 1\n-2\n 3\n+x\n 4\n"
                "lines 1-4 1-4 -1 +0010\n");
}

static void test_diff_maps_lines(void **state)
{
    static const char was[] = "1\n2\n3\n4", now[] = "0\n1\n3\nx\n4";
    static const size_t expected[] = { 2, 0, 3, 5, 0 };
    size_t *lines = diff_follow(was, strlen(was), now, strlen(now));

    (void)state;
    for (size_t i = 0; i < TS_COUNT(expected); i++)
        assert_int_equal(lines[i], expected[i]);
    free(lines);
    lines = diff_follow("", 0, now, strlen(now));
    assert_int_equal(lines[0], 0);
    free(lines);
}

/* Apply a diff that has all lines as context. */
static void patch(const char *diff, struct text *out)
{
    const char *line = strchr(strchr(diff, '\n') + 1, '\n') + 1; /* after the header */

    for (; *line; line = strchr(line, '\n') + 1) {
        size_t len = (size_t)(strchr(line, '\n') - line) + 1;

        if (*line == '\\')
            out->data[--out->len] = 0;
        else if (*line == ' ' || *line == '+')
            text_add(out, line + 1, len - 1);
        if (*line == '-' && line[len] == '\\')
            line = strchr(line, '\n') + 1; /* the old text has no final newline */
    }
}

static void test_diff_gives_the_new_text_when_applied(void **state)
{
    const struct diff_options all = { .from = "a", .to = "b", .context = 1000 };
    struct text a, b, diff, out;

    (void)state;
    text_init(&a, 0);
    text_init(&b, 0);
    text_init(&diff, 0);
    text_init(&out, 0);
    for (unsigned seed = 1; seed < 300; seed++) {
        unsigned random = seed;

        text_reset(&a);
        text_reset(&b);
        text_reset(&diff);
        text_reset(&out);
        for (unsigned i = 0; i < seed % 40; i++) {
            random = random * 1664525u + 1013904223u;
            if ((random >> 16) % 4 != 0)
                text_addf(&a, "%u\n", (random >> 20) % 7);
            if ((random >> 18) % 4 != 0)
                text_addf(&b, "%u\n", (random >> 20) % 7);
        }
        if (seed % 5 == 0)
            text_adds(&b, "end");
        diff_unified(a.data, a.len, b.data, b.len, &all, &diff);
        if (diff.len == 0) {
            assert_string_equal(a.data, b.data);
            continue;
        }
        patch(diff.data, &out);
        assert_string_equal(out.data, b.data);
    }
    text_clear(&a);
    text_clear(&b);
    text_clear(&diff);
    text_clear(&out);
}

static void test_diff_replaces_very_different_texts(void **state)
{
    struct text a, b, out;
    size_t removed = 0, added = 0;

    (void)state;
    text_init(&a, 0);
    text_init(&b, 0);
    text_init(&out, 0);
    for (int i = 0; i < 4000; i++) {
        text_addf(&a, "old %d\n", i);
        text_addf(&b, "new %d\n", i);
    }
    assert_true(diff_unified(a.data, a.len, b.data, b.len, &plain, &out));
    for (const char *line = strstr(out.data, "@@\n"); line;
         line = strchr(line + 1, '\n')) {
        removed += line[1] == '-';
        added += line[1] == '+';
    }
    assert_int_equal(removed, 4000);
    assert_int_equal(added, 4000);
    text_clear(&a);
    text_clear(&b);
    text_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diff_has_the_format_of_diff_u),
        cmocka_unit_test(test_diff_reports_a_missing_final_newline),
        cmocka_unit_test(test_diff_shows_control_characters_on_a_terminal),
        cmocka_unit_test(test_diff_has_the_colors_of_git),
        cmocka_unit_test(test_diff_calls_back_after_each_hunk),
        cmocka_unit_test(test_diff_maps_lines),
        cmocka_unit_test(test_diff_gives_the_new_text_when_applied),
        cmocka_unit_test(test_diff_replaces_very_different_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
