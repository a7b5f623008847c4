/* train/generation/similarity.c - BLEU as in nltk 3.10 (translate/bleu_score.py) and ROUGE
 * as in rouge_chinese 1.0.3 (rouge.py, rouge_score.py), on one pair of texts. */
#include "config.h"

#include "train/generation/similarity.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/text.h"
#include "train/generation/words.h"
#include "train/text/unicode.h"

enum { BLEU_ORDER = 4 };

const char *const score_names[SCORES] = {
    [SCORE_ROUGE_1] = "rouge-1",
    [SCORE_ROUGE_2] = "rouge-2",
    [SCORE_ROUGE_L] = "rouge-l",
    [SCORE_BLEU_4] = "bleu-4",
};

bool similarity_counts_words(enum score score)
{
    return score != SCORE_BLEU_4;
}

/* ---- Sequences of ids, and their n-grams ---- */

struct sequence {
    int32_t *ids; /* malloc'ed */
    size_t count;
};

/* The n-grams of a sequence, sorted. */
struct grams {
    const int32_t **list; /* malloc'ed; each points to its first id */
    size_t count, bytes;  /* bytes of one */
};

static int compare_grams(const void *a, const void *b, void *bytes)
{
    return memcmp(*(const int32_t *const *)a, *(const int32_t *const *)b,
                  *(const size_t *)bytes);
}

static struct grams grams_make(const struct sequence *of, size_t n)
{
    struct grams grams = { .count = of->count >= n ? of->count - n + 1 : 0,
                           .bytes = n * sizeof(int32_t) };

    grams.list = memory_resize(NULL, grams.count + 1, sizeof(*grams.list));
    for (size_t i = 0; i < grams.count; i++)
        grams.list[i] = of->ids + i;
    qsort_r(grams.list, grams.count, sizeof(*grams.list), compare_grams, &grams.bytes);
    return grams;
}

/* Return how often the gram at *at occurs, and advance *at past it. */
static size_t take_equal(const struct grams *grams, size_t *at)
{
    size_t from = (*at)++;

    while (*at < grams->count &&
           memcmp(grams->list[from], grams->list[*at], grams->bytes) == 0)
        (*at)++;
    return *at - from;
}

struct overlap {
    size_t a, b, both;
};

/* Count the distinct n-grams of a, of b, and of both. */
static struct overlap overlap_of_sets(const struct grams *a, const struct grams *b)
{
    struct overlap overlap = { 0 };
    size_t i = 0, j = 0;

    while (i < a->count || j < b->count) {
        int order = i == a->count   ? 1
                    : j == b->count ? -1
                                    : memcmp(a->list[i], b->list[j], a->bytes);

        if (order <= 0) {
            take_equal(a, &i);
            overlap.a++;
        }
        if (order >= 0) {
            take_equal(b, &j);
            overlap.b++;
        }
        overlap.both += order == 0;
    }
    return overlap;
}

/* Count the n-grams of a that b has, too, each as often as b has it at most. */
static size_t overlap_of_bags(const struct grams *a, const struct grams *b)
{
    size_t i = 0, j = 0, both = 0;

    while (i < a->count && j < b->count) {
        int order = memcmp(a->list[i], b->list[j], a->bytes);
        size_t in_a = order <= 0 ? take_equal(a, &i) : 0;
        size_t in_b = order >= 0 ? take_equal(b, &j) : 0;

        both += size_min(in_a, in_b);
    }
    return both;
}

static void grams_clear(struct grams *grams)
{
    free(grams->list);
}

/* ---- BLEU ---- */

/* sentence_bleu([expected], generated) with SmoothingFunction().method3 and equal
 * weights. */
static double bleu(const struct sequence *generated, const struct sequence *expected)
{
    long double sum = 0;
    double smooth = 1, shortness;

    for (size_t n = 1; n <= BLEU_ORDER; n++) {
        struct grams a = grams_make(generated, n), b = grams_make(expected, n);
        double all = a.count > 0 ? (double)a.count : 1;
        double both = (double)overlap_of_bags(&a, &b);

        grams_clear(&a);
        grams_clear(&b);
        if (n == 1 && both == 0)
            return 0;
        /* the k-th order without a match counts 1 / 2^k matches */
        if (both == 0)
            both = smooth /= 2;
        sum += 0.25 * log(both / all);
    }
    shortness = generated->count > expected->count
                    ? 1
                    : exp(1 - (double)expected->count / (double)generated->count);
    return shortness * exp((double)sum);
}

/* ---- ROUGE ---- */

static double f_score(double precision, double recall)
{
    return 2 * (precision * recall / (precision + recall + 1e-8));
}

static double share(size_t part, size_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

static double rouge_n(const struct sequence *generated, const struct sequence *expected,
                      size_t n)
{
    struct grams a = grams_make(generated, n), b = grams_make(expected, n);
    struct overlap overlap = overlap_of_sets(&a, &b);

    grams_clear(&a);
    grams_clear(&b);
    return f_score(share(overlap.both, overlap.a), share(overlap.both, overlap.b));
}

/* Return the length of the longest common subsequence. */
static size_t common_len(const struct sequence *a, const struct sequence *b)
{
    size_t *row = memory_alloc((b->count + 1) * sizeof(*row)), len;

    for (size_t i = 0; i < a->count; i++) {
        size_t diagonal = 0;

        for (size_t j = 1; j <= b->count; j++) {
            size_t above = row[j];

            if (a->ids[i] == b->ids[j - 1])
                row[j] = diagonal + 1;
            else
                row[j] = above > row[j - 1] ? above : row[j - 1];
            diagonal = above;
        }
    }
    len = row[b->count];
    free(row);
    return len;
}

static double rouge_l(const struct sequence *generated, const struct sequence *expected)
{
    size_t len = common_len(expected, generated);

    return f_score(share(len, generated->count), share(len, expected->count));
}

/* ---- The words that ROUGE counts ---- */

/* Return the bytes after which rouge_chinese may end a line at text[at]: a mark that ends
 * a sentence, or six periods.  Its other two patterns need two marks in a row, and a
 * blank separates the words of such marks. */
static size_t sentence_end(const char *text, size_t len, size_t at)
{
    static const char *const ends[] = { "?", "。", "！", "？" };

    for (size_t i = 0; i < TS_COUNT(ends); i++) {
        size_t size = strlen(ends[i]);

        if (size <= len - at && memcmp(text + at, ends[i], size) == 0)
            return size;
    }
    return 0;
}

static size_t six_periods(const char *text, size_t len, size_t at)
{
    return len - at >= 6 && memcmp(text + at, "......", 6) == 0 ? 6 : 0;
}

/* Copy the text with a line break after each match that a character follows, which
 * belongs to the match. */
static void break_lines(const struct text *text,
                        size_t (*match)(const char *text, size_t len, size_t at),
                        struct text *out)
{
    size_t at = 0, size, next;
    int32_t point;

    while (at < text->len) {
        size = match(text->data, text->len, at);
        if (size == 0 || at + size == text->len) {
            text_addc(out, text->data[at++]);
            continue;
        }
        next = unicode_first(text->data + at + size, text->len - at - size, &point);
        if (point == 0x201d || point == 0x2019) { /* closing quotes stay in the line */
            text_addc(out, text->data[at++]);
            continue;
        }
        text_add(out, text->data + at, size);
        text_addc(out, '\n');
        text_add(out, text->data + at + size, next);
        at += size + next;
    }
}

/* Append the words of a line between blanks.  A line of blanks alone is an empty word, as
 * in rouge_chinese: "".split(" ") is a list of one. */
static void add_line(struct words *words, const char *line, size_t len)
{
    size_t before = words->count, at = 0, from = 0, size;
    int32_t point;

    for (; at < len; at += size) {
        size = unicode_first(line + at, len - at, &point);
        if (!words_is_space(point))
            continue;
        if (at > from)
            words_add(words, line + from, at - from);
        from = at + size;
    }
    if (at > from)
        words_add(words, line + from, at - from);
    if (words->count == before && len > 0)
        words_add(words, line, 0);
}

static size_t trimmed_len(const struct text *text)
{
    size_t len = text->len, size;
    int32_t point;

    while (len > 0) {
        size = unicode_last(text->data, len, &point);
        if (!words_is_space(point))
            break;
        len -= size;
    }
    return len;
}

/* A text, its words joined by blanks, and the words that rouge_chinese counts in them. */
struct scored {
    struct text text, joined, lines;
    struct words words;
    bool has_chinese;
};

static void scored_init(struct scored *out, const char *text, size_t len)
{
    struct words found = { 0 };
    struct text broken;
    const char *line, *end, *newline;

    *out = (struct scored) { .has_chinese = false };
    text_init(&out->text, 0);
    text_init(&out->joined, 0);
    text_init(&out->lines, 0);
    text_init(&broken, 0);
    unicode_add_lossy(&out->text, text, len);
    words_split(&found, out->text.data, out->text.len);
    out->has_chinese = found.has_chinese;
    for (size_t i = 0; i < found.count; i++) {
        text_add(&out->joined, i > 0 ? " " : "", i > 0);
        text_add(&out->joined, found.list[i].text, found.list[i].len);
    }
    break_lines(&out->joined, sentence_end, &broken);
    break_lines(&broken, six_periods, &out->lines);
    end = out->lines.data + trimmed_len(&out->lines);
    for (line = out->lines.data; line < end; line = newline + 1) {
        newline = memchr(line, '\n', (size_t)(end - line));
        newline = newline ? newline : end;
        add_line(&out->words, line, (size_t)(newline - line));
    }
    words_clear(&found);
    text_clear(&broken);
}

static void scored_clear(struct scored *scored)
{
    text_clear(&scored->text);
    text_clear(&scored->joined);
    text_clear(&scored->lines);
    words_clear(&scored->words);
}

/* ---- Ids ---- */

struct numbered {
    struct word word;
    int32_t *id; /* where its number goes */
};

static int compare_words(const void *a, const void *b)
{
    const struct word *x = &((const struct numbered *)a)->word;
    const struct word *y = &((const struct numbered *)b)->word;

    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->text, y->text, x->len);
}

/* Number the words of both texts: equal words get equal ids. */
static void number_words(const struct words *a, const struct words *b,
                         struct sequence *a_ids, struct sequence *b_ids)
{
    size_t count = a->count + b->count;
    struct numbered *all = memory_resize(NULL, count + 1, sizeof(*all));
    int32_t id = 0;

    a_ids->ids = memory_resize(NULL, a->count + 1, sizeof(*a_ids->ids));
    b_ids->ids = memory_resize(NULL, b->count + 1, sizeof(*b_ids->ids));
    a_ids->count = a->count;
    b_ids->count = b->count;
    for (size_t i = 0; i < a->count; i++)
        all[i] = (struct numbered) { a->list[i], &a_ids->ids[i] };
    for (size_t i = 0; i < b->count; i++)
        all[a->count + i] = (struct numbered) { b->list[i], &b_ids->ids[i] };
    qsort(all, count, sizeof(*all), compare_words);
    for (size_t i = 0; i < count; i++) {
        id += i > 0 && compare_words(&all[i - 1], &all[i]) != 0;
        *all[i].id = id;
    }
    free(all);
}

static struct sequence characters(const struct text *text)
{
    struct sequence out = { .ids = memory_resize(NULL, text->len + 1, sizeof(*out.ids)) };

    for (size_t at = 0; at < text->len; out.count++)
        at += unicode_first(text->data + at, text->len - at, &out.ids[out.count]);
    return out;
}

/* ---- Both ---- */

/* Round like Python's round(share * 100, 4). */
static double percent(double share)
{
    char digits[32];

    snprintf(digits, sizeof(digits), "%.4f", share * 100);
    return strtod(digits, NULL);
}

static void measure_words(const struct scored *generated, const struct scored *expected,
                          struct similarity *out)
{
    struct sequence a, b;

    if (trimmed_len(&generated->joined) == 0 || trimmed_len(&expected->joined) == 0)
        return; /* LLaMA-Factory: 0 */
    number_words(&generated->words, &expected->words, &a, &b);
    out->scores[SCORE_ROUGE_1] = percent(rouge_n(&a, &b, 1));
    out->scores[SCORE_ROUGE_2] = percent(rouge_n(&a, &b, 2));
    out->scores[SCORE_ROUGE_L] = percent(rouge_l(&a, &b));
    free(a.ids);
    free(b.ids);
}

struct similarity similarity_measure(const char *generated, size_t generated_len,
                                     const char *expected, size_t expected_len)
{
    struct similarity out = { .has_chinese = false };
    struct scored a, b;
    struct sequence a_ids, b_ids;

    scored_init(&a, generated, generated_len);
    scored_init(&b, expected, expected_len);
    out.has_chinese = a.has_chinese || b.has_chinese;
    measure_words(&a, &b, &out);
    a_ids = characters(&a.text);
    b_ids = characters(&b.text);
    out.scores[SCORE_BLEU_4] = percent(bleu(&a_ids, &b_ids));
    free(a_ids.ids);
    free(b_ids.ids);
    scored_clear(&a);
    scored_clear(&b);
    return out;
}
