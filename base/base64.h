/* base/base64.h - bytes as text (RFC 4648, section 4). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/text.h"

/* Append the bytes that a text stands for.  False: it is not base64. */
bool base64_decode(const char *data, size_t len, struct text *out);
/* Append the text of bytes. */
bool base64_encode(const void *data, size_t len, struct text *out);

#endif
