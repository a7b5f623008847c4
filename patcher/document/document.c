/*
 * patcher/document/document.c - build a tree of nodes with positions from libyaml's
 * events.  The event loop enforces the limits before it requests the next token, because
 * libyaml has no limits.
 */
#include "config.h"

#include "patcher/document/document.h"

#include "patcher/document/document_internal.h"
#include "patcher/document/lookalike.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/size.h"

/* A map or list whose end has not been read yet. */
struct frame {
    struct node *node;
    size_t base; /* index of its first member among the pending nodes */
};

struct nodes {
    struct node **list;
    size_t count, room;
};

struct builder {
    yaml_parser_t parser;
    struct document *document;
    struct arena *arena;
    struct frame frames[DOCUMENT_MAX_DEPTH];
    size_t depth, events, documents;
    struct nodes pending, anchors;
    struct node *top;
};

void document_report(struct document *document, enum document_fault fault, size_t byte,
                     size_t bytes, const char *fmt, ...)
{
    struct document_remark *remark = &document->remarks[document->remark_count];
    va_list args;

    if (document->remark_count == TS_COUNT(document->remarks))
        return;
    document->remark_count++;
    *remark = (struct document_remark) { .fault = fault, .bytes = bytes };
    remark->at = document_mark(document, byte);
    va_start(args, fmt);
    vsnprintf(remark->text, sizeof(remark->text), fmt, args);
    va_end(args);
}

static void nodes_push(struct nodes *nodes, struct node *node)
{
    if (nodes->count == nodes->room) {
        nodes->room = nodes->room ? 2 * nodes->room : 64;
        nodes->list = memory_resize(nodes->list, nodes->room, sizeof(*nodes->list));
    }
    nodes->list[nodes->count++] = node;
}

/* ---- The tree ---- */

static size_t byte_of(const struct builder *builder, yaml_mark_t mark)
{
    return text_positions_byte(&builder->document->positions, mark.index);
}

static struct node *node_new(struct builder *builder, enum node_kind kind,
                             const yaml_event_t *event, const yaml_char_t *anchor,
                             const yaml_char_t *tag)
{
    struct node *node = arena_alloc(builder->arena, sizeof(*node));
    size_t byte = byte_of(builder, event->start_mark);

    node->kind = kind;
    node->at = document_mark(builder->document, byte);
    node->bytes = byte_of(builder, event->end_mark) - byte;
    node->text = "";
    node->anchor = arena_strdup(builder->arena, (const char *)anchor);
    node->tag = arena_strdup(builder->arena, (const char *)tag);
    nodes_push(&builder->pending, node);
    if (anchor && kind != NODE_ALIAS)
        nodes_push(&builder->anchors, node);
    return node;
}

/* libyaml ends a block scalar at the next nonblank line. */
static void trim_block_scalar(const struct builder *builder, struct node *node)
{
    const char *data = builder->document->data;
    size_t end = node->at.byte + node->bytes;

    while (end > node->at.byte + 1 && document_is_space(data[end - 1]))
        end--;
    if (document_line_end(builder->document, node->at.byte) >= end && node->len == 0) {
        /* no text: only tag, anchor and header count, not the comment after them */
        end = node->at.byte;
        while (data[end] == '!' || data[end] == '&') {
            end += strcspn(data + end, " \t");
            end += strspn(data + end, " \t");
        }
        while (end < builder->document->len && strchr("|>+-0123456789", data[end]))
            end++;
    }
    node->bytes = end - node->at.byte;
}

static bool add_scalar(struct builder *builder, const yaml_event_t *event)
{
    static const enum node_style styles[] = {
        [YAML_ANY_SCALAR_STYLE] = STYLE_PLAIN,
        [YAML_PLAIN_SCALAR_STYLE] = STYLE_PLAIN,
        [YAML_SINGLE_QUOTED_SCALAR_STYLE] = STYLE_SINGLE,
        [YAML_DOUBLE_QUOTED_SCALAR_STYLE] = STYLE_DOUBLE,
        [YAML_LITERAL_SCALAR_STYLE] = STYLE_LITERAL,
        [YAML_FOLDED_SCALAR_STYLE] = STYLE_FOLDED,
    };
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    struct node *node;

    if (len > DOCUMENT_MAX_SCALAR) {
        document_report(builder->document, DOCUMENT_LIMIT,
                        byte_of(builder, event->start_mark), 0,
                        "a value is longer than %d bytes", DOCUMENT_MAX_SCALAR);
        return false;
    }
    node = node_new(builder, NODE_SCALAR, event, event->data.scalar.anchor,
                    event->data.scalar.tag);
    node->style = styles[event->data.scalar.style];
    node->text = arena_copy(builder->arena, text, len);
    node->len = len;
    if (node->style == STYLE_LITERAL || node->style == STYLE_FOLDED)
        trim_block_scalar(builder, node);
    return true;
}

static bool begin_collection(struct builder *builder, enum node_kind kind,
                             const yaml_event_t *event)
{
    bool map = kind == NODE_MAP;
    struct node *node;

    if (builder->depth == DOCUMENT_MAX_DEPTH) {
        document_report(builder->document, DOCUMENT_LIMIT,
                        byte_of(builder, event->start_mark), 0,
                        "nested deeper than %d levels", DOCUMENT_MAX_DEPTH);
        return false;
    }
    node = node_new(builder, kind, event,
                    map ? event->data.mapping_start.anchor
                        : event->data.sequence_start.anchor,
                    map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
    node->flow = map ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                     : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    builder->frames[builder->depth++] = (struct frame) { node, builder->pending.count };
    return true;
}

/* Return the position after the colon, or after a key without a colon (`? key`, `{key}`).
 * libyaml often puts an empty value at the next token, which may be anywhere. */
static size_t empty_position(const struct document *document, const struct node *key,
                             const struct node *value)
{
    size_t end = document_node_end(key), at = value->at.byte;

    if (at > end && document->data[at - 1] == ':')
        return at;
    for (at = end; at < document->len && document_is_space(document->data[at]);)
        at++;
    return document->data[at] == ':' && strchr(" \t\r\n,]}", document->data[at + 1])
               ? at + 1
               : end;
}

static void fill_map(struct builder *builder, struct node *node,
                     struct node *const *members)
{
    struct document *document = builder->document;

    node->entries = arena_array(builder->arena, node->count, sizeof(*node->entries));
    for (size_t i = 0; i < node->count; i++) {
        struct node *key = members[2 * i], *value = members[2 * i + 1];

        if (value->kind == NODE_SCALAR && value->bytes == 0)
            value->at = document_mark(document, empty_position(document, key, value));
        node->entries[i] = (struct entry) { .key = key, .value = value };
    }
}

static void end_collection(struct builder *builder, const yaml_event_t *event)
{
    struct frame frame = builder->frames[--builder->depth];
    struct node *const *members = builder->pending.list + frame.base;
    size_t count = builder->pending.count - frame.base;
    struct node *node = frame.node;
    size_t end = document_node_end(node);

    node->count = node->kind == NODE_MAP ? count / 2 : count;
    if (node->kind == NODE_MAP) {
        fill_map(builder, node, members);
    } else {
        node->items = arena_array(builder->arena, count, sizeof(*node->items));
        for (size_t i = 0; i < count; i++)
            node->items[i] = members[i];
    }
    /* The end mark of a block collection is after the comments that follow it. */
    if (node->flow)
        end = byte_of(builder, event->end_mark);
    for (size_t i = 0; i < count; i++)
        if (document_node_end(members[i]) > end)
            end = document_node_end(members[i]);
    node->bytes = end - node->at.byte;
    builder->pending.count = frame.base;
}

static bool is_open(const struct builder *builder, const struct node *node)
{
    for (size_t i = 0; i < builder->depth; i++)
        if (builder->frames[i].node == node)
            return true;
    return false;
}

static bool add_alias(struct builder *builder, const yaml_event_t *event)
{
    struct document *document = builder->document;
    struct node *node =
        node_new(builder, NODE_ALIAS, event, event->data.alias.anchor, NULL);
    size_t i = builder->anchors.count;

    if (++document->aliases > DOCUMENT_MAX_ALIASES) {
        document_report(document, DOCUMENT_LIMIT, node->at.byte, node->bytes,
                        "more than %d aliases", DOCUMENT_MAX_ALIASES);
        return false;
    }
    while (i > 0 && strcmp(builder->anchors.list[i - 1]->anchor, node->anchor) != 0)
        i--;
    if (i == 0 || is_open(builder, builder->anchors.list[i - 1])) {
        document_report(document, DOCUMENT_LIMIT, node->at.byte, node->bytes,
                        i == 0 ? "the alias *%.64s has no anchor before it"
                               : "the alias *%.64s is inside its own anchor",
                        node->anchor);
        return false;
    }
    node->target = builder->anchors.list[i - 1];
    node->text = node->target->text;
    node->len = node->target->len;
    return true;
}

/* ---- Events ---- */

static bool add_event(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (builder->documents++ == 0)
            return true;
        document_report(
            builder->document, DOCUMENT_SEVERAL, byte_of(builder, event->start_mark), 0,
            "a second document starts here; a job file must contain exactly one");
        return false;
    case YAML_SCALAR_EVENT:
        return add_scalar(builder, event);
    case YAML_ALIAS_EVENT:
        return add_alias(builder, event);
    case YAML_MAPPING_START_EVENT:
        return begin_collection(builder, NODE_MAP, event);
    case YAML_SEQUENCE_START_EVENT:
        return begin_collection(builder, NODE_LIST, event);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        end_collection(builder, event);
        return true;
    case YAML_DOCUMENT_END_EVENT:
        builder->top = builder->pending.list[0];
        builder->pending.count = 0;
        return true;
    default:
        return true;
    }
}

/* Find the first tab in the indentation of the line of `byte`. */
static bool find_tab(const struct document *document, size_t byte, size_t *tab)
{
    size_t at = document_line_start(document, byte);

    while (at < document->len && document->data[at] == ' ')
        at++;
    *tab = at;
    return at < document->len && document->data[at] == '\t';
}

/* The likely mistake for each libyaml error, and whether it is where the error's context
 * starts. */
static const struct hint {
    const char *problem, *advice;
    bool at_context;
} hints[] = {
    { "found unexpected end of stream", "this is never closed", true },
    { "could not find expected ':'",
      "write a key, a colon and a space, as in `fp16: true`", true },
    { "mapping values are not allowed",
      "check that the line is indented like the lines around it and has one `key: value`",
      false },
    { "did not find expected key",
      "check that the line is indented like the lines around it and that nothing follows "
      "a closing quote",
      false },
    { "found unknown escape character",
      "in double quotes a backslash starts an escape; single quotes take it literally",
      false },
    { "did not find expected ','", "a bracket is not closed, or a comma is missing",
      true },
    { "found character that cannot start", "put the value in quotes", false },
};

static const struct hint *find_hint(const char *problem)
{
    static const struct hint none = { "", NULL, false };

    for (size_t i = 0; i < TS_COUNT(hints); i++)
        if (strncmp(problem, hints[i].problem, strlen(hints[i].problem)) == 0)
            return &hints[i];
    return &none;
}

/* Return whether the line of the byte has the marks of a template. */
static bool is_template_line(const struct document *document, size_t byte)
{
    const size_t start = document_line_start(document, byte);

    return lookalike_is_template(document->data + start,
                                 document_line_end(document, byte) - start);
}

/* Report a character or a template that libyaml cannot know to be the cause, in the line of
 * the error or of its context. */
static bool report_lookalike(struct builder *builder, size_t byte, size_t context)
{
    struct document *document = builder->document;
    const size_t lines[] = { byte, context };

    for (size_t i = 0; i < TS_COUNT(lines); i++) {
        size_t at = lines[i];
        const char *hint = lookalike_in_line(document, lines[i], &at, builder->arena);

        if (hint) {
            document_report(document, DOCUMENT_SYNTAX, at, 0, "not valid YAML: %s", hint);
            return true;
        }
        if (is_template_line(document, lines[i])) {
            document_report(document, DOCUMENT_SYNTAX, lines[i], 0,
                            "not valid YAML: this is a template, with {{ }} or {%% %%}: "
                            "render it first and check the result");
            return true;
        }
    }
    return false;
}

static void report_syntax(struct builder *builder)
{
    const yaml_parser_t *parser = &builder->parser;
    struct document *document = builder->document;
    const char *problem = parser->problem ? parser->problem : "unknown problem";
    const struct hint *hint;
    size_t byte = byte_of(builder, parser->problem_mark), tab;

    if (parser->error == YAML_READER_ERROR) {
        byte = document->positions.origin + parser->problem_offset;
        document_report(document, DOCUMENT_SYNTAX, byte, 1, "not valid YAML: %s (U+%04X)",
                        problem, (unsigned)parser->problem_value);
        return;
    }
    if (builder->top) {
        document_report(document, DOCUMENT_SEVERAL, byte, 0,
                        "text follows the end of the document; a job file must contain "
                        "exactly one document");
        return;
    }
    if (find_tab(document, byte, &tab) && tab <= byte) {
        document_report(document, DOCUMENT_TAB, tab, 1,
                        "tab in the indentation, which YAML forbids; use spaces");
        return;
    }
    if (report_lookalike(builder, byte,
                         parser->context ? byte_of(builder, parser->context_mark) : byte))
        return;
    hint = find_hint(problem);
    if (hint->at_context && parser->context)
        byte = byte_of(builder, parser->context_mark);
    document_report(document, DOCUMENT_SYNTAX, byte, 0, "not valid YAML: %s%s%s%s%s",
                    problem, parser->context ? " " : "",
                    parser->context ? parser->context : "", hint->advice ? "; " : "",
                    hint->advice ? hint->advice : "");
}

static bool read_events(struct builder *builder)
{
    yaml_event_type_t type = YAML_NO_EVENT;

    while (type != YAML_STREAM_END_EVENT) {
        yaml_event_t event;
        bool ok;

        if (!yaml_parser_parse(&builder->parser, &event)) {
            report_syntax(builder);
            return false;
        }
        type = event.type;
        ok = add_event(builder, &event);
        if (ok && ++builder->events > DOCUMENT_MAX_EVENTS) {
            document_report(
                builder->document, DOCUMENT_LIMIT, byte_of(builder, event.start_mark), 0,
                "more than %d keys, values and brackets", DOCUMENT_MAX_EVENTS);
            ok = false;
        }
        yaml_event_delete(&event);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- The text as a whole ---- */

static bool check_encoding(struct document *document)
{
    const char *nul = memchr(document->data, 0, document->len);
    size_t bad = document->len;

    if (document->len >= 2 && (memcmp(document->data, "\xff\xfe", 2) == 0 ||
                               memcmp(document->data, "\xfe\xff", 2) == 0)) {
        document_report(
            document, DOCUMENT_ENCODING, 0, 2,
            "the file is UTF-16; save it as UTF-8 (trainspool does not convert "
            "it)");
        return false;
    }
    if (!text_is_utf8(document->data, document->len, &bad) &&
        !(nul && (size_t)(nul - document->data) < bad)) {
        document_report(
            document, DOCUMENT_ENCODING, bad, 1,
            "byte 0x%02x is not UTF-8; save the file as UTF-8 (trainspool does not "
            "convert it)",
            (unsigned)(unsigned char)document->data[bad]);
        return false;
    }
    if (nul)
        document_report(document, DOCUMENT_ENCODING, (size_t)(nul - document->data), 1,
                        "NUL byte; the file is not text, or is UTF-16");
    return !nul;
}

static void detect_line_ends(struct document *document)
{
    size_t lf = 0, crlf = 0, cr = 0;

    for (size_t i = 0; i < document->len; i++) {
        bool before = i > 0 && document->data[i - 1] == '\r';

        if (document->data[i] == '\n' && before)
            crlf++;
        else if (document->data[i] == '\n')
            lf++;
        else
            cr += before;
    }
    cr += document->len > 0 && document->data[document->len - 1] == '\r';
    document->unicode_breaks = strstr(document->data, "\xc2\x85") ||
                               strstr(document->data, "\xe2\x80\xa8") ||
                               strstr(document->data, "\xe2\x80\xa9");
    document->crlf = crlf > 0 && lf == 0 && cr == 0;
    document->mixed_ends = (lf > 0) + (crlf > 0) + (cr > 0) > 1;
}

static void report_no_map(struct builder *builder)
{
    const struct node *top = builder->top;
    size_t at = top->at.byte;
    const char *hint = lookalike_in_line(builder->document, at, &at, builder->arena);

    document_report(builder->document, DOCUMENT_LIMIT, at, hint ? 0 : top->bytes,
                    "a job must be a mapping of keys to values, one `key: value` per "
                    "line%s%s",
                    hint ? "; " : "", hint ? hint : "");
}

static void read_tree(struct document *document, struct arena *arena)
{
    struct builder builder = { .document = document, .arena = arena };
    size_t origin = document->positions.origin;

    if (!yaml_parser_initialize(&builder.parser)) {
        document_report(document, DOCUMENT_LIMIT, 0, 0,
                        "cannot read the file: out of memory");
        return;
    }
    yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&builder.parser,
                                 (const unsigned char *)document->data + origin,
                                 document->len - origin);
    if (read_events(&builder)) {
        if (!builder.top) {
            document_report(document, DOCUMENT_LIMIT, origin, 0, "the file is empty");
        } else if (builder.top->kind != NODE_MAP) {
            report_no_map(&builder);
        } else {
            document_check_duplicates(document, arena, builder.top);
            document_expand_merges(arena, builder.top);
            document->root = builder.top;
        }
    }
    yaml_parser_delete(&builder.parser);
    free(builder.pending.list);
    free(builder.anchors.list);
}

bool document_open(const char *data, size_t len, struct arena *arena,
                   struct document *out)
{
    *out = (struct document) { .data = "" };
    if (len > DOCUMENT_MAX_BYTES) {
        text_positions_build(&out->positions, out->data, 0, 0, arena);
        document_report(out, DOCUMENT_LIMIT, 0, 0,
                        "the file has %zu bytes; a job may have at most %zu", len,
                        DOCUMENT_MAX_BYTES);
        return false;
    }
    out->data = arena_copy(arena, data, len);
    out->len = len;
    out->bom = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    text_positions_build(&out->positions, out->data, len, out->bom ? 3 : 0, arena);
    detect_line_ends(out);
    return check_encoding(out);
}

void document_read(const char *data, size_t len, struct arena *arena,
                   struct document *out)
{
    if (document_open(data, len, arena, out))
        read_tree(out, arena);
}

struct mark document_mark(const struct document *document, size_t byte)
{
    return text_positions_mark(&document->positions, byte);
}
