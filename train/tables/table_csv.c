/*
 * train/tables/table_csv.c - CSV (RFC 4180) and TSV with a header line.
 *
 * Every field is text, as it is written: "007" and "None" stay.  pandas and `datasets`
 * guess types; a column of numbers is then no text.  An empty field without quotes is
 * null, as in both.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/tables/table_internal.h"

#define COLUMNS_MAX 4096

struct csv {
    const char *name;
    struct table_bytes file;
    size_t at;
    uint32_t line;
    char separator;
    char **columns;
    size_t count;
    uint32_t row_line; /* where the present row begins */
    struct text field; /* the present one */
    bool quoted;       /* it had quotes */
};

static bool fail(const struct csv *csv, uint32_t line, struct error *err, const char *why)
{
    return error_at(err, ERROR_DATA, csv->name,
                    (struct mark) { .byte = csv->at, .line = line, .column = 1 }, "%s",
                    why);
}

static int peek(const struct csv *csv)
{
    return csv->at < csv->file.len ? csv->file.data[csv->at] : -1;
}

static bool is_end_of_line(int byte)
{
    return byte == '\n' || byte == '\r' || byte == -1;
}

/* Read a field in quotes, in which two quotes are one. */
static bool read_quoted(struct csv *csv, struct error *err)
{
    uint32_t line = csv->line;

    for (csv->at++;; csv->at++) {
        int byte = peek(csv);

        if (byte == -1)
            return fail(csv, line, err, "the quote that starts here does not end");
        csv->line += byte == '\n';
        if (byte == '"') {
            csv->at++;
            if (peek(csv) != '"')
                return true;
        }
        if (!text_addc(&csv->field, (char)byte))
            return fail(csv, line, err, "the field that starts here is too long");
    }
}

/* Read a field and the separator after it.  *last: the line ends after it. */
static bool read_field(struct csv *csv, bool *last, struct error *err)
{
    text_reset(&csv->field);
    csv->quoted = peek(csv) == '"';
    if (csv->quoted && !read_quoted(csv, err))
        return false;
    while (!is_end_of_line(peek(csv)) && peek(csv) != csv->separator) {
        if (csv->quoted)
            return fail(csv, csv->line, err,
                        "text follows a closing quote; a quote inside a field is "
                        "written twice");
        if (!text_addc(&csv->field, (char)csv->file.data[csv->at++]))
            return fail(csv, csv->line, err, "the field is too long");
    }
    *last = is_end_of_line(peek(csv));
    if (!*last) {
        csv->at++;
        return true;
    }
    csv->at += peek(csv) == '\r';
    if (peek(csv) == '\n') {
        csv->at++;
        csv->line++;
    }
    return true;
}

static bool read_header(struct csv *csv, struct error *err)
{
    bool last = false;

    if (csv->file.len >= 3 && memcmp(csv->file.data, "\xef\xbb\xbf", 3) == 0)
        csv->at = 3;
    while (!last) {
        if (csv->count == COLUMNS_MAX)
            return fail(csv, 1, err, "the header has more than 4096 columns");
        if (!read_field(csv, &last, err))
            return false;
        csv->columns = memory_resize(csv->columns, csv->count + 1, sizeof(*csv->columns));
        csv->columns[csv->count++] = memory_strdup(csv->field.data);
    }
    return true;
}

static void csv_close(void *state)
{
    struct csv *csv = state;

    for (size_t i = 0; i < csv->count; i++)
        free(csv->columns[i]);
    free(csv->columns);
    text_clear(&csv->field);
    free(csv);
}

static void *open_with(char separator, const char *name, struct table_bytes file,
                       struct error *err)
{
    struct csv *csv = memory_alloc(sizeof(*csv));

    *csv = (struct csv) { .name = name, .file = file, .line = 1, .separator = separator };
    text_init(&csv->field, 0);
    if (read_header(csv, err))
        return csv;
    csv_close(csv);
    return NULL;
}

static void *csv_open(const char *name, struct table_bytes file, struct error *err)
{
    return open_with(',', name, file, err);
}

static void *tsv_open(const char *name, struct table_bytes file, struct error *err)
{
    return open_with('\t', name, file, err);
}

/* Append the field under its column; false: the row has more fields than the header. */
static bool add_field(const struct csv *csv, size_t index, struct text *row,
                      struct error *err)
{
    size_t bad;

    if (index >= csv->count)
        return fail(csv, csv->row_line, err,
                    "this row has more fields than the header; quote fields that have "
                    "a separator in them");
    table_add_name(row, index, csv->columns[index], strlen(csv->columns[index]));
    if (csv->field.len == 0 && !csv->quoted)
        return text_adds(row, "null");
    if (!text_is_utf8(csv->field.data, csv->field.len, &bad))
        return fail(csv, csv->row_line, err,
                    "this row is not UTF-8; convert the file with iconv -t utf-8");
    table_add_string(row, csv->field.data, csv->field.len);
    return true;
}

static void skip_empty_lines(struct csv *csv)
{
    while (peek(csv) == '\n' || peek(csv) == '\r') {
        csv->line += peek(csv) == '\n';
        csv->at++;
    }
}

static bool csv_next(void *state, struct text *row, uint32_t *position, struct error *err)
{
    struct csv *csv = state;
    size_t index = 0;
    bool last = false;

    skip_empty_lines(csv);
    if (peek(csv) == -1)
        return false;
    *position = csv->row_line = csv->line;
    text_addc(row, '{');
    while (!last) {
        if (!read_field(csv, &last, err) || !add_field(csv, index++, row, err))
            return false;
    }
    for (; index < csv->count; index++) {
        table_add_name(row, index, csv->columns[index], strlen(csv->columns[index]));
        text_adds(row, "null");
    }
    return text_addc(row, '}') || fail(csv, csv->row_line, err, "the row is too long");
}

const struct table_format table_csv = { ".csv", csv_open, csv_next, csv_close };
const struct table_format table_tsv = { ".tsv", tsv_open, csv_next, csv_close };
