/* train/tables/parquet_footer.c - the schema and the positions of the columns
 * (parquet-format, src/main/thrift/parquet.thrift). */
#include "config.h"

#include <string.h>

#include "train/tables/parquet.h"
#include "train/tables/thrift.h"

#define MAGIC       "PAR1"
#define COLUMNS_MAX 4096

/* Converted types and members of LogicalType. */
enum { CONVERTED_MAP = 1, CONVERTED_MAP_KEY_VALUE = 2, CONVERTED_LIST = 3 };
enum { CONVERTED_DECIMAL = 5, CONVERTED_UINT_8 = 11, CONVERTED_UINT_64 = 14 };
enum { LOGICAL_MAP = 2, LOGICAL_LIST = 3, LOGICAL_DECIMAL = 5 };
enum { LOGICAL_INTEGER = 10, LOGICAL_FLOAT16 = 15 };

struct reading {
    const char *name;
    struct thrift thrift;
    struct arena *arena;
    struct parquet_footer *out;
    struct parquet_node *nodes; /* in the order of the file */
    size_t count, used;
};

static bool fail(const struct reading *reading, struct error *err, const char *why)
{
    return error_set(err, ERROR_DATA, "%s: %s", reading->name, why);
}

static void read_integer_type(struct reading *reading, struct parquet_node *node)
{
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(&reading->thrift, &id)).type != THRIFT_STOP) {
        if (id == 2)
            node->is_unsigned = !thrift_int(&reading->thrift, field.type);
        else
            thrift_skip(&reading->thrift, field.type);
    }
}

static void read_decimal_type(struct reading *reading, struct parquet_node *node)
{
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(&reading->thrift, &id)).type != THRIFT_STOP) {
        if (id == 1)
            node->scale = thrift_int(&reading->thrift, field.type);
        else
            thrift_skip(&reading->thrift, field.type);
    }
}

static void read_logical_type(struct reading *reading, struct parquet_node *node)
{
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(&reading->thrift, &id)).type != THRIFT_STOP) {
        node->is_list |= id == LOGICAL_LIST;
        node->is_map |= id == LOGICAL_MAP;
        node->is_half |= id == LOGICAL_FLOAT16;
        node->is_decimal |= id == LOGICAL_DECIMAL;
        if (id == LOGICAL_INTEGER && field.type == THRIFT_STRUCT)
            read_integer_type(reading, node);
        else if (id == LOGICAL_DECIMAL && field.type == THRIFT_STRUCT)
            read_decimal_type(reading, node);
        else
            thrift_skip(&reading->thrift, field.type);
    }
}

static void set_converted_type(struct parquet_node *node, int64_t type)
{
    node->is_list |= type == CONVERTED_LIST;
    node->is_map |= type == CONVERTED_MAP || type == CONVERTED_MAP_KEY_VALUE;
    node->is_decimal |= type == CONVERTED_DECIMAL;
    node->is_unsigned |= type >= CONVERTED_UINT_8 && type <= CONVERTED_UINT_64;
}

static void read_schema_element(struct reading *reading, struct parquet_node *node)
{
    struct thrift *thrift = &reading->thrift;
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(thrift, &id)).type != THRIFT_STOP) {
        if (id == 4 && field.type == THRIFT_BINARY)
            node->name = thrift_binary(thrift);
        else if (id == 1)
            node->type = (enum parquet_type)thrift_int(thrift, field.type);
        else if (id == 2)
            node->type_length = (size_t)thrift_int(thrift, field.type);
        else if (id == 3)
            node->repetition = (enum parquet_repetition)thrift_int(thrift, field.type);
        else if (id == 5)
            node->children = (size_t)thrift_int(thrift, field.type);
        else if (id == 6)
            set_converted_type(node, thrift_int(thrift, field.type));
        else if (id == 7)
            node->scale = thrift_int(thrift, field.type);
        else if (id == 10 && field.type == THRIFT_STRUCT)
            read_logical_type(reading, node);
        else
            thrift_skip(thrift, field.type);
    }
}

static void read_schema(struct reading *reading)
{
    enum thrift_type type;

    reading->count = thrift_list(&reading->thrift, &type);
    if (type != THRIFT_STRUCT || reading->nodes)
        reading->thrift.bad = true;
    reading->nodes =
        arena_array(reading->arena, reading->count + 1, sizeof(*reading->nodes));
    for (size_t i = 0; i < reading->count && !reading->thrift.bad; i++)
        read_schema_element(reading, &reading->nodes[i]);
}

static void read_chunk_metadata(struct reading *reading, struct parquet_chunk *chunk)
{
    struct thrift *thrift = &reading->thrift;
    struct thrift_field field;
    int64_t id = 0, dictionary = 0;

    while ((field = thrift_next(thrift, &id)).type != THRIFT_STOP) {
        int64_t *into = id == 4    ? &chunk->codec
                        : id == 5  ? &chunk->values
                        : id == 7  ? &chunk->bytes
                        : id == 9  ? &chunk->start
                        : id == 11 ? &dictionary
                                   : NULL;

        if (into)
            *into = thrift_int(thrift, field.type);
        else
            thrift_skip(thrift, field.type);
    }
    if (dictionary > 0 && dictionary < chunk->start)
        chunk->start = dictionary;
}

static void read_chunk(struct reading *reading, struct parquet_chunk *chunk)
{
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(&reading->thrift, &id)).type != THRIFT_STOP) {
        if (id == 3 && field.type == THRIFT_STRUCT)
            read_chunk_metadata(reading, chunk);
        else if (id == 1) /* file_path: the column is in another file */
            reading->thrift.bad = true;
        else
            thrift_skip(&reading->thrift, field.type);
    }
}

static void read_group(struct reading *reading, struct parquet_group *group)
{
    struct thrift *thrift = &reading->thrift;
    struct parquet_footer *out = reading->out;
    struct thrift_field field;
    enum thrift_type type;
    int64_t id = 0;
    size_t count = 0;

    group->chunks =
        arena_array(reading->arena, out->column_count + 1, sizeof(*group->chunks));
    while ((field = thrift_next(thrift, &id)).type != THRIFT_STOP) {
        if (id == 1 && field.type == THRIFT_LIST) {
            count = thrift_list(thrift, &type);
            for (size_t i = 0; i < count && i < out->column_count && !thrift->bad; i++)
                read_chunk(reading, &group->chunks[i]);
        } else if (id == 3) {
            group->rows = thrift_int(thrift, field.type);
        } else {
            thrift_skip(thrift, field.type);
        }
    }
    if (count != out->column_count)
        thrift->bad = true;
}

static void read_groups(struct reading *reading)
{
    struct parquet_footer *out = reading->out;
    enum thrift_type type;

    out->group_count = thrift_list(&reading->thrift, &type);
    out->groups = arena_array(reading->arena, out->group_count + 1, sizeof(*out->groups));
    for (size_t i = 0; i < out->group_count && !reading->thrift.bad; i++)
        read_group(reading, &out->groups[i]);
}

/* Link a node with its children, which follow it in the file. */
static bool link_node(struct reading *reading, const struct parquet_node *parent,
                      struct parquet_node *node, unsigned depth)
{
    struct parquet_footer *out = reading->out;
    struct parquet_node **next = &node->first;

    if (depth > TABLE_DEPTH_MAX || node->children > reading->count - reading->used ||
        node->repetition > PARQUET_REPEATED || node->type > PARQUET_FIXED)
        return false;
    node->max_definition =
        (parent ? parent->max_definition + (node->repetition != PARQUET_REQUIRED) : 0);
    node->max_repetition =
        (parent ? parent->max_repetition + (node->repetition == PARQUET_REPEATED) : 0);
    if (node->children == 0) {
        if (out->column_count == COLUMNS_MAX || !parent)
            return false;
        node->column = out->column_count;
        out->columns[out->column_count++] = node;
    }
    for (size_t i = 0; i < node->children; i++) {
        struct parquet_node *child = &reading->nodes[reading->used++];

        *next = child;
        next = &child->next;
        if (!link_node(reading, node, child, depth + 1))
            return false;
    }
    return true;
}

static bool link_schema(struct reading *reading)
{
    struct parquet_footer *out = reading->out;

    if (reading->count < 2 || out->root)
        return false;
    out->columns = arena_array(reading->arena, COLUMNS_MAX, sizeof(*out->columns));
    out->root = reading->nodes;
    reading->used = 1;
    return link_node(reading, NULL, out->root, 0) && reading->used == reading->count &&
           out->column_count > 0;
}

static bool read_footer(struct reading *reading)
{
    struct thrift *thrift = &reading->thrift;
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(thrift, &id)).type != THRIFT_STOP) {
        if (id == 2 && field.type == THRIFT_LIST) {
            read_schema(reading);
            if (thrift->bad || !link_schema(reading))
                return false;
        } else if (id == 4 && field.type == THRIFT_LIST && reading->out->root) {
            read_groups(reading);
        } else {
            thrift_skip(thrift, field.type);
        }
    }
    return !thrift->bad && reading->out->root;
}

bool parquet_footer_read(const char *name, struct table_bytes file,
                         struct parquet_footer *out, struct error *err)
{
    struct reading reading = { .name = name, .arena = out->arena, .out = out };
    uint64_t len;

    *out = (struct parquet_footer) { .arena = out->arena };
    if (file.len < 12 || memcmp(file.data, MAGIC, 4) != 0)
        return fail(&reading, err, "the file is not a Parquet file");
    if (memcmp(file.data + file.len - 4, "PARE", 4) == 0)
        return fail(&reading, err, "the Parquet file is encrypted");
    if (memcmp(file.data + file.len - 4, MAGIC, 4) != 0)
        return fail(&reading, err,
                    "the Parquet file is truncated: its last bytes are missing");
    len = table_uint(file.data + file.len - 8, 4);
    if (len > file.len - 12)
        return fail(&reading, err,
                    "the Parquet file is damaged: its footer does not fit");
    reading.thrift.bytes = table_part(file, file.len - 8 - (size_t)len, (size_t)len);
    return read_footer(&reading) ||
           fail(&reading, err, "the Parquet file is damaged: its footer cannot be read");
}
