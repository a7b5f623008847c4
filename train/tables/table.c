/* train/tables/table.c - opens tables by their extension and writes values as JSON. */
#include "config.h"

#include "train/tables/table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/size.h"
#include "train/tables/table_internal.h"

#define GZ_RATIO_MAX 200 /* text has 2 to 20, a bomb about 1000 */

static const struct {
    const char *ending;
    const struct table_format *format;
} formats[] = {
    { ".csv", &table_csv },     { ".tsv", &table_tsv },    { ".parquet", &table_parquet },
    { ".arrow", &table_arrow }, { ".ipc", &table_arrow },  { ".feather", &table_arrow },
    { ".csv.gz", &table_csv },  { ".tsv.gz", &table_tsv },
};

struct table {
    const struct table_format *format;
    void *state;
    void *mapped; /* of the file; NULL: borrowed or unpacked */
    size_t mapped_len;
    char *unpacked; /* of a .gz */
};

static const struct table_format *find_format(const char *path)
{
    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (text_ends(path, formats[i].ending))
            return formats[i].format;
    return NULL;
}

bool table_supports(const char *path)
{
    return find_format(path) != NULL;
}

static struct table *open_bytes(const char *name, struct table_bytes file,
                                struct error *err)
{
    const struct table_format *format = find_format(name);
    struct table *table;
    void *state;

    if (!format) {
        error_set(err, ERROR_DATA, "%s is not a table", name);
        return NULL;
    }
    state = format->open(name, file, err);
    if (!state)
        return NULL;
    table = memory_alloc(sizeof(*table));
    table->format = format;
    table->state = state;
    return table;
}

struct table *table_open_memory(const char *name, const void *data, size_t len,
                                struct error *err)
{
    return open_bytes(name, (struct table_bytes) { data, len }, err);
}

/* Map a regular file; an empty file is NULL, 0. */
static bool map_file(const char *path, void **data, size_t *len, struct error *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    bool ok = false;

    *data = NULL;
    *len = 0;
    if (fd < 0)
        return error_errno_data(err, "cannot open the data file %s", path);
    if (fstat(fd, &st) != 0) {
        error_errno_data(err, "cannot examine the data file %s", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_DATA, "the data file %s is not a regular file", path);
        goto out;
    }
    ok = st.st_size == 0;
    if (!ok) {
        *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = *data != MAP_FAILED || error_errno(err, "cannot map %s", path);
        *data = ok ? *data : NULL;
        *len = ok ? (size_t)st.st_size : 0;
    }
out:
    close(fd);
    return ok;
}

/* Unpack a .gz of text. */
static bool unpack_file(const char *path, size_t packed, struct text *out,
                        struct error *err)
{
    gzFile file = gzopen(path, "rb");
    char part[64 << 10];
    uint64_t most = (packed + 4096) * (uint64_t)GZ_RATIO_MAX;
    int got = 0, code = Z_OK;

    if (!file)
        return error_errno_data(err, "cannot open the data file %s", path);
    text_init(out, most < TABLE_UNPACKED_MAX ? (size_t)most : TABLE_UNPACKED_MAX);
    while ((got = gzread(file, part, sizeof(part))) > 0 &&
           text_add(out, part, (size_t)got))
        ;
    if (got < 0 && gzerror(file, &code) && code == Z_ERRNO)
        error_errno_data(err, "cannot read the data file %s", path);
    else if (got < 0 || !gzeof(file))
        error_set(err, ERROR_DATA,
                  out->overflow
                      ? "%s unpacks to far more than data does; unpack it with gunzip "
                        "and name the plain file"
                      : "%s cannot be unpacked: it is damaged or truncated",
                  path);
    gzclose_r(file);
    return !out->overflow && got == 0;
}

struct table *table_open(const char *path, struct error *err)
{
    struct table *table = NULL;
    struct text unpacked;
    void *data;
    size_t len;

    if (!map_file(path, &data, &len, err))
        return NULL;
    if (text_ends(path, ".gz")) {
        if (unpack_file(path, len, &unpacked, err))
            table = open_bytes(
                path, (struct table_bytes) { (uint8_t *)unpacked.data, unpacked.len },
                err);
        if (table)
            table->unpacked = text_detach(&unpacked, NULL);
        else
            text_clear(&unpacked);
        if (data)
            munmap(data, len);
        return table;
    }
    table = open_bytes(path, (struct table_bytes) { data, len }, err);
    if (table) {
        table->mapped = data;
        table->mapped_len = len;
    } else if (data) {
        munmap(data, len);
    }
    return table;
}

void table_close(struct table *table)
{
    if (!table)
        return;
    table->format->close(table->state);
    if (table->mapped)
        munmap(table->mapped, table->mapped_len);
    free(table->unpacked);
    free(table);
}

bool table_next(struct table *table, struct text *row, uint32_t *position,
                struct error *err)
{
    text_reset(row);
    return table->format->next(table->state, row, position, err);
}

/* Bytes that would make the row too long are left out. */
static void add_binary(struct text *out, const char *data, size_t len)
{
    text_addf(out, "{\"binary_bytes\": %zu", len);
    if (out->len < out->max && len / 3 * 4 + 64 < out->max - out->len) {
        text_adds(out, ", \"base64\": \"");
        base64_encode(data, len, out);
        text_addc(out, '"');
    }
    text_addc(out, '}');
}

void table_add_string(struct text *out, const char *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    size_t bad;

    if (len == 0) { /* data may be NULL */
        text_adds(out, "\"\"");
        return;
    }
    if (!text_is_utf8(data, len, &bad)) {
        add_binary(out, data, len);
        return;
    }
    text_addc(out, '"');
    for (size_t i = 0, from = 0; i <= len; i++) {
        unsigned char byte = i < len ? (unsigned char)data[i] : '"';

        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        text_add(out, data + from, i - from);
        from = i + 1;
        if (i == len)
            break;
        if (byte >= 0x20) {
            text_addc(out, '\\');
            text_addc(out, (char)byte);
        } else {
            text_addf(out, "\\u00%c%c", digits[byte >> 4], digits[byte & 15]);
        }
    }
    text_addc(out, '"');
}

void table_add_name(struct text *out, size_t index, const char *name, size_t len)
{
    size_t bad;

    if (index > 0)
        text_adds(out, ", ");
    if (len == 0 || (text_is_utf8(name, len, &bad) && !memchr(name, 0, len)))
        table_add_string(out, name, len);
    else
        text_addf(out, "\"column %zu\"", index + 1);
    text_adds(out, ": ");
}

void table_add_unsigned(struct text *out, uint64_t value)
{
    if (value <= INT64_MAX)
        text_addf(out, "%llu", (unsigned long long)value);
    else
        table_add_real(out, (double)value);
}

void table_add_real(struct text *out, double value)
{
    json_t *number = isfinite(value) ? json_number(value) : json_null();

    json_write(number, out);
    json_decref(number);
}
