/* tests/unit/test_crc32c.c - the values published in the standard. */
#include "config.h"

#include "tests/unit/unit.h"

#include "base/crc32c.h"

/* RFC 3720, appendix B.4, and the check value of the catalog of CRC algorithms. */
static void test_crc32c_gives_the_published_values(void **state)
{
    unsigned char zeros[32] = { 0 }, ones[32], up[32], down[32];

    (void)state;
    for (unsigned char i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = i;
        down[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(zeros, 32), 0x8a9136aa);
    assert_int_equal(crc32c(ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c(up, 32), 0x46dd794e);
    assert_int_equal(crc32c(down, 32), 0x113fdb5c);
    assert_int_equal(crc32c("", 0), 0);
}

/* The length 24 as a record stores it: the first event of every TensorFlow file. */
static void test_crc32c_masked_matches_tensorflow_records(void **state)
{
    static const unsigned char length[8] = { 24 };

    (void)state;
    assert_int_equal(crc32c_masked(length, 8), 0x224b7fa3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_gives_the_published_values),
        cmocka_unit_test(test_crc32c_masked_matches_tensorflow_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
