/* tests/unit/test_table.c - tables that pyarrow, pandas, polars, DuckDB and fastparquet
 * wrote have the rows that pyarrow reads; CSV files keep every field as text; damaged
 * files are refused. */
#include "config.h"

#include "train/tables/table.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"

/* Compare numbers by value: 2 and 2.0 are one number. */
static bool same(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;

    if (json_is_number(a) && json_is_number(b))
        return json_is_integer(a) && json_is_integer(b)
                   ? json_integer_value(a) == json_integer_value(b)
                   : json_number_value(a) == json_number_value(b);
    if (json_is_array(a) && json_array_size(a) == json_array_size(b)) {
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!same(json_array_get(a, i), json_array_get(b, i)))
                return false;
        return json_is_array(b);
    }
    if (!json_is_object(a) || json_object_size(a) != json_object_size(b))
        return json_equal(a, b);
    json_object_foreach((json_t *)a, key,
                        value) if (!same(value, json_object_get(b, key))) return false;
    return json_is_object(b);
}

static void check_row(const char *name, uint32_t number, const struct text *row,
                      const char *expected)
{
    struct error err = { 0 };
    json_t *got = json_read_text(row->data, row->len, name, 1, &err);
    json_t *wanted = json_loads(expected, 0, NULL);

    if (!got || !same(got, wanted))
        fail_msg("%s, row %u: %s\n%s\nexpected\n%s", name, number, err.text, row->data,
                 expected);
    json_decref(got);
    json_decref(wanted);
}

/* Return the lines of a file as an array of strings. */
static json_t *lines_of(const char *path)
{
    struct text text;
    struct error err = { 0 };
    json_t *lines = json_array();

    text_init(&text, 0);
    if (!file_read(path, 1 << 24, &text, NULL, &err))
        fail_msg("%s", err.text);
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n"))
        json_array_append_new(lines, json_string(line));
    text_clear(&text);
    return lines;
}

static void check_table(const char *folder, const char *name)
{
    char *path = path_join(folder, name), *stem = memory_strdup(path), *rows;
    struct error err = { 0 };
    struct table *table = table_open(path, &err);
    struct text row;
    json_t *lines;
    uint32_t position = 0, count = 0;

    *strrchr(stem, '.') = '\0';
    text_init(&row, 0);
    text_addf(&row, "%s.jsonl", stem);
    rows = text_detach(&row, NULL);
    lines = lines_of(rows);
    text_init(&row, 0);
    while (table && table_next(table, &row, &position, &err)) {
        assert_int_equal(position, ++count);
        check_row(name, count, &row,
                  json_string_value(json_array_get(lines, position - 1)));
    }
    if (!table || err.code != ERROR_NONE)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(count, json_array_size(lines));
    table_close(table);
    json_decref(lines);
    text_clear(&row);
    free(rows);
    free(stem);
    free(path);
}

static char *golden_folder(void)
{
    const char *source = getenv("top_srcdir");

    return path_join(source ? source : ".", "tests/golden/tables");
}

static void test_tables_have_the_rows_of_pyarrow(void **state)
{
    char *folder = golden_folder();
    struct dirent **entries;
    int found = scandir(folder, &entries, NULL, alphasort), tables = 0;

    (void)state;
    assert_true(found > 0);
    for (int i = 0; i < found; i++) {
        if (table_supports(entries[i]->d_name)) {
            check_table(folder, entries[i]->d_name);
            tables++;
        }
        free(entries[i]);
    }
    assert_true(tables >= 25);
    free(entries);
    free(folder);
}

/* Read the rows of bytes; the rows, or the message of the error. */
static void read_bytes(const char *name, const char *data, size_t len, struct text *out)
{
    struct error err = { 0 };
    struct table *table = table_open_memory(name, data, len, &err);
    struct text row;
    uint32_t position;

    text_init(&row, 0);
    text_init(out, 0);
    while (table && table_next(table, &row, &position, &err))
        text_addf(out, "%u %s\n", position, row.data);
    if (err.code != ERROR_NONE) {
        assert_int_equal(err.code, ERROR_DATA);
        text_addf(out, "%u: %s", err.at.line, err.text);
    }
    table_close(table);
    text_clear(&row);
}

static void test_csv_fields_are_text(void **state)
{
    static const struct {
        const char *name, *data, *rows;
    } cases[] = {
        { "x.csv", "a,b\n1,None\r\n\"x, \"\"y\"\"\nz\",\n\n,\"\"\n",
          "2 {\"a\": \"1\", \"b\": \"None\"}\n"
          "3 {\"a\": \"x, \\\"y\\\"\\u000az\", \"b\": null}\n"
          "6 {\"a\": null, \"b\": \"\"}\n" },
        { "x.tsv",
          "\xef\xbb\xbf"
          "a\tb\n007\tx,y",
          "2 {\"a\": \"007\", \"b\": \"x,y\"}\n" },
        { "x.csv", "a,b\n1\n", "2 {\"a\": \"1\", \"b\": null}\n" },
        { "x.csv", "a,b\n", "" },
        { "x.csv", "a,b\n1,2,3\n", "2: this row has more fields than the header" },
        { "x.csv", "a\n\"1\n2\n", "2: the quote that starts here does not end" },
        { "x.csv", "a\n\"1\"2\n", "2: text follows a closing quote" },
        { "x.csv", "a\n\xff\n", "2: this row is not UTF-8" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text got;

        read_bytes(cases[i].name, cases[i].data, strlen(cases[i].data), &got);
        if (strncmp(got.data, cases[i].rows, strlen(cases[i].rows)) != 0 ||
            (!cases[i].rows[0] && got.len > 0))
            fail_msg("%s\ngives\n%s\nexpected\n%s", cases[i].data, got.data,
                     cases[i].rows);
        text_clear(&got);
    }
}

/* Change each byte of a file in turn: it is read, or refused as damaged. */
static void damage(const char *folder, const char *name)
{
    char *path = path_join(folder, name);
    struct error err = { 0 };
    struct text file, got;

    text_init(&file, 0);
    if (!file_read(path, 1 << 20, &file, NULL, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < file.len; i++) {
        file.data[i] ^= (char)(1 << i % 8);
        read_bytes(name, file.data, file.len, &got);
        text_clear(&got);
        file.data[i] ^= (char)(1 << i % 8);
    }
    for (size_t i = 0; i < file.len; i += 7) {
        char *cut = memory_alloc(i + 1); /* so that a read past the end is found */

        memcpy(cut, file.data, i);
        read_bytes(name, cut, i, &got);
        text_clear(&got);
        free(cut);
    }
    text_clear(&file);
    free(path);
}

static void test_damaged_tables_are_refused(void **state)
{
    static const char *const names[] = { "chats_plain.parquet", "chats_v2.parquet",
                                         "chats_batches.arrow", "types_file.arrow",
                                         "polars_views.arrow" };
    char *folder = golden_folder();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        damage(folder, names[i]);
    free(folder);
}

static void test_other_files_are_named(void **state)
{
    static const struct {
        const char *name, *data, *message;
    } cases[] = {
        { "x.parquet", "{\"a\": 1}\n    ", "the file is not a Parquet file" },
        { "x.parquet", "PAR1aaaaaaaaaaaa", "its last bytes are missing" },
        { "x.arrow", "{\"a\": 1}\n    ", "x.arrow: the " },
        { "x.feather", "FEA1aaaaaaaaaaaa", "Feather version 1 is not supported" },
        { "x.arrow", "", "the file is not an Arrow file" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text got;

        read_bytes(cases[i].name, cases[i].data, strlen(cases[i].data), &got);
        if (!strstr(got.data, cases[i].message))
            fail_msg("%s: %s", cases[i].message, got.data);
        text_clear(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_have_the_rows_of_pyarrow),
        cmocka_unit_test(test_csv_fields_are_text),
        cmocka_unit_test(test_damaged_tables_are_refused),
        cmocka_unit_test(test_other_files_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
