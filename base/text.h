/* base/text.h - a growing byte string with a ceiling.  Always ends in a NUL not counted
 * in len; may contain NULs. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/error.h"

struct text {
    char *data; /* never NULL after text_init */
    size_t len, room;
    size_t max;    /* ceiling of len */
    bool overflow; /* an addition did not fit: it and all later ones were dropped whole */
};

#define TEXT_MAX_DEFAULT ((size_t)64 << 20)

void text_init(struct text *text, size_t max); /* max 0: TEXT_MAX_DEFAULT */
/* frees; text_init makes it usable again */
void text_clear(struct text *text);
void text_reset(struct text *text); /* sets len to 0 and keeps the memory */

/* Each returns false, and sets overflow, if the text would exceed its ceiling. */
bool text_add(struct text *text, const void *data, size_t len);
bool text_adds(struct text *text, const char *string);
bool text_addc(struct text *text, char byte);
bool text_addf(struct text *text, const char *fmt, ...) TS_PRINTF(2, 3);
/* Hand over the bytes; the caller frees them with free().  The text is empty
 * afterward. */
char *text_detach(struct text *text, size_t *len);
/* Add `len` bytes safe to print on a terminal: C0, C1 and DEL as \xNN, including newline
 * and tab, invalid UTF-8 as \xNN. */
bool text_add_visible(struct text *text, const char *data, size_t len);

/* strict, no surrogates */
bool text_is_utf8(const char *data, size_t len, size_t *bad_byte);
/* Return whether two strings are equal; NULL equals only NULL. */
bool text_equal(const char *a, const char *b);
bool text_starts(const char *string, const char *prefix);
bool text_ends(const char *string, const char *suffix);

#endif
