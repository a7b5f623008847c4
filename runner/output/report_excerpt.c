/*
 * runner/output/report_excerpt.c - prints lines of a job as a terminal shows them, with
 * carets.
 */
#include "config.h"

#include "runner/output/report_excerpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "patcher/schema/redact.h"

enum {
    GUTTER = 6, /* "123 | " */
    WIDTH_LEAST = 40,
    TAB = 4,     /* like rustc */
    MARGIN = 12, /* columns kept after a span where a line is cut */
    SPAN = 20,   /* columns of a span that are enough to recognize it */
    REACH = 1024 /* bytes of a line examined on each side of a span */
};

static const char blue[] = "\033[1;34m", plain[] = "\033[0m";
static const char dots[] = "...";

static const char *const caret_colors[] = {
    [SEVERITY_INFO] = "\033[1;36m",
    [SEVERITY_WARNING] = "\033[1;33m",
    [SEVERITY_ERROR] = "\033[1;31m",
};

struct excerpt {
    const struct document *document;
    bool *hidden; /* of each byte: part of a secret */
    size_t width;
    bool color;
};

/* A position in a line: a character, or its visible replacement. */
struct cell {
    size_t byte, end; /* of the document */
    char shown[16];
    size_t columns;
    char under; /* '^', '-' or ' ' */
};

struct line {
    struct cell *cells;
    size_t count;
    bool cut_before, cut_behind; /* by REACH */
};

struct span {
    size_t from, to;
};

struct excerpt *excerpt_new(const struct document *document, size_t width, bool color)
{
    struct excerpt *excerpt = memory_alloc(sizeof(*excerpt));

    excerpt->document = document;
    excerpt->hidden = memory_alloc(document->len + 1);
    excerpt->width = (width > WIDTH_LEAST ? width : WIDTH_LEAST) - GUTTER;
    excerpt->color = color;
    redact_mask(document, excerpt->hidden);
    return excerpt;
}

void excerpt_free(struct excerpt *excerpt)
{
    if (excerpt)
        free(excerpt->hidden);
    free(excerpt);
}

/* ---- Cells ---- */

/* Return whether the character changes the direction of what follows, so that a line
 * would look different: Unicode 15, 23.2 Layout Controls. */
static bool turns(utf8proc_int32_t point)
{
    return point == 0x61c || point == 0x200e || point == 0x200f ||
           (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

static bool is_control(utf8proc_int32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 ||
           point == 0x2029 || point == 0xfeff;
}

/* Decode the character at `at`, before `end`. */
static struct cell character(const struct excerpt *excerpt, size_t at, size_t end)
{
    const char *data = excerpt->document->data;
    utf8proc_int32_t point;
    utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)data + at,
                                              (utf8proc_ssize_t)(end - at), &point);
    struct cell cell = { .byte = at, .end = at + (size_t)(bytes > 0 ? bytes : 1) };

    if (bytes <= 0 || (is_control(point) && point < 0x80)) {
        snprintf(cell.shown, sizeof(cell.shown), "\\x%02x", (unsigned char)data[at]);
        cell.columns = strlen(cell.shown);
    } else if (is_control(point) || turns(point)) {
        snprintf(cell.shown, sizeof(cell.shown), "\\u%04x", (unsigned)point);
        cell.columns = strlen(cell.shown);
    } else {
        memcpy(cell.shown, data + at, (size_t)bytes);
        cell.columns = (size_t)utf8proc_charwidth(point);
    }
    return cell;
}

static struct cell secret(const struct excerpt *excerpt, size_t at, size_t end)
{
    struct cell cell = { .byte = at, .end = at, .shown = REDACT_SHOWN };

    while (cell.end < end && excerpt->hidden[cell.end])
        cell.end++;
    cell.columns = strlen(cell.shown);
    return cell;
}

static struct cell next_cell(const struct excerpt *excerpt, size_t at, size_t end,
                             size_t column)
{
    struct cell cell;

    if (excerpt->hidden[at])
        return secret(excerpt, at, end);
    if (excerpt->document->data[at] != '\t')
        return character(excerpt, at, end);
    cell = (struct cell) { .byte = at, .end = at + 1, .columns = TAB - column % TAB };
    memset(cell.shown, ' ', cell.columns);
    return cell;
}

/* ---- The line ---- */

/* Find the bytes of a line without its newline and trailing spaces. */
static struct span line_bytes(const struct document *document, uint32_t number)
{
    const struct text_positions *places = &document->positions;
    struct span span = { 0, document->len };

    if (number == 0 || number > places->line_count)
        return (struct span) { 0, 0 };
    span.from = places->lines[number - 1];
    if (number < places->line_count)
        span.to = places->lines[number];
    if (span.from < places->origin)
        span.from = places->origin;
    while (span.to > span.from && strchr(" \t\r\n", document->data[span.to - 1]))
        span.to--;
    return span;
}

static bool is_middle(const struct document *document, size_t at)
{
    return ((unsigned char)document->data[at] & 0xc0) == 0x80;
}

static struct line read_line(const struct excerpt *excerpt, struct span bytes,
                             struct span about)
{
    struct line line = { 0 };
    size_t column = 0;

    if (bytes.from + REACH < about.from) {
        bytes.from = about.from - REACH;
        line.cut_before = true;
        while (bytes.from < about.from && is_middle(excerpt->document, bytes.from))
            bytes.from++;
    }
    if (about.from + REACH < bytes.to) {
        bytes.to = about.from + REACH;
        line.cut_behind = true;
        while (bytes.to > about.from && is_middle(excerpt->document, bytes.to))
            bytes.to--;
    }
    line.cells = memory_alloc((bytes.to - bytes.from + 1) * sizeof(*line.cells));
    for (size_t at = bytes.from; at < bytes.to; at = line.cells[line.count - 1].end) {
        struct cell *cell = &line.cells[line.count++];

        *cell = next_cell(excerpt, at, bytes.to, column);
        column += cell->columns;
    }
    /* room for a caret after the last character, for something missing at the end */
    line.cells[line.count++] = (struct cell) { .byte = bytes.to, .end = bytes.to + 1 };
    return line;
}

static void underline(struct line *line, struct span span, char with)
{
    bool any = false;

    for (size_t i = 0; i < line->count; i++) {
        struct cell *cell = &line->cells[i];
        bool inside = cell->byte < span.to && cell->end > span.from;
        bool begins = span.from >= cell->byte && span.from < cell->end;

        if ((!inside && (any || !begins)) || (cell->under && with != '^'))
            continue;
        if (inside && i + 1 == line->count && any)
            break;
        cell->under = with;
        any = true;
    }
    if (!any && with == '^') /* in the trailing spaces */
        line->cells[line->count - 1].under = with;
}

/* ---- Visible part of the line ---- */

static size_t columns(const struct line *line, size_t from, size_t to)
{
    size_t sum = 0;

    for (; from < to; from++)
        sum += line->cells[from].columns;
    return sum;
}

/* Choose the cells that fit into `width` columns and include those under the carets. */
static struct span choose_window(const struct line *line, size_t width)
{
    struct span window = { 0, line->count };
    size_t first = 0, last, begin;

    while (first + 1 < line->count && line->cells[first].under != '^')
        first++;
    for (last = first; last < line->count && line->cells[last].under == '^';)
        last++;
    if (!line->cut_before && !line->cut_behind && columns(line, 0, line->count) <= width)
        return window;
    width -= 2 * (sizeof(dots) - 1);
    begin = columns(line, first, last);
    begin = columns(line, 0, first) + (begin < SPAN ? begin : SPAN) + MARGIN;
    if (line->cut_before || begin > width) {
        window.from = first;
        while (window.from > 0 && columns(line, window.from - 1, last) + MARGIN <= width)
            window.from--;
    }
    window.to = window.from;
    while (window.to < line->count && columns(line, window.from, window.to + 1) <= width)
        window.to++;
    return window;
}

static void add_color(const struct excerpt *excerpt, const char *color, struct text *out)
{
    text_adds(out, excerpt->color ? color : "");
}

/* Add the number of the line, or the same width of spaces. */
static void add_gutter(const struct excerpt *excerpt, uint32_t number, bool shown,
                       struct text *out)
{
    char digits[16];
    int len = snprintf(digits, sizeof(digits), "%3u", number);

    add_color(excerpt, blue, out);
    text_addf(out, "%*s |", len, shown ? digits : "");
    add_color(excerpt, plain, out);
}

static void add_source(const struct excerpt *excerpt, const struct line *line,
                       struct span window, uint32_t number, struct text *out)
{
    add_gutter(excerpt, number, true, out);
    text_addc(out, ' ');
    if (window.from > 0 || line->cut_before)
        text_adds(out, dots);
    for (size_t i = window.from; i < window.to; i++)
        text_adds(out, line->cells[i].shown);
    if (window.to < line->count || line->cut_behind)
        text_adds(out, dots);
    text_addc(out, '\n');
}

static void add_under(const struct excerpt *excerpt, const struct line *line,
                      struct span window, const struct finding *finding, struct text *out)
{
    size_t blanks = 1 + (window.from > 0 || line->cut_before ? sizeof(dots) - 1 : 0);
    bool any = false;

    add_gutter(excerpt, finding->at.line, false, out);
    for (size_t i = window.from; i < window.to; i++) {
        const struct cell *cell = &line->cells[i];
        size_t count = cell->columns ? cell->columns : i + 1 == line->count;

        if (!cell->under) {
            blanks += count;
            continue;
        }
        text_addf(out, "%*s", (int)blanks, "");
        blanks = 0;
        add_color(excerpt, any ? "" : caret_colors[finding->severity], out);
        any = true;
        while (count-- > 0)
            text_addc(out, cell->under);
    }
    add_color(excerpt, plain, out);
    text_addc(out, '\n');
}

static bool is_new_line(const struct finding *finding)
{
    return finding->new_text && finding->cut == 0 && strpbrk(finding->new_text, "\r\n");
}

/* Some findings are about the whole file: its encoding, its line ends. */
static bool has_position(const struct finding *finding)
{
    return finding->at.line > 0 &&
           (finding->at.byte > 0 || finding->cut > 0 || finding->new_text);
}

static struct span span_of(const struct finding *finding)
{
    return (struct span) { finding->at.byte, finding->at.byte + finding->cut };
}

/* Trim spaces: a longer value may take some from before a comment. */
static struct span shown_span(const struct document *document, const struct finding *of)
{
    struct span span = span_of(of);

    while (span.to > span.from + 1 && span.to <= document->len &&
           document->data[span.to - 1] == ' ')
        span.to--;
    while (span.from + 1 < span.to && document->data[span.from] == ' ')
        span.from++;
    return span;
}

bool excerpt_add(const struct excerpt *excerpt, const struct findings *findings,
                 size_t at, struct text *out)
{
    const struct finding *finding = &findings->list[at];
    const struct document *document = excerpt->document;
    struct span about = shown_span(document, finding), window;
    bool inserts = is_new_line(finding);
    uint32_t number = finding->at.line;
    struct line line;

    if (!has_position(finding) || about.from > document->len)
        return false;
    if (inserts && finding->at.byte > 0)
        number = document_mark(document, finding->at.byte - 1).line;
    if (inserts)
        about = (struct span) { line_bytes(document, number).from, 0 };
    line = read_line(excerpt, line_bytes(document, number), about);
    if (!inserts)
        underline(&line, about, '^');
    for (size_t i = 0; finding->group && i < findings->count; i++)
        if (i != at && findings->list[i].group == finding->group &&
            findings->list[i].at.line == number && !is_new_line(&findings->list[i]))
            underline(&line, shown_span(document, &findings->list[i]), '-');
    window = choose_window(&line, excerpt->width);
    add_source(excerpt, &line, window, number, out);
    if (!inserts)
        add_under(excerpt, &line, window, finding, out);
    free(line.cells);
    return true;
}
