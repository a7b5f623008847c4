/* train/tables/arrow_batch.c - the arrays of a batch, and dictionaries (Message.fbs). */
#include "config.h"

#include <stdlib.h>

#include "train/tables/arrow.h"

/* Fields of the tables, in their order. */
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VIEW_COUNTS };
enum { DICTIONARY_BATCH_ID, DICTIONARY_BATCH_DATA, DICTIONARY_BATCH_IS_DELTA };

/* Buffers of a batch, taken in order. */
struct batch_reader {
    struct arrow *arrow;
    struct arena *arena;
    struct table_bytes body;
    struct flat_vector nodes, buffers, view_counts;
    size_t node, buffer, view_column;
    enum table_codec codec;
    bool is_dictionary;
};

static void free_all(uint8_t **list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        free(list[i]);
    *count = 0;
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
        return arrow_damaged(reader->arrow, err);
    entry = reader->buffers.buffer.data + reader->buffers.at + 16 * reader->buffer++;
    offset = table_uint(entry, 8);
    len = table_uint(entry + 8, 8);
    if (!table_has(reader->body, offset, len))
        return arrow_damaged(reader->arrow, err);
    *out = table_part(reader->body, (size_t)offset, (size_t)len);
    if (reader->codec == TABLE_RAW || len == 0)
        return true;
    if (len < 8)
        return arrow_damaged(reader->arrow, err);
    size = table_uint(out->data, 8);
    *out = table_part(*out, 8, (size_t)len - 8);
    if (size == UINT64_MAX) /* stored as it is, because packing it does not pay */
        return true;
    unpacked = table_unpack(&(struct table_packed) { reader->codec, *out, size },
                            reader->arrow->name, err);
    if (!unpacked)
        return false;
    keep(reader, unpacked);
    *out = (struct table_bytes) { unpacked, (size_t)size };
    return true;
}

/* Take the buffers with the bytes of views; the batch has their number. */
static bool take_view_buffers(struct batch_reader *reader, struct array *out,
                              struct error *err)
{
    const struct flat_vector *counts = &reader->view_counts;
    uint64_t count;

    if (reader->view_column >= counts->count)
        return arrow_damaged(reader->arrow, err);
    count = table_uint(counts->buffer.data + counts->at + 8 * reader->view_column++, 8);
    if (count > reader->buffers.count - reader->buffer)
        return arrow_damaged(reader->arrow, err);
    out->buffer_count = (size_t)count;
    out->buffers =
        arena_array(reader->arena, out->buffer_count + 1, sizeof(*out->buffers));
    for (size_t i = 0; i < out->buffer_count; i++)
        if (!take_buffer(reader, &out->buffers[i], err))
            return false;
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
    if (array->valid.len > 0 && !has_items(array->valid, array->length, 1))
        return false;
    switch (column->layout) {
    case LAYOUT_FIXED:
        return has_items(array->values, array->length, 8 * (uint64_t)column->width);
    case LAYOUT_BITS:
        return has_items(array->values, array->length, 1);
    case LAYOUT_VIEWS: /* each view is checked when it is read */
        return has_items(array->values, array->length, 8 * ARROW_VIEW_BYTES);
    case LAYOUT_BYTES:
        return check_offsets(array->offsets, array->length, column->offset_bytes,
                             array->values.len);
    case LAYOUT_LIST:
        return check_offsets(array->offsets, array->length, column->offset_bytes,
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
    bool has_views = column->layout == LAYOUT_VIEWS;
    bool has_values = column->layout == LAYOUT_FIXED || column->layout == LAYOUT_BITS ||
                      column->layout == LAYOUT_BYTES || has_views;
    bool has_offsets = column->layout == LAYOUT_BYTES || column->layout == LAYOUT_LIST;

    if (reader->node >= reader->nodes.count)
        return arrow_damaged(reader->arrow, err);
    node = reader->nodes.buffer.data + reader->nodes.at + 16 * reader->node++;
    out->length = (size_t)table_uint(node, 8);
    if (column->layout == LAYOUT_NONE)
        return true;
    return take_buffer(reader, &out->valid, err) &&
           (!has_offsets || take_buffer(reader, &out->offsets, err)) &&
           (!has_values || take_buffer(reader, &out->values, err)) &&
           (!has_views || take_view_buffers(reader, out, err)) &&
           read_children(reader, column, out, err) &&
           (check_array(column, out) || arrow_damaged(reader->arrow, err));
}

static bool open_batch(struct batch_reader *reader, struct flat_table batch,
                       struct error *err)
{
    struct flat_table compression = flat_child(batch, BATCH_COMPRESSION);
    int64_t codec = flat_int(compression, 0, 1, 0);

    reader->nodes = flat_list(batch, BATCH_NODES, 16);
    reader->buffers = flat_list(batch, BATCH_BUFFERS, 16);
    reader->view_counts = flat_list(batch, BATCH_VIEW_COUNTS, 8);
    if (compression.at == 0)
        reader->codec = TABLE_RAW;
    else if (codec == 0 || codec == 1)
        reader->codec = codec == 0 ? TABLE_LZ4_FRAME : TABLE_ZSTD;
    else
        return arrow_fail(reader->arrow, err,
                          "the compression of a batch is not supported");
    return true;
}

static struct column *find_dictionary(struct column *indexed, int64_t id)
{
    while (indexed && indexed->dictionary_id != id)
        indexed = indexed->next_indexed;
    return indexed;
}

bool arrow_dictionary_read(struct arrow *arrow, const struct message *message,
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
        return arrow_damaged(arrow, err);
    if (flat_int(header, DICTIONARY_BATCH_IS_DELTA, 1, 0))
        return arrow_fail(arrow, err,
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

bool arrow_batch_read(struct arrow *arrow, const struct message *message,
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
            return arrow_damaged(arrow, err);
    return arrow->column_count > 0 || arrow->rows == 0 || arrow_damaged(arrow, err);
}

void arrow_batch_clear(struct arrow *arrow)
{
    close_batch(arrow);
    free_all(arrow->kept, &arrow->kept_count);
    free(arrow->unpacked);
    free(arrow->kept);
}
