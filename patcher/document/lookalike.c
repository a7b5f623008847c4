/* patcher/document/lookalike.c - the table of characters and where they break a line. */
#include "config.h"

#include "patcher/document/lookalike.h"

#include <string.h>

#include "base/size.h"
#include "train/text/unicode.h"

/* The syntax that a lookalike replaces. */
enum part {
    PART_COLON, /* after a key */
    PART_SPACE, /* in the indentation, or after `:` or `-` */
    PART_ITEM,  /* before an item of a list */
    PART_FLOW,  /* in {a: b, c: d} */
    PART_QUOTE, /* around a value */
    PART_NONE   /* none: it only spoils a value */
};

static const struct lookalike {
    int32_t first, last;
    enum part part;
    const char *name, *mark;
} lookalikes[] = {
    { 0xff1a, 0xff1a, PART_COLON, "a full-width colon", ":" },
    { 0xfe55, 0xfe55, PART_COLON, "a small colon", ":" },
    { 0xa0, 0xa0, PART_SPACE, "a no-break space", "a space" },
    { 0x2000, 0x200a, PART_SPACE, "a typographic space", "a space" },
    { 0x202f, 0x202f, PART_SPACE, "a narrow no-break space", "a space" },
    { 0x3000, 0x3000, PART_SPACE, "a full-width space", "a space" },
    { 0x200b, 0x200b, PART_SPACE, "a zero-width space", "a space" },
    { 0x2060, 0x2060, PART_SPACE, "a word joiner, which is invisible", "a space" },
    { 0xfeff, 0xfeff, PART_SPACE, "a byte order mark, which is invisible", "a space" },
    { 0x2010, 0x2012, PART_ITEM, "a typographic hyphen", "-" },
    { 0x2013, 0x2013, PART_ITEM, "an en dash", "-" },
    { 0x2014, 0x2014, PART_ITEM, "an em dash", "-" },
    { 0x2022, 0x2022, PART_ITEM, "a bullet", "-" },
    { 0x2212, 0x2212, PART_ITEM, "a minus sign", "-" },
    { 0xff0d, 0xff0d, PART_ITEM, "a full-width hyphen", "-" },
    { 0xff0c, 0xff0c, PART_FLOW, "a full-width comma", "," },
    { 0x3001, 0x3001, PART_FLOW, "an ideographic comma", "," },
    { 0xff3b, 0xff3b, PART_FLOW, "a full-width bracket", "[" },
    { 0xff3d, 0xff3d, PART_FLOW, "a full-width bracket", "]" },
    { 0xff5b, 0xff5b, PART_FLOW, "a full-width brace", "{" },
    { 0xff5d, 0xff5d, PART_FLOW, "a full-width brace", "}" },
    { 0x201c, 0x201f, PART_QUOTE, "a typographic quote", "\"" },
    { 0x2018, 0x201b, PART_QUOTE, "a typographic quote", "'" },
    { 0xff02, 0xff02, PART_QUOTE, "a full-width quote", "\"" },
    { 0xff10, 0xff19, PART_NONE, "a full-width digit", "a digit" },
    { 0xff0e, 0xff0e, PART_NONE, "a full-width point", "." },
};

static const struct lookalike *find(int32_t point)
{
    for (size_t i = 0; i < TS_COUNT(lookalikes); i++)
        if (point >= lookalikes[i].first && point <= lookalikes[i].last)
            return &lookalikes[i];
    return NULL;
}

static const char *hint(const struct lookalike *found, int32_t point, struct arena *arena)
{
    return arena_printf(arena, "U+%04X is %s: write %s instead", (unsigned)point,
                        found->name, found->mark);
}

const char *lookalike_in_text(const char *text, size_t len, struct arena *arena)
{
    for (size_t at = 0; at < len;) {
        int32_t point = 0;
        size_t bytes = unicode_first(text + at, len - at, &point);
        const struct lookalike *found = find(point);

        if (found)
            return hint(found, point, arena);
        at += bytes;
    }
    return NULL;
}

const char *lookalike_in_node(const struct node *node, struct arena *arena)
{
    const struct node *value = node_value(node);

    return value->kind == NODE_SCALAR ? lookalike_in_text(value->text, value->len, arena)
                                      : NULL;
}

/* The part of a line before the position. */
struct line {
    const char *data;
    size_t len, at;
    bool colon;   /* has an ASCII colon */
    bool bracket; /* has an ASCII bracket or brace */
    bool text;    /* has more than blanks and `-` */
};

/* Return whether the character at line->at replaces this syntax. */
static bool replaces(const struct line *line, enum part part)
{
    const char before = line->at > 0 ? line->data[line->at - 1] : 0;

    switch (part) {
    case PART_COLON:
        return !line->colon && line->text;
    case PART_SPACE:
        return !line->text || before == ':' || before == '-';
    case PART_ITEM:
        return !line->text;
    case PART_FLOW:
        return line->bracket || (before == ' ' && line->colon);
    case PART_QUOTE:
        return !line->text || before == ' ' || before == ':';
    case PART_NONE:
        break;
    }
    return false;
}

const char *lookalike_in_line(const struct document *document, size_t byte, size_t *at,
                              struct arena *arena)
{
    const size_t start = document_line_start(document, byte);
    struct line line = { .data = document->data + start,
                         .len = document_line_end(document, byte) - start };

    while (line.at < line.len) {
        int32_t point = 0;
        size_t bytes = unicode_first(line.data + line.at, line.len - line.at, &point);
        const struct lookalike *found = find(point);

        if (found && replaces(&line, found->part)) {
            *at = start + line.at;
            return hint(found, point, arena);
        }
        if (point == '#' && (line.at == 0 || line.data[line.at - 1] == ' '))
            break;
        line.colon |= point == ':';
        line.bracket |= point == '[' || point == '{';
        line.text |= point != ' ' && point != '\t' && point != '-';
        line.at += bytes;
    }
    return NULL;
}

bool lookalike_is_template(const char *text, size_t len)
{
    static const char *const marks[] = { "{{", "{%", "{#" };

    for (size_t i = 0; i < TS_COUNT(marks); i++)
        if (memmem(text, len, marks[i], 2))
            return true;
    return false;
}
