/* train/generation/answer.c - finding answers, reading them as numbers, comparing
 * them. */
#include "config.h"

#include "train/generation/answer.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { NUMBER_MAX = 64 }; /* characters */

static struct answer trim(const char *text, size_t len)
{
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    while (len > 0 && isspace((unsigned char)*text)) {
        text++;
        len--;
    }
    return (struct answer) { text, len };
}

/* Return the text after the first `word`; NULL if `word` is absent. */
static const char *after_word(const char *text, size_t len, const char *word)
{
    const char *at = memmem(text, len, word, strlen(word));

    return at ? at + strlen(word) : NULL;
}

/* Find "<tag>" or "</tag>" in `text`; *size is its length. */
static const char *find_tag(const char *text, size_t len, const char *open,
                            const char *tag, size_t *size)
{
    size_t open_len = strlen(open), tag_len = strlen(tag);

    *size = open_len + tag_len + 1;
    for (size_t i = 0; i + *size <= len; i++)
        if (memcmp(text + i, open, open_len) == 0 &&
            memcmp(text + i + open_len, tag, tag_len) == 0 &&
            text[i + open_len + tag_len] == '>')
            return text + i;
    return NULL;
}

static bool find_tagged(const char *tag, const char *text, size_t len, struct answer *out)
{
    size_t size;
    const char *end = text + len, *first = find_tag(text, len, "<", tag, &size), *last;

    if (!first)
        return false;
    first += size;
    last = find_tag(first, (size_t)(end - first), "</", tag, &size);
    if (last)
        *out = trim(first, (size_t)(last - first));
    return last && out->len > 0;
}

static bool find_marked(const char *marker, const char *text, size_t len,
                        struct answer *out)
{
    const char *first = after_word(text, len, marker), *end;

    if (!first)
        return false;
    len -= (size_t)(first - text);
    end = memchr(first, '\n', len);
    *out = trim(first, end ? (size_t)(end - first) : len);
    return out->len > 0;
}

bool answer_find(const struct answer_rule *rule, const char *text, size_t len,
                 struct answer *out)
{
    bool tag = rule->tag && *rule->tag, marker = rule->marker && *rule->marker;

    *out = (struct answer) { text, 0 };
    if (tag && find_tagged(rule->tag, text, len, out))
        return true;
    if (marker && find_marked(rule->marker, text, len, out))
        return true;
    if (!tag && !marker)
        *out = trim(text, len);
    return !tag && !marker && out->len > 0;
}

/* Copy a number without its commas, which must be in the right positions. */
static bool copy_digits(const char *text, size_t len, char out[NUMBER_MAX])
{
    size_t used = 0, group_digits = 0; /* digits since the last comma */
    bool commas = false, integer_part = true;

    for (size_t i = 0; i < len; i++) {
        bool digit = isdigit((unsigned char)text[i]);

        if (integer_part && text[i] == ',') {
            if (group_digits == 0 || group_digits > 3 || (commas && group_digits != 3))
                return false;
            commas = true;
            group_digits = 0;
            continue;
        }
        if (!digit && !strchr("+-.eE", text[i]))
            return false;
        if (integer_part && (text[i] == '.' || text[i] == 'e' || text[i] == 'E')) {
            integer_part = false;
            if (commas && group_digits != 3)
                return false;
        }
        group_digits += digit;
        out[used++] = text[i];
    }
    out[used] = 0;
    return !integer_part || !commas || group_digits == 3;
}

bool answer_number(struct answer answer, double *out)
{
    static const char *const currencies[] = { "$", "\xe2\x82\xac", "\xc2\xa3" };
    char digits[NUMBER_MAX], *end;
    bool minus = answer.len > 0 && *answer.text == '-';

    answer = trim(answer.text + minus, answer.len - minus);
    for (size_t i = 0; i < TS_COUNT(currencies); i++) {
        size_t size = strlen(currencies[i]);

        if (answer.len > size && memcmp(answer.text, currencies[i], size) == 0) {
            answer = trim(answer.text + size, answer.len - size);
            break;
        }
    }
    while (answer.len > 0 && strchr(".%", answer.text[answer.len - 1]))
        answer = trim(answer.text, answer.len - 1);
    if (answer.len == 0 || answer.len >= NUMBER_MAX ||
        (minus && strchr("+-", *answer.text)) ||
        !copy_digits(answer.text, answer.len, digits))
        return false;
    *out = strtod(digits, &end);
    *out = minus ? -*out : *out;
    return *end == 0 && end != digits && isfinite(*out);
}

bool answer_is_correct(const struct answer_rule *rule, struct answer given,
                       struct answer expected)
{
    double given_value, expected_value;

    if (answer_number(given, &given_value) && answer_number(expected, &expected_value))
        return fabs(given_value - expected_value) <=
               rule->tolerance * fabs(expected_value);
    return given.len == expected.len && memcmp(given.text, expected.text, given.len) == 0;
}

struct verdict answer_judge(const struct answer_rule *rule, const char *text, size_t len,
                            const char *expected, size_t expected_len)
{
    struct answer given, expected_answer;
    struct verdict verdict = { .found = answer_find(rule, text, len, &given) };

    if (!answer_find(rule, expected, expected_len, &expected_answer))
        expected_answer = trim(expected, expected_len);
    verdict.correct = verdict.found && answer_is_correct(rule, given, expected_answer);
    return verdict;
}
