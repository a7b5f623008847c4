/* base/yaml_quote.h - a text as a double-quoted scalar of YAML. */
#ifndef BASE_YAML_QUOTE_H
#define BASE_YAML_QUOTE_H

#include "base/text.h"

/* Return whether YAML does not allow the character of UTF-8 at `at`, or takes it as a line
 * end. */
bool yaml_is_forbidden(const char *at);
/* Return the number of bytes, up to 3, and the code point of such a character. */
size_t yaml_forbidden_length(const char *at);
unsigned yaml_forbidden_code_point(const char *at);

/* Append the string, which is UTF-8, in double quotes: any reader of YAML 1.1, YAML 1.2
 * or JSON with comments gets it back. */
void yaml_quote(struct text *out, const char *string);

#endif
