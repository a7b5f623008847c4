/* tests/unit/test_backend.c - opening of devices, and a backend's guarantees about
 * memory. */
#include "config.h"

#include "kernels/backend.h"

#include "kernels/cpu/cpu_backend.h"
#include "tests/unit/unit.h"

static const struct device cpu = { .kind = DEVICE_CPU, .name = "cpu", .ordinal = -1 };

static struct backend *open_cpu(bool no_onednn)
{
    struct backend_options options = { .device = &cpu,
                                       .threads = 2,
                                       .no_onednn = no_onednn };
    struct error err = { 0 };
    struct backend *be = backend_open(&options, &err);

    if (!be)
        fail_msg("%s", err.text);
    return be;
}

static void test_backend_cpu_describes_itself(void **state)
{
    struct backend *be = open_cpu(true);

    (void)state;
    assert_string_equal(be->ops->name, "cpu");
    assert_true(text_starts(be->ops->describe(be), "cpu: 2 threads, "));
    assert_true(text_ends(be->ops->describe(be), "own kernels"));
    assert_true(be->ops->workspace(be) > 0);
    backend_close(be);
    backend_close(NULL);
}

static void test_backend_memory_is_zeroed_and_aligned(void **state)
{
    static const size_t sizes[] = { 0, 1, 100, 3 << 20 };
    struct backend *be = open_cpu(false);
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        unsigned char *block = be->ops->alloc(be, sizes[i], &err);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % be->ops->alignment, 0);
        for (size_t j = 0; j < sizes[i]; j += 97)
            assert_int_equal(block[j], 0);
        memset(block, 1, sizes[i]);
        if (i % 2)
            be->ops->free(be, block);
    }
    backend_close(be); /* frees the remaining blocks */
}

static void test_backend_reports_the_bytes_it_cannot_allocate(void **state)
{
    struct backend *be = open_cpu(false);
    struct error err = { 0 };

    (void)state;
    assert_null(be->ops->alloc(be, SIZE_MAX / 4, &err));
    assert_int_equal(err.code, ERROR_MEMORY);
    assert_non_null(strstr(err.text, " MiB "));
    error_clear(&err);
    assert_null(be->ops->alloc(be, SIZE_MAX, &err));
    assert_int_equal(err.code, ERROR_MEMORY);
    backend_close(be);
}

static void test_backend_copies_both_ways(void **state)
{
    struct backend *be = open_cpu(false);
    struct error err = { 0 };
    void *block = be->ops->alloc(be, 64, &err);
    char text[8] = "", *from = "seven..";

    (void)state;
    be->ops->upload(be, block, from, 8);
    be->ops->download(be, text, block, 8);
    assert_string_equal(text, from);
    be->ops->upload(be, block, NULL, 0);
    backend_close(be);
}

/* The first failure skips the operations after it, is reported once, and is then
 * cleared. */
static void test_backend_sync_reports_the_first_failure(void **state)
{
    struct backend *be = open_cpu(false);
    float data[4] = { 1, 2, 3, 4 };
    struct op_zero zero = { .out = tensor_of(data, FORMAT_FP32, 1, 4) };
    struct error err = { 0 };

    (void)state;
    assert_true(be->ops->sync(be, &err));
    error_set(&cpu_backend_of(be)->failed, ERROR_DEVICE, "it broke");
    be->ops->zero(be, &zero);
    assert_true(data[0] == 1);
    assert_false(be->ops->sync(be, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_string_equal(err.text, "it broke");
    error_clear(&err);
    assert_true(be->ops->sync(be, &err));
    be->ops->zero(be, &zero);
    assert_true(data[0] == 0);
    backend_close(be);
}

/* Absent, no code for it, or no CUDA in this build: refused, with an alternative in the
 * message. */
static void test_backend_cuda_is_refused_with_a_remedy(void **state)
{
    struct device gpu = {
        .kind = DEVICE_CUDA, .name = "Tesla T4", .major = 7, .minor = 5, .ordinal = 99
    };
    struct backend_options options = { .device = &gpu };
    struct error err = { 0 };

    (void)state;
    assert_null(backend_open(&options, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_non_null(strstr(err.text, "Tesla T4"));
    assert_non_null(strstr(err.text, "device: cpu"));
}

static void test_backend_devices_stop_at_the_array_size(void **state)
{
    struct device devices[2];
    char note[160] = "";
    size_t count = backend_devices("cuda", devices, 2, note, sizeof(note));

    (void)state;
    assert_true(count <= 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(devices[i].kind, DEVICE_CUDA);
        assert_true(devices[i].here);
    }
    assert_true(count > 0 || *note != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backend_cpu_describes_itself),
        cmocka_unit_test(test_backend_memory_is_zeroed_and_aligned),
        cmocka_unit_test(test_backend_reports_the_bytes_it_cannot_allocate),
        cmocka_unit_test(test_backend_copies_both_ways),
        cmocka_unit_test(test_backend_sync_reports_the_first_failure),
        cmocka_unit_test(test_backend_cuda_is_refused_with_a_remedy),
        cmocka_unit_test(test_backend_devices_stop_at_the_array_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
