/* tests/unit/test_torch_file.c - values and tensors that are written read back in
 * Python. */
#include "config.h"

#include "train/files/torch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit_torch.h"

static const float numbers[6] = { 1, -2, 0.5f, 3, 4, -5 };
static const uint16_t halves[2] = { 0x3c00, 0xc000 }, brains[2] = { 0x3f80, 0xc040 };

static bool read_source(const void *context, size_t index, void *to, struct error *err)
{
    (void)err;
    memcpy(to, context, index);
    return true;
}

static bool read_fails(const void *context, size_t index, void *to, struct error *err)
{
    (void)context, (void)index, (void)to;
    return error_set(err, ERROR_DEVICE, "lost");
}

static const struct tensor_source sources[] = {
    { .format = FORMAT_FP32,
      .rank = 2,
      .shape = { 2, 3 },
      .read = read_source,
      .context = numbers,
      .index = sizeof(numbers) },
    { .format = FORMAT_FP32, .read = read_source, .context = numbers, .index = 4 },
    { .format = FORMAT_FP16,
      .rank = 1,
      .shape = { 2 },
      .read = read_source,
      .context = halves,
      .index = sizeof(halves) },
    { .format = FORMAT_BF16,
      .rank = 1,
      .shape = { 2 },
      .read = read_source,
      .context = brains,
      .index = sizeof(brains) },
    { .format = FORMAT_FP32,
      .rank = 2,
      .shape = { 0, 3 },
      .read = read_source,
      .context = numbers,
      .index = 0 },
};

static void test_torch_file_reads_back(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "state.pt");
    struct torch_file *file = torch_file_new();
    struct error err = { 0 };
    struct text text;

    (void)state;
    pickle_open(torch_file_pickle(file), PICKLE_LIST);
    pickle_int(torch_file_pickle(file), (int64_t)1 << 40);
    for (size_t i = 0; i < TS_COUNT(sources); i++)
        torch_file_add_tensor(file, &sources[i]);
    pickle_close(torch_file_pickle(file), PICKLE_LIST);
    if (!torch_file_write(file, name, &err))
        fail_msg("%s", err.text);
    unit_torch_print(name, &text);
    assert_string_equal(
        text.data, "[1099511627776, "
                   "T(FloatStorage, (2, 3), (3, 1), [1.0, -2.0, 0.5, 3.0, 4.0, -5.0]), "
                   "T(FloatStorage, (), (), [1.0]), "
                   "T(HalfStorage, (2,), (1,), [1.0, -2.0]), "
                   "T(BFloat16Storage, (2,), (1,), [1.0, -3.0]), "
                   "T(FloatStorage, (0, 3), (0, 0), [])]\n");
    text_clear(&text);
    torch_file_free(file);
    free(name);
    unit_dir_free(dir);
}

static void test_torch_file_is_removed_if_reading_fails(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "state.pt");
    struct tensor_source source = { .format = FORMAT_FP32, .read = read_fails };
    struct torch_file *file = torch_file_new();
    struct error err = { 0 };

    (void)state;
    torch_file_add_tensor(file, &source);
    assert_false(torch_file_write(file, name, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_false(file_exists(name));
    torch_file_free(file);
    free(name);
    unit_dir_free(dir);
}

static void test_torch_file_never_overwrites(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "state.pt");
    struct torch_file *file = torch_file_new();
    struct error err = { 0 };

    (void)state;
    assert_true(file_create(name, "mine", 4, 0644, &err));
    pickle_none(torch_file_pickle(file));
    assert_false(torch_file_write(file, name, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    torch_file_free(file);
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_file_reads_back),
        cmocka_unit_test(test_torch_file_is_removed_if_reading_fails),
        cmocka_unit_test(test_torch_file_never_overwrites),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
