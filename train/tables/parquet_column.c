/* train/tables/parquet_column.c - pages of a column: levels, dictionaries and plain
 * values (parquet-format, README.md and Encodings.md). */
#include "config.h"

#include <stdlib.h>

#include "base/size.h"
#include "train/tables/parquet.h"
#include "train/tables/thrift.h"

enum page_type { PAGE_DATA, PAGE_INDEX, PAGE_DICTIONARY, PAGE_DATA_2 };

enum encoding {
    ENCODING_PLAIN = 0,
    ENCODING_PLAIN_DICTIONARY = 2,
    ENCODING_RLE = 3,
    ENCODING_RLE_DICTIONARY = 8,
};

static const char *const encoding_names[] = {
    [0] = "PLAIN",
    [4] = "BIT_PACKED",
    [5] = "DELTA_BINARY_PACKED",
    [6] = "DELTA_LENGTH_BYTE_ARRAY",
    [7] = "DELTA_BYTE_ARRAY",
    [9] = "BYTE_STREAM_SPLIT",
};

/* Codecs of parquet.thrift. */
static const struct {
    const char *name; /* NULL: supported */
    enum table_codec codec;
} codecs[] = {
    { NULL, TABLE_RAW },  { NULL, TABLE_SNAPPY }, { NULL, TABLE_GZIP },
    { "LZO", 0 },         { "Brotli", 0 },        { "LZ4 of Hadoop", 0 },
    { NULL, TABLE_ZSTD }, { NULL, TABLE_LZ4 },
};

/* Runs of equal values, and of values of `width` bits next to each other. */
struct hybrid {
    struct table_bytes bytes;
    size_t at;
    unsigned width;
    uint64_t equal, packed; /* values left of the present run */
    uint32_t value;         /* of the equal ones */
    size_t bit;             /* of the next packed one, from `at` on */
    bool bad;
};

static uint64_t hybrid_varint(struct hybrid *hybrid)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 35; shift += 7) {
        if (hybrid->at >= hybrid->bytes.len)
            break;
        value |= (uint64_t)(hybrid->bytes.data[hybrid->at] & 0x7f) << shift;
        if (!(hybrid->bytes.data[hybrid->at++] & 0x80))
            return value;
    }
    hybrid->bad = true;
    return 0;
}

static void hybrid_run(struct hybrid *hybrid)
{
    uint64_t head = hybrid_varint(hybrid);
    size_t bytes = (hybrid->width + 7) / 8;

    if (hybrid->bad)
        return;
    if (head & 1) {
        hybrid->packed = (head >> 1) * 8;
        hybrid->bit = 0;
        return;
    }
    hybrid->equal = head >> 1;
    if (!table_has(hybrid->bytes, hybrid->at, bytes)) {
        hybrid->bad = true;
        return;
    }
    hybrid->value = (uint32_t)table_uint(hybrid->bytes.data + hybrid->at, bytes);
    hybrid->at += bytes;
}

static uint32_t hybrid_packed(struct hybrid *hybrid)
{
    size_t first = hybrid->at + hybrid->bit / 8, shift = hybrid->bit % 8;
    size_t bytes = (shift + hybrid->width + 7) / 8;
    uint64_t value;

    if (!table_has(hybrid->bytes, first, bytes)) {
        hybrid->bad = true;
        return 0;
    }
    value = table_uint(hybrid->bytes.data + first, bytes) >> shift;
    hybrid->bit += hybrid->width;
    if (--hybrid->packed == 0)
        hybrid->at += (hybrid->bit + 7) / 8;
    return (uint32_t)(value & ((UINT64_C(1) << hybrid->width) - 1));
}

static uint32_t hybrid_next(struct hybrid *hybrid)
{
    /* a run may be empty; each takes a byte, so the loop ends */
    while (hybrid->equal == 0 && hybrid->packed == 0 && !hybrid->bad)
        hybrid_run(hybrid);
    if (hybrid->bad)
        return 0;
    if (hybrid->equal == 0)
        return hybrid_packed(hybrid);
    hybrid->equal--;
    return hybrid->value;
}

/* Where values come from. */
enum source { SOURCE_PLAIN, SOURCE_BITS, SOURCE_RLE_BITS, SOURCE_DICTIONARY };

struct page_head {
    int64_t type, unpacked, packed;
    int64_t values, encoding, level_encoding;
    int64_t definition_bytes, repetition_bytes; /* of PAGE_DATA_2 */
    bool is_packed;
};

/* Bytes of a page: in the file, or unpacked. */
struct page_bytes {
    uint8_t *owned; /* NULL: in the file */
    struct table_bytes bytes;
};

struct parquet_column {
    const char *name;
    struct table_bytes chunk;
    size_t at;
    const struct parquet_node *node;
    enum table_codec codec;
    const char *codec_refused; /* name of an unsupported codec */
    int64_t values;            /* left in the chunk */
    int64_t in_page;           /* left in the page */
    struct page_bytes page, dictionary;
    struct table_bytes *entries; /* of the dictionary */
    size_t entry_count;
    struct hybrid repetition, definition, index;
    enum source source;
    struct table_bytes plain;
    size_t plain_at, bit;
    struct parquet_entry entry;
    bool has_entry;
    uint8_t boolean; /* the present one, which entry.value points to */
};

static bool fail(const struct parquet_column *column, struct error *err, const char *why)
{
    return error_set(err, ERROR_DATA, "%s: column %.*s: %s", column->name,
                     (int)column->node->name.len, (const char *)column->node->name.data,
                     why);
}

static bool damaged(const struct parquet_column *column, struct error *err)
{
    return fail(column, err, "the Parquet file is damaged");
}

struct parquet_column *parquet_column_open(const char *name, struct table_bytes file,
                                           const struct parquet_node *node,
                                           const struct parquet_chunk *chunk)
{
    struct parquet_column *column = memory_alloc(sizeof(*column));
    bool known = chunk->codec >= 0 && chunk->codec < (int64_t)TS_COUNT(codecs);
    bool fits = chunk->start >= 0 && chunk->bytes >= 0 &&
                table_has(file, (uint64_t)chunk->start, (uint64_t)chunk->bytes);

    *column = (struct parquet_column) {
        .name = name,
        .node = node,
        .values = fits ? chunk->values : -1,
        .codec = known ? codecs[chunk->codec].codec : TABLE_RAW,
        .codec_refused = known ? codecs[chunk->codec].name : "an unknown codec",
    };
    if (fits)
        column->chunk = table_part(file, (size_t)chunk->start, (size_t)chunk->bytes);
    return column;
}

void parquet_column_close(struct parquet_column *column)
{
    if (!column)
        return;
    free(column->page.owned);
    free(column->dictionary.owned);
    free(column->entries);
    free(column);
}

/* Fields of DataPageHeader, DictionaryPageHeader and DataPageHeaderV2. */
static void read_page_details(struct thrift *thrift, int64_t kind, struct page_head *head)
{
    struct thrift_field field;
    int64_t id = 0;

    while ((field = thrift_next(thrift, &id)).type != THRIFT_STOP) {
        bool second = kind == 8;
        int64_t *into = id == 1              ? &head->values
                        : id == 2 && !second ? &head->encoding
                        : id == 3 && !second ? &head->level_encoding
                        : id == 4 && second  ? &head->encoding
                        : id == 5 && second  ? &head->definition_bytes
                        : id == 6 && second  ? &head->repetition_bytes
                                             : NULL;

        if (into)
            *into = thrift_int(thrift, field.type);
        else if (id == 7 && second)
            head->is_packed = thrift_int(thrift, field.type);
        else
            thrift_skip(thrift, field.type);
    }
}

static bool read_page_head(struct parquet_column *column, struct page_head *head)
{
    struct thrift thrift = { .bytes = column->chunk, .at = column->at };
    struct thrift_field field;
    int64_t id = 0;

    *head = (struct page_head) { .type = -1,
                                 .level_encoding = ENCODING_RLE,
                                 .is_packed = true };
    while ((field = thrift_next(&thrift, &id)).type != THRIFT_STOP) {
        int64_t *into = id == 1   ? &head->type
                        : id == 2 ? &head->unpacked
                        : id == 3 ? &head->packed
                                  : NULL;

        if (into)
            *into = thrift_int(&thrift, field.type);
        else if ((id == 5 || id == 7 || id == 8) && field.type == THRIFT_STRUCT)
            read_page_details(&thrift, id, head);
        else
            thrift_skip(&thrift, field.type);
    }
    column->at = thrift.at;
    return !thrift.bad && head->packed >= 0 && head->unpacked >= 0 && head->values >= 0 &&
           head->definition_bytes >= 0 && head->repetition_bytes >= 0 &&
           table_has(column->chunk, column->at, (uint64_t)head->packed);
}

/* Unpack a page, or part of it. */
static bool unpack(const struct parquet_column *column, const struct table_packed *packed,
                   struct page_bytes *out, struct error *err)
{
    free(out->owned);
    *out = (struct page_bytes) { .bytes = packed->bytes };
    if (column->codec_refused) {
        struct text why;

        text_init(&why, 0);
        text_addf(&why,
                  "compression with %s is not supported; write the file with zstd "
                  "or snappy",
                  column->codec_refused);
        fail(column, err, why.data);
        text_clear(&why);
        return false;
    }
    if (packed->codec == TABLE_RAW)
        return true;
    out->owned = table_unpack(packed, column->name, err);
    out->bytes = (struct table_bytes) { out->owned, (size_t)packed->size };
    return out->owned != NULL;
}

/* The size of values without their own length; 0: they have one. */
static size_t fixed_size(const struct parquet_node *node)
{
    static const size_t sizes[] = {
        [PARQUET_INT32] = 4, [PARQUET_INT64] = 8,  [PARQUET_INT96] = 12,
        [PARQUET_FLOAT] = 4, [PARQUET_DOUBLE] = 8, [PARQUET_BYTE_ARRAY] = 0,
    };

    return node->type == PARQUET_FIXED ? node->type_length : sizes[node->type];
}

/* Take the plain value at *at. */
static bool take_plain(const struct parquet_node *node, struct table_bytes bytes,
                       size_t *at, struct table_bytes *value)
{
    uint64_t len = fixed_size(node);

    if (node->type == PARQUET_BYTE_ARRAY) {
        if (!table_has(bytes, *at, 4))
            return false;
        len = table_uint(bytes.data + *at, 4);
        *at += 4;
    }
    if (!table_has(bytes, *at, len))
        return false;
    *value = table_part(bytes, *at, (size_t)len);
    *at += (size_t)len;
    return true;
}

static bool read_dictionary(struct parquet_column *column, const struct page_head *head,
                            struct table_bytes packed, struct error *err)
{
    const struct table_packed page = { column->codec, packed, (uint64_t)head->unpacked };
    size_t at = 0;

    if (column->entries || column->node->type == PARQUET_BOOLEAN ||
        (uint64_t)head->values > UINT32_MAX ||
        (head->encoding != ENCODING_PLAIN && head->encoding != ENCODING_PLAIN_DICTIONARY))
        return damaged(column, err);
    if (!unpack(column, &page, &column->dictionary, err))
        return false;
    /* an entry takes at least one byte, but for fixed values of 0 bytes */
    if ((uint64_t)head->values > column->dictionary.bytes.len + 1)
        return damaged(column, err);
    column->entry_count = (size_t)head->values;
    column->entries = memory_alloc((column->entry_count + 1) * sizeof(*column->entries));
    for (size_t i = 0; i < column->entry_count; i++)
        if (!take_plain(column->node, column->dictionary.bytes, &at, &column->entries[i]))
            return damaged(column, err);
    return true;
}

static unsigned bits_of(unsigned most)
{
    unsigned bits = 0;

    while (most >> bits)
        bits++;
    return bits;
}

/* Take levels with their length in front, of a data page of version 1. */
static bool take_levels(struct table_bytes *page, unsigned most, struct hybrid *levels)
{
    uint64_t len;

    *levels = (struct hybrid) { .width = bits_of(most) };
    if (most == 0)
        return true;
    if (page->len < 4 || !table_has(*page, 4, len = table_uint(page->data, 4)))
        return false;
    levels->bytes = table_part(*page, 4, (size_t)len);
    *page = table_part(*page, 4 + (size_t)len, page->len - 4 - (size_t)len);
    return true;
}

/* Those of version 2, whose lengths are in the page's header. */
static bool take_levels_2(struct table_bytes *page, int64_t bytes, unsigned most,
                          struct hybrid *levels)
{
    if (!table_has(*page, 0, (uint64_t)bytes))
        return false;
    *levels = (struct hybrid) { .width = bits_of(most),
                                .bytes = table_part(*page, 0, (size_t)bytes) };
    *page = table_part(*page, (size_t)bytes, page->len - (size_t)bytes);
    return true;
}

static bool refuse_encoding(const struct parquet_column *column, int64_t encoding,
                            struct error *err)
{
    const char *name = encoding >= 0 && encoding < (int64_t)TS_COUNT(encoding_names)
                           ? encoding_names[encoding]
                           : NULL;
    struct text why;

    text_init(&why, 0);
    text_addf(&why,
              "the encoding %s is not supported; write the file with pandas or "
              "datasets, which use plain and dictionary pages",
              name ? name : "of its pages");
    fail(column, err, why.data);
    text_clear(&why);
    return false;
}

/* Prepare the values of a page. */
static bool set_source(struct parquet_column *column, int64_t encoding,
                       struct table_bytes values, struct error *err)
{
    bool boolean = column->node->type == PARQUET_BOOLEAN;

    column->plain = values;
    column->plain_at = column->bit = 0;
    if (encoding == ENCODING_PLAIN) {
        column->source = boolean ? SOURCE_BITS : SOURCE_PLAIN;
        return true;
    }
    if (encoding == ENCODING_RLE && boolean) {
        column->source = SOURCE_RLE_BITS;
        return take_levels(&values, 1, &column->index) || damaged(column, err);
    }
    if (encoding != ENCODING_RLE_DICTIONARY && encoding != ENCODING_PLAIN_DICTIONARY)
        return refuse_encoding(column, encoding, err);
    column->source = SOURCE_DICTIONARY;
    column->index = (struct hybrid) { .bytes = values, .at = 1 };
    if (values.len > 0)
        column->index.width = values.data[0];
    /* a page of nulls only needs no dictionary; take_value checks the others */
    return column->index.width <= 32 || damaged(column, err);
}

static bool read_data(struct parquet_column *column, const struct page_head *head,
                      struct table_bytes packed, struct error *err)
{
    const struct table_packed page = { column->codec, packed, (uint64_t)head->unpacked };
    const struct parquet_node *node = column->node;
    struct table_bytes values;

    if (node->max_repetition + node->max_definition > 0 &&
        head->level_encoding != ENCODING_RLE)
        return refuse_encoding(column, head->level_encoding, err);
    column->in_page = head->values;
    if (!unpack(column, &page, &column->page, err))
        return false;
    values = column->page.bytes;
    return ((take_levels(&values, node->max_repetition, &column->repetition) &&
             take_levels(&values, node->max_definition, &column->definition)) ||
            damaged(column, err)) &&
           set_source(column, head->encoding, values, err);
}

static bool read_data_2(struct parquet_column *column, const struct page_head *head,
                        struct table_bytes page, struct error *err)
{
    const struct parquet_node *node = column->node;
    int64_t levels = head->definition_bytes + head->repetition_bytes;
    struct table_packed packed;

    column->in_page = head->values;
    if (!take_levels_2(&page, head->repetition_bytes, node->max_repetition,
                       &column->repetition) ||
        !take_levels_2(&page, head->definition_bytes, node->max_definition,
                       &column->definition) ||
        levels > head->unpacked)
        return damaged(column, err);
    if (!head->is_packed || page.len == 0)
        return set_source(column, head->encoding, page, err);
    packed = (struct table_packed) { column->codec, page,
                                     (uint64_t)(head->unpacked - levels) };
    return unpack(column, &packed, &column->page, err) &&
           set_source(column, head->encoding, column->page.bytes, err);
}

static bool read_page(struct parquet_column *column, struct error *err)
{
    struct page_head head;
    struct table_bytes packed;

    if (!read_page_head(column, &head))
        return damaged(column, err);
    packed = table_part(column->chunk, column->at, (size_t)head.packed);
    column->at += packed.len;
    switch (head.type) {
    case PAGE_DICTIONARY:
        return read_dictionary(column, &head, packed, err);
    case PAGE_DATA:
        return read_data(column, &head, packed, err);
    case PAGE_DATA_2:
        return read_data_2(column, &head, packed, err);
    default:
        return true;
    }
}

/* Take one bit of plain booleans. */
static bool take_bit(struct parquet_column *column, struct table_bytes *value)
{
    size_t byte = column->bit / 8;

    if (byte >= column->plain.len)
        return false;
    column->boolean = column->plain.data[byte] >> column->bit % 8 & 1;
    column->bit++;
    *value = (struct table_bytes) { &column->boolean, 1 };
    return true;
}

static bool take_value(struct parquet_column *column, struct table_bytes *value)
{
    uint32_t index;

    switch (column->source) {
    case SOURCE_PLAIN:
        return take_plain(column->node, column->plain, &column->plain_at, value);
    case SOURCE_BITS:
        return take_bit(column, value);
    case SOURCE_RLE_BITS:
        column->boolean = (uint8_t)hybrid_next(&column->index);
        *value = (struct table_bytes) { &column->boolean, 1 };
        return !column->index.bad;
    default:
        /* indexes of no bits are all 0 */
        index = column->index.width > 0 ? hybrid_next(&column->index) : 0;
        if (column->index.bad || index >= column->entry_count)
            return false;
        *value = column->entries[index];
        return true;
    }
}

static unsigned take_level(struct hybrid *levels, unsigned most)
{
    unsigned level = most > 0 ? hybrid_next(levels) : 0;

    levels->bad |= level > most;
    return level;
}

static bool take_entry(struct parquet_column *column, struct error *err)
{
    const struct parquet_node *node = column->node;
    struct parquet_entry *entry = &column->entry;

    entry->repetition = take_level(&column->repetition, node->max_repetition);
    entry->definition = take_level(&column->definition, node->max_definition);
    if (column->repetition.bad || column->definition.bad)
        return damaged(column, err);
    if (entry->definition == node->max_definition && !take_value(column, &entry->value))
        return damaged(column, err);
    column->in_page--;
    column->values--;
    return column->has_entry = true;
}

const struct parquet_entry *parquet_column_peek(struct parquet_column *column,
                                                struct error *err)
{
    if (column->has_entry)
        return &column->entry;
    if (column->values < 0) {
        damaged(column, err);
        return NULL;
    }
    while (column->values > 0 && column->in_page <= 0)
        if (!read_page(column, err))
            return NULL;
    return column->values > 0 && take_entry(column, err) ? &column->entry : NULL;
}

void parquet_column_consume(struct parquet_column *column)
{
    column->has_entry = false;
}
