/* runner/page/html.c - escapes text from outside, so that it is never parsed as
 * markup. */
#include "config.h"

#include "runner/page/html.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/size.h"

/* Characters with a meaning in HTML. */
static const struct {
    char byte;
    const char *reference;
} references[] = {
    { '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
    { '"', "&quot;" }, { '\'', "&#39;" },
};

/* Return whether the character is a control, or changes the direction of the text after
 * it, which could make a text look like another. */
static bool is_hidden(uint32_t point)
{
    return (point < 0x20 && point != '\n' && point != '\t') ||
           (point >= 0x7f && point < 0xa0) || (point >= 0x202a && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069) || point == 0x200e || point == 0x200f ||
           point == 0xfeff || point == 0xfffe || point == 0xffff;
}

/* Return the bytes of the character at `data` and its code point in *point; 0: not
 * UTF-8. */
static size_t next_point(const char *data, size_t len, uint32_t *point)
{
    const unsigned char *byte = (const unsigned char *)data;
    size_t bytes = byte[0] < 0x80 ? 1 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;

    if (bytes > len || !text_is_utf8(data, bytes, NULL))
        return 0;
    *point = bytes == 1 ? byte[0] : byte[0] & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++)
        *point = *point << 6 | (byte[i] & 0x3f);
    return bytes;
}

static void add_point(struct text *out, const char *data, size_t bytes, uint32_t point)
{
    for (size_t i = 0; i < TS_COUNT(references); i++)
        if (point == (unsigned char)references[i].byte) {
            text_adds(out, references[i].reference);
            return;
        }
    if (is_hidden(point))
        text_addf(out, "\\u%04" PRIx32, point);
    else
        text_add(out, data, bytes);
}

bool html_text_len(struct text *out, const char *data, size_t len)
{
    while (len > 0) {
        uint32_t point = 0;
        size_t bytes = next_point(data, len, &point);

        if (bytes > 0)
            add_point(out, data, bytes, point);
        else
            text_addf(out, "\\x%02x", (unsigned char)*data);
        bytes = bytes ? bytes : 1;
        data += bytes;
        len -= bytes;
    }
    return !out->overflow;
}

bool html_text(struct text *out, const char *string)
{
    return html_text_len(out, string, strlen(string));
}

bool html_textf(struct text *out, const char *fmt, ...)
{
    char *said = NULL;
    va_list args;
    int len;

    va_start(args, fmt);
    len = vasprintf(&said, fmt, args);
    va_end(args);
    if (len < 0)
        return false;
    html_text_len(out, said, (size_t)len);
    free(said);
    return !out->overflow;
}

/* ---- Values ---- */

/* 1,234,567 */
static void group(const char *digits, char out[32])
{
    size_t len = strlen(digits), at = 0;

    for (size_t i = 0; i < len && at < 30; i++) {
        if (i > 0 && digits[i - 1] != '-' && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
}

/* 12.3 M: for counts in the thousands and more. */
static void shorten(double value, char out[32])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = { { 1e12, " T" }, { 1e9, " G" }, { 1e6, " M" }, { 1e3, " k" } };

    for (size_t i = 0; i < TS_COUNT(units); i++)
        if (fabs(value) >= units[i].unit) {
            snprintf(out, 32, "%.3g%s", value / units[i].unit, units[i].name);
            return;
        }
    snprintf(out, 32, "%.3g", value);
}

void html_number(double value, enum html_number how, char out[32])
{
    char digits[32];

    if (isnan(value)) {
        snprintf(out, 32, "NaN");
    } else if (isinf(value)) {
        snprintf(out, 32, value > 0 ? "inf" : "-inf");
    } else if (how == HTML_SHORT) {
        shorten(value, out);
    } else if (how == HTML_WHOLE ||
               (value == rint(value) && fabs(value) < 1e15 && fabs(value) >= 1e4)) {
        snprintf(digits, sizeof(digits), "%.0f", fabs(value) < 1e18 ? value : 1e18);
        group(digits, out);
    } else {
        snprintf(out, 32, "%.4g", value);
    }
}

/* ---- The hash of a script ---- */

static unsigned nibble(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

void html_hash(const char *string, char out[64])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char digest[DIGEST_TEXT];
    size_t at = (size_t)snprintf(out, 64, "'sha256-");

    digest_bytes(string, strlen(string), digest);
    /* 64 digits of 4 bits are 42 characters of 6 bits, 4 bits left over, and one = as
     * padding */
    for (size_t i = 0; i < 63; i += 3) {
        unsigned bits =
            nibble(digest[i]) << 8 | nibble(digest[i + 1]) << 4 | nibble(digest[i + 2]);

        out[at++] = letters[bits >> 6];
        out[at++] = letters[bits & 63];
    }
    out[at++] = letters[nibble(digest[63]) << 2];
    snprintf(out + at, 64 - at, "='");
}
