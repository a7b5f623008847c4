/* base/yaml_quote.c - escapes what a double-quoted scalar may not hold. */
#include "config.h"

#include "base/yaml_quote.h"

bool yaml_is_forbidden(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;

    return c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0) ||
           (c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9)) ||
           (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf) ||
           (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe);
}

size_t yaml_forbidden_length(const char *at)
{
    unsigned char first = (unsigned char)*at;

    return first < 0x80 ? 1 : first < 0xe0 ? 2 : 3;
}

unsigned yaml_forbidden_code_point(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;

    switch (yaml_forbidden_length(at)) {
    case 1:
        return c[0];
    case 2:
        return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
    default:
        return (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    }
}

void yaml_quote(struct text *out, const char *string)
{
    text_addc(out, '"');
    for (; *string; string++)
        if (yaml_is_forbidden(string)) {
            text_addf(out, "\\u%04x", yaml_forbidden_code_point(string));
            string += yaml_forbidden_length(string) - 1;
        } else {
            text_adds(out, *string == '"' || *string == '\\' ? "\\" : "");
            text_addc(out, *string);
        }
    text_addc(out, '"');
}
