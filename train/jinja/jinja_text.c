/* train/jinja/jinja_text.c - Python's rules for characters, escapes and numbers. */
#include "config.h"

#include "train/jinja/jinja_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/size.h"
#include "train/text/unicode.h"

bool jinja_error(struct error *err, const char *name, uint32_t line, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return error_set(err, ERROR_DATA, "%s, line %u: %s", name, line, text);
}

bool jinja_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool jinja_is_hex(char c)
{
    return jinja_is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

bool jinja_is_space(int32_t point)
{
    return unicode_is_space(point) || (point >= 0x1c && point <= 0x1f);
}

size_t jinja_leading_space(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        int32_t point;
        size_t bytes = unicode_first(text + at, len - at, &point);

        if (!jinja_is_space(point))
            break;
        at += bytes;
    }
    return at;
}

size_t jinja_trailing_space(const char *text, size_t len)
{
    size_t remaining = len;

    while (remaining > 0) {
        int32_t point;
        size_t bytes = unicode_last(text, remaining, &point);

        if (!jinja_is_space(point))
            break;
        remaining -= bytes;
    }
    return len - remaining;
}

static const char simple[][2] = {
    { '\n', 0 },   { '\\', '\\' }, { '\'', '\'' }, { '"', '"' },
    { 'a', '\a' }, { 'b', '\b' },  { 'f', '\f' },  { 'n', '\n' },
    { 'r', '\r' }, { 't', '\t' },  { 'v', '\v' },
};

/* \x41, \u00e9, \U0001f600: the digits after the letter. Return the digits read, 0 if
 * invalid. */
static size_t unescape_point(const char *text, size_t len, int digits, struct text *out)
{
    char hex[9] = "", bytes[4];
    long point;

    if (len < (size_t)digits)
        return 0;
    memcpy(hex, text, (size_t)digits);
    if (strspn(hex, "0123456789abcdefABCDEF") != (size_t)digits)
        return 0;
    point = strtol(hex, NULL, 16);
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    text_add(out, bytes, unicode_put((int32_t)point, bytes));
    return (size_t)digits;
}

static size_t unescape_octal(const char *text, size_t len, struct text *out)
{
    size_t digits = 0;
    int32_t point = 0;
    char bytes[4];

    while (digits < 3 && digits < len && text[digits] >= '0' && text[digits] <= '7')
        point = 8 * point + (text[digits++] - '0');
    if (digits > 0)
        text_add(out, bytes, unicode_put(point, bytes));
    return digits;
}

/* Resolve one escape after a backslash; return the bytes read, 0 if it is invalid. */
static size_t unescape_one(const char *text, size_t len, struct text *out)
{
    size_t digits = unescape_octal(text, len, out);
    int wide = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;

    if (digits > 0)
        return digits;
    if (wide) {
        digits = unescape_point(text + 1, len - 1, wide, out);
        return digits ? digits + 1 : 0;
    }
    if (text[0] == 'N')
        return 0;
    for (size_t i = 0; i < TS_COUNT(simple); i++)
        if (simple[i][0] == text[0]) {
            text_add(out, &simple[i][1], simple[i][1] != 0);
            return 1;
        }
    text_addc(out, '\\');
    text_addc(out, text[0]);
    return 1;
}

bool jinja_unescape(const char *text, size_t len, struct text *out)
{
    for (size_t i = 0; i < len; i++) {
        size_t read;

        if (text[i] != '\\') {
            text_addc(out, text[i]);
            continue;
        }
        read = i + 1 < len ? unescape_one(text + i + 1, len - i - 1, out) : 0;
        if (read == 0)
            return false;
        i += read;
    }
    return true;
}

/* Characters that Python's repr does not escape: no controls, separators other than the
 * blank, or unassigned code points. */
static bool is_printable(int32_t point)
{
    if (point < 0x7f)
        return point >= ' ';
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

void jinja_add_quoted(struct text *out, const char *text, size_t len)
{
    char quote =
        len > 0 && memchr(text, '\'', len) && !memchr(text, '"', len) ? '"' : '\'';
    size_t bytes;

    text_addc(out, quote);
    for (size_t i = 0; i < len; i += bytes) {
        int32_t point;

        bytes = unicode_first(text + i, len - i, &point);
        if (point == quote || point == '\\')
            text_addf(out, "\\%c", (char)point);
        else if (point == '\n' || point == '\r' || point == '\t')
            text_adds(out, point == '\n' ? "\\n" : point == '\r' ? "\\r" : "\\t");
        else if (is_printable(point))
            text_add(out, text + i, bytes);
        else
            text_addf(out,
                      point < 0x100     ? "\\x%02x"
                      : point < 0x10000 ? "\\u%04x"
                                        : "\\U%08x",
                      (unsigned)point);
    }
    text_addc(out, quote);
}

void jinja_add_real(struct text *out, double real)
{
    char digits[40], *exponent;
    int power, decimals;

    if (isnan(real) || isinf(real)) {
        text_adds(out, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(digits, sizeof(digits), "%.*e", precision, real);
        if (strtod(digits, NULL) == real)
            break;
    }
    exponent = strchr(digits, 'e');
    power = atoi(exponent + 1);
    if (power < -4 || power >= 16) {
        text_add(out, digits, (size_t)(exponent - digits));
        text_addf(out, "e%c%02d", power < 0 ? '-' : '+', abs(power));
        return;
    }
    /* as many decimals as the shortest form has */
    decimals = strchr(digits, '.') ? (int)(exponent - strchr(digits, '.')) - 1 : 0;
    text_addf(out, "%.*f", decimals - power < 1 ? 1 : decimals - power, real);
}
