/*
 * patcher/document/diff.c - line diff: E. Myers, "An O(ND) Difference Algorithm and Its
 * Variations", 1986. Each round keeps its furthest points so that the path can be traced
 * back.  If the texts differ in more than MAX_DISTANCE lines, everything between their
 * common ends is shown as replaced.
 */
#include "config.h"

#include "patcher/document/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"

enum { MAX_DISTANCE = 1500 }; /* 1500^2 points of 4 bytes: 9 MB */

struct lines {
    const char *data;
    size_t len;
    size_t *start; /* count + 1 of them */
    size_t count;
    unsigned char *changed; /* removed from the old text, added to the new one */
};

struct differ {
    struct lines a, b;
    const struct diff_options *options;
    struct text *out;
};

static void lines_init(struct lines *lines, const char *data, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += data[i] == '\n' || i + 1 == len;
    *lines = (struct lines) { .data = data, .len = len };
    lines->start = memory_alloc((count + 1) * sizeof(*lines->start));
    lines->changed = memory_alloc(count + 1);
    for (size_t i = 0; i < len; i++)
        if (data[i] == '\n' || i + 1 == len)
            lines->start[++lines->count] = i + 1;
}

static void lines_clear(struct lines *lines)
{
    free(lines->start);
    free(lines->changed);
}

static size_t line_length(const struct lines *lines, size_t at)
{
    return lines->start[at + 1] - lines->start[at];
}

static bool same_line(const struct differ *differ, size_t i, size_t j)
{
    size_t len = line_length(&differ->a, i);

    return len == line_length(&differ->b, j) &&
           memcmp(differ->a.data + differ->a.start[i],
                  differ->b.data + differ->b.start[j], len) == 0;
}

/* ---- Changed lines ---- */

/* The lines between the common ends of both texts. */
struct middle {
    size_t a, b; /* first line */
    long n, m;   /* number of lines */
    /* by round: x of the furthest point on diagonal k is at [k + round] */
    int **furthest;
};

/* Run one round of the greedy search.  Return true when it reaches the far corner. */
static bool search_round(const struct differ *differ, struct middle *middle, long round)
{
    const int *last = round > 0 ? middle->furthest[round - 1] + (round - 1) : NULL;
    int *points = memory_alloc((2 * (size_t)round + 1) * sizeof(*points));

    middle->furthest[round] = points;
    points += round;
    for (long k = -round; k <= round; k += 2) {
        long x = 0;

        if (round > 0 && (k == -round || (k != round && last[k - 1] < last[k + 1])))
            x = last[k + 1];
        else if (round > 0)
            x = last[k - 1] + 1;
        while (x < middle->n && x - k >= 0 && x - k < middle->m &&
               same_line(differ, middle->a + (size_t)x, middle->b + (size_t)(x - k)))
            x++;
        points[k] = (int)x;
        if (x >= middle->n && x - k >= middle->m)
            return true;
    }
    return false;
}

static void walk_back(struct differ *differ, const struct middle *middle, long round)
{
    long x = middle->n, y = middle->m;

    for (; round > 0; round--) {
        const int *last = middle->furthest[round - 1] + (round - 1);
        long k = x - y;
        bool down = k == -round || (k != round && last[k - 1] < last[k + 1]);
        long from = down ? k + 1 : k - 1;

        x = last[from];
        y = x - from;
        if (down)
            differ->b.changed[middle->b + (size_t)y] = 1;
        else
            differ->a.changed[middle->a + (size_t)x] = 1;
    }
}

static void replace_all(struct differ *differ, const struct middle *middle)
{
    memset(differ->a.changed + middle->a, 1, (size_t)middle->n);
    memset(differ->b.changed + middle->b, 1, (size_t)middle->m);
}

static void find_changes(struct differ *differ)
{
    size_t a_end = differ->a.count, b_end = differ->b.count, first = 0;
    struct middle middle = { 0 };
    int *furthest[MAX_DISTANCE + 1] = { 0 };
    bool found = false;

    while (first < a_end && first < b_end && same_line(differ, first, first))
        first++;
    while (a_end > first && b_end > first && same_line(differ, a_end - 1, b_end - 1)) {
        a_end--;
        b_end--;
    }
    middle = (struct middle) { first, first, (long)(a_end - first), (long)(b_end - first),
                               furthest };
    for (long round = 0; round <= MAX_DISTANCE && !found; round++) {
        found = search_round(differ, &middle, round);
        if (found)
            walk_back(differ, &middle, round);
    }
    if (!found)
        replace_all(differ, &middle);
    for (size_t i = 0; i < TS_COUNT(furthest); i++)
        free(furthest[i]);
}

/* ---- Hunks ---- */

/* Same colors as git. */
static const char *const colors[] = {
    [' '] = "", ['-'] = "\33[31m", ['+'] = "\33[32m", ['@'] = "\33[36m", ['='] = "\33[1m"
};

static void add_line(const struct differ *differ, char kind, const char *data, size_t len)
{
    const char *color = differ->options->use_color ? colors[(unsigned char)kind] : "";
    bool ended = len > 0 && data[len - 1] == '\n';

    text_adds(differ->out, color);
    if (kind == ' ' || kind == '-' || kind == '+')
        text_addc(differ->out, kind);
    if (differ->options->visible)
        text_add_visible(differ->out, data, len - ended);
    else
        text_add(differ->out, data, len - ended);
    text_adds(differ->out, *color ? "\33[m\n" : "\n");
    if (!ended)
        text_adds(differ->out, "\\ No newline at end of file\n");
}

static void add_header(const struct differ *differ)
{
    struct text line;

    text_init(&line, 0);
    text_addf(&line, "--- %s\n", differ->options->from);
    add_line(differ, '=', line.data, line.len);
    text_reset(&line);
    text_addf(&line, "+++ %s\n", differ->options->to);
    add_line(differ, '=', line.data, line.len);
    text_clear(&line);
}

/* "12,3"; a single line has no count, and an empty range has the number of the line
 * before it. */
static void add_range(struct text *line, size_t first, size_t count)
{
    text_addf(line, "%zu", count > 0 ? first + 1 : first);
    if (count != 1)
        text_addf(line, ",%zu", count);
}

struct hunk {
    size_t a, b;         /* first line of each text */
    size_t a_end, b_end; /* after the last line */
};

static void report_hunk(const struct differ *differ, const struct hunk *hunk)
{
    struct diff_hunk report = { .old_first = hunk->a + 1,
                                .old_last = hunk->a_end,
                                .new_first = hunk->b + 1,
                                .new_last = hunk->b_end,
                                .added = differ->b.changed + hunk->b };

    for (size_t i = hunk->a; i < hunk->a_end; i++)
        report.removed += differ->a.changed[i];
    differ->options->hunk(differ->options->hunk_context, &report, differ->out);
}

static void add_hunk(const struct differ *differ, const struct hunk *hunk)
{
    const struct lines *a = &differ->a, *b = &differ->b;
    struct text line;
    size_t i = hunk->a, j = hunk->b;

    text_init(&line, 0);
    text_adds(&line, "@@ -");
    add_range(&line, hunk->a, hunk->a_end - hunk->a);
    text_adds(&line, " +");
    add_range(&line, hunk->b, hunk->b_end - hunk->b);
    text_adds(&line, " @@\n");
    add_line(differ, '@', line.data, line.len);
    text_clear(&line);
    while (i < hunk->a_end || j < hunk->b_end) {
        if (i < hunk->a_end && a->changed[i]) {
            add_line(differ, '-', a->data + a->start[i], line_length(a, i));
            i++;
        } else if (j < hunk->b_end && b->changed[j]) {
            add_line(differ, '+', b->data + b->start[j], line_length(b, j));
            j++;
        } else {
            add_line(differ, ' ', a->data + a->start[i], line_length(a, i));
            i++;
            j++;
        }
    }
    if (differ->options->hunk)
        report_hunk(differ, hunk);
}

static bool at_change(const struct differ *differ, size_t i, size_t j)
{
    return (i < differ->a.count && differ->a.changed[i]) ||
           (j < differ->b.count && differ->b.changed[j]);
}

/* Find the next hunk from lines *i, *j on: changes that are at most twice the context
 * apart. */
static bool next_hunk(const struct differ *differ, size_t *i, size_t *j,
                      struct hunk *hunk)
{
    size_t context = differ->options->context, before, equal = 0;

    for (before = 0; !at_change(differ, *i, *j); before++) {
        if (*i >= differ->a.count)
            return false;
        (*i)++;
        (*j)++;
    }
    if (before > context)
        before = context;
    hunk->a = *i - before;
    hunk->b = *j - before;
    while ((*i < differ->a.count || *j < differ->b.count) && equal <= 2 * context) {
        if (at_change(differ, *i, *j)) {
            bool removed = *i < differ->a.count && differ->a.changed[*i];

            *i += removed;
            *j += !removed;
            equal = 0;
        } else {
            (*i)++;
            (*j)++;
            equal++;
        }
    }
    hunk->a_end = *i - (equal > context ? equal - context : 0);
    hunk->b_end = *j - (equal > context ? equal - context : 0);
    *i = hunk->a_end;
    *j = hunk->b_end;
    return true;
}

bool diff_unified(const char *a, size_t a_len, const char *b, size_t b_len,
                  const struct diff_options *options, struct text *out)
{
    struct differ differ = { .options = options, .out = out };
    struct hunk hunk;
    size_t i = 0, j = 0;
    bool any = false;

    if (a_len == b_len && memcmp(a, b, a_len) == 0)
        return true;
    lines_init(&differ.a, a, a_len);
    lines_init(&differ.b, b, b_len);
    find_changes(&differ);
    while (next_hunk(&differ, &i, &j, &hunk)) {
        if (!any)
            add_header(&differ);
        any = true;
        add_hunk(&differ, &hunk);
    }
    lines_clear(&differ.a);
    lines_clear(&differ.b);
    return !out->overflow;
}

size_t *diff_follow(const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct differ differ = { 0 };
    size_t *lines, j = 0;

    lines_init(&differ.a, a, a_len);
    lines_init(&differ.b, b, b_len);
    find_changes(&differ);
    lines = memory_alloc((differ.a.count + 1) * sizeof(*lines));
    for (size_t i = 0; i < differ.a.count; i++) {
        if (differ.a.changed[i])
            continue;
        while (j < differ.b.count && differ.b.changed[j])
            j++;
        lines[i] = ++j;
    }
    lines_clear(&differ.a);
    lines_clear(&differ.b);
    return lines;
}
