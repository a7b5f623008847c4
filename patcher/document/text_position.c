/* patcher/document/text_position.c - two small tables: where lines begin, and how many characters lie
 * before each block of bytes. */
#include "config.h"

#include "patcher/document/text_position.h"

enum { BLOCK = 64 };

/* UTF-8: a byte 10xxxxxx goes on with the character before it. */
static bool is_first(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

static size_t count_first(const char *data, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += is_first(data[i]);
    return count;
}

static bool ends_line(const char *data, size_t len, size_t at)
{
    return data[at] == '\n' ||
           (data[at] == '\r' && (at + 1 == len || data[at + 1] != '\n'));
}

static void build_lines(struct places *places, struct arena *arena)
{
    size_t count = 1;
    uint32_t *lines;

    for (size_t i = places->origin; i < places->len; i++)
        count += ends_line(places->data, places->len, i);
    lines = arena_array(arena, count, sizeof(*lines));
    lines[0] = (uint32_t)places->origin;
    places->line_count = 1;
    for (size_t i = places->origin; i < places->len; i++)
        if (ends_line(places->data, places->len, i))
            lines[places->line_count++] = (uint32_t)(i + 1);
    places->lines = lines;
}

static void build_characters(struct places *places, struct arena *arena)
{
    size_t bytes = places->len - places->origin;
    size_t blocks = bytes / BLOCK + 1;
    const char *data = places->data + places->origin;
    uint32_t *characters;

    if (count_first(data, bytes) == bytes)
        return;
    characters = arena_array(arena, blocks, sizeof(*characters));
    for (size_t i = 1; i < blocks; i++)
        characters[i] =
            characters[i - 1] + (uint32_t)count_first(data + (i - 1) * BLOCK, BLOCK);
    places->characters = characters;
}

void places_build(struct places *places, const char *data, size_t len, size_t origin,
                  struct arena *arena)
{
    *places = (struct places) { .data = data, .len = len, .origin = origin };
    build_lines(places, arena);
    build_characters(places, arena);
}

size_t places_character(const struct places *places, size_t byte)
{
    size_t block;

    if (byte > places->len)
        byte = places->len;
    if (byte < places->origin)
        return 0;
    byte -= places->origin;
    if (!places->characters)
        return byte;
    block = byte / BLOCK;
    return places->characters[block] +
           count_first(places->data + places->origin + block * BLOCK,
                       byte - block * BLOCK);
}

size_t places_byte(const struct places *places, size_t character)
{
    size_t bytes = places->len - places->origin;
    size_t low = 0, high = bytes / BLOCK, at, seen;

    if (!places->characters)
        return character < bytes ? places->origin + character : places->len;
    while (low <
           high) { /* the last block with no more characters before it than wanted */
        size_t middle = (low + high + 1) / 2;

        if (places->characters[middle] <= character)
            low = middle;
        else
            high = middle - 1;
    }
    at = places->origin + low * BLOCK;
    for (seen = places->characters[low]; at < places->len; at++)
        if (is_first(places->data[at]) && seen++ == character)
            break;
    return at;
}

struct mark places_mark(const struct places *places, size_t byte)
{
    size_t low = 0, high = places->line_count - 1, columns;

    if (byte > places->len)
        byte = places->len;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;

        if (places->lines[middle] <= byte)
            low = middle;
        else
            high = middle - 1;
    }
    columns =
        places_character(places, byte) - places_character(places, places->lines[low]);
    return (struct mark) { byte, (uint32_t)low + 1, (uint32_t)columns + 1 };
}
