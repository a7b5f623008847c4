/* train/tables/thrift.h - reads Thrift's compact protocol, in which Parquet writes its
 * footer and the headers of its pages. */
#ifndef TRAIN_TABLES_THRIFT_H
#define TRAIN_TABLES_THRIFT_H

#include "train/tables/table_internal.h"

/* Types of the compact protocol. */
enum thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT
};

/* A position in the bytes.  After an error all functions return 0, and `bad` is set. */
struct thrift {
    struct table_bytes bytes;
    size_t at;
    bool bad;
};

/* A field of a struct, read one after another until type is THRIFT_STOP.  Each value must
 * be read or skipped before the next field. */
struct thrift_field {
    enum thrift_type type;
    int64_t id;
};

/* *id is 0 before the first field of a struct. */
struct thrift_field thrift_next(struct thrift *thrift, int64_t *id);
/* Read an integer of any size, or a boolean field. */
int64_t thrift_int(struct thrift *thrift, enum thrift_type type);
/* The bytes are those of the input. */
struct table_bytes thrift_binary(struct thrift *thrift);
/* Read the head of a list: its length, and the type of its elements. */
size_t thrift_list(struct thrift *thrift, enum thrift_type *type);
void thrift_skip(struct thrift *thrift, enum thrift_type type);

#endif
