/* train/tables/flatbuffer.c - offsets, vtables and vectors (FlatBuffers internals). */
#include "config.h"

#include "train/tables/flatbuffer.h"

static uint64_t read_at(struct table_bytes buffer, uint64_t at, size_t bytes)
{
    return table_has(buffer, at, bytes) ? table_uint(buffer.data + at, bytes) : 0;
}

/* Follow the 32-bit offset at `at`; 0: it leads nowhere. */
static size_t follow(struct table_bytes buffer, size_t at)
{
    uint64_t offset = read_at(buffer, at, 4);

    return offset > 0 && table_has(buffer, at + offset, 4) ? (size_t)(at + offset) : 0;
}

struct flat_table flat_root(struct table_bytes buffer)
{
    return (struct flat_table) { buffer, follow(buffer, 0) };
}

/* The position of a field; 0: absent. */
static size_t find_field(struct flat_table table, unsigned field)
{
    int64_t vtable;
    uint64_t offset;

    if (table.at == 0)
        return 0;
    vtable = (int64_t)table.at - (int32_t)read_at(table.buffer, table.at, 4);
    if (vtable < 0 ||
        4 + 2 * (uint64_t)field + 2 > read_at(table.buffer, (uint64_t)vtable, 2))
        return 0;
    offset = read_at(table.buffer, (uint64_t)vtable + 4 + 2 * (uint64_t)field, 2);
    return offset ? table.at + (size_t)offset : 0;
}

int64_t flat_int(struct flat_table table, unsigned field, size_t bytes, int64_t otherwise)
{
    size_t at = find_field(table, field);
    uint64_t value, sign = UINT64_C(1) << (8 * bytes - 1);

    if (at == 0 || !table_has(table.buffer, at, bytes))
        return otherwise;
    value = table_uint(table.buffer.data + at, bytes);
    return (int64_t)((value ^ sign) - sign);
}

struct flat_table flat_child(struct flat_table table, unsigned field)
{
    size_t at = find_field(table, field);

    return (struct flat_table) { table.buffer, at ? follow(table.buffer, at) : 0 };
}

struct flat_vector flat_list(struct flat_table table, unsigned field, size_t size)
{
    size_t at = find_field(table, field), start = at ? follow(table.buffer, at) : 0;
    uint64_t count = start ? read_at(table.buffer, start, 4) : 0;
    struct flat_vector vector = { table.buffer, start + 4, (size_t)count };

    if (count > table.buffer.len / size ||
        !table_has(table.buffer, start + 4, count * size))
        vector.count = 0;
    return vector;
}

struct table_bytes flat_string(struct flat_table table, unsigned field)
{
    struct flat_vector vector = flat_list(table, field, 1);

    if (vector.count == 0)
        return (struct table_bytes) { (const uint8_t *)"", 0 };
    return table_part(vector.buffer, vector.at, vector.count);
}

struct flat_table flat_element(struct flat_vector vector, size_t index)
{
    return (struct flat_table) { vector.buffer,
                                 follow(vector.buffer, vector.at + 4 * index) };
}
