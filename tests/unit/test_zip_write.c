/* tests/unit/test_zip_write.c - headers and directory agree with the data, which is
 * aligned. */
#include "config.h"

#include "train/files/zip_write.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct {
    const char *name, *data;
} files[] = {
    { "a/data.pkl", "some bytes" },
    { "a/empty", "" },
    { "a/with-a-name-that-moves-the-data-beyond-the-next-multiple-of-64-bytes", "more" },
};

static uint64_t little(const char *data, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)(unsigned char)data[i] << 8 * i;
    return value;
}

static char *archive_new(const char *dir, struct text *out)
{
    char *name = path_join(dir, "x.zip");
    struct error err = { 0 };
    struct zip zip;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

    assert_true(fd >= 0);
    zip_init(&zip, fd);
    for (size_t i = 0; i < TS_COUNT(files); i++)
        assert_true(
            zip_add(&zip, files[i].name, files[i].data, strlen(files[i].data), &err));
    assert_true(zip_finish(&zip, &err));
    zip_clear(&zip);
    close(fd);
    text_init(out, 0);
    assert_true(file_read(name, 1 << 20, out, NULL, &err));
    return name;
}

/* Check one entry of the directory and the file that it names; return its length. */
static size_t check_entry(const struct text *all, size_t at, size_t i)
{
    const char *entry = all->data + at, *local, *data;
    size_t name = strlen(files[i].name), len = strlen(files[i].data), skip;

    assert_int_equal(little(entry, 4), 0x02014b50);
    assert_int_equal(little(entry + 10, 2), 0);          /* stored */
    assert_int_equal(little(entry + 14, 2), 1 << 5 | 1); /* January 1 of 1980 */
    assert_int_equal(little(entry + 16, 4),
                     crc32(0, (const unsigned char *)files[i].data, (unsigned)len));
    assert_int_equal(little(entry + 24, 4), UINT32_MAX);
    assert_int_equal(little(entry + 28, 2), name);
    assert_memory_equal(entry + 46, files[i].name, name);
    entry += 46 + name; /* the extra field with 64 bits */
    assert_int_equal(little(entry, 2), 1);
    assert_int_equal(little(entry + 2, 2), 24);
    assert_int_equal(little(entry + 4, 8), len);
    assert_int_equal(little(entry + 12, 8), len);
    local = all->data + little(entry + 20, 8);
    assert_int_equal(little(local, 4), 0x04034b50);
    assert_memory_equal(local + 30, files[i].name, name);
    assert_int_equal(little(local + 30 + name + 4, 8), len);
    skip = 30 + name + little(local + 28, 2);
    data = local + skip;
    assert_int_equal((size_t)(data - all->data) % ZIP_ALIGNMENT, 0);
    assert_memory_equal(data, files[i].data, len);
    return 46 + name + 28;
}

static void test_zip_directory_agrees_with_the_files(void **state)
{
    char *dir = unit_dir_new();
    struct text all;
    char *name = archive_new(dir, &all);
    const char *end = all.data + all.len - 22, *end_64;
    size_t at;

    (void)state;
    assert_int_equal(little(end, 4), 0x06054b50);
    assert_int_equal(little(end - 20, 4), 0x07064b50);
    end_64 = all.data + little(end - 20 + 8, 8);
    assert_ptr_equal(end_64, end - 20 - 56);
    assert_int_equal(little(end_64, 4), 0x06064b50);
    assert_int_equal(little(end_64 + 4, 8), 44);
    assert_int_equal(little(end_64 + 24, 8), TS_COUNT(files));
    at = little(end_64 + 48, 8);
    assert_ptr_equal(all.data + at + little(end_64 + 40, 8), end_64);
    for (size_t i = 0; i < TS_COUNT(files); i++)
        at += check_entry(&all, at, i);
    assert_ptr_equal(all.data + at, end_64);
    text_clear(&all);
    free(name);
    unit_dir_free(dir);
}

/* A resumed run that writes a checkpoint again must be able to write the same bytes. */
static void test_zip_bytes_depend_on_the_files_alone(void **state)
{
    char *dirs[2] = { unit_dir_new(), unit_dir_new() };
    struct text all[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        free(archive_new(dirs[i], &all[i]));
    assert_int_equal(all[0].len, all[1].len);
    assert_memory_equal(all[0].data, all[1].data, all[0].len);
    for (int i = 0; i < 2; i++) {
        text_clear(&all[i]);
        unit_dir_free(dirs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip_directory_agrees_with_the_files),
        cmocka_unit_test(test_zip_bytes_depend_on_the_files_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
