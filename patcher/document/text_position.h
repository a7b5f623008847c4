/*
 * patcher/document/text_position.h - bytes, characters, lines and columns of one text.
 *
 * libyaml counts characters, edits count bytes, people count lines and columns.
 */
#ifndef PATCHER_DOCUMENT_TEXT_POSITION_H
#define PATCHER_DOCUMENT_TEXT_POSITION_H

#include "base/arena.h"

struct text_positions {
    const char *data;
    size_t len, origin;    /* origin: bytes of a byte order mark, which is no character */
    const uint32_t *lines; /* first byte of each line: after LF, CRLF or a bare CR */
    size_t line_count;
    const uint32_t *characters; /* before each block of 64 bytes; NULL: all is ASCII */
};

/* data is borrowed, at most 4 GiB; need not be UTF-8. */
void text_positions_build(struct text_positions *positions, const char *data, size_t len,
                          size_t origin, struct arena *arena);
struct mark text_positions_mark(const struct text_positions *positions, size_t byte);
/* The byte at which the character-th character after the origin begins; len past the
 * end. */
size_t text_positions_byte(const struct text_positions *positions, size_t character);
/* Characters from the origin up to `byte`. */
size_t text_positions_character(const struct text_positions *positions, size_t byte);

#endif
