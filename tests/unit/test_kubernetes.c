/* tests/unit/test_kubernetes.c - names that Kubernetes accepts, from names of files. */
#include "config.h"

#include "runner/job/kubernetes.h"

#include <string.h>

#include "base/size.h"
#include "base/yaml_quote.h"
#include "tests/unit/unit.h"

static void test_kubernetes_name_is_a_label(void **state)
{
    static const char *const cases[][2] = {
        { "/a/gsm8k.yaml", "gsm8k-" },
        { "/a/Job_1 (v2).yml", "job-1-v2-" },
        { "/a/1-generate.yaml", "generate-" },
        { "/a/2026.yaml", "job-" },
        { "/a/--x--.yaml", "x-" },
        { "/a/\xc3\xa4\xc3\xb6.yaml", "job-" },
        { "/a/.yaml", "job-" },
        { "/a/a.b.yaml.txt", "a-b-yaml-txt-" },
        { "/a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.yaml",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-" },
        { "/a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bcd.yaml",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char name[KUBERNETES_NAME];
        const size_t stem = strlen(cases[i][1]);

        kubernetes_name(cases[i][0], name);
        if (strncmp(name, cases[i][1], stem) != 0 || strlen(name) != stem + 5 ||
            strspn(name + stem, "0123456789abcdef") != 5)
            fail_msg("%s: %s", cases[i][0], name);
    }
}

/* Two folders may have jobs of one name, and an object must not take the other's place. */
static void test_kubernetes_name_depends_on_the_folder(void **state)
{
    char a[KUBERNETES_NAME], b[KUBERNETES_NAME], again[KUBERNETES_NAME];

    (void)state;
    kubernetes_name("/a/job.yaml", a);
    kubernetes_name("/b/job.yaml", b);
    kubernetes_name("/a/job.yaml", again);
    assert_string_not_equal(a, b);
    assert_string_equal(a, again);
}

static void test_kubernetes_accepts_names_of_claims(void **state)
{
    static const char *const good[] = { "a", "team-data", "a.b", "0", "a-1.b-2" };
    static const char *const bad[] = { "",     "-a",  "a-",      "A",    "a_b",
                                       "a..b", ".a",  "a.",      "a-.b", "a.-b",
                                       "a b",  "a\n", "\xc3\xa4" };
    char longest[255];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(good); i++)
        if (!kubernetes_is_name(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < TS_COUNT(bad); i++)
        if (kubernetes_is_name(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    memset(longest, 'a', 254);
    longest[254] = '\0';
    assert_false(kubernetes_is_name(longest));
    assert_true(kubernetes_is_name(longest + 1));
}

static void test_yaml_quote_escapes(void **state)
{
    static const char *const cases[][2] = {
        { "", "\"\"" },
        { "a b", "\"a b\"" },
        { "\"\\'", "\"\\\"\\\\'\"" },
        { "a\nb\t\x7f", "\"a\\u000ab\\u0009\\u007f\"" },
        { "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf", "\"\\u0085\\u2028\\ufeff\"" },
        { "\xc3\xa4\xf0\x9f\x98\x80", "\"\xc3\xa4\xf0\x9f\x98\x80\"" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text out;

        text_init(&out, 0);
        yaml_quote(&out, cases[i][0]);
        assert_string_equal(out.data, cases[i][1]);
        text_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kubernetes_name_is_a_label),
        cmocka_unit_test(test_kubernetes_name_depends_on_the_folder),
        cmocka_unit_test(test_kubernetes_accepts_names_of_claims),
        cmocka_unit_test(test_yaml_quote_escapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
