/* tests/unit/test_safetensors.c - what is written reads back; headers that lie are
 * refused. */
#include "config.h"

#include "train/files/safetensors.h"
#include "train/model/weight_shards.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static const float numbers[6] = { 1, -2, 0.5f, 3, 4, -5 };
static const uint16_t halves[2] = { 0x3c00, 0xc000 };

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
    { .name = "a.weight",
      .format = FORMAT_FP32,
      .rank = 2,
      .shape = { 2, 3 },
      .read = read_source,
      .context = numbers,
      .index = sizeof(numbers) },
    { .name = "b",
      .format = FORMAT_FP16,
      .rank = 1,
      .shape = { 2 },
      .read = read_source,
      .context = halves,
      .index = sizeof(halves) },
    { .name = "none",
      .format = FORMAT_BF16,
      .rank = 2,
      .shape = { 0, 4 },
      .read = read_source,
      .context = halves,
      .index = 0 },
};

static void test_safetensors_writes_and_reads_back(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");
    const struct stored_tensor *t;
    struct safetensors *set;
    struct error err = { 0 };

    (void)state;
    assert_true(safetensors_write(name, sources, TS_COUNT(sources), &err));
    set = safetensors_open(dir, "model", false, &err);
    assert_non_null(set);
    assert_int_equal(safetensors_count(set), 3);
    t = safetensors_find(set, "a.weight");
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal((uintptr_t)t->data % 8, 0);
    assert_memory_equal(t->data, numbers, sizeof(numbers));
    t = safetensors_at(set, 1);
    assert_string_equal(t->name, "b");
    assert_int_equal(t->format, FORMAT_FP16);
    assert_memory_equal(t->data, halves, sizeof(halves));
    assert_int_equal(safetensors_find(set, "none")->bytes, 0);
    assert_null(safetensors_find(set, "a"));
    safetensors_close(set);
    set = safetensors_open(name, NULL, true, &err);
    assert_null(safetensors_find(set, "b")->data);
    safetensors_close(set);
    free(name);
    unit_dir_free(dir);
}

static void test_safetensors_failed_write_leaves_nothing(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");
    struct tensor_source broken = sources[1];
    struct error err = { 0 };

    (void)state;
    broken.read = read_fails;
    assert_false(safetensors_write(name, &broken, 1, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_non_null(strstr(err.text, "lost"));
    assert_false(file_exists(name));
    error_clear(&err);
    unit_disk_full(16);
    assert_false(safetensors_write(name, sources, 1, &err));
    unit_disk_free();
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, name));
    assert_false(file_exists(name));
    error_clear(&err);
    assert_true(safetensors_write(name, sources, 1, &err));
    assert_false(safetensors_write(name, sources, 1, &err));
    assert_true(file_exists(name));
    free(name);
    unit_dir_free(dir);
}

/* A file of the length its first 8 bytes should say, that header and `bytes` of data. */
static void put(const char *name, uint64_t length, const char *header, size_t bytes)
{
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < 8; i++)
        text_addc(&text, (char)(length >> (8 * i) & 0xff));
    text_adds(&text, header);
    for (size_t i = 0; i < bytes; i++)
        text_addc(&text, 'x');
    assert_true(file_replace(name, text.data, text.len, 0600, &err));
    text_clear(&text);
}

#define F32(shape, begin, end) \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const struct hostile {
    const char *header;
    size_t bytes;
    const char *says;
} hostile[] = {
    { "{\"a\":" F32("[2]", "0", "8") "}", 7, "ends after the end" },
    { "{\"a\":" F32("[2]", "0", "8") "}", 9, "file size does not match" },
    { "{\"a\":" F32("[2]", "8", "0") "}", 8, "not two numbers in order" },
    { "{\"a\":" F32("[2]", "-8", "0") "}", 8, "not two numbers in order" },
    { "{\"a\":" F32("[2]", "0", "18446744073709551624") "}", 8, "" },
    { "{\"a\":" F32("[3]", "0", "8") "}", 8, "do not fit" },
    { "{\"a\":" F32("[-2]", "0", "8") "}", 8, "only numbers" },
    { "{\"a\":" F32("[2.0]", "0", "8") "}", 8, "only numbers" },
    { "{\"a\":" F32("2", "0", "8") "}", 8, "list" },
    { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],"
      "\"data_offsets\":[0,8]}}",
      8, "given twice" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[1],"
      "\"data_offsets\":[0,8]}}",
      8, "given twice" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],"
      "\"data_offsets\":[0,4]}}",
      8, "given twice" },
    { "{\"a\":" F32("[4611686018427387904,8]", "0", "8") "}", 8, "too large" },
    { "{\"a\":" F32("[1,1,1,1,1,1,1,1,2]", "0", "8") "}", 8, "at most 8" },
    { "{\"a\":" F32("[2]", "0", "8") ",\"b\":" F32("[2]", "4", "12") "}", 12, "overlap" },
    { "{\"a\":" F32("[2]", "0", "8") ",\"b\":" F32("[2]", "0", "8") "}", 8, "overlap" },
    { "{\"a\":" F32("[2]", "0", "8") ",\"b\":" F32("[1]", "12", "16") "}", 16, "a gap" },
    { "{\"a\":" F32("[2]", "4", "12") "}", 12, "a gap" },
    { "{\"a\":" F32("[2]", "0", "8") ",\"a\":" F32("[2]", "8", "16") "}", 16,
      "and again" },
    { "{\"a\":" F32("[2]", "0", "8") ",}", 8, "JSON" },
    { "{\"a\":" F32("[2]", "0", "8") "} x", 8, "JSON" },
    { "{\"a\":" F32("[2]", "0", "8,9") "}", 8, "not two numbers" },
    { "{\"a\":" F32("[2]", "0", "8.0") "}", 8, "not two numbers" },
    { "{\"a\\u0000\":" F32("[2]", "0", "8") "}", 8, "NUL" },
    { "{\"a\xff\":" F32("[2]", "0", "8") "}", 8, "UTF-8" },
    { "{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
      "unknown dtype" },
    { "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype" },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "list" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "not two numbers" },
    { "{\"a\":7}", 0, "must be an object" },
    { "[]", 0, "must be a JSON object" },
    { "{\"a\":", 0, "JSON" },
    { "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__" },
    { "{\"__metadata__\":[]}", 0, "__metadata__" },
    { "", 0, "JSON" },
};

static void test_safetensors_refuses_hostile_headers(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(hostile); i++) {
        struct error err = { 0 };

        put(name, strlen(hostile[i].header), hostile[i].header, hostile[i].bytes);
        if (safetensors_open(name, NULL, i % 2, &err))
            fail_msg("taken: %s", hostile[i].header);
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, hostile[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.text, hostile[i].says);
    }
    free(name);
    unit_dir_free(dir);
}

static void test_safetensors_refuses_lengths_that_lie(void **state)
{
    static const uint64_t lengths[] = { 3, 100000001, UINT64_MAX, UINT64_MAX - 7 };
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(lengths); i++) {
        put(name, lengths[i], "{}", 0);
        error_clear(&err);
        assert_null(safetensors_open(name, NULL, false, &err));
        assert_int_equal(err.code, ERROR_DATA);
    }
    assert_true(file_replace(name, "1234567", 7, 0600, &err));
    assert_null(safetensors_open(name, NULL, false, &err));
    error_clear(&err);
    assert_null(safetensors_open(dir, "other", false, &err));
    assert_non_null(strstr(err.text, "other.safetensors"));
    free(name);
    unit_dir_free(dir);
}

static void test_safetensors_unpadded_and_unknown_to_compute(void **state)
{
    static const char header[] =
        "{\"i\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}";
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");
    struct error err = { 0 };
    struct safetensors *set;

    (void)state;
    put(name, strlen(header), header, 8);
    set = safetensors_open(name, NULL, false, &err);
    assert_non_null(set);
    assert_int_equal(safetensors_at(set, 0)->format, FORMAT_COUNT);
    assert_int_equal(safetensors_at(set, 0)->rank, 0);
    assert_string_equal(safetensors_at(set, 0)->dtype, "I64");
    safetensors_close(set);
    free(name);
    unit_dir_free(dir);
}

static void write_index(const char *dir, const char *text)
{
    char *name = path_join(dir, "model.safetensors.index.json");
    struct error err = { 0 };

    assert_true(file_replace(name, text, strlen(text), 0600, &err));
    free(name);
}

static void test_safetensors_reads_shards(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"weight_map\":{\"a.weight\":\"../one.safetensors\"}}",
        "{\"weight_map\":{\"a.weight\":7}}",
        "{\"weight_map\":{\"a.weight\":\"three.safetensors\"}}",
        "{\"weight_map\":{\"c\":\"one.safetensors\"}}",
        "{\"weight_map\":{\"b\":\"one.safetensors\",\"a.weight\":\"two.safetensors\"}}",
    };
    char *dir = unit_dir_new(), *one = path_join(dir, "one.safetensors");
    char *two = path_join(dir, "two.safetensors");
    struct error err = { 0 };
    struct safetensors *set;

    (void)state;
    assert_true(safetensors_write(one, sources, 1, &err));
    assert_true(safetensors_write(two, sources + 1, 2, &err));
    write_index(
        dir,
        "{\"metadata\":{\"total_size\":28},\"weight_map\":{\"a.weight\":\"one.safetensors\",\"b\":\"two.safetensors\",\"none\":\"two.safetensors\"}}");
    set = safetensors_open(dir, "model", false, &err);
    assert_non_null(set);
    assert_int_equal(safetensors_count(set), 3);
    assert_memory_equal(safetensors_find(set, "b")->data, halves, sizeof(halves));
    assert_true(text_ends(safetensors_find(set, "b")->file, "two.safetensors"));
    safetensors_close(set);
    for (size_t i = 0; i < TS_COUNT(bad); i++) {
        write_index(dir, bad[i]);
        error_clear(&err);
        assert_null(safetensors_open(dir, "model", false, &err));
        assert_int_not_equal(err.code, ERROR_NONE);
    }
    write_index(
        dir,
        "{\"weight_map\":{\"a.weight\":\"one.safetensors\",\"b\":\"two.safetensors\"}}");
    error_clear(&err);
    unlink(two);
    assert_true(safetensors_write(two, sources, 2, &err));
    assert_null(safetensors_open(dir, "model", false, &err));
    assert_non_null(strstr(err.text, "and again in"));
    free(one);
    free(two);
    unit_dir_free(dir);
}

/* Tensors of 24, 4 and 0 bytes; a limit below the first one does not divide it. */
/* What the writer has noted of its files is what a manifest finds in them. */
static void assert_digests(const char *dir, const json_t *known, size_t count)
{
    char *name = path_join(dir, MANIFEST_NAME);
    json_t *manifest = json_read_file(name, 4096, NULL), *entry;
    const char *base;

    assert_int_equal(json_object_size(known), count);
    json_object_foreach((json_t *)known, base, entry)
    {
        assert_true(
            json_equal(entry, json_object_get(json_object_get(manifest, "files"), base)));
    }
    json_decref(manifest);
    free(name);
}

static void test_weight_shards_divide_by_size(void **state)
{
    static const struct {
        uint64_t limit;
        const char *first; /* file of the first tensor, and of the others */
        const char *others;
    } cases[] = {
        { 0, "model.safetensors", "model.safetensors" },
        { 28, "model.safetensors", "model.safetensors" },
        { 27, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors" },
        { 4, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *dir = unit_dir_new(),
             *index = path_join(dir, "model.safetensors.index.json");
        struct error err = { 0 };
        struct weight_shards shards;
        struct save_share share;
        struct safetensors *set;
        json_t *json;

        weight_shards_divide(sources, TS_COUNT(sources), cases[i].limit, &shards);
        share = (struct save_share) { .dir = dir, .ranks = 1, .known = json_object() };
        assert_true(save_share_write(&share, NULL, shards.files, shards.count, &err));
        assert_int_equal(share.failed.code, ERROR_NONE);
        assert_true(shards.count == 1 ||
                    weight_shards_write_index(&shards, dir, "model", &err));
        assert_true(manifest_write(dir, NULL, NULL, NULL, &err));
        assert_digests(dir, share.known, shards.count);
        set = safetensors_open(dir, "model", false, &err);
        assert_non_null(set);
        assert_int_equal(safetensors_count(set), TS_COUNT(sources));
        assert_true(text_ends(safetensors_find(set, "a.weight")->file, cases[i].first));
        assert_true(text_ends(safetensors_find(set, "b")->file, cases[i].others));
        assert_true(text_ends(safetensors_find(set, "none")->file, cases[i].others));
        assert_memory_equal(safetensors_find(set, "a.weight")->data, numbers,
                            sizeof(numbers));
        assert_int_equal(file_exists(index), i >= 2);
        if (i >= 2) {
            json = json_read_file(index, 4096, &err);
            assert_int_equal(json_integer_value(json_object_get(
                                 json_object_get(json, "metadata"), "total_size")),
                             28);
            json_decref(json);
        }
        safetensors_close(set);
        json_decref(share.known);
        weight_shards_clear(&shards);
        free(index);
        unit_dir_free(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_writes_and_reads_back),
        cmocka_unit_test(test_weight_shards_divide_by_size),
        cmocka_unit_test(test_safetensors_failed_write_leaves_nothing),
        cmocka_unit_test(test_safetensors_refuses_hostile_headers),
        cmocka_unit_test(test_safetensors_refuses_lengths_that_lie),
        cmocka_unit_test(test_safetensors_unpadded_and_unknown_to_compute),
        cmocka_unit_test(test_safetensors_reads_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
