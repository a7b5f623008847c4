/*
 * patcher/document/text_position.h - bytes, characters, lines and columns of one text.
 *
 * libyaml counts characters, edits count bytes, people count lines and columns.
 */
#ifndef PATCHER_DOCUMENT_TEXT_POSITION_H
#define PATCHER_DOCUMENT_TEXT_POSITION_H

#include "base/arena.h"

struct places {
    const char *data;
    size_t len, origin;    /* origin: bytes of a byte order mark, which is no character */
    const uint32_t *lines; /* first byte of each line: after LF, CRLF or a bare CR */
    size_t line_count;
    const uint32_t *characters; /* before each block of 64 bytes; NULL: all is ASCII */
};

/* data is borrowed, at most 4 GiB; need not be UTF-8. */
void places_build(struct places *places, const char *data, size_t len, size_t origin,
                  struct arena *arena);
struct mark places_mark(const struct places *places, size_t byte);
/* The byte at which the character-th character after the origin begins; len past the
 * end. */
size_t places_byte(const struct places *places, size_t character);
/* Characters from the origin up to `byte`. */
size_t places_character(const struct places *places, size_t byte);

#endif
