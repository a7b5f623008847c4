/* train/tables/parquet.h - private to the reader of Parquet: the footer, columns as
 * levels and values, and their assembly into rows. */
#ifndef TRAIN_TABLES_PARQUET_H
#define TRAIN_TABLES_PARQUET_H

#include "base/arena.h"
#include "train/tables/table_internal.h"

/* Numbers of parquet.thrift. */
enum parquet_type {
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTE_ARRAY,
    PARQUET_FIXED
};

enum parquet_repetition { PARQUET_REQUIRED, PARQUET_OPTIONAL, PARQUET_REPEATED };

/* A node of the schema: a column, or a group of columns. */
struct parquet_node {
    struct table_bytes name;
    enum parquet_type type;
    enum parquet_repetition repetition;
    size_t type_length;        /* of PARQUET_FIXED */
    bool is_list, is_map;      /* a group around a repeated group */
    bool is_unsigned, is_half; /* of the integers and of 2 bytes */
    bool is_decimal;           /* an integer divided by 10^scale */
    int64_t scale;
    size_t children;            /* 0: a column */
    struct parquet_node *first; /* child; NULL: a column */
    struct parquet_node *next;  /* sibling */
    unsigned max_definition, max_repetition;
    size_t column; /* number of the column */
};

/* A piece of a column in a row group. */
struct parquet_chunk {
    int64_t codec, values, start, bytes;
};

struct parquet_group {
    struct parquet_chunk *chunks; /* by column */
    int64_t rows;
};

struct parquet_footer {
    struct arena *arena; /* of everything below; borrowed */
    struct parquet_node *root;
    struct parquet_node **columns;
    size_t column_count;
    struct parquet_group *groups;
    size_t group_count;
};

/* Fill *out, whose arena is set. */
bool parquet_footer_read(const char *name, struct table_bytes file,
                         struct parquet_footer *out, struct error *err);

/* One entry of a column: a value, or the level at which it is missing. */
struct parquet_entry {
    unsigned repetition, definition;
    struct table_bytes value; /* in Parquet's plain encoding; if it is defined */
};

struct parquet_column;

/* Read a chunk; the node and the file must stay valid. */
struct parquet_column *parquet_column_open(const char *name, struct table_bytes file,
                                           const struct parquet_node *node,
                                           const struct parquet_chunk *chunk);
void parquet_column_close(struct parquet_column *column); /* NULL is allowed */
/* The next entry without consuming it, valid until it is consumed; NULL at the end, and
 * on an error, which is set. */
const struct parquet_entry *parquet_column_peek(struct parquet_column *column,
                                                struct error *err);
void parquet_column_consume(struct parquet_column *column);

#endif
