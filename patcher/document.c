/*
 * patcher/document.c - from libyaml's events to a tree of places.  The limits are held in
 * the event loop, before the next token is asked for, since libyaml has none of its own.
 */
#include "config.h"

#include "patcher/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/size.h"

/* A map or list whose end has not been seen. */
struct frame {
    struct node *node;
    size_t base; /* where its members begin among the pending nodes */
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

static void __attribute__((format(printf, 5, 6)))
remark(struct document *document, enum document_fault fault, size_t byte, size_t bytes,
       const char *fmt, ...)
{
    struct document_remark *it = &document->remarks[document->remark_count];
    va_list args;

    if (document->remark_count == TS_COUNT(document->remarks))
        return;
    document->remark_count++;
    *it = (struct document_remark) { .fault = fault, .bytes = bytes };
    it->at = document_mark(document, byte);
    va_start(args, fmt);
    vsnprintf(it->text, sizeof(it->text), fmt, args);
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
    return places_byte(&builder->document->places, mark.index);
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

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* libyaml ends a block scalar at the next line that is not blank. */
static void trim_block_scalar(const struct builder *builder, struct node *node)
{
    const char *data = builder->document->data;
    size_t end = node->at.byte + node->bytes;

    while (end > node->at.byte + 1 && is_space(data[end - 1]))
        end--;
    if (document_line_end(builder->document, node->at.byte) >= end && node->len == 0) {
        end = node->at
                  .byte; /* no text: only the header counts, not the comment behind it */
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
        remark(builder->document, DOCUMENT_LIMIT, byte_of(builder, event->start_mark), 0,
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
        remark(builder->document, DOCUMENT_LIMIT, byte_of(builder, event->start_mark), 0,
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

static size_t node_end(const struct node *node)
{
    return node->at.byte + node->bytes;
}

/* Behind the colon, or behind a key without one (`? key`, `{key}`).  libyaml often puts
 * an empty value at the next token, which may be anywhere. */
static size_t empty_place(const struct document *document, const struct node *key,
                          const struct node *value)
{
    size_t end = node_end(key), at = value->at.byte;

    if (at > end && document->data[at - 1] == ':')
        return at;
    for (at = end; at < document->len && is_space(document->data[at]);)
        at++;
    return document->data[at] == ':' ? at + 1 : end;
}

static void fill_map(struct builder *builder, struct node *node,
                     struct node *const *members)
{
    struct document *document = builder->document;

    node->entries = arena_array(builder->arena, node->count, sizeof(*node->entries));
    for (size_t i = 0; i < node->count; i++) {
        struct node *key = members[2 * i], *value = members[2 * i + 1];

        if (value->kind == NODE_SCALAR && value->bytes == 0)
            value->at = document_mark(document, empty_place(document, key, value));
        node->entries[i] = (struct entry) { .key = key, .value = value };
    }
}

static void end_collection(struct builder *builder, const yaml_event_t *event)
{
    struct frame frame = builder->frames[--builder->depth];
    struct node *const *members = builder->pending.list + frame.base;
    size_t count = builder->pending.count - frame.base;
    struct node *node = frame.node;
    size_t end = node_end(node);

    node->count = node->kind == NODE_MAP ? count / 2 : count;
    if (node->kind == NODE_MAP) {
        fill_map(builder, node, members);
    } else {
        node->items = arena_array(builder->arena, count, sizeof(*node->items));
        for (size_t i = 0; i < count; i++)
            node->items[i] = members[i];
    }
    /* The end mark of a block collection is behind the comments that follow it. */
    if (node->flow)
        end = byte_of(builder, event->end_mark);
    for (size_t i = 0; i < count; i++)
        if (node_end(members[i]) > end)
            end = node_end(members[i]);
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
        remark(document, DOCUMENT_LIMIT, node->at.byte, node->bytes,
               "more than %d aliases", DOCUMENT_MAX_ALIASES);
        return false;
    }
    while (i > 0 && strcmp(builder->anchors.list[i - 1]->anchor, node->anchor) != 0)
        i--;
    if (i == 0 || is_open(builder, builder->anchors.list[i - 1])) {
        remark(document, DOCUMENT_LIMIT, node->at.byte, node->bytes,
               i == 0 ? "the alias *%.64s has no anchor before it"
                      : "the alias *%.64s stands inside of what it names",
               node->anchor);
        return false;
    }
    node->target = builder->anchors.list[i - 1];
    node->text = node->target->text;
    node->len = node->target->len;
    return true;
}

/* ---- Events ---- */

static bool take_event(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (builder->documents++ == 0)
            return true;
        remark(builder->document, DOCUMENT_SEVERAL, byte_of(builder, event->start_mark),
               0, "a second document begins here; a job file holds one");
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

/* The first tab among the blanks that the line of `byte` begins with. */
static bool find_tab(const struct document *document, size_t byte, size_t *tab)
{
    size_t at = document_line_start(document, byte);

    while (at < document->len && document->data[at] == ' ')
        at++;
    *tab = at;
    return at < document->len && document->data[at] == '\t';
}

static void remark_syntax(struct builder *builder)
{
    const yaml_parser_t *parser = &builder->parser;
    struct document *document = builder->document;
    const char *problem = parser->problem ? parser->problem : "unknown problem";
    size_t byte = byte_of(builder, parser->problem_mark), tab;

    if (parser->error == YAML_READER_ERROR) {
        byte = document->places.origin + parser->problem_offset;
        remark(document, DOCUMENT_SYNTAX, byte, 1, "not valid YAML: %s (U+%04X)", problem,
               (unsigned)parser->problem_value);
        return;
    }
    if (builder->top) {
        remark(document, DOCUMENT_SEVERAL, byte, 0,
               "something follows the end of the document; a job file holds one");
        return;
    }
    if (find_tab(document, byte, &tab) && tab <= byte) {
        remark(document, DOCUMENT_TAB, tab, 1,
               "a tab in the indentation, which YAML forbids; use blanks");
        return;
    }
    remark(document, DOCUMENT_SYNTAX, byte, 0, "not valid YAML: %s%s%s", problem,
           parser->context ? " " : "", parser->context ? parser->context : "");
}

static bool read_events(struct builder *builder)
{
    yaml_event_type_t type = YAML_NO_EVENT;

    while (type != YAML_STREAM_END_EVENT) {
        yaml_event_t event;
        bool ok;

        if (!yaml_parser_parse(&builder->parser, &event)) {
            remark_syntax(builder);
            return false;
        }
        type = event.type;
        ok = take_event(builder, &event);
        if (ok && ++builder->events > DOCUMENT_MAX_EVENTS) {
            remark(builder->document, DOCUMENT_LIMIT, byte_of(builder, event.start_mark),
                   0, "more than %d keys, values and brackets", DOCUMENT_MAX_EVENTS);
            ok = false;
        }
        yaml_event_delete(&event);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- Keys given twice, keys that come by a merge ---- */

struct ranked {
    const struct entry *entry;
    size_t rank;
};

static int compare_keys(const struct node *a, const struct node *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->text, b->text, a->len);
}

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    int order = compare_keys(x->entry->key, y->entry->key);

    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static bool has_name(const struct entry *entry)
{
    return node_value(entry->key)->kind == NODE_SCALAR;
}

static void remark_duplicates(struct builder *builder, const struct node *map)
{
    struct ranked *ranked = arena_array(builder->arena, map->count, sizeof(*ranked));
    size_t count = 0;

    for (size_t i = 0; i < map->count; i++)
        if (has_name(&map->entries[i]))
            ranked[count++] = (struct ranked) { &map->entries[i], i };
    qsort(ranked, count, sizeof(*ranked), compare_ranked);
    for (size_t i = 1, first = 0; i < count; i++) {
        const struct node *key = ranked[i].entry->key;

        if (compare_keys(ranked[first].entry->key, key) != 0) {
            first = i;
            continue;
        }
        remark(builder->document, DOCUMENT_DUPLICATE, key->at.byte, key->bytes,
               "the key %.64s is given twice, in lines %u and %u; which one is meant?",
               key->text, (unsigned)ranked[first].entry->key->at.line,
               (unsigned)key->at.line);
    }
}

static void check_duplicates(struct builder *builder, const struct node *node)
{
    if (node->kind == NODE_MAP)
        remark_duplicates(builder, node);
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == NODE_LIST)
            check_duplicates(builder, node->items[i]);
        if (node->kind == NODE_MAP)
            check_duplicates(builder, node->entries[i].value);
    }
}

struct merge {
    struct arena *arena;
    struct entry
        *list; /* those written first, then those merged, in order of precedence */
    size_t count, room;
    const struct node
        *seen[2 * DOCUMENT_MAX_ALIASES]; /* merged already: a bomb is no more */
    size_t seen_count;
};

static void merge_push(struct merge *merge, struct entry entry)
{
    if (merge->count == merge->room) {
        struct entry *old = merge->list;

        merge->room = merge->room ? 2 * merge->room : 64;
        merge->list = arena_array(merge->arena, merge->room, sizeof(*merge->list));
        if (merge->count > 0)
            memcpy(merge->list, old, merge->count * sizeof(*merge->list));
    }
    merge->list[merge->count++] = entry;
}

static bool is_merge(const struct entry *entry)
{
    const struct node *value = node_value(entry->value);

    if (entry->key->kind != NODE_SCALAR || entry->key->style != STYLE_PLAIN ||
        strcmp(entry->key->text, "<<") != 0)
        return false;
    if (value->kind == NODE_LIST)
        for (size_t i = 0; i < value->count; i++)
            if (node_value(value->items[i])->kind != NODE_MAP)
                return false;
    return value->kind == NODE_MAP || value->kind == NODE_LIST;
}

static void merge_add(struct merge *merge, const struct node *value)
{
    value = node_value(value);
    if (value->kind == NODE_LIST)
        for (size_t i = 0; i < value->count; i++)
            merge_add(merge, value->items[i]);
    if (value->kind != NODE_MAP)
        return;
    for (size_t i = 0; i < merge->seen_count; i++)
        if (merge->seen[i] == value)
            return;
    if (merge->seen_count == TS_COUNT(merge->seen))
        return;
    merge->seen[merge->seen_count++] = value;
    for (size_t i = 0; i < value->count; i++)
        if (!is_merge(&value->entries[i]))
            merge_push(merge, (struct entry) { value->entries[i].key,
                                               value->entries[i].value, true });
    for (size_t i = 0; i < value->count; i++)
        if (is_merge(&value->entries[i]))
            merge_add(merge, value->entries[i].value);
}

/* Of the merged entries only the first of a name stays, and none that is written. */
static void merge_drop_hidden(struct merge *merge)
{
    struct ranked *ranked = arena_array(merge->arena, merge->count, sizeof(*ranked));
    size_t kept = 0;

    for (size_t i = 0; i < merge->count; i++)
        ranked[i] = (struct ranked) { &merge->list[i], i };
    qsort(ranked, merge->count, sizeof(*ranked), compare_ranked);
    for (size_t i = 1; i < merge->count; i++)
        if (ranked[i].entry->from_merge &&
            compare_keys(ranked[i - 1].entry->key, ranked[i].entry->key) == 0)
            merge->list[ranked[i].rank].value = NULL;
    for (size_t i = 0; i < merge->count; i++)
        if (merge->list[i].value)
            merge->list[kept++] = merge->list[i];
    merge->count = kept;
}

static void expand_merges(struct builder *builder, struct node *root)
{
    struct merge merge = { .arena = builder->arena };
    bool any = false;

    for (size_t i = 0; i < root->count; i++)
        any = any || is_merge(&root->entries[i]);
    if (!any)
        return;
    for (size_t i = 0; i < root->count; i++)
        if (!is_merge(&root->entries[i]))
            merge_push(&merge, root->entries[i]);
    for (size_t i = 0; i < root->count; i++)
        if (is_merge(&root->entries[i]))
            merge_add(&merge, root->entries[i].value);
    merge_drop_hidden(&merge);
    root->entries = merge.list;
    root->count = merge.count;
}

/* ---- The text as a whole ---- */

static bool check_encoding(struct document *document)
{
    const char *nul = memchr(document->data, 0, document->len);
    size_t bad = document->len;

    if (document->len >= 2 && (memcmp(document->data, "\xff\xfe", 2) == 0 ||
                               memcmp(document->data, "\xfe\xff", 2) == 0)) {
        remark(document, DOCUMENT_ENCODING, 0, 2,
               "the file is UTF-16; save it as UTF-8 (it is not converted here)");
        return false;
    }
    if (!text_is_utf8(document->data, document->len, &bad) &&
        !(nul && (size_t)(nul - document->data) < bad)) {
        remark(
            document, DOCUMENT_ENCODING, bad, 1,
            "byte 0x%02x is not UTF-8; save the file as UTF-8 (it is not converted here)",
            (unsigned)(unsigned char)document->data[bad]);
        return false;
    }
    if (nul)
        remark(document, DOCUMENT_ENCODING, (size_t)(nul - document->data), 1,
               "a NUL byte; the file is no text, or is UTF-16");
    return !nul;
}

static void look_at_line_ends(struct document *document)
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
    document->crlf = crlf > 0 && lf == 0 && cr == 0;
    document->mixed_ends = (lf > 0) + (crlf > 0) + (cr > 0) > 1;
}

static void read_tree(struct document *document, struct arena *arena)
{
    struct builder builder = { .document = document, .arena = arena };
    size_t origin = document->places.origin;

    if (!yaml_parser_initialize(&builder.parser)) {
        remark(document, DOCUMENT_LIMIT, 0, 0, "no memory to read the file");
        return;
    }
    yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&builder.parser,
                                 (const unsigned char *)document->data + origin,
                                 document->len - origin);
    if (read_events(&builder)) {
        if (!builder.top) {
            remark(document, DOCUMENT_LIMIT, origin, 0, "the file is empty");
        } else if (builder.top->kind != NODE_MAP) {
            remark(document, DOCUMENT_LIMIT, builder.top->at.byte, builder.top->bytes,
                   "a job is a mapping of keys to values, one `key: value` a line");
        } else {
            check_duplicates(&builder, builder.top);
            expand_merges(&builder, builder.top);
            document->root = builder.top;
        }
    }
    yaml_parser_delete(&builder.parser);
    free(builder.pending.list);
    free(builder.anchors.list);
}

void document_read(const char *data, size_t len, struct arena *arena,
                   struct document *out)
{
    *out = (struct document) { .data = "" };
    if (len > DOCUMENT_MAX_BYTES) {
        places_build(&out->places, out->data, 0, 0, arena);
        remark(out, DOCUMENT_LIMIT, 0, 0, "the file has %zu bytes; a job has at most %zu",
               len, DOCUMENT_MAX_BYTES);
        return;
    }
    out->data = arena_copy(arena, data, len);
    out->len = len;
    out->bom = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    places_build(&out->places, out->data, len, out->bom ? 3 : 0, arena);
    look_at_line_ends(out);
    if (check_encoding(out))
        read_tree(out, arena);
}

const struct entry *document_find(const struct document *document, const char *key)
{
    return node_find(document->root, key);
}

struct mark document_mark(const struct document *document, size_t byte)
{
    return places_mark(&document->places, byte);
}

/* Bytes of the line end at `at`; 0 if there is none. */
static size_t break_length(const struct document *document, size_t at)
{
    const char *data = document->data + at; /* a NUL follows the text */

    if (at >= document->len)
        return 0;
    if (data[0] == '\r')
        return data[1] == '\n' ? 2 : 1;
    if (data[0] == '\n')
        return 1;
    if (memcmp(data, "\xc2\x85", 2) == 0)
        return 2;
    return strncmp(data, "\xe2\x80\xa8", 3) == 0 || strncmp(data, "\xe2\x80\xa9", 3) == 0
               ? 3
               : 0;
}

size_t document_line_end(const struct document *document, size_t byte)
{
    while (byte < document->len && break_length(document, byte) == 0)
        byte++;
    return byte + break_length(document, byte);
}

size_t document_line_start(const struct document *document, size_t byte)
{
    const char *data = document->data;

    for (; byte > document->places.origin; byte--) {
        if (data[byte - 1] == '\n' || (data[byte - 1] == '\r' && data[byte] != '\n'))
            break;
        if (byte >= 2 && break_length(document, byte - 2) == 2 && data[byte - 2] != '\r')
            break;
        if (byte >= 3 && break_length(document, byte - 3) == 3)
            break;
    }
    return byte;
}

const char *document_newline(const struct document *document, size_t byte)
{
    size_t end = document_line_end(document, byte);
    const char *data = document->data;

    if (end == document->len &&
        (end == 0 || (data[end - 1] != '\n' && data[end - 1] != '\r')))
        end = document_line_start(document, byte);
    if (end >= 2 && data[end - 2] == '\r' && data[end - 1] == '\n')
        return "\r\n";
    return end >= 1 && data[end - 1] == '\r' ? "\r" : "\n";
}

static bool is_among(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* The next entry from *at on that is not excused. */
static const struct entry *next_entry(const struct node *map, const char *const *but,
                                      size_t *at)
{
    while (*at < map->count) {
        const struct entry *entry = &map->entries[(*at)++];

        if (!has_name(entry) || !is_among(entry->key->text, but))
            return entry;
    }
    return NULL;
}

bool document_same_but(const struct document *a, const struct document *b,
                       const char *const *but)
{
    const struct entry *x, *y;
    size_t i = 0, j = 0;

    if (!a->root || !b->root)
        return !a->root && !b->root;
    do {
        x = next_entry(a->root, but, &i);
        y = next_entry(b->root, but, &j);
        if (x && y &&
            !(x->from_merge == y->from_merge && node_same(x->key, y->key) &&
              node_same(x->value, y->value)))
            return false;
    } while (x && y);
    return !x && !y;
}

/* The byte behind a quoted scalar that begins at `at`, if it ends on this line; else at.
 */
static size_t skip_quotes(const struct document *document, size_t at, size_t end)
{
    char quote = document->data[at];

    for (size_t i = at + 1; i < end; i++) {
        if (document->data[i] == '\\' && quote == '"')
            i++;
        else if (document->data[i] == quote && quote == '\'' &&
                 document->data[i + 1] == quote)
            i++;
        else if (document->data[i] == quote)
            return i + 1;
    }
    return at;
}

bool document_comment(const struct document *document, size_t from, size_t *at)
{
    const char *data = document->data;
    size_t end = document_line_end(document, from);

    for (size_t i = from; i < end; i++) {
        bool first = i == from || strchr(" \t,:[{", data[i - 1]);
        size_t behind;

        if (data[i] == '#' && (i == 0 || is_space(data[i - 1]))) {
            *at = i;
            return true;
        }
        if (!first || (data[i] != '"' && data[i] != '\''))
            continue;
        behind = skip_quotes(document, i, end);
        if (behind > i)
            i = behind - 1;
    }
    return false;
}

/* The last byte known to be outside of quotes on the line of `byte`, at or behind it. */
static size_t outside_quotes(const struct document *document, size_t byte)
{
    size_t start = document_line_start(document, byte);
    size_t end = document_line_end(document, byte), from = byte;

    for (size_t i = 0; document->root && i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];
        size_t ends[] = { node_end(entry->key), node_end(entry->value) };

        for (size_t k = 0; k < TS_COUNT(ends); k++)
            if (ends[k] >= start && ends[k] < end && ends[k] > from)
                from = ends[k];
    }
    return from;
}

/* What stands behind `# trainspool:` in the comment of a line; the length is 0 if
 * nothing. */
static const char *line_word(const struct document *document, size_t byte, size_t *len)
{
    static const char mark[] = "trainspool:";
    size_t end = document_line_end(document, byte), at;
    const char *data = document->data;

    *len = 0;
    if (!document_comment(document, outside_quotes(document, byte), &at))
        return data;
    for (; at < end; at++) {
        size_t word = at + 1;

        if (data[at] != '#')
            continue;
        while (data[word] == ' ' || data[word] == '\t')
            word++;
        if (strncmp(data + word, mark, sizeof(mark) - 1) != 0)
            continue;
        word += sizeof(mark) - 1;
        while (data[word] == ' ' || data[word] == '\t')
            word++;
        *len = word < end ? end - word : 0;
        return data + word;
    }
    return data;
}

static bool word_keeps(const char *word, size_t len, const char *rule)
{
    (void)rule;
    return len >= 4 && memcmp(word, "keep", 4) == 0 &&
           (len == 4 || is_space(word[4]) || word[4] == ',');
}

static bool word_ignores(const char *word, size_t len, const char *rule)
{
    static const char mark[] = "ignore[";
    size_t from = sizeof(mark) - 1;

    if (len < from || memcmp(word, mark, from) != 0)
        return false;
    while (from < len && word[from] != ']') {
        size_t to = from;

        while (to < len && !strchr(",] \t\r\n", word[to]))
            to++;
        if (to > from && to - from == strlen(rule) &&
            memcmp(word + from, rule, to - from) == 0)
            return true;
        from = to < len && word[to] != ']' ? to + 1 : to;
    }
    return false;
}

/* Looks at the line of the place, and at the one its value ends on. */
static bool line_says(const struct document *document, struct mark at, const char *rule,
                      bool (*says)(const char *word, size_t len, const char *rule))
{
    size_t len;
    const char *word = line_word(document, at.byte, &len);

    if (says(word, len, rule))
        return true;
    for (size_t i = 0; document->root && i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];

        if (at.byte < entry->key->at.byte || at.byte >= node_end(entry->value))
            continue;
        word = line_word(document, node_end(entry->value), &len);
        if (says(word, len, rule))
            return true;
    }
    return false;
}

bool document_line_keeps(const struct document *document, struct mark at)
{
    return line_says(document, at, NULL, word_keeps);
}

bool document_line_ignores(const struct document *document, struct mark at,
                           const char *rule)
{
    return line_says(document, at, rule, word_ignores);
}
