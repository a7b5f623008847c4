/* train/tables/thrift.c - the compact protocol, with bounds on everything
 * (thrift/doc/specs/thrift-compact-protocol.md). */
#include "config.h"

#include "train/tables/thrift.h"

static uint64_t fail(struct thrift *thrift)
{
    thrift->bad = true;
    thrift->at = thrift->bytes.len;
    return 0;
}

static uint64_t read_byte(struct thrift *thrift)
{
    if (thrift->bad || thrift->at >= thrift->bytes.len)
        return fail(thrift);
    return thrift->bytes.data[thrift->at++];
}

static uint64_t read_varint(struct thrift *thrift)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        uint64_t byte = read_byte(thrift);

        value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    return fail(thrift);
}

static int64_t read_zigzag(struct thrift *thrift)
{
    uint64_t value = read_varint(thrift);

    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

struct thrift_field thrift_next(struct thrift *thrift, int64_t *id)
{
    uint64_t head = read_byte(thrift);
    struct thrift_field field = { .type = head & 15 };

    if (thrift->bad || field.type == THRIFT_STOP)
        return (struct thrift_field) { .type = THRIFT_STOP };
    field.id = head >> 4 ? *id + (int64_t)(head >> 4) : read_zigzag(thrift);
    *id = field.id;
    if (field.type > THRIFT_STRUCT)
        fail(thrift);
    return field;
}

int64_t thrift_int(struct thrift *thrift, enum thrift_type type)
{
    switch (type) {
    case THRIFT_TRUE:
        return 1;
    case THRIFT_FALSE:
        return 0;
    case THRIFT_BYTE:
        return (int8_t)read_byte(thrift);
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        return read_zigzag(thrift);
    default:
        return (int64_t)fail(thrift);
    }
}

struct table_bytes thrift_binary(struct thrift *thrift)
{
    uint64_t len = read_varint(thrift);
    struct table_bytes part = { 0 };

    if (thrift->bad || !table_has(thrift->bytes, thrift->at, len)) {
        fail(thrift);
        return part;
    }
    part = table_part(thrift->bytes, thrift->at, (size_t)len);
    thrift->at += (size_t)len;
    return part;
}

size_t thrift_list(struct thrift *thrift, enum thrift_type *type)
{
    uint64_t head = read_byte(thrift), len = head >> 4;

    if (len == 15)
        len = read_varint(thrift);
    *type = head & 15;
    /* every element takes at least one byte */
    if (thrift->bad || len > thrift->bytes.len - thrift->at)
        return fail(thrift);
    return (size_t)len;
}

static void skip(struct thrift *thrift, enum thrift_type type, int depth)
{
    struct thrift_field field;
    enum thrift_type element;
    int64_t id = 0;
    size_t count;

    if (depth > TABLE_DEPTH_MAX) {
        fail(thrift);
        return;
    }
    switch (type) {
    case THRIFT_DOUBLE:
        for (int i = 0; i < 8; i++)
            read_byte(thrift);
        break;
    case THRIFT_BINARY:
        thrift_binary(thrift);
        break;
    case THRIFT_LIST:
    case THRIFT_SET:
        count = thrift_list(thrift, &element);
        for (size_t i = 0; i < count && !thrift->bad; i++)
            /* a boolean is a byte in a list */
            skip(thrift, element == THRIFT_TRUE ? THRIFT_BYTE : element, depth + 1);
        break;
    case THRIFT_STRUCT:
        while ((field = thrift_next(thrift, &id)).type != THRIFT_STOP)
            skip(thrift, field.type, depth + 1);
        break;
    case THRIFT_MAP: /* Parquet has none */
        fail(thrift);
        break;
    default:
        thrift_int(thrift, type);
    }
}

void thrift_skip(struct thrift *thrift, enum thrift_type type)
{
    skip(thrift, type, 0);
}
