/* tests/unit/test_quant_state.c - tests the description of a 4-bit matrix: as
 * bitsandbytes writes it (tests/golden/prequantized.py), and rejected ones, by the
 * key. */
#include "config.h"

#include "train/model/quant_state.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static bool parse(const char *text, struct quant_state *out, struct error *err)
{
    *err = (struct error) { 0 };
    return quant_state_parse(text, strlen(text), "x", out, err);
}

static void test_quant_state_reads_what_bitsandbytes_writes(void **state)
{
    char *name = unit_source("tests/golden/prequantized.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, (size_t)1 << 20, &err);
    const json_t *runs = json_object_get(golden, "runs");
    struct quant_state is;

    (void)state;
    assert_true(
        parse(json_string_value(json_object_get(json_object_get(runs, "llama"), "state")),
              &is, &err));
    assert_int_equal(is.rows, 32);
    assert_int_equal(is.cols, 64);
    assert_int_equal(is.dtype, FORMAT_FP32);
    assert_false(is.double_quant);
    assert_true(parse(
        json_string_value(json_object_get(json_object_get(runs, "llama bf16"), "state")),
        &is, &err));
    assert_int_equal(is.dtype, FORMAT_BF16);
    assert_true(is.double_quant);
    assert_true(is.absmax_mean > 0 && is.absmax_mean < 10);
    json_decref(golden);
    free(name);
}

#define HEAD   "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float16\", "
#define SHAPE  "\"shape\": [3, 5]"
#define NESTED ", \"nested_blocksize\": 256, \"nested_dtype\": \"float32\""

static void test_quant_state_keeps_every_bit_of_the_mean(void **state)
{
    struct quant_state is;
    struct error err;

    (void)state;
    assert_true(
        parse(HEAD SHAPE NESTED ", \"nested_offset\": 0.10000000149011612}", &is, &err));
    assert_true(is.absmax_mean == 0.1f);
    assert_int_equal(is.dtype, FORMAT_FP16);
    assert_true(parse(HEAD SHAPE NESTED ", \"nested_offset\": 0}", &is, &err));
    assert_true(is.double_quant && is.absmax_mean == 0);
}

static void test_quant_state_rejects_other_formats(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        { "", "x" },
        { "[1]", "quant_type" },
        { "{}", "quant_type" },
        { "{\"quant_type\": \"fp4\", \"blocksize\": 64}", "quant_type must be \"nf4\"" },
        { "{\"quant_type\": \"nf4\", \"blocksize\": 128}", "blocksize must be 64" },
        { "{\"quant_type\": \"nf4\", \"blocksize\": \"64\"}", "blocksize" },
        { "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float64\"}",
          "dtype must be" },
        { HEAD "\"shape\": [3]}", "shape" },
        { HEAD "\"shape\": [3, 5, 1]}", "shape" },
        { HEAD "\"shape\": [3, -5]}", "shape" },
        { HEAD "\"shape\": [0, 5]}", "shape" },
        { HEAD "\"shape\": [3, 9223372036854775807]}", "shape" },
        { HEAD "\"shape\": {\"0\": 3}}", "shape" },
        { HEAD SHAPE ", \"nested_blocksize\": 64, \"nested_offset\": 1}",
          "nested_blocksize must be 256" },
        { HEAD SHAPE ", \"nested_offset\": 1}", "nested_blocksize" },
        { HEAD SHAPE ", \"nested_blocksize\": 256, \"nested_offset\": 1}",
          "nested_dtype" },
        { HEAD SHAPE NESTED "}", "nested_offset" },
        { HEAD SHAPE NESTED ", \"nested_offset\": 1e39}", "nested_offset" },
        { HEAD SHAPE NESTED ", \"nested_offset\": \"1\"}", "nested_offset" },
    };
    struct quant_state is;
    struct error err;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        assert_false(parse(rows[i].text, &is, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, rows[i].said))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

static void test_quant_state_has_a_size_limit(void **state)
{
    char text[5000];
    struct quant_state is;
    struct error err;

    (void)state;
    memset(text, ' ', sizeof(text));
    memcpy(text, HEAD SHAPE "}", strlen(HEAD SHAPE "}"));
    text[sizeof(text) - 1] = 0;
    assert_false(parse(text, &is, &err));
    text[4096] = 0;
    assert_true(parse(text, &is, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quant_state_reads_what_bitsandbytes_writes),
        cmocka_unit_test(test_quant_state_keeps_every_bit_of_the_mean),
        cmocka_unit_test(test_quant_state_rejects_other_formats),
        cmocka_unit_test(test_quant_state_has_a_size_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
