/* train/tables/table_internal.h - private to the tables: one reader per format, over the
 * bytes of the file. */
#ifndef TRAIN_TABLES_TABLE_INTERNAL_H
#define TRAIN_TABLES_TABLE_INTERNAL_H

#include "base/json.h"
#include "train/tables/table.h"

#define TABLE_DEPTH_MAX 32 /* nesting of columns */

struct table_bytes {
    const uint8_t *data;
    size_t len;
};

/* A format. `open` returns its state, or NULL and sets *err; `next` appends a row. */
struct table_format {
    const char *ending;
    void *(*open)(const char *name, struct table_bytes file, struct error *err);
    bool (*next)(void *state, struct text *row, uint32_t *position, struct error *err);
    void (*close)(void *state);
};

extern const struct table_format table_csv, table_tsv, table_parquet, table_arrow;

/* Return whether `len` bytes at `at` are inside. */
static inline bool table_has(struct table_bytes bytes, uint64_t at, uint64_t len)
{
    return at <= bytes.len && len <= bytes.len - at;
}

static inline struct table_bytes table_part(struct table_bytes bytes, size_t at,
                                            size_t len)
{
    return (struct table_bytes) { bytes.data + at, len };
}

/* Little-endian integers of 1 to 8 bytes. */
static inline uint64_t table_uint(const uint8_t *data, size_t bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | data[bytes];
    return value;
}

/* Append a JSON string, or an object for bytes that are not UTF-8. */
void table_add_string(struct text *out, const char *data, size_t len);
/* Append `"name": ` of member `index` of an object, with a comma before it. */
void table_add_name(struct text *out, size_t index, const char *name, size_t len);
/* Append an unsigned integer; one past JSON's signed 64 bits as a real number. */
void table_add_unsigned(struct text *out, uint64_t value);
/* Append a decimal fraction, an integer divided by 10^scale, as a string. */
void table_add_decimal(struct text *out, struct table_bytes value, bool big_endian,
                       int64_t scale);
/* Append a number, or null if it is not finite. */
void table_add_real(struct text *out, double value);

enum table_codec {
    TABLE_RAW,
    TABLE_GZIP,
    TABLE_SNAPPY,
    TABLE_ZSTD,
    TABLE_LZ4,       /* a block */
    TABLE_LZ4_FRAME, /* blocks in a frame */
    TABLE_CODECS
};

/* The largest piece that is unpacked at once: a page, or a column of a batch. */
#define TABLE_UNPACKED_MAX ((uint64_t)1 << 30)

/* A packed piece of a file. */
struct table_packed {
    enum table_codec codec;
    struct table_bytes bytes;
    uint64_t size; /* unpacked, exactly */
};

/* Return the unpacked bytes, malloc'ed.  NULL: damaged, too large, or a codec that this
 * build lacks; *err is set. */
uint8_t *table_unpack(const struct table_packed *packed, const char *name,
                      struct error *err);

#endif
