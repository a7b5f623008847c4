/* train/tables/arrow.h - private to the reader of Arrow: the schema, and the arrays of a
 * batch. */
#ifndef TRAIN_TABLES_ARROW_H
#define TRAIN_TABLES_ARROW_H

#include "base/arena.h"
#include "train/tables/flatbuffer.h"
#include "train/tables/table_internal.h"

enum { MESSAGE_TYPE = 1, MESSAGE_HEADER, MESSAGE_BODY }; /* fields of Message */

/* A view: 4 bytes of length; then the bytes, if they fit, or 4 of them, the number of a
 * buffer and the position in it. */
#define ARROW_VIEW_BYTES  16
#define ARROW_VIEW_INLINE 12

/* Type of Schema.fbs. */
enum arrow_type {
    ARROW_NULL = 1,
    ARROW_INT,
    ARROW_FLOAT,
    ARROW_BINARY,
    ARROW_UTF8,
    ARROW_BOOL,
    ARROW_DECIMAL,
    ARROW_DATE,
    ARROW_TIME,
    ARROW_TIMESTAMP,
    ARROW_INTERVAL,
    ARROW_LIST,
    ARROW_STRUCT,
    ARROW_UNION,
    ARROW_FIXED_BINARY,
    ARROW_FIXED_LIST,
    ARROW_MAP,
    ARROW_DURATION,
    ARROW_LARGE_BINARY,
    ARROW_LARGE_UTF8,
    ARROW_LARGE_LIST,
    ARROW_RUN_END,
    ARROW_BINARY_VIEW,
    ARROW_UTF8_VIEW,
    ARROW_TYPES
};

/* How an array of a type is stored. */
enum layout {
    LAYOUT_UNSUPPORTED,
    LAYOUT_NONE,    /* no buffers */
    LAYOUT_FIXED,   /* validity, values */
    LAYOUT_BITS,    /* validity, bits */
    LAYOUT_BYTES,   /* validity, offsets, bytes */
    LAYOUT_VIEWS,   /* validity, views, any number of buffers with bytes */
    LAYOUT_LIST,    /* validity, offsets; a child */
    LAYOUT_MEMBERS, /* validity; children */
    LAYOUT_SLICES,  /* validity; a child of a fixed number of elements */
};

/* The values of a column, or of a child, in a batch. */
struct array {
    size_t length;
    struct table_bytes valid, offsets, values; /* len 0: absent */
    struct table_bytes *buffers;               /* of LAYOUT_VIEWS */
    size_t buffer_count;
    struct array *children;
};

struct column {
    struct table_bytes name;
    enum arrow_type type; /* of the indexes, if has_dictionary; then values' type below */
    enum layout layout;
    size_t width;   /* bytes of a value; elements of LAYOUT_SLICES */
    bool is_signed; /* of integers */
    size_t offset_bytes;
    int64_t scale; /* of decimal fractions */
    struct column *children;
    size_t child_count;
    bool has_dictionary;
    int64_t dictionary_id;
    struct column *dictionary; /* the type of its values */
    struct array *entries;     /* the dictionary; NULL: not read yet */
    struct column *next_indexed;
};

struct arrow {
    const char *name;
    struct table_bytes file;
    size_t at;
    bool is_file;                 /* not a stream */
    struct flat_vector blocks[2]; /* of a file: dictionaries and batches to read */
    struct arena *arena;          /* of the schema and the dictionaries */
    struct column *columns;
    size_t column_count, field_count;
    unsigned depth;         /* of the field that is read */
    struct column *indexed; /* all columns with a dictionary, in a list */
    struct arena *batch_arena;
    struct array *batch; /* by column, in the arena of the batch */
    size_t rows, row;    /* of the batch: all, and those returned */
    uint32_t number;     /* of the last row, from 1 */
    uint8_t **unpacked;  /* buffers of the batch */
    size_t unpacked_count;
    uint8_t **kept; /* of the dictionaries */
    size_t kept_count;
};

/* A message: metadata, and the body that follows it. */
struct message {
    struct flat_table metadata;
    struct table_bytes body;
};

bool arrow_fail(const struct arrow *arrow, struct error *err, const char *why);
bool arrow_damaged(const struct arrow *arrow, struct error *err);

bool arrow_schema_read(struct arrow *arrow, struct flat_table schema, struct error *err);

/* Replace the batch by that of a message. */
bool arrow_batch_read(struct arrow *arrow, const struct message *message,
                      struct error *err);
/* Keep a dictionary for the columns with its id. */
bool arrow_dictionary_read(struct arrow *arrow, const struct message *message,
                           struct error *err);
/* Free the batch and the dictionaries. */
void arrow_batch_clear(struct arrow *arrow);

#endif
