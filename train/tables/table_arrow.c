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

#include "precision/format.h"
#include "train/tables/arrow.h"

#define FILE_MAGIC  "ARROW1"
#define BLOCK_BYTES 24 /* position, length of the metadata, length of the body */

/* Fields of the tables, in their order. */
enum { FOOTER_SCHEMA = 1, FOOTER_DICTIONARIES, FOOTER_BATCHES };

enum message_type { MESSAGE_SCHEMA = 1, MESSAGE_DICTIONARY, MESSAGE_BATCH };

static void arrow_close(void *state)
{
    struct arrow *arrow = state;

    arrow_batch_clear(arrow);
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
        return arrow_damaged(arrow, err);
    if (size == 0)
        return true;
    if (!table_has(arrow->file, arrow->at, size))
        return arrow_fail(arrow, err, "the Arrow file is truncated");
    message->metadata = flat_root(table_part(arrow->file, arrow->at, (size_t)size));
    arrow->at += (size_t)size;
    body = (uint64_t)flat_int(message->metadata, MESSAGE_BODY, 8, 0);
    if (!table_has(arrow->file, arrow->at, body))
        return arrow_fail(arrow, err, "the Arrow file is truncated");
    message->body = table_part(arrow->file, arrow->at, (size_t)body);
    arrow->at += (size_t)body;
    *found = true;
    return true;
}

/* A file has its schema, and the positions of its messages, in a footer. */
static bool open_file(struct arrow *arrow, struct error *err)
{
    struct table_bytes file = arrow->file;
    struct flat_table footer;
    uint64_t size;

    if (file.len < 18 || memcmp(file.data + file.len - 6, FILE_MAGIC, 6) != 0)
        return arrow_fail(arrow, err,
                          "the Arrow file is truncated: its last bytes are missing");
    size = table_uint(file.data + file.len - 10, 4);
    if (size > file.len - 18)
        return arrow_damaged(arrow, err);
    footer = flat_root(table_part(file, file.len - 10 - (size_t)size, (size_t)size));
    arrow->is_file = true;
    arrow->blocks[0] = flat_list(footer, FOOTER_DICTIONARIES, BLOCK_BYTES);
    arrow->blocks[1] = flat_list(footer, FOOTER_BATCHES, BLOCK_BYTES);
    return arrow_schema_read(arrow, flat_child(footer, FOOTER_SCHEMA), err);
}

static bool open_stream(struct arrow *arrow, struct error *err)
{
    struct message message;
    bool found;

    if (!next_message(arrow, &message, &found, err))
        return false;
    if (!found || flat_int(message.metadata, MESSAGE_TYPE, 1, 0) != MESSAGE_SCHEMA)
        return arrow_fail(arrow, err, "the file is not an Arrow file");
    return arrow_schema_read(arrow, flat_child(message.metadata, MESSAGE_HEADER), err);
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
        ok = arrow_fail(arrow, err,
                        "Feather version 1 is not supported; write the table as Parquet");
    else
        ok = starts(file, FILE_MAGIC) ? open_file(arrow, err) : open_stream(arrow, err);
    if (ok)
        return arrow;
    arrow_close(arrow);
    return NULL;
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
            ok = arrow_dictionary_read(arrow, &message, err);
        else if (type == MESSAGE_BATCH)
            ok = arrow_batch_read(arrow, &message, err);
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

/* Where the values of a row go. */
struct writer {
    struct arrow *arrow;
    struct text *out;
    struct error *err;
};

/* Columns of a batch, or members of a struct. */
struct members {
    const struct column *columns;
    const struct array *arrays;
    size_t count;
};

/* Elements from `from` to before `to`. */
struct range {
    uint64_t from, to;
};

static bool add_element(const struct writer *writer, const struct column *column,
                        const struct array *array, size_t index);

static bool finish(const struct writer *writer, bool fits)
{
    return fits || arrow_fail(writer->arrow, writer->err, "a row is too long");
}

static bool add_elements(const struct writer *writer, const struct column *column,
                         const struct array *array, struct range range)
{
    text_addc(writer->out, '[');
    for (uint64_t i = range.from; i < range.to; i++) {
        if (i > range.from)
            text_adds(writer->out, ", ");
        if (!add_element(writer, column, array, (size_t)i))
            return false;
    }
    return finish(writer, text_addc(writer->out, ']'));
}

static bool add_members(const struct writer *writer, const struct members *members,
                        size_t index)
{
    text_addc(writer->out, '{');
    for (size_t i = 0; i < members->count; i++) {
        const struct column *column = &members->columns[i];

        table_add_name(writer->out, i, (const char *)column->name.data, column->name.len);
        if (!add_element(writer, column, &members->arrays[i], index))
            return false;
    }
    return finish(writer, text_addc(writer->out, '}'));
}

/* The entry of a dictionary that an index names. */
static bool add_entry(const struct writer *writer, const struct column *column,
                      const uint8_t *data)
{
    uint64_t index = table_uint(data, column->width);

    if (!column->entries || index >= column->entries->length)
        return arrow_damaged(writer->arrow, writer->err);
    return add_element(writer, column->dictionary, column->entries, (size_t)index);
}

static bool add_view(const struct writer *writer, const struct array *array,
                     const uint8_t *view)
{
    uint64_t len = table_uint(view, 4), buffer = table_uint(view + 8, 4);
    uint64_t at = table_uint(view + 12, 4);
    const uint8_t *data = view + 4;

    if (len > ARROW_VIEW_INLINE) {
        if (buffer >= array->buffer_count || !table_has(array->buffers[buffer], at, len))
            return arrow_damaged(writer->arrow, writer->err);
        data = array->buffers[buffer].data + at;
    }
    table_add_string(writer->out, (const char *)data, (size_t)len);
    return true;
}

/* The offsets of a value of LAYOUT_BYTES or LAYOUT_LIST. */
static struct range offsets_of(const struct column *column, const struct array *array,
                               size_t index)
{
    size_t bytes = column->offset_bytes;

    return (
        struct range) { table_uint(array->offsets.data + index * bytes, bytes),
                        table_uint(array->offsets.data + (index + 1) * bytes, bytes) };
}

static bool add_element(const struct writer *writer, const struct column *column,
                        const struct array *array, size_t index)
{
    struct text *out = writer->out;
    struct range range = { index * column->width, (index + 1) * column->width };

    if (column->layout == LAYOUT_NONE || !is_valid(array, index))
        return finish(writer, text_adds(out, "null"));
    if (column->offset_bytes > 0)
        range = offsets_of(column, array, index);
    switch (column->layout) {
    case LAYOUT_FIXED:
        if (column->has_dictionary)
            return add_entry(writer, column, array->values.data + range.from);
        add_fixed(column, array->values.data + range.from, out);
        return true;
    case LAYOUT_BITS:
        return text_adds(out, array->values.data[index / 8] >> index % 8 & 1 ? "true"
                                                                             : "false");
    case LAYOUT_BYTES:
        table_add_string(out, (const char *)array->values.data + range.from,
                         (size_t)(range.to - range.from));
        return true;
    case LAYOUT_VIEWS:
        return add_view(writer, array, array->values.data + ARROW_VIEW_BYTES * index);
    case LAYOUT_LIST:
    case LAYOUT_SLICES:
        return add_elements(writer, column->children, array->children, range);
    default:
        return add_members(
            writer,
            &(struct members) { column->children, array->children, column->child_count },
            index);
    }
}

static bool arrow_next(void *state, struct text *row, uint32_t *position,
                       struct error *err)
{
    struct arrow *arrow = state;
    const struct writer writer = { arrow, row, err };
    bool found = true;

    if (arrow->row == arrow->rows && (!next_batch(arrow, &found, err) || !found))
        return false;
    *position = ++arrow->number;
    return add_members(
        &writer, &(struct members) { arrow->columns, arrow->batch, arrow->column_count },
        arrow->row++);
}

const struct table_format table_arrow = { ".arrow", arrow_open, arrow_next, arrow_close };
