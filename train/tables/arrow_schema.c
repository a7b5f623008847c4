/* train/tables/arrow_schema.c - the columns of an Arrow file (Schema.fbs). */
#include "config.h"

#include "train/tables/arrow.h"

#define COLUMNS_MAX 4096

/* Fields of the tables, in their order. */
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS };
enum {
    FIELD_NAME,
    FIELD_NULLABLE,
    FIELD_TYPE_ID,
    FIELD_TYPE,
    FIELD_DICTIONARY,
    FIELD_CHILDREN
};
enum { DICTIONARY_ID, DICTIONARY_INDEX };

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
    [ARROW_BINARY_VIEW] = { "binary_view", LAYOUT_VIEWS, 0 },
    [ARROW_UTF8_VIEW] = { "string_view", LAYOUT_VIEWS, 0 },
};

bool arrow_fail(const struct arrow *arrow, struct error *err, const char *why)
{
    return error_set(err, ERROR_DATA, "%s: %s", arrow->name, why);
}

bool arrow_damaged(const struct arrow *arrow, struct error *err)
{
    return arrow_fail(arrow, err, "the Arrow file is damaged");
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
                       struct error *err)
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
    out->offset_bytes = out->layout ? types[out->type].offset_bytes : 0;
    if (out->layout == LAYOUT_UNSUPPORTED)
        return refuse_type(arrow, out, err);
    if (arrow->depth > TABLE_DEPTH_MAX || ++arrow->field_count > COLUMNS_MAX ||
        !check_width(out))
        return arrow_damaged(arrow, err);
    out->child_count = children.count;
    out->children = arena_array(arrow->arena, children.count + 1, sizeof(*out->children));
    if ((out->layout == LAYOUT_LIST || out->layout == LAYOUT_SLICES) &&
        children.count != 1)
        return arrow_damaged(arrow, err);
    arrow->depth++;
    for (size_t i = 0; i < children.count; i++)
        if (!read_field(arrow, flat_element(children, i), &out->children[i], err))
            return false;
    arrow->depth--;
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
        return check_width(out) || arrow_damaged(arrow, err);
    }
    return true;
}

bool arrow_schema_read(struct arrow *arrow, struct flat_table schema, struct error *err)
{
    struct flat_vector fields = flat_list(schema, SCHEMA_FIELDS, 4);

    if (flat_int(schema, SCHEMA_ENDIANNESS, 2, 0) != 0)
        return arrow_fail(arrow, err, "the Arrow file is big-endian");
    arrow->column_count = fields.count;
    arrow->columns = arena_array(arrow->arena, fields.count + 1, sizeof(*arrow->columns));
    for (size_t i = 0; i < fields.count; i++)
        if (!read_field(arrow, flat_element(fields, i), &arrow->columns[i], err))
            return false;
    return true;
}
