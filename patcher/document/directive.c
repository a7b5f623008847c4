/* patcher/document/directive.c - find comments outside scalars and read trainspool
 * directives. */
#include "config.h"

#include "patcher/document/directive.h"

#include <string.h>
#include <strings.h>

#include "patcher/document/document_internal.h"

enum { WORDS_MAX = 64 };

struct reading {
    const struct document *document;
    struct arena *arena;
    struct directive *list;
    size_t count, room;
    size_t scalar_end; /* the byte after the last scalar visited */
    bool alone;        /* the comment is on a line of its own */
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static size_t skip_blanks(const char *data, size_t at, size_t to)
{
    while (at < to && is_blank(data[at]))
        at++;
    return at;
}

static void read_rules(struct reading *reading, struct directive *directive, size_t at,
                       size_t to)
{
    const char *data = reading->document->data;

    directive->words = arena_array(reading->arena, WORDS_MAX, sizeof(*directive->words));
    while (at < to && directive->count < WORDS_MAX) {
        size_t end = at;

        while (end < to && !strchr(", \t", data[end]))
            end++;
        if (end > at)
            directive->words[directive->count++] = (struct directive_word) {
                .text = arena_copy(reading->arena, data + at, end - at),
                .at = document_mark(reading->document, at),
                .bytes = end - at,
            };
        at = end < to ? end + 1 : end;
    }
}

static void add_word(void *context, const struct comment_word *word)
{
    struct reading *reading = context;
    struct directive directive = { .kind = word->kind,
                                   .at = document_mark(reading->document, word->from),
                                   .bytes = word->to - word->from,
                                   .alone = reading->alone,
                                   .last = word->last,
                                   .meant = word->meant };

    if (reading->count == DIRECTIVES_MAX)
        return;
    if (word->kind == COMMENT_IGNORE && word->rules_from > 0)
        read_rules(reading, &directive, word->rules_from, word->rules_to);
    if (reading->count == reading->room) {
        struct directive *old = reading->list;

        reading->room = reading->room ? 2 * reading->room : 8;
        reading->list = arena_array(reading->arena, reading->room, sizeof(*old));
        if (old)
            memcpy(reading->list, old, reading->count * sizeof(*old));
    }
    reading->list[reading->count++] = directive;
}

/* Read the comment that starts at `at`.  Return the position after it. */
static size_t read_comment(struct reading *reading, size_t at)
{
    const struct document *document = reading->document;
    const char *data = document->data;
    size_t start = document_line_start(document, at), end = at;

    reading->alone = skip_blanks(data, start, at) == at;
    while (end < document->len && data[end] != '\n' && data[end] != '\r')
        end++;
    comment_read(data, at, end, add_word, reading);
    return end;
}

/* Read the comments between the last scalar visited and `to`. */
static void read_between(struct reading *reading, size_t to)
{
    const char *data = reading->document->data;
    size_t at = reading->scalar_end;

    while (at < to) {
        const char *found = memchr(data + at, '#', to - at);
        size_t hash = found ? (size_t)(found - data) : to;

        at = hash + 1;
        if (found && (hash == reading->document->positions.origin ||
                      document_is_space(data[hash - 1])))
            at = read_comment(reading, hash);
    }
}

static void visit_scalar(struct reading *reading, const struct node *node)
{
    size_t from = node->at.byte, to = node->at.byte + node->bytes;

    if (from < reading->scalar_end) /* merged: visited where it is written */
        return;
    if (node->style == STYLE_LITERAL || node->style == STYLE_FOLDED) {
        from =
            document_line_end(reading->document, from); /* a comment after `|` counts */
        to = document_line_end(reading->document, to);
        from = from < to ? from : to;
    }
    read_between(reading, from);
    reading->scalar_end = to > reading->scalar_end ? to : reading->scalar_end;
}

static void visit(struct reading *reading, const struct node *node)
{
    if (node->kind == NODE_SCALAR)
        visit_scalar(reading, node);
    for (size_t i = 0; i < node->count && node->kind == NODE_LIST; i++)
        visit(reading, node->items[i]);
    for (size_t i = 0; i < node->count && node->kind == NODE_MAP; i++) {
        if (node->entries[i].from_merge)
            continue;
        visit(reading, node->entries[i].key);
        visit(reading, node->entries[i].value);
    }
}

size_t directives_read(const struct document *document, struct arena *arena,
                       struct directive **out)
{
    struct reading reading = { .document = document,
                               .arena = arena,
                               .scalar_end = document->positions.origin };

    *out = NULL;
    if (!document->root || !strstr(document->data, "trainspool:"))
        return 0;
    if (document->script) {
        for (size_t i = 0; i < document->comment_count; i++)
            read_comment(&reading, document->comments[i].at);
    } else {
        visit(&reading, document->root);
        read_between(&reading, document->len);
    }
    *out = reading.list;
    return reading.count;
}

/* ---- Rows ---- */

/* The lines below the key of a block collection belong to other rows. */
static bool is_block(const struct node *node)
{
    return (node->kind == NODE_MAP || node->kind == NODE_LIST) && !node->flow;
}

/* Return whether `line` belongs to the row: the line of its key, or where its value
 * starts or ends. */
static bool has_line(const struct document *document, const struct entry *entry,
                     uint32_t line)
{
    if (line == entry->key->at.line)
        return true;
    return !is_block(entry->value) &&
           (line == entry->value->at.line ||
            line == document_mark(document, document_node_end(entry->value)).line);
}

/* Return the top-level row that contains a byte. */
static const struct entry *row_of(const struct document *document, size_t byte)
{
    for (size_t i = 0; i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];

        if (byte >= entry->key->at.byte && byte < document_node_end(entry->value))
            return entry;
    }
    return NULL;
}

bool directive_applies_to(const struct directive *directive,
                          const struct document *document, const struct entry *entry)
{
    uint32_t line = directive->at.line;
    const struct entry *row;

    if (directive->alone)
        return false;
    if (has_line(document, entry, line))
        return true;
    row = row_of(document, entry->key->at.byte);
    return row && !is_block(row->value) && has_line(document, row, line);
}

bool directive_ignores(const struct directive *directive, const char *rule)
{
    for (size_t i = 0; i < directive->count; i++)
        if (strcasecmp(directive->words[i].text, rule) == 0)
            return true;
    return false;
}
