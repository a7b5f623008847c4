/* tests/unit/test_digest.c - SHA-256 against the examples of FIPS 180-2, appendix B. */
#include "config.h"

#include "base/digest.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_digest_matches_published_values(void **state)
{
    static const struct {
        const char *data, *digest;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char digest[DIGEST_TEXT];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        digest_bytes(cases[i].data, strlen(cases[i].data), digest);
        assert_string_equal(digest, cases[i].digest);
    }
}

/* A million times "a": more than one read. */
static void test_digest_reads_a_file_of_several_buffers(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "million");
    char *data = memory_alloc(1000000), digest[DIGEST_TEXT];
    struct error err = { 0 };

    (void)state;
    memset(data, 'a', 1000000);
    assert_true(file_create(name, data, 1000000, 0600, &err));
    assert_true(digest_file(name, digest, &err));
    assert_string_equal(
        digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_false(digest_file(dir, digest, &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_false(digest_file("/nonexistent", digest, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    free(data);
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest_matches_published_values),
        cmocka_unit_test(test_digest_reads_a_file_of_several_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
