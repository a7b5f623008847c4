/* train/text/unicode.c - code points and their classes, from utf8proc's tables. */
#include "config.h"

#include "train/text/unicode.h"

#include <utf8proc.h>

size_t unicode_first(const char *data, size_t len, int32_t *point)
{
    const unsigned char *at = (const unsigned char *)data;

    if (at[0] < 0x80) {
        *point = at[0];
        return 1;
    }
    if (at[0] < 0xe0 && len >= 2) {
        *point = (at[0] & 0x1f) << 6 | (at[1] & 0x3f);
        return 2;
    }
    if (at[0] < 0xf0 && len >= 3) {
        *point = (at[0] & 0x0f) << 12 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f);
        return 3;
    }
    if (len < 4) {
        *point = 0xfffd;
        return len;
    }
    *point = (at[0] & 0x07) << 18 | (at[1] & 0x3f) << 12 | (at[2] & 0x3f) << 6 |
             (at[3] & 0x3f);
    return 4;
}

size_t unicode_last(const char *data, size_t len, int32_t *point)
{
    size_t back = 1;

    while (back < len && back < 4 && ((unsigned char)data[len - back] & 0xc0) == 0x80)
        back++;
    return unicode_first(data + len - back, back, point);
}

size_t unicode_put(int32_t point, char out[4])
{
    return (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)out);
}

bool unicode_is_space(int32_t point)
{
    if (point < 0x80)
        return point == ' ' || (point >= '\t' && point <= '\r');
    return point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
           point == 0x202f || point == 0x205f || point == 0x3000;
}

bool unicode_is_numeric(int32_t point)
{
    if (point < 0x80)
        return point >= '0' && point <= '9';
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return true;
    default:
        return false;
    }
}

/* Alphabetic, marks, decimal digits, connectors and joiners (UTS 18, annex C). */
bool unicode_is_word(int32_t point)
{
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return point == 0x200c || point == 0x200d || (point >= 0x24b6 && point <= 0x24e9);
    }
}

bool unicode_is_punctuation(int32_t point)
{
    if (point < 0x80)
        return (point >= '!' && point <= '/') || (point >= ':' && point <= '@') ||
               (point >= '[' && point <= '`') || (point >= '{' && point <= '~');
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return true;
    default:
        return false;
    }
}

/* The length of bytes at `data` that start a character but do not complete it: 1 or
 * more. */
static size_t broken_part(const unsigned char *data, size_t len)
{
    static const struct {
        unsigned char from, to, low, high; /* first byte, and range of the second */
        size_t more;
    } starts[] = {
        { 0xc2, 0xdf, 0x80, 0xbf, 1 }, { 0xe0, 0xe0, 0xa0, 0xbf, 2 },
        { 0xe1, 0xec, 0x80, 0xbf, 2 }, { 0xed, 0xed, 0x80, 0x9f, 2 },
        { 0xee, 0xef, 0x80, 0xbf, 2 }, { 0xf0, 0xf0, 0x90, 0xbf, 3 },
        { 0xf1, 0xf3, 0x80, 0xbf, 3 }, { 0xf4, 0xf4, 0x80, 0x8f, 3 },
    };

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        size_t part = 1;

        if (data[0] < starts[i].from || data[0] > starts[i].to)
            continue;
        if (len < 2 || data[1] < starts[i].low || data[1] > starts[i].high)
            return 1;
        while (part < len && part < starts[i].more && (data[part] & 0xc0) == 0x80)
            part++;
        return part;
    }
    return 1;
}

void unicode_add_lossy(struct text *out, const char *data, size_t len)
{
    size_t bad;

    while (!text_is_utf8(data, len, &bad)) {
        text_add(out, data, bad);
        data += bad;
        len -= bad;
        bad = broken_part((const unsigned char *)data, len);
        text_adds(out, "\xef\xbf\xbd");
        data += bad;
        len -= bad;
    }
    text_add(out, data, len);
}
