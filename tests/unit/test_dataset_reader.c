/* tests/unit/test_dataset_reader.c - records with their positions, in every kind of file,
 * and malformed or malicious files. */
#include "config.h"

#include "train/dataset/dataset_kind.h"
#include "train/dataset/dataset_reader.h"

#include <zlib.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static char *dir;

static int make_dir(void **state)
{
    (void)state;
    dir = unit_dir_new();
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    unit_dir_free(dir);
    return 0;
}

/* Write a file in the directory; return its malloc'ed path. */
static char *put(const char *name, const void *data, size_t len)
{
    char *path = path_join(dir, name);

    if (text_ends(name, ".gz")) {
        gzFile file = gzopen(path, "wb9");

        assert_int_equal(gzwrite(file, data, (unsigned)len), len);
        assert_int_equal(gzclose(file), Z_OK);
    } else {
        FILE *file = fopen(path, "wb");

        assert_int_equal(fwrite(data, 1, len, file), len);
        assert_int_equal(fclose(file), 0);
    }
    return path;
}

/* Write the records as "line:column text
 * " to *out; the error, if any, to *err. */
static void read_all(const char *path, bool lines, struct text *out, struct error *err)
{
    struct dataset_reader *reader = dataset_reader_open(path, lines, err);
    struct dataset_record record;

    text_reset(out);
    if (reader)
        dataset_reader_limit(reader, 1 << 20);
    while (reader && dataset_reader_next(reader, &record, err))
        text_addf(out, "%u:%u %.*s|", record.at.line, record.at.column, (int)record.len,
                  record.data);
    dataset_reader_close(reader);
}

struct given {
    const char *name, *data;
    bool lines;
    const char *expected;
};

static void expect_records(const struct given *given)
{
    char *path = put(given->name, given->data, strlen(given->data));
    struct error err = { 0 };
    struct text got;

    text_init(&got, 0);
    read_all(path, given->lines, &got, &err);
    if (err.code != ERROR_NONE)
        fail_msg("%s: %s", given->data, err.text);
    assert_string_equal(got.data, given->expected);
    text_clear(&got);
    free(path);
}

static void test_dataset_reader_returns_records_and_positions(void **state)
{
    static const struct given cases[] = {
        { "a.jsonl", "{\"a\": 1}\n\n  \n{\"b\": 2}\r\n{\"c\": 3}", false,
          "1:1 {\"a\": 1}|4:1 {\"b\": 2}|5:1 {\"c\": 3}|" },
        { "a.json", "[\n  {\"a\": \"]}\\\"\"},\n  {\"b\": [1, {}]} ]\n", false,
          "2:3 {\"a\": \"]}\\\"\"}|3:3 {\"b\": [1, {}]}|" },
        { "a.json", "[]", false, "" },
        { "a.json", "", false, "" },
        { "a.json", "{\"a\": 1}\n{\"b\":\n2} {\"c\": 3}\n", false,
          "1:1 {\"a\": 1}|2:1 {\"b\":\n2}|3:4 {\"c\": 3}|" },
        { "a.jsonl", "\xef\xbb\xbf{}\n", false, "1:1 {}|" },
        { "a.txt", "one\ntwo\n\nthree", true, "1:1 one|2:1 two|4:1 three|" },
        { "a.txt", "one\ntwo\n\nthree\n", false, "1:1 one\ntwo\n\nthree\n|" },
        { "a.txt", "", false, "" },
        { "a.jsonl.gz", "{\"a\": 1}\n{\"b\": 2}\n", false,
          "1:1 {\"a\": 1}|2:1 {\"b\": 2}|" },
        { "a.json.gz", "[{\"a\": 1}]", false, "1:2 {\"a\": 1}|" },
        { "a.txt.gz", "t\xc3\xa4xt", false, "1:1 t\xc3\xa4xt|" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        expect_records(&cases[i]);
}

/* Records that do not fit the window, so that it is refilled in the middle of them. */
static void test_dataset_reader_refills_its_window(void **state)
{
    size_t count = 30;
    struct text file;
    struct error err = { 0 };
    struct dataset_record record;
    struct dataset_reader *reader;
    char *path;

    (void)state;
    text_init(&file, 0);
    for (size_t i = 0; i < count; i++) {
        text_addf(&file, "{\"n\": %zu, \"text\": \"", i);
        for (size_t n = 0; n < 50000 + 1000 * i; n++)
            text_addc(&file, (char)('a' + n % 26));
        text_adds(&file, "\"}\n");
    }
    path = put("long.jsonl", file.data, file.len);
    reader = dataset_reader_open(path, false, &err);
    for (size_t i = 0; i < count; i++) {
        char head[32];

        snprintf(head, sizeof(head), "{\"n\": %zu,", i);
        assert_true(dataset_reader_next(reader, &record, &err));
        assert_int_equal(record.at.line, i + 1);
        assert_memory_equal(record.data, head, strlen(head));
        assert_memory_equal(record.data + record.len - 2, "\"}", 2);
    }
    assert_false(dataset_reader_next(reader, &record, &err));
    assert_false(dataset_reader_next(reader, &record, &err));
    assert_int_equal(err.code, ERROR_NONE);
    dataset_reader_close(reader);
    text_clear(&file);
    free(path);
}

struct broken {
    const char *name, *data, *message;
    uint32_t line, column;
};

static void test_dataset_reader_reports_the_position_of_errors(void **state)
{
    static const struct broken cases[] = {
        { "b.json", "[{\"a\": 1}\n {\"b\": 2}]", "comma", 2, 2 },
        { "b.json", "[{\"a\": 1},\n 7]", "must be an object", 2, 2 },
        { "b.json", "[{\"a\": 1},", "ends before", 1, 11 },
        { "b.json", "[\n{\"a\": \"x", "in the middle", 2, 1 },
        { "b.json", "hello", "must be an object", 1, 1 },
        { "b.txt",
          "good\nb\xff"
          "d\n",
          "UTF-8", 2, 2 },
    };
    struct text got;

    (void)state;
    text_init(&got, 0);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *path = put(cases[i].name, cases[i].data, strlen(cases[i].data));
        struct error err = { 0 };

        read_all(path, false, &got, &err);
        assert_int_equal(err.code, ERROR_DATA);
        assert_string_equal(err.file, path);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].message);
        assert_int_equal(err.at.line, cases[i].line);
        assert_int_equal(err.at.column, cases[i].column);
        free(path);
    }
    text_clear(&got);
}

/* A byte repeated `count` times between two texts. */
static char *put_run(const char *name, const char *before, char byte, size_t count,
                     const char *after)
{
    struct text file;
    char *path;

    text_init(&file, (size_t)1 << 30);
    text_adds(&file, before);
    for (size_t i = 0; i < count; i++)
        text_addc(&file, byte);
    text_adds(&file, after);
    path = put(name, file.data, file.len);
    text_clear(&file);
    return path;
}

static void expect_limit(char *path, const char *message)
{
    struct error err = { 0 };
    struct text got;

    text_init(&got, 0);
    read_all(path, false, &got, &err);
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, message))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, message);
    text_clear(&got);
    free(path);
}

enum { LIMIT = 1 << 20 }; /* set by read_all */

static void test_dataset_reader_limits_length_and_depth(void **state)
{
    struct error err = { 0 };
    struct text got;
    char *path;

    (void)state;
    expect_limit(put_run("c.jsonl", "{}\n", ' ', LIMIT + 1, "\n"), "longer than 1 MiB");
    expect_limit(put_run("c.jsonl", "{}\n", 'x', 3 * LIMIT, ""), "longer than 1 MiB");
    expect_limit(put_run("c.json", "[{\"a\":\"", 'x', LIMIT, "\"}]"),
                 "longer than 1 MiB");
    expect_limit(put_run("c.jsonl", "", '[', DATASET_DEPTH_MAX + 2, "\n"), "64 deep");
    expect_limit(put_run("c.json", "[", '[', DATASET_DEPTH_MAX + 1, "]"), "64 deep");
    /* maximum length and depth; brackets in a string do not count */
    path = put_run("c.jsonl", "{\"a\":\"", '[', LIMIT - 8, "\"}\n");
    text_init(&got, 0);
    read_all(path, false, &got, &err);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(got.len, LIMIT + 5);
    text_clear(&got);
    free(path);
}

/* What is before the byte is read. */
static void expect_records_before_a_zero(void)
{
    char *path = put_run("c.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{", 0, 1, "}\n");
    struct error err = { 0 };
    struct text got;

    text_init(&got, 0);
    read_all(path, false, &got, &err);
    assert_string_equal(got.data, "1:1 {\"a\": 1}|2:1 {\"a\": 2}|");
    assert_int_equal(err.at.line, 3);
    assert_int_equal(err.at.column, 2);
    text_clear(&got);
    free(path);
}

/* The kernel fills holes of a file with zeros. They end the reading before a record is as
 * long as it may be. */
static void test_dataset_reader_refuses_zeros(void **state)
{
    char *path = put_run("c.jsonl", "{}\n{\"a\"", 0, 3 * LIMIT, "");
    struct error err = { 0 };
    struct text got;

    (void)state;
    text_init(&got, 0);
    read_all(path, false, &got, &err);
    assert_non_null(strstr(err.text, "a byte of zero here"));
    assert_int_equal(err.at.line, 2);
    assert_int_equal(err.at.column, 5);
    text_clear(&got);
    free(path);
    expect_limit(put_run("c.json", "[{},\n{\"a\":\"x", 0, 1, "\"}]"),
                 "a byte of zero here");
    expect_records_before_a_zero();
}

/* A list of records that is named .jsonl is a list; UTF-16 is named. */
static void test_dataset_reader_recognizes_mistaken_files(void **state)
{
    struct error err = { 0 };
    struct text got;
    char *path = put("list.jsonl", "\n[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n", 28);

    (void)state;
    text_init(&got, 0);
    read_all(path, false, &got, &err);
    assert_int_equal(err.code, ERROR_NONE);
    assert_string_equal(got.data, "3:3 {\"a\": 1}|4:3 {\"a\": 2}|");
    text_clear(&got);
    free(path);
    expect_limit(put("wide.jsonl", "\xff\xfe{\0}\0", 6), "the file is UTF-16");
    expect_limit(put("wide.json", "\xfe\xff\0{\0}", 6), "the file is UTF-16");
    expect_limit(put("wide.txt",
                     "\xff\xfe"
                     "a\0",
                     4),
                 "the file is UTF-16");
}

static void test_dataset_reader_stops_a_decompression_bomb(void **state)
{
    (void)state;
    expect_limit(put_run("bomb.txt.gz", "", 0, (size_t)16 << 20, ""), "unpacks");
}

static void test_dataset_reader_detects_damage(void **state)
{
    struct error err = { 0 };
    struct text file;
    char *path, *side;

    (void)state;
    text_init(&file, 0);
    for (int i = 0; i < 20000; i++)
        text_addf(&file, "{\"number\": %d}\n", i * 7919);
    path = put("whole.jsonl.gz", file.data, file.len);
    text_reset(&file);
    assert_true(file_read(path, (size_t)1 << 20, &file, NULL, &err));
    side = path_join(dir, "half.jsonl.gz");
    assert_true(file_replace(side, file.data, file.len / 2, 0600, &err));
    expect_limit(side, "damaged or truncated");
    side = path_join(dir, "wrong.jsonl.gz");
    file.data[file.len / 2] ^= 0x55;
    assert_true(file_replace(side, file.data, file.len, 0600, &err));
    expect_limit(side, "damaged or truncated");
    text_clear(&file);
    free(path);
}

static void test_dataset_reader_accepts_known_files(void **state)
{
    struct error err = { 0 };

    (void)state;
    assert_true(dataset_kind_is_supported("a/b.json"));
    assert_true(dataset_kind_is_supported("b.txt.gz"));
    assert_false(dataset_kind_is_supported("alpaca_en_demo"));
    assert_true(dataset_kind_is_supported("b.parquet"));
    assert_true(dataset_kind_is_supported("b.csv.gz"));
    assert_false(dataset_kind_is_supported("b.xlsx"));
    assert_false(dataset_kind_is_supported("b.gz"));
    assert_null(dataset_reader_open("b.xlsx", false, &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_null(dataset_reader_open("/nowhere/b.json", false, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "/nowhere/b.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_reader_returns_records_and_positions),
        cmocka_unit_test(test_dataset_reader_refills_its_window),
        cmocka_unit_test(test_dataset_reader_reports_the_position_of_errors),
        cmocka_unit_test(test_dataset_reader_limits_length_and_depth),
        cmocka_unit_test(test_dataset_reader_refuses_zeros),
        cmocka_unit_test(test_dataset_reader_recognizes_mistaken_files),
        cmocka_unit_test(test_dataset_reader_stops_a_decompression_bomb),
        cmocka_unit_test(test_dataset_reader_detects_damage),
        cmocka_unit_test(test_dataset_reader_accepts_known_files),
    };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
