/* base/json_scan.c - a recursive-descent reader of JSON (RFC 8259). */
#include "config.h"

#include "base/json_scan.h"

#include <string.h>

#include "base/text.h"

enum { DEPTH_MOST = 64 }; /* of values that are skipped */

void json_scan_init(struct json_scan *scan, char *data, size_t len)
{
    const bool mark = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;

    *scan = (struct json_scan) { .data = data,
                                 .at = data + (mark ? 3 : 0),
                                 .end = data + len };
}

static bool fail(struct json_scan *scan, const char *why)
{
    scan->why = scan->why ? scan->why : why;
    return false;
}

/* Return the next character that is no blank; 0 at the end, and after an error. */
static char peek(struct json_scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' ||
                                    *scan->at == '\t' || *scan->at == '\r'))
        scan->at++;
    return scan->at < scan->end && !scan->why ? *scan->at : 0;
}

static bool take(struct json_scan *scan, char expected, const char *why)
{
    if (peek(scan) != expected)
        return fail(scan, why);
    scan->at++;
    return true;
}

bool json_scan_open(struct json_scan *scan, char bracket)
{
    if (peek(scan) != bracket)
        return false;
    scan->at++;
    scan->first = true;
    return true;
}

/* Move past a comma, if one is due; false: the list or object ends here. */
static bool next(struct json_scan *scan, char close)
{
    if (peek(scan) == close) {
        scan->at++;
        scan->first = false; /* of the outer one, which this is an element of */
        return false;
    }
    if (!scan->first && !take(scan, ',', "a comma or a closing bracket is missing"))
        return false;
    scan->first = false;
    return !scan->why;
}

bool json_scan_item(struct json_scan *scan)
{
    return next(scan, ']');
}

bool json_scan_key(struct json_scan *scan, const char **out)
{
    if (!next(scan, '}'))
        return false;
    if (!json_scan_string(scan, out))
        return fail(scan, "the name of a value is missing");
    return take(scan, ':', "a colon is missing");
}

/* ---- Strings ---- */

static bool read_hex(struct json_scan *scan, unsigned *out)
{
    *out = 0;
    if (scan->end - scan->at < 4)
        return fail(scan, "an escape is not complete");
    for (int i = 0; i < 4; i++) {
        const char c = *scan->at++;
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                               : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                      : 16;

        if (digit > 15)
            return fail(scan, "an escape is not hexadecimal");
        *out = *out << 4 | digit;
    }
    return true;
}

/* Write the character as UTF-8, which is shorter than its escape. */
static char *put(char *to, unsigned point)
{
    const int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char first[] = { 0, 0xc0, 0xe0, 0xf0 };

    *to++ = (char)(first[more] | point >> (6 * more));
    for (int i = more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (point >> (6 * i) & 0x3f));
    return to;
}

/* Decode \uXXXX, or a pair of them, whose u has been read. */
static bool read_point(struct json_scan *scan, unsigned *out)
{
    unsigned low;

    if (!read_hex(scan, out))
        return false;
    if (*out == 0)
        return fail(scan, "a string contains a NUL");
    if (*out < 0xd800 || *out > 0xdfff)
        return true;
    if (*out > 0xdbff || scan->end - scan->at < 6 || scan->at[0] != '\\' ||
        scan->at[1] != 'u')
        return fail(scan, "half of a surrogate pair");
    scan->at += 2;
    if (!read_hex(scan, &low) || low < 0xdc00 || low > 0xdfff)
        return fail(scan, "half of a surrogate pair");
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool read_escape(struct json_scan *scan, char **to)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char c = scan->at < scan->end ? *scan->at++ : 0;
    const char *at = c ? strchr(names, c) : NULL;
    unsigned point;

    if (at) {
        *(*to)++ = means[at - names];
        return true;
    }
    if (c != 'u')
        return fail(scan, "an unknown escape");
    if (!read_point(scan, &point))
        return false;
    *to = put(*to, point);
    return true;
}

bool json_scan_string(struct json_scan *scan, const char **out)
{
    bool ascii = true;
    char *from, *to;

    if (peek(scan) != '"')
        return false;
    from = to = ++scan->at;
    while (scan->at < scan->end && *scan->at != '"') {
        const char c = *scan->at++;

        if ((unsigned char)c < 0x20)
            return fail(scan, "a control character in a string");
        ascii &= (unsigned char)c < 0x80;
        if (c != '\\')
            *to++ = c;
        else if (!read_escape(scan, &to))
            return false;
    }
    if (scan->at == scan->end)
        return fail(scan, "a string does not end");
    scan->at++;
    if (!ascii && !text_is_utf8(from, (size_t)(to - from), NULL))
        return fail(scan, "a string is not UTF-8");
    *to = 0; /* at the closing quote at the latest */
    *out = from;
    return true;
}

/* ---- Numbers and other values ---- */

static bool is_digit(const struct json_scan *scan, const char *at)
{
    return at < scan->end && *at >= '0' && *at <= '9';
}

bool json_scan_count(struct json_scan *scan, uint64_t *out)
{
    uint64_t value = 0;
    const char *at;

    if (peek(scan) < '0' || *scan->at > '9')
        return false;
    for (at = scan->at; is_digit(scan, at); at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if ((*scan->at == '0' && at > scan->at + 1) ||
        (at < scan->end && strchr(".eE", *at) && *at))
        return false;
    scan->at += at - scan->at;
    *out = value;
    return true;
}

static void skip_digits(struct json_scan *scan)
{
    if (!is_digit(scan, scan->at))
        fail(scan, "a digit is missing");
    while (is_digit(scan, scan->at))
        scan->at++;
}

static bool skip_number(struct json_scan *scan)
{
    scan->at += *scan->at == '-';
    if (is_digit(scan, scan->at) && *scan->at == '0')
        scan->at++;
    else
        skip_digits(scan);
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        skip_digits(scan);
    }
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        scan->at += scan->at < scan->end && (*scan->at == '+' || *scan->at == '-');
        skip_digits(scan);
    }
    return !scan->why;
}

static bool skip_word(struct json_scan *scan)
{
    static const char *const words[] = { "true", "false", "null" };

    for (size_t i = 0; i < 3; i++) {
        const size_t len = strlen(words[i]);

        if ((size_t)(scan->end - scan->at) >= len &&
            memcmp(scan->at, words[i], len) == 0) {
            scan->at += len;
            return true;
        }
    }
    return fail(scan, "a value is missing");
}

static bool skip(struct json_scan *scan, int depth)
{
    const char *ignored, c = peek(scan);

    if (depth == DEPTH_MOST)
        return fail(scan, "it is nested too deeply");
    if (json_scan_open(scan, '{'))
        while (json_scan_key(scan, &ignored))
            skip(scan, depth + 1);
    else if (json_scan_open(scan, '['))
        while (json_scan_item(scan))
            skip(scan, depth + 1);
    else if (c == '-' || (c >= '0' && c <= '9'))
        skip_number(scan);
    else if (c != '"')
        skip_word(scan);
    else
        json_scan_string(scan, &ignored);
    return !scan->why;
}

bool json_scan_skip(struct json_scan *scan)
{
    return skip(scan, 0);
}

bool json_scan_end(struct json_scan *scan, const char *file, struct error *err)
{
    if (!scan->why && (peek(scan) || scan->at < scan->end))
        fail(scan, "more text follows");
    return !scan->why || error_set(err, ERROR_DATA, "%s: invalid JSON at byte %zu: %s",
                                   file, (size_t)(scan->at - scan->data) + 1, scan->why);
}
