/* tests/unit/test_versions.c - the order of PEP 440, and names in any spelling. */
#include "config.h"

#include "patcher/profiles/versions.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct version version_of(const char *text)
{
    struct version version;

    if (!version_read(text, &version))
        fail_msg("%s is a version", text);
    return version;
}

/* The order of PEP 440's "Summary of permitted suffixes and relative ordering", and
 * version strings of real packages. */
static void test_versions_are_in_the_order_of_pep440(void **state)
{
    static const char *const ordered[] = {
        "0.9",           "0.27",
        "1.0.dev456",    "1.0a1",
        "1.0a2.dev456",  "1.0a12.dev456",
        "1.0a12",        "1.0b1.dev456",
        "1.0b2",         "1.0b2.post345.dev456",
        "1.0b2.post345", "1.0rc1.dev456",
        "1.0rc1",        "1.0",
        "1.0+abc.5",     "1.0+abc.7",
        "1.0+5",         "1.0+5.1",
        "1.0+12",        "1.0.post456.dev34",
        "1.0.post456",   "1.0.15",
        "1.1.dev1",      "2.4.0",
        "2.4.0+cu121",   "2.10",
        "4.46.dev0",     "4.46.0",
        "5.0.0.dev0",    "5.0.0rc1",
        "5.0.0",         "20240101",
        "1!0.1",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(ordered); i++)
        for (size_t j = 0; j < TS_COUNT(ordered); j++) {
            struct version a = version_of(ordered[i]), b = version_of(ordered[j]);
            int order = version_compare(&a, &b);

            if ((order < 0) != (i < j) || (order == 0) != (i == j))
                fail_msg("%s and %s: %d", ordered[i], ordered[j], order);
        }
}

static void test_versions_have_several_spellings(void **state)
{
    static const char *const same[][2] = {
        { "1.0", "1" },
        { "v2.4.0", "2.4" },
        { "1.0-1", "1.0.post1" },
        { "1.1RC1", "1.1rc1" },
        { "1.1-rc-1", "1.1rc1" },
        { "1.1c1", "1.1rc1" },
        { "1.1.beta2", "1.1b2" },
        { "1.1a", "1.1a0" },
        { "1.1.dev", "1.1.dev0" },
        { "1.0+Ubuntu-1", "1.0+ubuntu.1" },
        { "1.1preview3", "1.1rc3" },
        { "2.4.0.0.0", "2.4" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(same); i++) {
        struct version a = version_of(same[i][0]), b = version_of(same[i][1]);

        if (version_compare(&a, &b) != 0)
            fail_msg("%s is %s", same[i][0], same[i][1]);
    }
}

static void test_versions_reject_other_text(void **state)
{
    static const char *const none[] = {
        "",
        "latest",
        ">=4.38",
        "==2.2",
        "4.38.*",
        "2.2,2.3",
        "1..2",
        ".5",
        "4.",
        "1.0+",
        "1.0+a..b",
        "2.4 ",
        "1e3",
        "1_000",
        "12345678901234567890",
        "1.2.3.4.5.6.7.8.9",
        "-1",
        "1.0+abcdefghijklmnopqrstuvwxyzabcdefghijkl",
        "v",
        "1!",
        "2.4.0 cu121",
        "cu121",
    };
    struct version version;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(none); i++)
        if (version_read(none[i], &version))
            fail_msg("'%s' is not a version", none[i]);
}

static void test_versions_abbreviated_match_full_ones(void **state)
{
    static const struct {
        const char *brief, *full;
        bool covers;
    } cases[] = {
        { "2.2", "2.2.1", true },         { "2.2", "2.2.1+cu121", true },
        { "2.2", "2.20", false },         { "2.2.0", "2.2.1", false },
        { "2.4.0", "2.4.0+cu121", true }, { "2.4.0+cu118", "2.4.0+cu121", false },
        { "5", "5.0.0rc1", true },        { "5.0.0rc1", "5.0.0", false },
        { "5.0.0rc1", "5.0.0rc1", true }, { "2.2", "1!2.2", false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct version brief = version_of(cases[i].brief),
                       full = version_of(cases[i].full);

        if (version_covers(&brief, &full) != cases[i].covers)
            fail_msg("%s and %s", cases[i].brief, cases[i].full);
    }
}

static void test_packages_are_found_in_any_spelling(void **state)
{
    (void)state;
    assert_int_equal(package_find("PyTorch"), PACKAGE_TORCH);
    assert_int_equal(package_find("llama_factory"), PACKAGE_LLAMAFACTORY);
    assert_int_equal(package_find("LLaMA--Factory"), PACKAGE_LLAMAFACTORY);
    assert_int_equal(package_find("nvidia_cuda_runtime_cu12"), PACKAGE_CUDA);
    assert_int_equal(package_find("torchvision"), PACKAGES);
    assert_int_equal(package_find("tor-ch"), PACKAGES);
    assert_int_equal(package_find(""), PACKAGES);
    for (size_t i = 0; i < PACKAGES; i++)
        assert_int_equal(package_find(package_names[i]), i);
}

static void test_packages_have_a_nearest_name(void **state)
{
    (void)state;
    assert_string_equal(package_nearest("transfomers"), "transformers");
    assert_string_equal(package_nearest("acelerate"), "accelerate");
    assert_string_equal(package_nearest("troch"), "torch");
    assert_null(package_nearest("datasets"));
    assert_null(package_nearest("vllm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_are_in_the_order_of_pep440),
        cmocka_unit_test(test_versions_have_several_spellings),
        cmocka_unit_test(test_versions_reject_other_text),
        cmocka_unit_test(test_versions_abbreviated_match_full_ones),
        cmocka_unit_test(test_packages_are_found_in_any_spelling),
        cmocka_unit_test(test_packages_have_a_nearest_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
