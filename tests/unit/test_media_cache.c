/* tests/unit/test_media_cache.c - rows of features in a folder: written in parts, found again,
 * and read as train/media/features.h reads them. */
#include "config.h"

#include "train/media_cache.h"

#include "tests/unit/unit.h"

#include <limits.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/size.h"
#include "train/media/features.h"

static void must(bool ok, const struct error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

/* Rows of 3 columns whose elements begin with `first`. */
static struct tower_output rows_of(size_t count, float first, size_t deep)
{
    struct tower_output out = { .format = FORMAT_FP32,
                                .count = count,
                                .width = 3,
                                .deep = deep,
                                .deep_width = 3,
                                .rows = memory_alloc(count * 3 * sizeof(float)) };

    for (size_t i = 0; i < 3 * count; i++)
        ((float *)out.rows)[i] = first + (float)i;
    for (size_t k = 0; k < deep; k++) {
        out.deep_rows[k] = memory_alloc(count * 3 * sizeof(float));
        for (size_t i = 0; i < 3 * count; i++)
            ((float *)out.deep_rows[k])[i] = -first - (float)(10 * k + i);
    }
    return out;
}

static void add(struct media_cache *cache, const char *key, size_t count, float first)
{
    static const int32_t grid[3] = { 1, 4, 6 };
    struct tower_output rows = rows_of(count, first, 2);
    struct error err = { 0 };

    must(media_cache_add(cache, key, grid, &rows, &err), &err);
    assert_null(rows.rows);
}

static struct media_cache *open_cache(const char *dir)
{
    struct error err = { 0 };
    struct media_cache *cache = media_cache_open(dir, &err);

    must(cache != NULL, &err);
    return cache;
}

static void expect(const char *dir, const char *key, size_t count, float first)
{
    struct error err = { 0 };
    struct features *set = features_open(dir, &err);
    struct feature found;

    must(set != NULL, &err);
    assert_true(features_find(set, key, &found));
    assert_int_equal(found.count, count);
    assert_int_equal(found.width, 3);
    assert_int_equal(found.grid[2], 6);
    assert_true(((const float *)found.rows)[3 * count - 1] ==
                first + (float)(3 * count - 1));
    assert_true(((const float *)found.deep[1])[0] == -first - 10);
    features_close(set);
}

static void write_file(const char *dir, const char *file, const char *text)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };

    must(file_replace(path, text, strlen(text), 0600, &err), &err);
    free(path);
}

static bool exists(const char *dir, const char *file)
{
    char *path = path_join(dir, file);
    bool out = file_exists(path);

    free(path);
    return out;
}

/* A run is killed after its second part, while it writes the third, and before the index. */
static void test_media_cache_resumes_after_the_last_part(void **state)
{
    char *parent = unit_dir_new(), *dir = path_join(parent, "features");
    struct media_cache *cache = open_cache(dir);
    struct error err = { 0 };
    char half[64];

    (void)state;
    assert_false(media_cache_has(cache, "aa"));
    add(cache, "aa", 2, 100);
    must(media_cache_flush(cache, &err), &err);
    add(cache, "bb", 5, 200);
    must(media_cache_flush(cache, &err), &err);
    must(media_cache_flush(cache, &err), &err); /* nothing to write */
    assert_false(exists(dir, "features-00003.safetensors"));
    add(cache, "cc", 1, 300); /* lost */
    media_cache_close(cache);
    snprintf(half, sizeof(half), ".features-00003.safetensors.tmp-%d", INT_MAX - 1);
    write_file(dir, half, "half");

    cache = open_cache(dir);
    assert_true(media_cache_has(cache, "aa") && media_cache_has(cache, "bb"));
    assert_false(media_cache_has(cache, "cc"));
    assert_false(exists(dir, half));
    add(cache, "cc", 1, 301);
    must(media_cache_finish(cache, &err), &err);
    media_cache_close(cache);
    expect(dir, "aa", 2, 100);
    expect(dir, "bb", 5, 200);
    expect(dir, "cc", 1, 301);
    free(dir);
    unit_dir_free(parent);
}

/* All parts are there, and a run is killed before it writes the index of the last one. */
static void test_media_cache_completes_its_index(void **state)
{
    char *parent = unit_dir_new(), *dir = path_join(parent, "features");
    struct media_cache *cache = open_cache(dir);
    struct error err = { 0 };

    (void)state;
    add(cache, "aa", 2, 100);
    must(media_cache_finish(cache, &err), &err);
    add(cache, "bb", 5, 200);
    must(media_cache_flush(cache, &err), &err);
    media_cache_close(cache);
    cache = open_cache(dir);
    assert_true(media_cache_has(cache, "bb"));
    must(media_cache_finish(cache, &err), &err);
    media_cache_close(cache);
    expect(dir, "bb", 5, 200);
    free(dir);
    unit_dir_free(parent);
}

/* A part that cannot be read is computed again, and the others are kept. */
static void test_media_cache_ignores_damage(void **state)
{
    char *parent = unit_dir_new(), *dir = path_join(parent, "features");
    struct media_cache *cache = open_cache(dir);
    struct error err = { 0 };

    (void)state;
    add(cache, "aa", 2, 100);
    must(media_cache_flush(cache, &err), &err);
    add(cache, "bb", 5, 200);
    must(media_cache_finish(cache, &err), &err);
    media_cache_close(cache);
    write_file(dir, "features-00001.safetensors", "short");
    cache = open_cache(dir);
    assert_false(media_cache_has(cache, "aa"));
    assert_true(media_cache_has(cache, "bb"));
    add(cache, "aa", 2, 100);
    must(media_cache_finish(cache, &err), &err);
    media_cache_close(cache);
    expect(dir, "aa", 2, 100);
    expect(dir, "bb", 5, 200);
    free(dir);
    unit_dir_free(parent);
}

#define DIGITS "0123456789abcdef"

/* Only what a cache writes is removed, and never what others put there. */
static void test_media_cache_removes_only_its_own_files(void **state)
{
    static const char *const others[] = { "features-mine", "features-0123456789ABCDEF",
                                          "features-" DIGITS "0" };
    char *parent = unit_dir_new(), *keep = media_cache_name(parent, DIGITS "rest");
    char *old = media_cache_name(parent, "f" DIGITS),
         *mixed = path_join(parent, "features-" DIGITS);
    char *linked = path_join(parent, "features-aaaaaaaaaaaaaaaa");
    struct media_cache *cache = open_cache(old);
    struct error err = { 0 };

    (void)state;
    assert_string_equal(path_base(keep), "features-" DIGITS);
    assert_string_equal(path_base(old), "features-f0123456789abcde");
    add(cache, "aa", 2, 100);
    must(media_cache_finish(cache, &err), &err);
    media_cache_close(cache);
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        char *path = path_join(parent, others[i]);

        must(file_make_dir(path, 0700, &err), &err);
        write_file(path, "features-00001.safetensors", "a user's");
        free(path);
    }
    must(file_make_dir(mixed, 0700, &err), &err);
    write_file(mixed, "notes.txt", "a user's");
    write_file(mixed, "features-00001.safetensors", "ours");
    assert_int_equal(symlink("features-mine", linked), 0);

    media_cache_remove_others(parent,
                              path_base(keep)); /* another name than that of `mixed` */
    assert_false(file_exists(old));
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        char *path = path_join(parent, others[i]);

        assert_true(exists(path, "features-00001.safetensors"));
        free(path);
    }
    assert_true(exists(mixed, "notes.txt"));
    assert_false(exists(mixed, "features-00001.safetensors"));
    media_cache_remove_others(parent, keep);
    assert_true(exists(mixed, "notes.txt"));
    free(linked);
    free(mixed);
    free(old);
    free(keep);
    unit_dir_free(parent);
}

/* The index of many images is long. */
static void test_media_cache_reads_a_long_index(void **state)
{
    char *parent = unit_dir_new(), *dir = path_join(parent, "features");
    char *index = path_join(dir, "features.safetensors.index.json");
    const size_t more = (size_t)65 << 20;
    struct media_cache *cache = open_cache(dir);
    struct error err = { 0 };
    struct text text, all;
    char *blanks = memory_alloc(more);

    (void)state;
    add(cache, "aa", 2, 100);
    must(media_cache_finish(cache, &err), &err);
    media_cache_close(cache);
    text_init(&text, 0);
    must(file_read(index, (size_t)1 << 20, &text, NULL, &err), &err);
    memset(blanks, ' ', more);
    text_init(&all, 2 * more);
    text_add(&all, text.data, text.len);
    assert_true(text_add(&all, blanks, more));
    must(file_replace(index, all.data, all.len, 0600, &err), &err);
    cache = open_cache(dir);
    assert_true(media_cache_has(cache, "aa"));
    media_cache_close(cache);
    expect(dir, "aa", 2, 100);
    text_clear(&all);
    text_clear(&text);
    free(blanks);
    free(index);
    free(dir);
    unit_dir_free(parent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_media_cache_resumes_after_the_last_part),
        cmocka_unit_test(test_media_cache_completes_its_index),
        cmocka_unit_test(test_media_cache_ignores_damage),
        cmocka_unit_test(test_media_cache_removes_only_its_own_files),
        cmocka_unit_test(test_media_cache_reads_a_long_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
