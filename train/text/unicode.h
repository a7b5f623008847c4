/* train/text/unicode.h - code points of UTF-8, and the character classes that
 * tokenizer.json uses (those of Rust's standard library and regex crate). */
#ifndef TRAIN_TEXT_UNICODE_H
#define TRAIN_TEXT_UNICODE_H

#include "base/text.h"

/* Decode the first or last character of well-formed UTF-8 of len > 0 bytes; return its
 * length in bytes. */
size_t unicode_first(const char *data, size_t len, int32_t *point);
size_t unicode_last(const char *data, size_t len, int32_t *point);
size_t unicode_put(int32_t point, char out[4]); /* encode; return the bytes written */

bool unicode_is_space(int32_t point);       /* White_Space */
bool unicode_is_numeric(int32_t point);     /* N: Nd, Nl, No */
bool unicode_is_word(int32_t point);        /* \w */
bool unicode_is_punctuation(int32_t point); /* P, and all ASCII punctuation */

/* Append bytes that may not be UTF-8: invalid parts become U+FFFD, one for each longest
 * part that could start a character (Unicode 15, 3.9, "U+FFFD Substitution"). */
void unicode_add_lossy(struct text *out, const char *data, size_t len);

#endif
