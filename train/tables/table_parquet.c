/*
 * train/tables/table_parquet.c - rows of a Parquet file.
 *
 * A column stores, for each value, at which level of its path it repeats and down to
 * which level it is defined (Melnik et al., "Dremel", 2010, section 4).  A row is
 * assembled by walking the schema and asking the columns for their next entries.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "precision/format.h"
#include "train/tables/parquet.h"

struct parquet {
    const char *name;
    struct table_bytes file;
    struct arena *arena;
    struct parquet_footer footer;
    size_t group;                    /* the next one */
    int64_t rows;                    /* left in the present one */
    uint32_t row;                    /* the last one, from 1 */
    struct parquet_column **columns; /* of the present group */
};

static void close_columns(struct parquet *parquet)
{
    for (size_t i = 0; i < parquet->footer.column_count; i++) {
        parquet_column_close(parquet->columns[i]);
        parquet->columns[i] = NULL;
    }
}

static void parquet_close(void *state)
{
    struct parquet *parquet = state;

    if (parquet->columns)
        close_columns(parquet);
    arena_free(parquet->arena);
    free(parquet);
}

static void *parquet_open(const char *name, struct table_bytes file, struct error *err)
{
    struct parquet *parquet = memory_alloc(sizeof(*parquet));

    *parquet = (struct parquet) { .name = name, .file = file, .arena = arena_new() };
    parquet->footer.arena = parquet->arena;
    if (parquet_footer_read(name, file, &parquet->footer, err)) {
        parquet->columns = arena_array(parquet->arena, parquet->footer.column_count,
                                       sizeof(*parquet->columns));
        return parquet;
    }
    parquet_close(parquet);
    return NULL;
}

/* Decimal fractions and fp16, which are kinds of other types; false: the value is not
 * one of them. */
static bool add_logical(const struct parquet_node *node, struct table_bytes value,
                        struct text *out)
{
    bool big_endian = node->type == PARQUET_FIXED || node->type == PARQUET_BYTE_ARRAY;

    if (node->is_decimal)
        table_add_decimal(out, value, big_endian, node->scale);
    else if (node->is_half && value.len == 2)
        table_add_real(out, format_from_fp16((uint16_t)table_uint(value.data, 2)));
    else
        return false;
    return true;
}

/* An integer, a real number, or bytes. */
static void add_value(const struct parquet_node *node, struct table_bytes value,
                      struct text *out)
{
    uint64_t bits = value.len <= 8 ? table_uint(value.data, value.len) : 0;
    double real;
    float single;

    if (add_logical(node, value, out))
        return;
    switch (node->type) {
    case PARQUET_BOOLEAN:
        text_adds(out, bits ? "true" : "false");
        break;
    case PARQUET_INT32:
        if (node->is_unsigned)
            text_addf(out, "%u", (uint32_t)bits);
        else
            text_addf(out, "%d", (int32_t)bits);
        break;
    case PARQUET_INT64:
        if (node->is_unsigned)
            table_add_unsigned(out, bits);
        else
            text_addf(out, "%lld", (long long)bits);
        break;
    case PARQUET_FLOAT:
        memcpy(&single, value.data, sizeof(single));
        table_add_real(out, single);
        break;
    case PARQUET_DOUBLE:
        memcpy(&real, value.data, sizeof(real));
        table_add_real(out, real);
        break;
    case PARQUET_BYTE_ARRAY:
    case PARQUET_FIXED:
        table_add_string(out, (const char *)value.data, value.len);
        break;
    default:
        text_addf(out, "{\"binary_bytes\": %zu}", value.len);
    }
}

static bool add_node(struct parquet *parquet, const struct parquet_node *node,
                     struct text *out, struct error *err);

/* The first column below a node, whose levels stand for those of the whole node. */
static const struct parquet_entry *
peek_first(struct parquet *parquet, const struct parquet_node *node, struct error *err)
{
    const struct parquet_entry *entry;

    while (node->first)
        node = node->first;
    entry = parquet_column_peek(parquet->columns[node->column], err);
    if (!entry && (!err || err->code == ERROR_NONE))
        error_set(err, ERROR_DATA, "%s: the Parquet file is damaged: a column is short",
                  parquet->name);
    return entry;
}

/* Consume the entries of all columns below a node that is not defined. */
static bool skip_node(struct parquet *parquet, const struct parquet_node *node,
                      struct error *err)
{
    if (!node->first) {
        if (!peek_first(parquet, node, err))
            return false;
        parquet_column_consume(parquet->columns[node->column]);
        return true;
    }
    for (node = node->first; node; node = node->next)
        if (!skip_node(parquet, node, err))
            return false;
    return true;
}

/* The members of a group as an object. */
static bool add_members(struct parquet *parquet, const struct parquet_node *group,
                        struct text *out, struct error *err)
{
    size_t index = 0;

    text_addc(out, '{');
    for (const struct parquet_node *node = group->first; node; node = node->next) {
        table_add_name(out, index++, (const char *)node->name.data, node->name.len);
        if (!add_node(parquet, node, out, err))
            return false;
    }
    return text_addc(out, '}') || error_set(err, ERROR_DATA, "%s: row %u is too long",
                                            parquet->name, parquet->row);
}

/* A value that is defined: of a column, a list, or a group. */
static bool add_defined(struct parquet *parquet, const struct parquet_node *node,
                        struct text *out, struct error *err)
{
    const struct parquet_entry *entry;

    if (node->first) {
        /* LIST and MAP: a group whose only child repeats is the list itself */
        if ((node->is_list || node->is_map) && !node->first->next &&
            node->first->repetition == PARQUET_REPEATED)
            return add_node(parquet, node->first, out, err);
        return add_members(parquet, node, out, err);
    }
    entry = peek_first(parquet, node, err);
    if (!entry)
        return false;
    add_value(node, entry->value, out);
    parquet_column_consume(parquet->columns[node->column]);
    return true;
}

static bool name_ends(const struct parquet_node *node, const char *end, bool whole)
{
    size_t len = strlen(end);

    return node->name.len >= len && (!whole || node->name.len == len) &&
           memcmp(node->name.data + node->name.len - len, end, len) == 0;
}

/* Return whether the repeated child of a list only wraps the elements, as in the form of
 * three levels; parquet-format, LogicalTypes.md, "Lists". */
static bool wraps_element(const struct parquet_node *repeated)
{
    return repeated->first && !repeated->first->next &&
           !name_ends(repeated, "array", true) && !name_ends(repeated, "_tuple", false);
}

/* Set *more if another element of a repeated node follows in its row. */
static bool find_more(struct parquet *parquet, const struct parquet_node *repeated,
                      bool *more, struct error *err)
{
    const struct parquet_node *node = repeated;
    const struct parquet_entry *entry;
    struct error local = { 0 };

    while (node->first)
        node = node->first;
    entry = parquet_column_peek(parquet->columns[node->column], &local);
    *more = entry && entry->repetition == repeated->max_repetition;
    return local.code == ERROR_NONE || error_set(err, local.code, "%s", local.text);
}

/* A repeated node: a list, which may be empty. */
static bool add_list(struct parquet *parquet, const struct parquet_node *node,
                     struct text *out, struct error *err)
{
    const struct parquet_entry *entry = peek_first(parquet, node, err);
    bool more = true;

    if (!entry)
        return false;
    if (entry->definition < node->max_definition)
        return text_adds(out, "[]") && skip_node(parquet, node, err);
    for (size_t i = 0; more; i++) {
        text_adds(out, i ? ", " : "[");
        if (!(wraps_element(node) ? add_node(parquet, node->first, out, err)
                                  : add_defined(parquet, node, out, err)) ||
            !find_more(parquet, node, &more, err))
            return false;
    }
    return text_addc(out, ']');
}

static bool add_node(struct parquet *parquet, const struct parquet_node *node,
                     struct text *out, struct error *err)
{
    const struct parquet_entry *entry;

    if (node->repetition == PARQUET_REPEATED)
        return add_list(parquet, node, out, err);
    if (node->repetition == PARQUET_OPTIONAL) {
        entry = peek_first(parquet, node, err);
        if (!entry)
            return false;
        if (entry->definition < node->max_definition)
            return text_adds(out, "null") && skip_node(parquet, node, err);
    }
    return add_defined(parquet, node, out, err);
}

/* Open the columns of the next row group that has rows; false at the end. */
static bool open_group(struct parquet *parquet)
{
    const struct parquet_footer *footer = &parquet->footer;

    close_columns(parquet);
    while (parquet->group < footer->group_count) {
        const struct parquet_group *group = &footer->groups[parquet->group++];

        if (group->rows <= 0)
            continue;
        parquet->rows = group->rows;
        for (size_t i = 0; i < footer->column_count; i++)
            parquet->columns[i] = parquet_column_open(
                parquet->name, parquet->file, footer->columns[i], &group->chunks[i]);
        return true;
    }
    return false;
}

static bool parquet_next(void *state, struct text *row, uint32_t *position,
                         struct error *err)
{
    struct parquet *parquet = state;

    if (parquet->rows == 0 && !open_group(parquet))
        return false;
    parquet->rows--;
    *position = ++parquet->row;
    return add_members(parquet, parquet->footer.root, row, err);
}

const struct table_format table_parquet = { ".parquet", parquet_open, parquet_next,
                                            parquet_close };
