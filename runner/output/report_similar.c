/* runner/output/report_similar.c - comparison of findings except for their key and its
 * value. */
#include "config.h"

#include "runner/output/report_similar.h"

#include <ctype.h>
#include <string.h>

/* A sentence that is read word by word; the key and the old value count as one word that
 * is the same for all findings. */
struct reader {
    const char *at;
    const char *key, *value; /* "" if there is none */
    size_t value_len;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static struct reader reader_of(const struct finding *finding, const char *sentence)
{
    const char *value = finding->old_text ? finding->old_text : "";
    size_t len = strlen(value);

    if (len >= 2 && (value[0] == '\'' || value[0] == '"') && value[len - 1] == value[0]) {
        value++;
        len -= 2;
    }
    return (struct reader) { sentence, finding->key, value, len };
}

/* Move past one word or character.  Return the word, or NULL for the key or the value. */
static const char *next(struct reader *reader, size_t *len)
{
    const char *at = reader->at;
    const size_t key = strlen(reader->key);

    *len = 1;
    while (is_word(at[0]) && is_word(at[*len]))
        ++*len;
    reader->at += *len;
    if (*len == key && memcmp(at, reader->key, key) == 0)
        return NULL;
    if (reader->value_len > 0 && strncmp(at, reader->value, reader->value_len) == 0 &&
        !is_word(at[reader->value_len])) {
        reader->at = at + reader->value_len;
        return NULL;
    }
    return at;
}

static bool same_sentence(const struct finding *a, const char *in_a,
                          const struct finding *b, const char *in_b)
{
    struct reader x, y;

    if (!in_a || !in_b)
        return !in_a && !in_b;
    x = reader_of(a, in_a);
    y = reader_of(b, in_b);
    while (*x.at && *y.at) {
        size_t x_len, y_len;
        const char *x_word = next(&x, &x_len), *y_word = next(&y, &y_len);

        if (!x_word != !y_word ||
            (x_word && (x_len != y_len || memcmp(x_word, y_word, x_len) != 0)))
            return false;
    }
    return !*x.at && !*y.at;
}

bool report_is_similar(const struct finding *a, const struct finding *b)
{
    return a->key && b->key && strcmp(a->key, b->key) != 0 && a->group == 0 &&
           b->group == 0 && strcmp(a->rule, b->rule) == 0 && a->severity == b->severity &&
           a->severity != SEVERITY_ERROR && a->apply == b->apply &&
           a->fixed == b->fixed && a->resolved == b->resolved &&
           !a->new_text == !b->new_text && !a->old_text == !b->old_text &&
           same_sentence(a, a->message, b, b->message) &&
           same_sentence(a, a->note, b, b->note);
}
