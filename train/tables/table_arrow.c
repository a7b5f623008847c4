/*
 * train/tables/table_arrow.c - rows of Arrow's IPC format: a stream of messages, or the
 * same stream inside a file (Feather version 2).
 *
 * Columns.rst of Arrow's documentation, "Arrow Columnar Format", defines the layout of
 * arrays and messages; Message.fbs and Schema.fbs the metadata.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "precision/format.h"
#include "train/tables/flatbuffer.h"
#include "train/tables/table_internal.h"

#define FILE_MAGIC  "ARROW1"
#define COLUMNS_MAX 4096
#define BLOCK_BYTES 24 /* position, length of the metadata, length of the body */

/* Fields of the tables, in their order. */
enum { MESSAGE_TYPE = 1, MESSAGE_HEADER, MESSAGE_BODY };
enum { FOOTER_SCHEMA = 1, FOOTER_DICTIONARIES, FOOTER_BATCHES };
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS };
enum {
    FIELD_NAME,
    FIELD_NULLABLE,
    FIELD_TYPE_ID,
    FIELD_TYPE,
    FIELD_DICTIONARY,
    FIELD_CHILDREN
};
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION };
enum { DICTIONARY_BATCH_ID, DICTIONARY_BATCH_DATA, DICTIONARY_BATCH_IS_DELTA };
enum { DICTIONARY_ID, DICTIONARY_INDEX };

enum message_type { MESSAGE_SCHEMA = 1, MESSAGE_DICTIONARY, MESSAGE_BATCH };

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
    LAYOUT_LIST,    /* validity, offsets; a child */
    LAYOUT_MEMBERS, /* validity; children */
    LAYOUT_SLICES,  /* validity; a child of a fixed number of elements */
};

static const struct {
    const char *name;
    enum layout layout;
    size_t offset_bytes; /* of offsets */
} types[ARROW_TYPES] = {
    [ARROW_NULL] = { "null", LAYOUT_NONE, 0 },
    [ARROW_INT] = { "int", LAYOUT_FIXED, 0 },
    [ARROW_FLOAT] = { "float", LAYOUT_FIXED, 0 },
    [ARROW_BINARY] = { "binary", LAYOUT_BYTES, 4 },
    [ARROW_UTF8] = { "utf8", LAYOUT_BYTES, 4 },
    [ARROW_BOOL] = { "bool", LAYOUT_BITS, 0 },
    [ARROW_DECIMAL] = { "decimal", LAYOUT_FIXED, 0 },
    [ARROW_DATE] = { "date", LAYOUT_FIXED, 0 },
    [ARROW_TIME] = { "time", LAYOUT_FIXED, 0 },
    [ARROW_TIMESTAMP] = { "timestamp", LAYOUT_FIXED, 0 },
    [ARROW_INTERVAL] = { "interval", LAYOUT_UNSUPPORTED, 0 },
    [ARROW_LIST] = { "list", LAYOUT_LIST, 4 },
    [ARROW_STRUCT] = { "struct", LAYOUT_MEMBERS, 0 },
    [ARROW_UNION] = { "union", LAYOUT_UNSUPPORTED, 0 },
    [ARROW_FIXED_BINARY] = { "fixed_size_binary", LAYOUT_FIXED, 0 },
    [ARROW_FIXED_LIST] = { "fixed_size_list", LAYOUT_SLICES, 0 },
    [ARROW_MAP] = { "map", LAYOUT_LIST, 4 },
    [ARROW_DURATION] = { "duration", LAYOUT_FIXED, 0 },
    [ARROW_LARGE_BINARY] = { "large_binary", LAYOUT_BYTES, 8 },
    [ARROW_LARGE_UTF8] = { "large_utf8", LAYOUT_BYTES, 8 },
    [ARROW_LARGE_LIST] = { "large_list", LAYOUT_LIST, 8 },
    [ARROW_RUN_END] = { "run_end_encoded", LAYOUT_UNSUPPORTED, 0 },
    [ARROW_BINARY_VIEW] = { "binary_view", LAYOUT_UNSUPPORTED, 0 },
    [ARROW_UTF8_VIEW] = { "string_view", LAYOUT_UNSUPPORTED, 0 },
};

/* The values of a column, or of a child, in a batch. */
struct array {
    size_t length;
    struct table_bytes valid, offsets, values; /* len 0: absent */
    struct array *children;
};

struct column {
    struct table_bytes name;
    enum arrow_type type; /* of the indexes, if has_dictionary; then values' type below */
    enum layout layout;
    size_t width;   /* bytes of a value; elements of LAYOUT_SLICES */
    bool is_signed; /* of integers */
    int64_t scale;  /* of decimal fractions */
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

/* Buffers of a batch, taken in order. */
struct batch_reader {
    struct arrow *arrow;
    struct arena *arena;
    struct table_bytes body;
    struct flat_vector nodes, buffers;
    size_t node, buffer;
    enum table_codec codec;
    bool is_dictionary;
};

static bool fail(const struct arrow *arrow, struct error *err, const char *why)
{
    return error_set(err, ERROR_DATA, "%s: %s", arrow->name, why);
}

static bool damaged(const struct arrow *arrow, struct error *err)
{
    return fail(arrow, err, "the Arrow file is damaged");
}

static void free_all(uint8_t **list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        free(list[i]);
    *count = 0;
}

static void arrow_close(void *state)
{
    struct arrow *arrow = state;

    free_all(arrow->unpacked, &arrow->unpacked_count);
    free_all(arrow->kept, &arrow->kept_count);
    free(arrow->unpacked);
    free(arrow->kept);
    arena_free(arrow->batch_arena);
    arena_free(arrow->arena);
    free(arrow);
}

/* Go to the next message that the footer of a file lists; false: there is none. */
static bool next_block(struct arrow *arrow)
{
    struct flat_vector *blocks = &arrow->blocks[0];

    if (blocks->count == 0)
        blocks = &arrow->blocks[1];
    if (blocks->count == 0)
        return false;
    arrow->at = (size_t)table_uint(blocks->buffer.data + blocks->at, 8);
    blocks->at += BLOCK_BYTES;
    blocks->count--;
    return true;
}

static bool take_size(struct arrow *arrow, uint64_t *size)
{
    if (!table_has(arrow->file, arrow->at, 4))
        return false;
    *size = table_uint(arrow->file.data + arrow->at, 4);
    arrow->at += 4;
    return true;
}

/* Read the next message; *found is false at the end of the stream. */
static bool next_message(struct arrow *arrow, struct message *message, bool *found,
                         struct error *err)
{
    uint64_t size, body;

    *found = false;
    if (arrow->is_file ? !next_block(arrow) : arrow->at == arrow->file.len)
        return true;
    /* UINT32_MAX is in front of the size since version 0.15 */
    if (!take_size(arrow, &size) || (size == UINT32_MAX && !take_size(arrow, &size)))
        return damaged(arrow, err);
    if (size == 0)
        return true;
    if (!table_has(arrow->file, arrow->at, size))
        return fail(arrow, err, "the Arrow file is truncated");
    message->metadata = flat_root(table_part(arrow->file, arrow->at, (size_t)size));
    arrow->at += (size_t)size;
    body = (uint64_t)flat_int(message->metadata, MESSAGE_BODY, 8, 0);
    if (!table_has(arrow->file, arrow->at, body))
        return fail(arrow, err, "the Arrow file is truncated");
    message->body = table_part(arrow->file, arrow->at, (size_t)body);
    arrow->at += (size_t)body;
    *found = true;
    return true;
}

/* The size of a value, or the number of elements of LAYOUT_SLICES. */
static size_t width_of(enum arrow_type type, struct flat_table details)
{
    static const size_t floats[] = { 2, 4, 8 };
    int64_t precision = flat_int(details, 0, 2, 0);

    switch (type) {
    case ARROW_INT:
        return (size_t)flat_int(details, 0, 4, 0) / 8;
    case ARROW_FLOAT:
        return precision >= 0 && precision < 3 ? floats[precision] : 0;
    case ARROW_DECIMAL:
        return (size_t)flat_int(details, 2, 4, 128) / 8;
    case ARROW_DATE:
        return flat_int(details, 0, 2, 1) == 0 ? 4 : 8;
    case ARROW_TIME:
        return (size_t)flat_int(details, 1, 4, 32) / 8;
    case ARROW_TIMESTAMP:
    case ARROW_DURATION:
        return 8;
    case ARROW_FIXED_BINARY:
    case ARROW_FIXED_LIST:
        return (size_t)(uint32_t)flat_int(details, 0, 4, 0);
    default:
        return 0;
    }
}

static bool refuse_type(const struct arrow *arrow, const struct column *column,
                        struct error *err)
{
    return error_set(err, ERROR_DATA,
                     "%s: column %.*s: Arrow's type %s is not supported; write the table "
                     "as Parquet",
                     arrow->name, (int)column->name.len, (const char *)column->name.data,
                     column->type < ARROW_TYPES && types[column->type].name
                         ? types[column->type].name
                         : "of a later version");
}

static bool check_width(const struct column *column)
{
    if (column->layout != LAYOUT_FIXED)
        return true;
    if (column->type == ARROW_INT)
        return column->width == 1 || column->width == 2 || column->width == 4 ||
               column->width == 8;
    return column->width > 0 || column->type == ARROW_FIXED_BINARY;
}

static bool read_field(struct arrow *arrow, struct flat_table field, struct column *out,
                       unsigned depth, struct error *err)
{
    struct flat_table dictionary = flat_child(field, FIELD_DICTIONARY);
    struct flat_table details = flat_child(field, FIELD_TYPE);
    struct flat_vector children = flat_list(field, FIELD_CHILDREN, 4);

    out->name = flat_string(field, FIELD_NAME);
    out->type = (enum arrow_type)(uint8_t)flat_int(field, FIELD_TYPE_ID, 1, 0);
    out->layout = out->type < ARROW_TYPES ? types[out->type].layout : LAYOUT_UNSUPPORTED;
    out->width = width_of(out->type, details);
    out->is_signed = flat_int(details, 1, 1, 0) != 0;
    out->scale = flat_int(details, 1, 4, 0);
    if (out->layout == LAYOUT_UNSUPPORTED)
        return refuse_type(arrow, out, err);
    if (depth > TABLE_DEPTH_MAX || ++arrow->field_count > COLUMNS_MAX ||
        !check_width(out))
        return damaged(arrow, err);
    out->child_count = children.count;
    out->children = arena_array(arrow->arena, children.count + 1, sizeof(*out->children));
    if ((out->layout == LAYOUT_LIST || out->layout == LAYOUT_SLICES) &&
        children.count != 1)
        return damaged(arrow, err);
    for (size_t i = 0; i < children.count; i++)
        if (!read_field(arrow, flat_element(children, i), &out->children[i], depth + 1,
                        err))
            return false;
    if (dictionary.at > 0) { /* the column is indexes of its values */
        struct flat_table index = flat_child(dictionary, DICTIONARY_INDEX);
        struct column *values = arena_array(arrow->arena, 1, sizeof(*values));

        *values = *out;
        *out =
            (struct column) { .name = values->name,
                              .type = ARROW_INT,
                              .layout = LAYOUT_FIXED,
                              .width = index.at ? width_of(ARROW_INT, index) : 4,
                              .is_signed = !index.at || flat_int(index, 1, 1, 0),
                              .has_dictionary = true,
                              .dictionary_id = flat_int(dictionary, DICTIONARY_ID, 8, 0),
                              .dictionary = values,
                              .next_indexed = arrow->indexed };
        arrow->indexed = out;
        return check_width(out) || damaged(arrow, err);
    }
    return true;
}

static bool read_schema(struct arrow *arrow, struct flat_table schema, struct error *err)
{
    struct flat_vector fields = flat_list(schema, SCHEMA_FIELDS, 4);

    if (flat_int(schema, SCHEMA_ENDIANNESS, 2, 0) != 0)
        return fail(arrow, err, "the Arrow file is big-endian");
    arrow->column_count = fields.count;
    arrow->columns = arena_array(arrow->arena, fields.count + 1, sizeof(*arrow->columns));
    for (size_t i = 0; i < fields.count; i++)
        if (!read_field(arrow, flat_element(fields, i), &arrow->columns[i], 0, err))
            return false;
    return true;
}

/* A file has its schema, and the positions of its messages, in a footer. */
static bool open_file(struct arrow *arrow, struct error *err)
{
    struct table_bytes file = arrow->file;
    struct flat_table footer;
    uint64_t size;

    if (file.len < 18 || memcmp(file.data + file.len - 6, FILE_MAGIC, 6) != 0)
        return fail(arrow, err,
                    "the Arrow file is truncated: its last bytes are missing");
    size = table_uint(file.data + file.len - 10, 4);
    if (size > file.len - 18)
        return damaged(arrow, err);
    footer = flat_root(table_part(file, file.len - 10 - (size_t)size, (size_t)size));
    arrow->is_file = true;
    arrow->blocks[0] = flat_list(footer, FOOTER_DICTIONARIES, BLOCK_BYTES);
    arrow->blocks[1] = flat_list(footer, FOOTER_BATCHES, BLOCK_BYTES);
    return read_schema(arrow, flat_child(footer, FOOTER_SCHEMA), err);
}

static bool open_stream(struct arrow *arrow, struct error *err)
{
    struct message message;
    bool found;

    if (!next_message(arrow, &message, &found, err))
        return false;
    if (!found || flat_int(message.metadata, MESSAGE_TYPE, 1, 0) != MESSAGE_SCHEMA)
        return fail(arrow, err, "the file is not an Arrow file");
    return read_schema(arrow, flat_child(message.metadata, MESSAGE_HEADER), err);
}

static bool starts(struct table_bytes file, const char *magic)
{
    return file.len >= strlen(magic) && memcmp(file.data, magic, strlen(magic)) == 0;
}

static void *arrow_open(const char *name, struct table_bytes file, struct error *err)
{
    struct arrow *arrow = memory_alloc(sizeof(*arrow));
    bool ok;

    *arrow = (struct arrow) { .name = name, .file = file, .arena = arena_new() };
    if (starts(file, "FEA1"))
        ok = fail(arrow, err,
                  "Feather version 1 is not supported; write the table as Parquet");
    else
        ok = starts(file, FILE_MAGIC) ? open_file(arrow, err) : open_stream(arrow, err);
    if (ok)
        return arrow;
    arrow_close(arrow);
    return NULL;
}

static void keep(struct batch_reader *reader, uint8_t *unpacked)
{
    struct arrow *arrow = reader->arrow;
    uint8_t ***list = reader->is_dictionary ? &arrow->kept : &arrow->unpacked;
    size_t *count = reader->is_dictionary ? &arrow->kept_count : &arrow->unpacked_count;

    *list = memory_resize(*list, *count + 1, sizeof(**list));
    (*list)[(*count)++] = unpacked;
}

/* Take the next buffer, unpacked. */
static bool take_buffer(struct batch_reader *reader, struct table_bytes *out,
                        struct error *err)
{
    const uint8_t *entry;
    uint64_t offset, len, size;
    uint8_t *unpacked;

    if (reader->buffer >= reader->buffers.count)
        return damaged(reader->arrow, err);
    entry = reader->buffers.buffer.data + reader->buffers.at + 16 * reader->buffer++;
    offset = table_uint(entry, 8);
    len = table_uint(entry + 8, 8);
    if (!table_has(reader->body, offset, len))
        return damaged(reader->arrow, err);
    *out = table_part(reader->body, (size_t)offset, (size_t)len);
    if (reader->codec == TABLE_RAW || len == 0)
        return true;
    if (len < 8)
        return damaged(reader->arrow, err);
    size = table_uint(out->data, 8);
    *out = table_part(*out, 8, (size_t)len - 8);
    if (size == UINT64_MAX) /* stored as it is, because packing it does not pay */
        return true;
    unpacked = table_unpack(reader->codec, *out, size, reader->arrow->name, err);
    if (!unpacked)
        return false;
    keep(reader, unpacked);
    *out = (struct table_bytes) { unpacked, (size_t)size };
    return true;
}

/* Check that a buffer has room for `count` items of `bits`. */
static bool has_items(struct table_bytes buffer, uint64_t count, uint64_t bits)
{
    return bits == 0 ||
           (count <= (UINT64_MAX - 7) / bits && (count * bits + 7) / 8 <= buffer.len);
}

/* Check that offsets do not decrease and stay within `limit`. */
static bool check_offsets(struct table_bytes offsets, size_t length, size_t bytes,
                          uint64_t limit)
{
    uint64_t last = 0;

    if (length == 0)
        return true;
    if (!has_items(offsets, (uint64_t)length + 1, 8 * bytes))
        return false;
    for (size_t i = 0; i <= length; i++) {
        uint64_t offset = table_uint(offsets.data + i * bytes, bytes);

        if (offset < last || offset > limit)
            return false;
        last = offset;
    }
    return true;
}

static bool read_array(struct batch_reader *reader, const struct column *column,
                       struct array *out, struct error *err);

static bool read_children(struct batch_reader *reader, const struct column *column,
                          struct array *out, struct error *err)
{
    out->children =
        arena_array(reader->arena, column->child_count + 1, sizeof(*out->children));
    for (size_t i = 0; i < column->child_count; i++)
        if (!read_array(reader, &column->children[i], &out->children[i], err))
            return false;
    return true;
}

/* Check the sizes that rows rely on. */
static bool check_array(const struct column *column, const struct array *array)
{
    size_t offset_bytes = types[column->type].offset_bytes;

    if (array->valid.len > 0 && !has_items(array->valid, array->length, 1))
        return false;
    switch (column->layout) {
    case LAYOUT_FIXED:
        return has_items(array->values, array->length, 8 * (uint64_t)column->width);
    case LAYOUT_BITS:
        return has_items(array->values, array->length, 1);
    case LAYOUT_BYTES:
        return check_offsets(array->offsets, array->length, offset_bytes,
                             array->values.len);
    case LAYOUT_LIST:
        return check_offsets(array->offsets, array->length, offset_bytes,
                             array->children[0].length);
    case LAYOUT_SLICES:
        return column->width == 0 ||
               array->length <= array->children[0].length / column->width;
    case LAYOUT_MEMBERS:
        for (size_t i = 0; i < column->child_count; i++)
            if (array->children[i].length < array->length)
                return false;
        return true;
    default:
        return true;
    }
}

static bool read_array(struct batch_reader *reader, const struct column *column,
                       struct array *out, struct error *err)
{
    const uint8_t *node;
    bool has_values = column->layout == LAYOUT_FIXED || column->layout == LAYOUT_BITS ||
                      column->layout == LAYOUT_BYTES;
    bool has_offsets = column->layout == LAYOUT_BYTES || column->layout == LAYOUT_LIST;

    if (reader->node >= reader->nodes.count)
        return damaged(reader->arrow, err);
    node = reader->nodes.buffer.data + reader->nodes.at + 16 * reader->node++;
    out->length = (size_t)table_uint(node, 8);
    if (column->layout == LAYOUT_NONE)
        return true;
    return take_buffer(reader, &out->valid, err) &&
           (!has_offsets || take_buffer(reader, &out->offsets, err)) &&
           (!has_values || take_buffer(reader, &out->values, err)) &&
           read_children(reader, column, out, err) &&
           (check_array(column, out) || damaged(reader->arrow, err));
}

static bool open_batch(struct batch_reader *reader, struct flat_table batch,
                       struct error *err)
{
    struct flat_table compression = flat_child(batch, BATCH_COMPRESSION);
    int64_t codec = flat_int(compression, 0, 1, 0);

    reader->nodes = flat_list(batch, BATCH_NODES, 16);
    reader->buffers = flat_list(batch, BATCH_BUFFERS, 16);
    if (compression.at == 0)
        reader->codec = TABLE_RAW;
    else if (codec == 0 || codec == 1)
        reader->codec = codec == 0 ? TABLE_LZ4_FRAME : TABLE_ZSTD;
    else
        return fail(reader->arrow, err, "the compression of a batch is not supported");
    return true;
}

static struct column *find_dictionary(struct column *indexed, int64_t id)
{
    while (indexed && indexed->dictionary_id != id)
        indexed = indexed->next_indexed;
    return indexed;
}

static bool read_dictionary(struct arrow *arrow, const struct message *message,
                            struct error *err)
{
    struct flat_table header = flat_child(message->metadata, MESSAGE_HEADER);
    int64_t id = flat_int(header, DICTIONARY_BATCH_ID, 8, 0);
    struct column *column = find_dictionary(arrow->indexed, id);
    struct column *values = column ? column->dictionary : NULL;
    struct batch_reader reader = { .arrow = arrow,
                                   .arena = arrow->arena,
                                   .body = message->body,
                                   .is_dictionary = true };
    struct array *entries = arena_array(arrow->arena, 1, sizeof(*entries));

    if (!values)
        return damaged(arrow, err);
    if (flat_int(header, DICTIONARY_BATCH_IS_DELTA, 1, 0))
        return fail(arrow, err,
                    "dictionaries that grow are not supported; write the "
                    "table as Parquet");
    if (!open_batch(&reader, flat_child(header, DICTIONARY_BATCH_DATA), err) ||
        !read_array(&reader, values, entries, err))
        return false;
    /* columns can share a dictionary; its entries have the type that read them */
    for (; column; column = find_dictionary(column->next_indexed, id)) {
        column->dictionary = values;
        column->entries = entries;
    }
    return true;
}

static void close_batch(struct arrow *arrow)
{
    free_all(arrow->unpacked, &arrow->unpacked_count);
    arena_free(arrow->batch_arena);
    arrow->batch_arena = NULL;
}

static bool read_batch(struct arrow *arrow, const struct message *message,
                       struct error *err)
{
    struct flat_table header = flat_child(message->metadata, MESSAGE_HEADER);
    struct batch_reader reader = { .arrow = arrow, .body = message->body };
    int64_t rows = flat_int(header, BATCH_LENGTH, 8, 0);

    close_batch(arrow);
    reader.arena = arrow->batch_arena = arena_new();
    arrow->batch =
        arena_array(reader.arena, arrow->column_count + 1, sizeof(*arrow->batch));
    arrow->row = 0;
    arrow->rows = rows > 0 ? (size_t)rows : 0;
    if (!open_batch(&reader, header, err))
        return false;
    for (size_t i = 0; i < arrow->column_count; i++)
        if (!read_array(&reader, &arrow->columns[i], &arrow->batch[i], err))
            return false;
    for (size_t i = 0; i < arrow->column_count; i++)
        if (arrow->batch[i].length != arrow->rows)
            return damaged(arrow, err);
    return arrow->column_count > 0 || arrow->rows == 0 || damaged(arrow, err);
}

/* Read messages up to the next batch with rows; *found is false at the end. */
static bool next_batch(struct arrow *arrow, bool *found, struct error *err)
{
    struct message message;
    int64_t type;
    bool ok = true;

    while (ok && (ok = next_message(arrow, &message, found, err)) && *found) {
        type = flat_int(message.metadata, MESSAGE_TYPE, 1, 0);
        if (type == MESSAGE_DICTIONARY)
            ok = read_dictionary(arrow, &message, err);
        else if (type == MESSAGE_BATCH)
            ok = read_batch(arrow, &message, err);
        if (ok && type == MESSAGE_BATCH && arrow->rows > 0)
            return true;
    }
    return ok;
}

/* A value of LAYOUT_FIXED. */
static void add_fixed(const struct column *column, const uint8_t *data, struct text *out)
{
    uint64_t bits = column->width <= 8 ? table_uint(data, column->width) : 0;
    uint64_t sign = column->width <= 8 && column->width > 0
                        ? UINT64_C(1) << (8 * column->width - 1)
                        : 0;
    double real;
    float single;

    if (column->type == ARROW_DECIMAL) {
        table_add_decimal(out, (struct table_bytes) { data, column->width }, false,
                          column->scale);
    } else if (column->type == ARROW_FLOAT && column->width == 2) {
        table_add_real(out, format_from_fp16((uint16_t)bits));
    } else if (column->type == ARROW_FLOAT && column->width == 4) {
        memcpy(&single, data, sizeof(single));
        table_add_real(out, single);
    } else if (column->type == ARROW_FLOAT && column->width == 8) {
        memcpy(&real, data, sizeof(real));
        table_add_real(out, real);
    } else if (column->type == ARROW_FIXED_BINARY) {
        table_add_string(out, (const char *)data, column->width);
    } else if (column->type == ARROW_INT && !column->is_signed) {
        table_add_unsigned(out, bits);
    } else {
        text_addf(out, "%lld", (long long)((bits ^ sign) - sign));
    }
}

static bool is_valid(const struct array *array, size_t index)
{
    return array->valid.len == 0 || array->valid.data[index / 8] >> index % 8 & 1;
}

static bool add_element(struct arrow *arrow, const struct column *column,
                        const struct array *array, size_t index, struct text *out,
                        struct error *err);

/* Elements [from, to) of a child as a list. */
static bool add_elements(struct arrow *arrow, const struct column *column,
                         const struct array *array, uint64_t from, uint64_t to,
                         struct text *out, struct error *err)
{
    text_addc(out, '[');
    for (uint64_t i = from; i < to; i++) {
        if (i > from)
            text_adds(out, ", ");
        if (!add_element(arrow, column, array, (size_t)i, out, err))
            return false;
    }
    return text_addc(out, ']') || fail(arrow, err, "a row is too long");
}

static bool add_members(struct arrow *arrow, const struct column *columns,
                        const struct array *arrays, size_t count, size_t index,
                        struct text *out, struct error *err)
{
    text_addc(out, '{');
    for (size_t i = 0; i < count; i++) {
        table_add_name(out, i, (const char *)columns[i].name.data, columns[i].name.len);
        if (!add_element(arrow, &columns[i], &arrays[i], index, out, err))
            return false;
    }
    return text_addc(out, '}') || fail(arrow, err, "a row is too long");
}

/* The entry of a dictionary that an index names. */
static bool add_entry(struct arrow *arrow, const struct column *column,
                      const uint8_t *data, struct text *out, struct error *err)
{
    uint64_t index = table_uint(data, column->width);

    if (!column->entries || index >= column->entries->length)
        return damaged(arrow, err);
    return add_element(arrow, column->dictionary, column->entries, (size_t)index, out,
                       err);
}

static bool add_element(struct arrow *arrow, const struct column *column,
                        const struct array *array, size_t index, struct text *out,
                        struct error *err)
{
    size_t bytes = types[column->type].offset_bytes;
    uint64_t from = 0, to = 0;

    if (column->layout == LAYOUT_NONE || !is_valid(array, index))
        return text_adds(out, "null") || fail(arrow, err, "a row is too long");
    if (bytes > 0) {
        from = table_uint(array->offsets.data + index * bytes, bytes);
        to = table_uint(array->offsets.data + (index + 1) * bytes, bytes);
    }
    switch (column->layout) {
    case LAYOUT_FIXED:
        if (column->has_dictionary)
            return add_entry(arrow, column, array->values.data + index * column->width,
                             out, err);
        add_fixed(column, array->values.data + index * column->width, out);
        return true;
    case LAYOUT_BITS:
        return text_adds(out, array->values.data[index / 8] >> index % 8 & 1 ? "true"
                                                                             : "false");
    case LAYOUT_BYTES:
        table_add_string(out, (const char *)array->values.data + from,
                         (size_t)(to - from));
        return true;
    case LAYOUT_LIST:
        return add_elements(arrow, column->children, array->children, from, to, out, err);
    case LAYOUT_SLICES:
        return add_elements(arrow, column->children, array->children,
                            index * column->width, (index + 1) * column->width, out, err);
    default:
        return add_members(arrow, column->children, array->children, column->child_count,
                           index, out, err);
    }
}

static bool arrow_next(void *state, struct text *row, uint32_t *position,
                       struct error *err)
{
    struct arrow *arrow = state;
    bool found = true;

    if (arrow->row == arrow->rows && (!next_batch(arrow, &found, err) || !found))
        return false;
    *position = ++arrow->number;
    return add_members(arrow, arrow->columns, arrow->batch, arrow->column_count,
                       arrow->row++, row, err);
}

const struct table_format table_arrow = { ".arrow", arrow_open, arrow_next, arrow_close };
