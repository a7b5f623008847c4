/* patcher/document/text_position.c - two small tables: the start of each line, and the
 * number of characters before each block of bytes. */
#include "config.h"

#include "patcher/document/text_position.h"

enum { BLOCK = 64 };

/* UTF-8: a byte 10xxxxxx continues the character before it. */
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

static void build_lines(struct text_positions *positions, struct arena *arena)
{
    size_t count = 1;
    uint32_t *lines;

    for (size_t i = positions->origin; i < positions->len; i++)
        count += ends_line(positions->data, positions->len, i);
    lines = arena_array(arena, count, sizeof(*lines));
    lines[0] = (uint32_t)positions->origin;
    positions->line_count = 1;
    for (size_t i = positions->origin; i < positions->len; i++)
        if (ends_line(positions->data, positions->len, i))
            lines[positions->line_count++] = (uint32_t)(i + 1);
    positions->lines = lines;
}

static void build_characters(struct text_positions *positions, struct arena *arena)
{
    size_t bytes = positions->len - positions->origin;
    size_t blocks = bytes / BLOCK + 1;
    const char *data = positions->data + positions->origin;
    uint32_t *characters;

    if (count_first(data, bytes) == bytes)
        return;
    characters = arena_array(arena, blocks, sizeof(*characters));
    for (size_t i = 1; i < blocks; i++)
        characters[i] =
            characters[i - 1] + (uint32_t)count_first(data + (i - 1) * BLOCK, BLOCK);
    positions->characters = characters;
}

void text_positions_build(struct text_positions *positions, const char *data, size_t len,
                          size_t origin, struct arena *arena)
{
    *positions = (struct text_positions) { .data = data, .len = len, .origin = origin };
    build_lines(positions, arena);
    build_characters(positions, arena);
}

size_t text_positions_character(const struct text_positions *positions, size_t byte)
{
    size_t block;

    if (byte > positions->len)
        byte = positions->len;
    if (byte < positions->origin)
        return 0;
    byte -= positions->origin;
    if (!positions->characters)
        return byte;
    block = byte / BLOCK;
    return positions->characters[block] +
           count_first(positions->data + positions->origin + block * BLOCK,
                       byte - block * BLOCK);
}

size_t text_positions_byte(const struct text_positions *positions, size_t character)
{
    size_t bytes = positions->len - positions->origin;
    size_t low = 0, high = bytes / BLOCK, at, seen;

    if (!positions->characters)
        return character < bytes ? positions->origin + character : positions->len;
    while (low <
           high) { /* find the last block with at most `character` characters before it */
        size_t middle = (low + high + 1) / 2;

        if (positions->characters[middle] <= character)
            low = middle;
        else
            high = middle - 1;
    }
    at = positions->origin + low * BLOCK;
    for (seen = positions->characters[low]; at < positions->len; at++)
        if (is_first(positions->data[at]) && seen++ == character)
            break;
    return at;
}

struct mark text_positions_mark(const struct text_positions *positions, size_t byte)
{
    size_t low = 0, high = positions->line_count - 1, columns;

    if (byte > positions->len)
        byte = positions->len;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;

        if (positions->lines[middle] <= byte)
            low = middle;
        else
            high = middle - 1;
    }
    columns = text_positions_character(positions, byte) -
              text_positions_character(positions, positions->lines[low]);
    return (struct mark) { byte, (uint32_t)low + 1, (uint32_t)columns + 1 };
}
