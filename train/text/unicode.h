/*
 * train/text/unicode.h - code points out of UTF-8, and the classes of characters that
 * tokenizer.json's parts speak of (those of Rust's standard library and regex crate).
 */
#ifndef TRAIN_TEXT_UNICODE_H
#define TRAIN_TEXT_UNICODE_H

#include "base/text.h"

/* The first or last character of well-formed UTF-8 of len > 0 bytes: its length in
 * bytes. */
size_t unicode_first(const char *data, size_t len, int32_t *point);
size_t unicode_last(const char *data, size_t len, int32_t *point);
size_t unicode_put(int32_t point, char out[4]); /* the reverse; bytes written */

bool unicode_is_space(int32_t point);       /* White_Space */
bool unicode_is_numeric(int32_t point);     /* N: Nd, Nl, No */
bool unicode_is_word(int32_t point);        /* \w */
bool unicode_is_punctuation(int32_t point); /* P, and all of ASCII's */

/* Append bytes that may not be UTF-8: what is not becomes U+FFFD, one for each longest
 * part that could have begun a character (Unicode 15, 3.9, "U+FFFD Substitution"). */
void unicode_add_lossy(struct text *out, const char *data, size_t len);

#endif
