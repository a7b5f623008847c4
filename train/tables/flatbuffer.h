/* train/tables/flatbuffer.h - reads FlatBuffers, in which Arrow writes the metadata of
 * its messages; every access is checked. */
#ifndef TRAIN_TABLES_FLATBUFFER_H
#define TRAIN_TABLES_FLATBUFFER_H

#include "train/tables/table_internal.h"

/* A table in a buffer; at 0: absent, and all its fields have their defaults. */
struct flat_table {
    struct table_bytes buffer;
    size_t at;
};

/* A vector; its elements start at `at`. */
struct flat_vector {
    struct table_bytes buffer;
    size_t at, count;
};

struct flat_table flat_root(struct table_bytes buffer);
/* Scalars of 1, 2, 4 or 8 bytes, sign-extended. */
int64_t flat_int(struct flat_table table, unsigned field, size_t bytes,
                 int64_t otherwise);
struct flat_table flat_child(struct flat_table table, unsigned field);
/* `size`: bytes of an element; count is 0 if the vector does not fit. */
struct flat_vector flat_list(struct flat_table table, unsigned field, size_t size);
struct table_bytes flat_string(struct flat_table table, unsigned field);
/* Element of a vector of tables. */
struct flat_table flat_element(struct flat_vector vector, size_t index);

#endif
