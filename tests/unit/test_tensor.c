/* tests/unit/test_tensor.c - views share the data of their tensor. */
#include "config.h"

#include "kernels/tensor.h"

#include "tests/unit/unit.h"

static void test_tensor_of_is_contiguous(void **state)
{
    float data[12];
    struct tensor t = tensor_of(data, FORMAT_FP32, 3, 4);

    (void)state;
    assert_ptr_equal(t.data, data);
    assert_int_equal(t.rows, 3);
    assert_int_equal(t.cols, 4);
    assert_int_equal(t.stride, 4);
    assert_int_equal(tensor_bytes(t), 48);
    assert_int_equal(tensor_bytes(tensor_of(data, FORMAT_BF16, 3, 4)), 24);
}

static void test_tensor_views_keep_the_stride(void **state)
{
    uint16_t data[60];
    struct tensor whole = tensor_of(data, FORMAT_FP16, 6, 10);
    struct tensor part = tensor_columns(tensor_rows(whole, 2, 3), 4, 5);

    (void)state;
    assert_ptr_equal(part.data, data + 2 * 10 + 4);
    assert_int_equal(part.rows, 3);
    assert_int_equal(part.cols, 5);
    assert_int_equal(part.stride, 10);
    part = tensor_rows(part, 1, 2);
    assert_ptr_equal(part.data, data + 3 * 10 + 4);
}

static void test_tensor_views_of_an_absent_tensor_are_absent(void **state)
{
    struct tensor absent = tensor_of(NULL, FORMAT_FP32, 6, 10);

    (void)state;
    assert_null(tensor_rows(absent, 2, 3).data);
    assert_null(tensor_columns(absent, 2, 3).data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_of_is_contiguous),
        cmocka_unit_test(test_tensor_views_keep_the_stride),
        cmocka_unit_test(test_tensor_views_of_an_absent_tensor_are_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
