/*
 * tests/unit/test_gguf_write.c - the bytes of a GGUF file, read as ggml's docs/gguf.md
 * describes them.
 */
#include "config.h"

#include "train/files/gguf_write.h"

#include <math.h>

#include "base/file.h"
#include "base/size.h"
#include "precision/format.h"
#include "tests/unit/unit.h"

enum { COLS = 64 };

/* What reads a file from its start. */
struct reader {
    const unsigned char *data;
    size_t len, at;
};

static uint64_t take(struct reader *r, size_t bytes)
{
    uint64_t value = 0;

    assert_true(r->at + bytes <= r->len);
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)r->data[r->at + i] << (8 * i);
    r->at += bytes;
    return value;
}

static float take_float(struct reader *r)
{
    uint32_t bits = (uint32_t)take(r, 4);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void check_string(struct reader *r, const char *expected)
{
    size_t len = (size_t)take(r, 8);

    assert_int_equal(len, strlen(expected));
    assert_true(r->at + len <= r->len);
    assert_memory_equal(r->data + r->at, expected, len);
    r->at += len;
}

static void check_key(struct reader *r, const char *key, uint32_t type)
{
    check_string(r, key);
    assert_int_equal(take(r, 4), type);
}

static bool read_row(const struct gguf_tensor *tensor, size_t row, float *to,
                     struct error *err)
{
    const float *from = tensor->context;

    if (!from)
        return error_set(err, ERROR_DATA, "no values");
    memcpy(to, from + row * tensor->cols, tensor->cols * sizeof(*to));
    return true;
}

static char *path_in(const char *dir)
{
    return path_join(dir, "model.gguf");
}

static void read_back(const char *path, struct text *out)
{
    struct error err = { 0 };

    text_init(out, 0);
    if (!file_read(path, SIZE_MAX, out, NULL, &err))
        fail_msg("%s", err.text);
}

static void write_to(const char *path, const struct gguf_values *values,
                     const struct gguf_tensor *tensors, size_t count)
{
    struct error err = { 0 };

    if (!gguf_write(path, values, tensors, count, &err))
        fail_msg("%s", err.text);
}

static void test_gguf_values_have_their_types(void **state)
{
    char *dir = unit_dir_new(), *path = path_in(dir);
    struct gguf_values values;
    struct text text;
    struct reader r;

    (void)state;
    gguf_init(&values);
    gguf_add_string(&values, "name", "a\xc3\xa9");
    gguf_add_uint32(&values, "count", 4000000000u);
    gguf_add_float32(&values, "real", 0.1);
    gguf_add_bool(&values, "yes", true);
    gguf_add_array(&values, "list", GGUF_INT32, 2);
    gguf_put_int32(&values, -1);
    gguf_put_int32(&values, 7);
    gguf_add_array(&values, "names", GGUF_STRING, 1);
    gguf_put_string(&values, "x y", 1);
    write_to(path, &values, NULL, 0);
    read_back(path, &text);
    r = (struct reader) { (const unsigned char *)text.data, text.len, 0 };
    assert_memory_equal(text.data, "GGUF", 4);
    r.at = 4;
    assert_int_equal(take(&r, 4), 3); /* version */
    assert_int_equal(take(&r, 8), 0); /* tensors */
    assert_int_equal(take(&r, 8), 6); /* values */
    check_key(&r, "name", 8);
    check_string(&r, "a\xc3\xa9");
    check_key(&r, "count", 4);
    assert_int_equal(take(&r, 4), 4000000000u);
    check_key(&r, "real", 6);
    assert_true(take_float(&r) == 0.1f);
    check_key(&r, "yes", 7);
    assert_int_equal(take(&r, 1), 1);
    check_key(&r, "list", 9);
    assert_int_equal(take(&r, 4), 5);
    assert_int_equal(take(&r, 8), 2);
    assert_int_equal((int32_t)take(&r, 4), -1);
    assert_int_equal((int32_t)take(&r, 4), 7);
    check_key(&r, "names", 9);
    assert_int_equal(take(&r, 4), 8);
    assert_int_equal(take(&r, 8), 1);
    check_string(&r, "x");
    assert_int_equal(text.len % 32, 0);
    assert_true(text.len - r.at < 32);
    text_clear(&text);
    gguf_clear(&values);
    free(path);
    unit_dir_free(dir);
}

static void fill(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((double)(i * 37 % 101) / 50 - 1);
}

static void check_tensor(struct reader *r, const char *name, const struct gguf_tensor *t,
                         uint64_t at)
{
    check_string(r, name);
    assert_int_equal(take(r, 4), t->rank);
    assert_int_equal(take(r, 8), t->cols); /* the fastest dimension is first */
    if (t->rank == 2)
        assert_int_equal(take(r, 8), t->rows);
    assert_int_equal(take(r, 4), t->type);
    assert_int_equal(take(r, 8), at);
}

/* Each tensor begins at a multiple of 32 bytes from the end of the header. */
static void test_gguf_tensors_are_aligned(void **state)
{
    char *dir = unit_dir_new(), *path = path_in(dir);
    float values[3 * COLS];
    const struct gguf_tensor tensors[] = {
        { "vector", GGUF_F32, 1, 1, 5, read_row, values },
        { "half", GGUF_F16, 2, 3, COLS, read_row, values },
        { "brain", GGUF_BF16, 2, 3, 3, read_row, values },
        { "blocks", GGUF_Q8_0, 2, 2, COLS, read_row, values },
    };
    const size_t sizes[] = { 32, 3 * COLS * 2, 32, 2 * 2 * 34 };
    struct gguf_values none;
    struct text text;
    struct reader r;
    uint64_t at = 0;

    (void)state;
    fill(values, TS_COUNT(values));
    gguf_init(&none);
    write_to(path, &none, tensors, TS_COUNT(tensors));
    read_back(path, &text);
    r = (struct reader) { (const unsigned char *)text.data, text.len, 8 };
    assert_int_equal(take(&r, 8), TS_COUNT(tensors));
    assert_int_equal(take(&r, 8), 0);
    for (size_t i = 0; i < TS_COUNT(tensors); i++) {
        check_tensor(&r, tensors[i].name, &tensors[i], at);
        at += size_round(sizes[i], 32);
    }
    r.at = size_round(r.at, 32);
    assert_int_equal(text.len, r.at + at);
    for (size_t i = 0; i < 5; i++)
        assert_true(take_float(&r) == values[i]);
    r.at = size_round(r.at, 32);
    for (size_t i = 0; i < 3 * COLS; i++) {
        uint16_t bits = (uint16_t)take(&r, 2);
        float half;

        format_convert(&half, FORMAT_FP32, &bits, FORMAT_FP16, 1);
        assert_true(fabsf(half - values[i]) <= 0.0005f);
    }
    text_clear(&text);
    gguf_clear(&none);
    free(path);
    unit_dir_free(dir);
}

/* A block is a factor in fp16 and 32 bytes: each value is restored within half a step. */
static void test_gguf_blocks_restore_their_values(void **state)
{
    char *dir = unit_dir_new(), *path = path_in(dir);
    float values[2 * COLS] = { 0 };
    const struct gguf_tensor blocks = { "b", GGUF_Q8_0, 2, 2, COLS, read_row, values };
    struct gguf_values none;
    struct text text;
    struct reader r;

    (void)state;
    fill(values, 3 * COLS / 2); /* the last block stays 0 */
    gguf_init(&none);
    write_to(path, &none, &blocks, 1);
    read_back(path, &text);
    r = (struct reader) { (const unsigned char *)text.data, text.len,
                          text.len - size_round(2 * 2 * 34, 32) };
    for (size_t block = 0; block < 4; block++) {
        uint16_t bits = (uint16_t)take(&r, 2);
        float factor, largest = 0;

        for (size_t i = 0; i < 32; i++)
            largest = fmaxf(largest, fabsf(values[32 * block + i]));
        format_convert(&factor, FORMAT_FP32, &bits, FORMAT_FP16, 1);
        assert_true(fabsf(factor - largest / 127) <= largest / 127 / 1024);
        for (size_t i = 0; i < 32; i++) {
            float value = factor * (float)(int8_t)take(&r, 1);

            assert_true(fabsf(value - values[32 * block + i]) <= largest / 127 * 0.6f);
        }
    }
    text_clear(&text);
    gguf_clear(&none);
    free(path);
    unit_dir_free(dir);
}

static void refuses(const char *path, const struct gguf_tensor *tensor,
                    const char *expected)
{
    struct error err = { 0 };
    struct gguf_values none;

    gguf_init(&none);
    assert_false(gguf_write(path, &none, tensor, 1, &err));
    if (!strstr(err.text, expected) || !strstr(err.text, path))
        fail_msg("\"%s\", not \"%s\"", err.text, expected);
    gguf_clear(&none);
}

/* A failure leaves no file; a file that exists is not replaced. */
static void test_gguf_failures_leave_no_file(void **state)
{
    char *dir = unit_dir_new(), *path = path_in(dir);
    float values[COLS] = { 1, 65504, 70000 };
    struct gguf_tensor tensor = { "t", GGUF_F16, 2, 1, COLS, read_row, values };
    struct error err = { 0 };
    struct gguf_values none;

    (void)state;
    refuses(path, &tensor, "t has values beyond the range of fp16; use bf16");
    assert_false(file_exists(path));
    values[2] = NAN;
    refuses(path, &tensor, "beyond the range of fp16");
    tensor.context = NULL;
    refuses(path, &tensor, "no values");
    assert_false(file_exists(path));
    values[2] = 65504;
    tensor.context = values;
    gguf_init(&none);
    assert_true(gguf_write(path, &none, &tensor, 1, &err));
    gguf_clear(&none);
    refuses(path, &tensor, "cannot create");
    assert_true(file_exists(path));
    free(path);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_values_have_their_types),
        cmocka_unit_test(test_gguf_tensors_are_aligned),
        cmocka_unit_test(test_gguf_blocks_restore_their_values),
        cmocka_unit_test(test_gguf_failures_leave_no_file),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
