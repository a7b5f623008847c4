/* tests/unit/test_pickle.c - each value has the bytes of Lib/pickletools.py. */
#include "config.h"

#include "train/files/pickle.h"

#include "base/size.h"
#include "tests/unit/unit.h"

#define BYTES(s) s, sizeof(s) - 1

static void put_zero(struct text *out)
{
    pickle_int(out, 0);
}

static void put_negative(struct text *out)
{
    pickle_int(out, -2);
}

static void put_largest_small(struct text *out)
{
    pickle_int(out, INT32_MAX);
}

static void put_smallest_large(struct text *out)
{
    pickle_int(out, (int64_t)INT32_MAX + 1);
}

static void put_negative_large(struct text *out)
{
    pickle_int(out, INT64_MIN);
}

static void put_real(struct text *out)
{
    pickle_real(out, -1.5);
}

static void put_text(struct text *out)
{
    pickle_text(out, "lr");
}

static void put_long_text(struct text *out)
{
    struct text name;

    text_init(&name, 0);
    for (int i = 0; i < 0x102; i++)
        text_addc(&name, 'a');
    pickle_text(out, name.data);
    text_clear(&name);
}

static void put_constants(struct text *out)
{
    pickle_open(out, PICKLE_TUPLE);
    pickle_bool(out, true);
    pickle_bool(out, false);
    pickle_none(out);
    pickle_close(out, PICKLE_TUPLE);
}

static void put_dict(struct text *out)
{
    pickle_open(out, PICKLE_DICT);
    pickle_text(out, "a");
    pickle_open(out, PICKLE_LIST);
    pickle_close(out, PICKLE_LIST);
    pickle_close(out, PICKLE_DICT);
}

static void put_call(struct text *out)
{
    pickle_global(out, "collections", "OrderedDict");
    pickle_open(out, PICKLE_TUPLE);
    pickle_close(out, PICKLE_TUPLE);
    pickle_call(out);
}

static const struct {
    void (*put)(struct text *out);
    const char *bytes;
    size_t len;
} rows[] = {
    { put_zero, BYTES("J\0\0\0\0") },
    { put_negative, BYTES("J\xfe\xff\xff\xff") },
    { put_largest_small, BYTES("J\xff\xff\xff\x7f") },
    { put_smallest_large, BYTES("\x8a\x08\0\0\0\x80\0\0\0\0") },
    { put_negative_large, BYTES("\x8a\x08\0\0\0\0\0\0\0\x80") },
    { put_real, BYTES("G\xbf\xf8\0\0\0\0\0\0") },
    { put_text, BYTES("X\x02\0\0\0lr") },
    { put_constants, BYTES("(\x88\x89Nt") },
    { put_dict, BYTES("}(X\x01\0\0\0"
                      "a](eu") },
    { put_call, BYTES("ccollections\nOrderedDict\n(tR") },
};

static void test_pickle_has_the_bytes_of_protocol_2(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct text text;

        text_init(&text, 0);
        pickle_begin(&text);
        rows[i].put(&text);
        pickle_end(&text);
        assert_int_equal(text.len, rows[i].len + 3);
        assert_memory_equal(text.data, "\x80\x02", 2);
        assert_memory_equal(text.data + 2, rows[i].bytes, rows[i].len);
        assert_int_equal(text.data[text.len - 1], '.');
        text_clear(&text);
    }
}

static void test_pickle_has_the_length_of_a_long_text(void **state)
{
    struct text text;

    (void)state;
    text_init(&text, 0);
    put_long_text(&text);
    assert_int_equal(text.len, 5 + 0x102);
    assert_memory_equal(text.data, "X\x02\x01\0\0aa", 7);
    text_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickle_has_the_bytes_of_protocol_2),
        cmocka_unit_test(test_pickle_has_the_length_of_a_long_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
