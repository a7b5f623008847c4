/* train/dataset/dataset_reader.c - record parser over a window of a file, which zlib
 * fills. */
#include "config.h"

#include "train/dataset/dataset_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/dataset/dataset_kind.h"
#include "train/tables/table.h"

enum { READ_BYTES = 256 << 10 };

/* The largest .txt that is one text, and the largest unpacked .gz. */
#define TEXT_MAX     ((size_t)1 << 30)
#define UNPACKED_MAX ((uint64_t)1 << 36)
/* The ratio of a smaller .gz is not checked. */
#define FREE_BYTES ((uint64_t)1 << 20)

struct dataset_reader {
    char *path;
    size_t line_max;
    struct heartbeat *heartbeat;
    struct table *table; /* of rows; the file and the window are then not used */
    struct text row;
    enum dataset_kind kind;
    bool lines;
    gzFile file;
    char *window; /* [at, end) is unread */
    size_t at, end, room;
    uint64_t unpacked;
    struct mark mark; /* of window[at] */
    bool ended;       /* the end of the file was read */
    bool zero;        /* the file has a byte of zero at window[end] */
    bool begun, in_list, done;
    size_t number; /* of the last record */
};

static gzFile open_regular(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    gzFile file;

    if (fd < 0) {
        error_errno_data(err, "cannot open the data file %s", path);
        return NULL;
    }
    if (fstat(fd, &st) != 0) {
        error_errno_data(err, "cannot examine the data file %s", path);
        close(fd);
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_DATA, "the data file %s is not a regular file", path);
        close(fd);
        return NULL;
    }
    file = gzdopen(fd, "rb");
    if (!file) {
        close(fd);
        error_set(err, ERROR_SYSTEM, "out of memory for %s", path);
        return NULL;
    }
    gzbuffer(file, READ_BYTES);
    return file;
}

static struct dataset_reader *open_table(const char *path, struct error *err)
{
    struct table *table = table_open(path, err);
    struct dataset_reader *reader;

    if (!table)
        return NULL;
    reader = memory_alloc(sizeof(*reader));
    reader->path = memory_strdup(path);
    reader->line_max = DATASET_LINE_MAX;
    reader->table = table;
    text_init(&reader->row, DATASET_LINE_MAX);
    return reader;
}

struct dataset_reader *dataset_reader_open(const char *path, bool lines,
                                           struct error *err)
{
    enum dataset_kind kind = dataset_kind_find(path);
    struct dataset_reader *reader;
    gzFile file;

    if (kind == DATASET_TABLE)
        return open_table(path, err);
    if (kind == DATASET_UNKNOWN) {
        dataset_kind_refuse(path, err);
        return NULL;
    }
    file = open_regular(path, err);
    if (!file)
        return NULL;
    reader = memory_alloc(sizeof(*reader));
    reader->path = memory_strdup(path);
    reader->line_max = DATASET_LINE_MAX;
    reader->kind = kind;
    reader->lines = lines;
    reader->file = file;
    reader->mark = (struct mark) { .line = 1, .column = 1 };
    return reader;
}

void dataset_reader_close(struct dataset_reader *reader)
{
    if (!reader)
        return;
    if (reader->table)
        text_clear(&reader->row);
    else
        gzclose_r(reader->file);
    table_close(reader->table);
    free(reader->window);
    free(reader->path);
    free(reader);
}

void dataset_reader_limit(struct dataset_reader *reader, size_t bytes)
{
    reader->line_max = bytes;
    reader->row.max = bytes;
}

void dataset_reader_set_heartbeat(struct dataset_reader *reader,
                                  struct heartbeat *heartbeat)
{
    reader->heartbeat = heartbeat;
}

static bool may_continue(const struct dataset_reader *reader, struct error *err)
{
    return heartbeat_continue(reader->heartbeat, "reading the data", err);
}

static bool fail(const struct dataset_reader *reader, struct error *err, const char *why)
{
    return error_at(err, ERROR_DATA, reader->path, reader->mark, "%s", why);
}

static bool check_size(const struct dataset_reader *reader, struct error *err)
{
    z_off_t packed = gzoffset(reader->file);

    if (gzdirect(reader->file) || reader->unpacked <= FREE_BYTES)
        return true;
    if (reader->unpacked > UNPACKED_MAX ||
        reader->unpacked / DATASET_RATIO_MAX > (uint64_t)(packed > 0 ? packed : 1))
        return fail(
            reader, err,
            "the file unpacks to far more than data does; if this is intended, unpack "
            "it with gunzip and name the plain file");
    return true;
}

static void step_over(struct mark *mark, const char *data, size_t bytes)
{
    for (const char *at = data; at < data + bytes; at++) {
        if (*at == '\n') {
            mark->line++;
            mark->column = 1;
        } else if (((unsigned char)*at & 0xc0) != 0x80) {
            mark->column++;
        }
    }
    mark->byte += bytes;
}

/* Editors of Windows save "Unicode" as UTF-16. */
static bool is_utf16(const struct dataset_reader *reader)
{
    const unsigned char *at = (const unsigned char *)reader->window + reader->at;

    return reader->mark.byte == 0 && reader->end - reader->at >= 2 &&
           ((at[0] == 0xff && at[1] == 0xfe) || (at[0] == 0xfe && at[1] == 0xff));
}

/* JSON has no bytes of zero. A file with holes may have gigabytes of them in one line, so
 * a record ends the reading at the first that it has: cut the window there. */
static void find_zero(struct dataset_reader *reader, size_t new_bytes)
{
    const char *from = reader->window + reader->end - new_bytes;
    const char *zero = memchr(from, 0, new_bytes);

    if (!zero || reader->kind == DATASET_TXT || is_utf16(reader))
        return;
    reader->end = (size_t)(zero - reader->window);
    reader->zero = true;
}

/* Fail at the byte of zero that ends the window. */
static bool fail_zero(const struct dataset_reader *reader, struct error *err)
{
    struct mark mark = reader->mark;

    step_over(&mark, reader->window + reader->at, reader->end - reader->at);
    return error_at(err, ERROR_DATA, reader->path, mark,
                    "the data have a byte of zero here: the file is damaged or not in "
                    "UTF-8");
}

/* Read more of the file after window[end]; set `ended` at its end. */
static bool fill(struct dataset_reader *reader, struct error *err)
{
    int got, why = Z_OK;

    if (!may_continue(reader, err))
        return false;
    if (reader->zero)
        return fail_zero(reader, err);
    if (reader->at > 0) {
        memmove(reader->window, reader->window + reader->at, reader->end - reader->at);
        reader->end -= reader->at;
        reader->at = 0;
    }
    if (reader->room - reader->end < READ_BYTES) {
        reader->room = 2 * reader->room + READ_BYTES;
        reader->window = memory_resize(reader->window, reader->room, 1);
    }
    got = gzread(reader->file, reader->window + reader->end, READ_BYTES);
    if (got <= 0 && gzerror(reader->file, &why) && why == Z_ERRNO)
        return error_errno_data(err, "cannot read the data file %s", reader->path);
    if (got < 0 || why != Z_OK)
        return fail(reader, err,
                    "the file cannot be unpacked from here on: it is damaged or "
                    "truncated");
    reader->ended = got == 0;
    reader->end += (size_t)got;
    reader->unpacked += (uint64_t)got;
    find_zero(reader, (size_t)got);
    return check_size(reader, err);
}

/* The byte at offset `ahead` of the window; -1 at the end of the file; -2: *err is
 * set. */
static int peek(struct dataset_reader *reader, size_t ahead, struct error *err)
{
    while (reader->end - reader->at <= ahead) {
        if (reader->ended)
            return -1;
        if (!fill(reader, err))
            return -2;
    }
    return (unsigned char)reader->window[reader->at + ahead];
}

/* Step over bytes that have been read. */
static void advance(struct dataset_reader *reader, size_t bytes)
{
    step_over(&reader->mark, reader->window + reader->at, bytes);
    reader->at += bytes;
}

static void take_record(struct dataset_reader *reader, size_t len,
                        struct dataset_record *record)
{
    *record = (struct dataset_record) {
        .data = reader->window + reader->at,
        .len = len,
        .at = reader->mark,
        .is_text = reader->kind == DATASET_TXT,
        .number = ++reader->number,
        .in_list = reader->kind == DATASET_JSON,
    };
    advance(reader, len);
}

static bool is_blank(int byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* The next non-blank byte, as peek returns it. */
static int skip_blanks(struct dataset_reader *reader, struct error *err)
{
    int byte;

    while (is_blank(byte = peek(reader, 0, err)))
        advance(reader, 1);
    return byte;
}

/* The state of a JSON value, byte by byte. */
struct scan {
    int depth;
    bool in_string, escaped;
};

static void scan_byte(struct scan *scan, int byte)
{
    if (scan->in_string) {
        if (scan->escaped)
            scan->escaped = false;
        else if (byte == '\\')
            scan->escaped = true;
        else if (byte == '"')
            scan->in_string = false;
        return;
    }
    if (byte == '"')
        scan->in_string = true;
    else if (byte == '{' || byte == '[')
        scan->depth++;
    else if (byte == '}' || byte == ']')
        scan->depth--;
}

static bool fail_length(const struct dataset_reader *reader, struct error *err)
{
    return error_at(err, ERROR_DATA, reader->path, reader->mark,
                    "the record is longer than %zu MiB; split the text",
                    reader->line_max >> 20);
}

static const char too_deep[] = "the record is nested more than 64 deep";

/* The length of the object or list that starts at the window; 0: *err is set. */
static size_t value_length(struct dataset_reader *reader, struct error *err)
{
    struct scan scan = { 0 };
    size_t len = 0;

    do {
        int byte = peek(reader, len, err);

        if (byte == -2)
            return 0;
        if (byte == -1) {
            fail(reader, err, "the file ends in the middle of this record");
            return 0;
        }
        scan_byte(&scan, byte);
        len++;
        if (len > reader->line_max || scan.depth > DATASET_DEPTH_MAX) {
            if (scan.depth > DATASET_DEPTH_MAX)
                fail(reader, err, too_deep);
            else
                fail_length(reader, err);
            return 0;
        }
    } while (scan.depth > 0 || scan.in_string);
    return len;
}

static bool next_value(struct dataset_reader *reader, struct dataset_record *record,
                       struct error *err)
{
    size_t len = value_length(reader, err);

    if (len == 0)
        return false;
    take_record(reader, len, record);
    return true;
}

/* After a record of a list: skip a comma and blanks, up to the next record or the end of
 * the list. */
static int skip_comma(struct dataset_reader *reader, struct error *err)
{
    int byte = skip_blanks(reader, err);

    if (byte == ']' || byte == -2)
        return byte;
    if (byte != ',') {
        fail(reader, err, "a comma or ] is missing here in the list of records");
        return -2;
    }
    advance(reader, 1);
    return skip_blanks(reader, err);
}

static bool next_json(struct dataset_reader *reader, struct dataset_record *record,
                      struct error *err)
{
    bool first = !reader->begun;
    int byte = skip_blanks(reader, err);

    reader->begun = true;
    if (first && byte == '[') {
        reader->in_list = true;
        advance(reader, 1);
        byte = skip_blanks(reader, err);
    } else if (reader->in_list) {
        byte = skip_comma(reader, err);
    }
    if (byte == -2)
        return false;
    if (byte == -1 && !reader->in_list)
        return false;
    if (reader->in_list && byte == ']') {
        reader->done = true;
        return false;
    }
    if (byte != '{' && byte != '[')
        return fail(reader, err,
                    byte == -1 ? "the file ends before the list of records does"
                               : "a record must be an object, {\"instruction\": ...}");
    return next_value(reader, record, err);
}

static bool line_depth_is_valid(const char *data, size_t len)
{
    struct scan scan = { 0 };

    for (size_t i = 0; i < len; i++) {
        scan_byte(&scan, (unsigned char)data[i]);
        if (scan.depth > DATASET_DEPTH_MAX)
            return false;
    }
    return true;
}

/* The length of the line at the window without its newline; *err is set if it is too
 * long. */
static bool line_length(struct dataset_reader *reader, size_t *len, struct error *err)
{
    size_t seen = 0;

    for (;;) {
        size_t held = reader->end - reader->at;
        const char *from = reader->window + reader->at;
        const char *newline = held > seen ? memchr(from + seen, '\n', held - seen) : NULL;

        *len = newline ? (size_t)(newline - from) : held;
        if (*len > reader->line_max)
            return fail_length(reader, err);
        if (newline || reader->ended)
            return true;
        seen = held;
        if (!fill(reader, err))
            return false;
    }
}

static bool next_line(struct dataset_reader *reader, struct dataset_record *record,
                      struct error *err)
{
    for (;;) {
        size_t len, text_len;

        if (!line_length(reader, &len, err))
            return false;
        if (len == 0 && reader->ended && reader->at == reader->end)
            return false;
        take_record(reader, len, record);
        if (reader->at < reader->end)
            advance(reader, 1);
        text_len = len > 0 && record->data[len - 1] == '\r' ? len - 1 : len;
        record->len = text_len;
        while (text_len > 0 && is_blank(record->data[text_len - 1]))
            text_len--;
        if (text_len > 0)
            break;
    }
    if (reader->kind == DATASET_JSONL && !line_depth_is_valid(record->data, record->len))
        return error_at(err, ERROR_DATA, reader->path, record->at, "%s", too_deep);
    return true;
}

static bool next_text(struct dataset_reader *reader, struct dataset_record *record,
                      struct error *err)
{
    if (reader->begun)
        return false;
    reader->begun = true;
    while (!reader->ended) {
        if (!fill(reader, err))
            return false;
        if (reader->end - reader->at > TEXT_MAX)
            return fail(reader, err,
                        "the text is larger than 1 GiB; split it into several files");
    }
    if (reader->at == reader->end)
        return false;
    take_record(reader, reader->end - reader->at, record);
    return true;
}

/* Report the position of the first byte that is not UTF-8. */
static bool check_utf8(const struct dataset_reader *reader,
                       const struct dataset_record *record, struct error *err)
{
    struct mark at = record->at;
    size_t bad;

    if (text_is_utf8(record->data, record->len, &bad))
        return true;
    for (size_t i = 0; i < bad; i++) {
        at.column = record->data[i] == '\n' ? 1 : at.column + 1;
        at.line += record->data[i] == '\n';
    }
    at.byte += bad;
    return error_at(err, ERROR_DATA, reader->path, at,
                    "the text is not UTF-8 here; convert it with iconv -t utf-8");
}

static bool check_encoding(struct dataset_reader *reader, struct error *err)
{
    if (reader->mark.byte > 0 || peek(reader, 1, err) < 0 || !is_utf16(reader))
        return true;
    return fail(reader, err,
                "the file is UTF-16; convert it with iconv -f utf-16 -t utf-8");
}

/* A list of records is often named .jsonl: read it as what it is. */
static void detect_list(struct dataset_reader *reader, struct error *err)
{
    if (!reader->begun && reader->kind == DATASET_JSONL &&
        skip_blanks(reader, err) == '[')
        reader->kind = DATASET_JSON;
    reader->begun |= reader->kind == DATASET_JSONL;
}

static void skip_byte_order_mark(struct dataset_reader *reader, struct error *err)
{
    if (reader->mark.byte == 0 && peek(reader, 2, err) >= 0 &&
        memcmp(reader->window + reader->at, "\xef\xbb\xbf", 3) == 0) {
        reader->at += 3;
        reader->mark.byte += 3;
    }
}

/* The next row of a table; its position is the line or the number of the row. */
static bool next_row(struct dataset_reader *reader, struct dataset_record *record,
                     struct error *err)
{
    if (!table_next(reader->table, &reader->row, &reader->mark.line, err))
        return false;
    reader->mark.column = 1;
    *record = (struct dataset_record) { .data = reader->row.data,
                                        .len = reader->row.len,
                                        .at = reader->mark,
                                        .number = ++reader->number };
    return true;
}

bool dataset_reader_next(struct dataset_reader *reader, struct dataset_record *record,
                         struct error *err)
{
    bool got;

    if (reader->done || !may_continue(reader, err))
        return false;
    if (reader->table) {
        got = next_row(reader, record, err);
        reader->done = !got;
        return got;
    }
    skip_byte_order_mark(reader, err);
    if (!check_encoding(reader, err))
        return false;
    detect_list(reader, err);
    if (reader->kind == DATASET_JSON)
        got = next_json(reader, record, err);
    else if (reader->kind == DATASET_TXT && !reader->lines)
        got = next_text(reader, record, err);
    else
        got = next_line(reader, record, err);
    reader->done = !got;
    return got && (!record->is_text || check_utf8(reader, record, err));
}
