/* base/text.c - a growing byte string with a ceiling, and UTF-8 validation. */
#include "config.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* Data of an empty text that owns no memory (room 0); never written. */
static char nothing[1];

void text_init(struct text *text, size_t max)
{
    *text = (struct text) { .data = nothing, .max = max ? max : TEXT_MAX_DEFAULT };
}

void text_clear(struct text *text)
{
    if (text->room > 0)
        free(text->data);
    text_init(text, text->max);
}

void text_reset(struct text *text)
{
    text->len = 0;
    text->overflow = false;
    if (text->room > 0)
        text->data[0] = 0;
}

/* Make room for `more` bytes and the NUL. */
static bool text_grow(struct text *text, size_t more)
{
    size_t need, room;

    if (text->overflow || more > text->max - text->len) {
        text->overflow = true;
        return false;
    }
    need = text->len + more + 1;
    if (need <= text->room)
        return true;
    room = text->room > SIZE_MAX / 2 ? need : 2 * text->room;
    if (room > text->max)
        room = text->max + 1;
    if (room < need)
        room = need;
    if (room < 64)
        room = 64;
    text->data = memory_resize(text->room > 0 ? text->data : NULL, room, 1);
    text->room = room;
    return true;
}

bool text_add(struct text *text, const void *data, size_t len)
{
    if (!text_grow(text, len))
        return false;
    if (len > 0)
        memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = 0;
    return true;
}

bool text_adds(struct text *text, const char *string)
{
    return text_add(text, string, strlen(string));
}

bool text_addc(struct text *text, char byte)
{
    return text_add(text, &byte, 1);
}

/* Most texts fit into the room that is left, so print there first. */
bool text_addf(struct text *text, const char *fmt, ...)
{
    size_t left = text->room - (text->room > 0 ? text->len : 0);
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(left > 0 ? text->data + text->len : NULL, left, fmt, args);
    va_end(args);
    if (left > 0 && (len < 0 || (size_t)len >= left || text->overflow))
        text->data[text->len] = 0; /* nothing of it is part of the text */
    if (len < 0 || !text_grow(text, (size_t)len)) {
        text->overflow = true;
        return false;
    }
    if ((size_t)len >= left) {
        va_start(args, fmt);
        vsnprintf(text->data + text->len, (size_t)len + 1, fmt, args);
        va_end(args);
    }
    text->len += (size_t)len;
    return true;
}

char *text_detach(struct text *text, size_t *len)
{
    char *data = text->room > 0 ? text->data : memory_alloc(1);

    if (len)
        *len = text->len;
    text_init(text, text->max);
    return data;
}

/*
 * Well-formed sequences by first byte: their length and the range of the second byte;
 * later bytes are 80 to BF.  The Unicode Standard 15.0, table 3-7.
 */
static const struct sequence {
    unsigned char first, last, length, second_min, second_max;
} sequences[] = {
    { 0x00, 0x7f, 1, 0x00, 0x00 }, { 0xc2, 0xdf, 2, 0x80, 0xbf },
    { 0xe0, 0xe0, 3, 0xa0, 0xbf }, { 0xe1, 0xec, 3, 0x80, 0xbf },
    { 0xed, 0xed, 3, 0x80, 0x9f }, { 0xee, 0xef, 3, 0x80, 0xbf },
    { 0xf0, 0xf0, 4, 0x90, 0xbf }, { 0xf1, 0xf3, 4, 0x80, 0xbf },
    { 0xf4, 0xf4, 4, 0x80, 0x8f },
};

/* Return the length in bytes of the character at data; 0 if it is malformed. */
static size_t character_length(const unsigned char *data, size_t len)
{
    const struct sequence *s = sequences;
    const struct sequence *end = sequences + sizeof(sequences) / sizeof(sequences[0]);

    while (s < end && !(data[0] >= s->first && data[0] <= s->last))
        s++;
    if (s == end || s->length > len)
        return 0;
    if (s->length > 1 && (data[1] < s->second_min || data[1] > s->second_max))
        return 0;
    for (size_t i = 2; i < s->length; i++)
        if ((data[i] & 0xc0) != 0x80)
            return 0;
    return s->length;
}

bool text_is_utf8(const char *data, size_t len, size_t *bad_byte)
{
    size_t at = 0;

    while (at < len) {
        size_t length;

        if ((unsigned char)data[at] < 0x80) { /* most of most texts */
            at++;
            continue;
        }
        length = character_length((const unsigned char *)data + at, len - at);
        if (length == 0) {
            if (bad_byte)
                *bad_byte = at;
            return false;
        }
        at += length;
    }
    return true;
}

/* C0, DEL, and C1, which is C2 80 to C2 9F in UTF-8. */
static bool is_control(const unsigned char *character, size_t length)
{
    if (length == 1)
        return character[0] < 0x20 || character[0] == 0x7f;
    return length == 2 && character[0] == 0xc2 && character[1] < 0xa0;
}

bool text_add_visible(struct text *text, const char *data, size_t len)
{
    const unsigned char *at = (const unsigned char *)data;
    const unsigned char *end = at + len;

    while (at < end) {
        size_t length = character_length(at, (size_t)(end - at));
        bool shown = length > 0 && !is_control(at, length);

        if (shown && !text_add(text, at, length))
            return false;
        for (size_t i = 0; !shown && i < (length ? length : 1); i++)
            if (!text_addf(text, "\\x%02x", at[i]))
                return false;
        at += length ? length : 1;
    }
    return !text->overflow;
}

bool text_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool text_starts(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

bool text_ends(const char *string, const char *suffix)
{
    size_t len = strlen(string), cut = strlen(suffix);

    return len >= cut && strcmp(string + len - cut, suffix) == 0;
}
