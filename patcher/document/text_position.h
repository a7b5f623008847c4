/* patcher/document/text_position.h - bytes, characters, lines and columns of one text.
 * 
 * libyaml counts characters, edits count bytes, people count lines and columns. */
#ifndef PATCHER_DOCUMENT_TEXT_POSITION_H
#define PATCHER_DOCUMENT_TEXT_POSITION_H

#include "base/arena.h"

struct text_positions {
    const char *data;
    /* origin: bytes of the byte order mark, which is not a character */
    size_t len, origin;
    const uint32_t *lines; /* first byte of each line: after LF, CRLF or a bare CR */
    size_t line_count;
    const uint32_t *characters; /* before each block of 64 bytes; NULL if all is ASCII */
};

/* Build the tables.  `data` is borrowed, has at most 4 GiB and need not be UTF-8. */
void text_positions_build(struct text_positions *positions, const char *data, size_t len,
                          size_t origin, struct arena *arena);
struct mark text_positions_mark(const struct text_positions *positions, size_t byte);
/* Return the first byte of a character, counted from the origin; len if it is past the
 * end. */
size_t text_positions_byte(const struct text_positions *positions, size_t character);
/* Return the number of characters from the origin to `byte`. */
size_t text_positions_character(const struct text_positions *positions, size_t byte);

#endif
