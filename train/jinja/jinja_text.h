/* train/jinja/jinja_text.h - Python's rules for strings: white space, escapes, repr,
 * numbers. */
#ifndef TRAIN_JINJA_JINJA_TEXT_H
#define TRAIN_JINJA_JINJA_TEXT_H

#include "base/text.h"

/* ERROR_DATA: "name, line 3: ..." */
bool jinja_error(struct error *err, const char *name, uint32_t line, const char *fmt, ...)
    TS_PRINTF(4, 5);

bool jinja_is_digit(char c);
bool jinja_is_hex(char c);
bool jinja_is_space(int32_t point); /* str.isspace */
/* Bytes of white space at the start or the end of a text. */
size_t jinja_leading_space(const char *text, size_t len);
size_t jinja_trailing_space(const char *text, size_t len);

/* Resolve the escapes of a string without its quotes; false for an invalid escape. */
bool jinja_unescape(const char *text, size_t len, struct text *out);
/* repr of a string: in single quotes, unless it contains some and no double quotes. */
void jinja_add_quoted(struct text *out, const char *text, size_t len);
/* repr of a float: the fewest digits that parse to the same value. */
void jinja_add_real(struct text *out, double real);

#endif
