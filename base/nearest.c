/* base/nearest.c - edit distance in three rows of the dynamic-programming table; it stops
 * as soon as a whole row exceeds the limit. */
#include "config.h"

#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

#define NEAREST_MAX 64 /* characters; longer than any key */

static int lower(char c)
{
    return tolower((unsigned char)c);
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_separator(char c)
{
    return c == '-' || c == '_' || c == ' ' || c == '\t';
}

/* Store the first byte of each character.  Return the number of characters; any value
 * above `room` means that they do not fit. */
static size_t first_bytes(const char *text, char *out, size_t room)
{
    size_t count = 0;

    for (; *text && count <= room; text++)
        if (((unsigned char)*text & 0xc0) != 0x80 && count++ < room)
            out[count - 1] = *text;
    return count;
}

size_t nearest_distance(const char *left, const char *right, size_t limit)
{
    size_t rows[3][NEAREST_MAX + 1];
    char a[2 * NEAREST_MAX], b[NEAREST_MAX];
    size_t a_len = first_bytes(left, a, sizeof(a)),
           b_len = first_bytes(right, b, sizeof(b));
    size_t *before = rows[0], *last = rows[1], *now = rows[2];

    if (a_len > b_len + limit || b_len > a_len + limit || b_len > NEAREST_MAX ||
        a_len > sizeof(a))
        return limit + 1;
    for (size_t j = 0; j <= b_len; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *old = before, least = now[0] = i;

        for (size_t j = 1; j <= b_len; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);

            now[j] = min(min(now[j - 1], last[j]) + 1, last[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                now[j] = min(now[j], before[j - 2] + 1);
            least = min(least, now[j]);
        }
        if (least > limit)
            return limit + 1;
        before = last;
        last = now;
        now = old;
    }
    return min(last[b_len], limit + 1);
}

bool nearest_is_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (is_separator(*a))
            a++;
        while (is_separator(*b))
            b++;
        if (lower(*a) != lower(*b))
            return false;
        if (*a == 0)
            return true;
    }
}
