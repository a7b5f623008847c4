/*
 * runner/job/record_scan.c - reads a flat JSON object whose members are known.  What it
 * accepts, jansson reads the same way; everything else is left to jansson.
 */
#include "config.h"

#include "runner/job/record_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INTEGER_DIGITS = 18 }; /* they fit in 64 bits */

struct scan {
    const char *at, *end;
};

static bool take(struct scan *scan, const char *literal)
{
    size_t len = strlen(literal);

    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, literal, len) != 0)
        return false;
    scan->at += len;
    return true;
}

/* Undo an escape of two characters; 0 for any other. */
static char unescape(char escaped)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = escaped ? strchr(from, escaped) : NULL;

    return found ? to[found - from] : 0;
}

/* Copy a string that has escapes; `len` is its length with them. */
static bool copy_escaped(const char *from, size_t len, char *out)
{
    const char *end = from + len;

    while (from < end) {
        char byte = *from++;

        if (byte == '\\')
            byte = from < end ? unescape(*from++) : 0;
        if (!byte)
            return false;
        *out++ = byte;
    }
    *out = 0;
    return true;
}

/* Find the closing quote of a string. */
static const char *find_quote(const char *from, const char *end, bool *escaped)
{
    const char *quote = memchr(from, '"', (size_t)(end - from));

    *escaped = quote && memchr(from, '\\', (size_t)(quote - from));
    if (!*escaped)
        return quote;
    while (from < end && *from != '"')
        from += *from == '\\' ? 2 : 1;
    return from < end ? from : NULL;
}

/* Read a string that has fewer than `room` bytes in the text. */
static bool take_string(struct scan *scan, char *out, size_t room)
{
    unsigned char all = 0, control = 0;
    const char *from, *quote;
    bool escaped;
    size_t len;

    if (!take(scan, "\""))
        return false;
    from = scan->at;
    quote = find_quote(from, scan->end, &escaped);
    len = quote ? (size_t)(quote - from) : room;
    if (len >= room)
        return false;
    for (size_t i = 0; i < len; i++) {
        all |= (unsigned char)from[i];
        control |= (unsigned char)((unsigned char)from[i] < 0x20);
    }
    scan->at = quote + 1;
    if (control || (all >= 0x80 && !text_is_utf8(from, len, NULL)))
        return false;
    if (escaped)
        return copy_escaped(from, len, out);
    memcpy(out, from, len);
    out[len] = 0;
    return true;
}

static size_t take_digits(struct scan *scan)
{
    const char *from = scan->at;

    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    return (size_t)(scan->at - from);
}

/* Skip -?(0|[1-9][0-9]*), and return whether it fits in 64 bits. */
static bool skip_integer(struct scan *scan)
{
    bool zero;
    size_t digits;

    (void)take(scan, "-");
    zero = scan->at < scan->end && *scan->at == '0';
    digits = take_digits(scan);
    return digits > 0 && digits <= INTEGER_DIGITS && !(zero && digits > 1);
}

static bool skip_fraction(struct scan *scan)
{
    if (take(scan, ".") && take_digits(scan) == 0)
        return false;
    if (!take(scan, "e") && !take(scan, "E"))
        return true;
    if (!take(scan, "+"))
        (void)take(scan, "-");
    return take_digits(scan) > 0;
}

/* strtoll and strtod stop at the character after the number, which exists. */
static bool take_number(struct scan *scan, const struct record_field *field, void *out)
{
    const char *from = scan->at;

    if (!skip_integer(scan))
        return false;
    if (field->kind == RECORD_INTEGER) {
        *(int64_t *)out = strtoll(from, NULL, 10);
        return scan->at < scan->end;
    }
    if (!skip_fraction(scan) || scan->at == scan->end)
        return false;
    *(double *)out = strtod(from, NULL);
    return isfinite(*(double *)out);
}

static bool take_value(struct scan *scan, const struct record_field *field,
                       struct job_record *record)
{
    void *out = (char *)record + field->at;

    if (take(scan, "null"))
        return true;
    switch (field->kind) {
    case RECORD_TEXT:
        return take_string(scan, out, field->room);
    case RECORD_INTEGER:
    case RECORD_REAL:
        return take_number(scan, field, out);
    case RECORD_BOOLEAN:
        *(bool *)out = take(scan, "true");
        return *(bool *)out || take(scan, "false");
    }
    return false;
}

/* Find a key; `expected` is its usual position. */
static size_t find_field(const char *key, size_t expected)
{
    if (expected < record_field_count && strcmp(record_fields[expected].key, key) == 0)
        return expected;
    for (size_t i = 0; i < record_field_count; i++)
        if (strcmp(record_fields[i].key, key) == 0)
            return i;
    return record_field_count;
}

static bool take_state(struct scan *scan, struct job_record *out)
{
    char name[16];

    return take(scan, "{\"state\":") && take_string(scan, name, sizeof(name)) &&
           record_set_state(out, name);
}

bool record_scan(const char *data, size_t len, struct job_record *out)
{
    struct scan scan = { data, data + len };
    uint64_t seen = 0;
    size_t next = 0;

    if (!take_state(&scan, out))
        return false;
    while (take(&scan, ",")) {
        char key[32];
        size_t field;

        if (!take_string(&scan, key, sizeof(key)) || !take(&scan, ":"))
            return false;
        field = find_field(key, next);
        /* jansson rejects an object with a key twice */
        if (field == record_field_count || seen >> field & 1 ||
            !take_value(&scan, &record_fields[field], out))
            return false;
        seen |= (uint64_t)1 << field;
        next = field + 1;
    }
    if (!take(&scan, "}"))
        return false;
    (void)take(&scan, "\n");
    return scan.at == scan.end;
}
