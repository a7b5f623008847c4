/* patcher/findings/rewrite.c - choose the bytes of an edit so that everything around it
 * stays unchanged. */
#include "config.h"

#include "patcher/findings/rewrite.h"

#include <string.h>

#include "base/size.h"

static bool contains_entry(const struct node *map, const struct entry *entry)
{
    return map->kind == NODE_MAP && entry >= map->entries &&
           entry < map->entries + map->count;
}

/* Return the map of an entry: the top level, or a map directly below it. */
static const struct node *map_of(const struct document *document,
                                 const struct entry *entry)
{
    const struct node *root = document->root;

    for (size_t i = 0; !contains_entry(root, entry) && i < root->count; i++)
        if (contains_entry(root->entries[i].value, entry))
            return root->entries[i].value;
    return root;
}

/* A replacement under construction. */
struct span {
    size_t at, cut;
    const char *text, *label;
};

static size_t end_of(const struct node *node)
{
    return node->at.byte + node->bytes;
}

static void span_emit(const struct rewrite *rewrite, struct span span)
{
    struct finding *out = rewrite->out;

    out->at = document_mark(rewrite->document, span.at);
    out->cut = span.cut;
    out->old_text =
        arena_copy(rewrite->arena, rewrite->document->data + span.at, span.cut);
    out->new_text = span.text;
    out->label = span.label;
}

/* ---- What must not be edited ---- */

static bool is_block_scalar(const struct node *node)
{
    return node->kind == NODE_SCALAR &&
           (node->style == STYLE_LITERAL || node->style == STYLE_FOLDED);
}

static bool has_anchor(const struct node *node)
{
    if (node->anchor)
        return true;
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == NODE_LIST && has_anchor(node->items[i]))
            return true;
        if (node->kind == NODE_MAP &&
            (has_anchor(node->entries[i].key) || has_anchor(node->entries[i].value)))
            return true;
    }
    return false;
}

static bool is_duplicate(const struct document *document, const struct entry *entry)
{
    const struct node *map = map_of(document, entry);
    size_t seen = 0;

    for (size_t i = 0; i < map->count; i++) {
        const struct node *key = map->entries[i].key;

        seen += !map->entries[i].from_merge && key->len == entry->key->len &&
                memcmp(key->text, entry->key->text, key->len) == 0;
    }
    return seen > 1;
}

/* Return whether the key has the usual form: `[a]: `, `: b` and `!tag: c` are YAML
 * too. */
static bool is_named(const struct document *document, const struct entry *entry)
{
    const struct node *key = entry->key;

    return key->kind == NODE_SCALAR && key->len > 0 && !key->tag &&
           document_line_end(document, key->at.byte) >= end_of(key);
}

static enum rewrite_fault check_entry(const struct rewrite *rewrite,
                                      const struct entry *entry)
{
    if (entry->from_merge || has_anchor(entry->key))
        return REWRITE_ANCHOR;
    if (is_duplicate(rewrite->document, entry))
        return REWRITE_TWICE;
    return is_named(rewrite->document, entry) ? REWRITE_OK : REWRITE_SHAPE;
}

/* Return whether replacing the span would lose a comment.  Any line but the last can
 * contain one. */
static bool has_comment_inside(const struct document *document, const struct node *node)
{
    size_t first_end = document_line_end(document, node->at.byte);
    const char *data = document->data + node->at.byte;

    if (node->kind != NODE_SCALAR)
        return first_end < end_of(node) && memchr(data, '#', node->bytes);
    if (node->style != STYLE_LITERAL && node->style != STYLE_FOLDED)
        return false;
    return memchr(data, '#', first_end - node->at.byte) != NULL;
}

static bool is_on_one_line(const struct document *document, const struct node *node)
{
    return node->kind == NODE_SCALAR && !is_block_scalar(node) &&
           document_line_end(document, node->at.byte) >= end_of(node);
}

/* Return whether a blank or comment line after the line of `byte` starts with a tab.
 * YAML allows that only after a plain value, which might continue there. */
static bool tab_follows(const struct document *document, size_t byte)
{
    size_t at = document_line_end(document, byte);

    while (at < document->len) {
        const char *line = document->data + at;
        size_t blanks = strspn(line, " \t");

        if (memchr(line, '\t', blanks))
            return true;
        if (line[blanks] && !strchr("#\r\n", line[blanks]))
            return false;
        if (document_line_end(document, at) == at)
            break;
        at = document_line_end(document, at);
    }
    return false;
}

/* Return whether an empty value has a colon before it that is not the end of a
 * comment. */
static bool follows_colon(const struct document *document, const struct entry *entry)
{
    size_t at = entry->value->at.byte, from = end_of(entry->key), hash;

    if (at == 0 || document->data[at - 1] != ':')
        return false;
    if (from < document_line_start(document, at))
        from = document_line_start(document, at);
    return !document_comment(document, from, &hash) || hash >= at;
}

static bool is_plain(const char *value)
{
    return *value && !strchr("{['\"|>", *value);
}

static enum rewrite_fault check_value(const struct rewrite *rewrite,
                                      const struct entry *entry)
{
    enum rewrite_fault fault = check_entry(rewrite, entry);

    if (fault != REWRITE_OK)
        return fault;
    if (has_anchor(entry->value))
        return REWRITE_ANCHOR;
    if (strstr(entry->value->text, "${"))
        return REWRITE_INTERPOLATION;
    if (rewrite->document->unicode_breaks &&
        !is_on_one_line(rewrite->document, entry->value))
        return REWRITE_SHAPE;
    return has_comment_inside(rewrite->document, entry->value) ? REWRITE_SHAPE
                                                               : REWRITE_OK;
}

/* ---- Replace a value ---- */

/* Quote the text like `like`. */
static const char *quote(struct arena *arena, const struct node *like, const char *value)
{
    bool single = like->kind == NODE_SCALAR && like->style == STYLE_SINGLE;
    bool both = like->kind == NODE_SCALAR && like->style == STYLE_DOUBLE;
    char *out, *to;

    if (!single && !both)
        return value;
    out = to = arena_alloc(arena, 2 * strlen(value) + 3);
    *to++ = single ? '\'' : '"';
    for (; *value; value++) {
        if (single && *value == '\'')
            *to++ = '\'';
        if (both && (*value == '"' || *value == '\\'))
            *to++ = '\\';
        *to++ = *value;
    }
    *to = single ? '\'' : '"';
    return out;
}

/* Return whether there is a comment in this column on the line of `byte`. */
static bool comment_in_column(const struct document *document, size_t byte,
                              uint32_t column)
{
    size_t at;

    return document_comment(document, document_line_start(document, byte), &at) &&
           document_mark(document, at).column == column;
}

static bool is_aligned(const struct document *document, size_t end, size_t hash)
{
    size_t start = document_line_start(document, end),
           next = document_line_end(document, end);
    uint32_t column = document_mark(document, hash).column;

    if (hash - end >= 2)
        return true;
    return (start > 0 && comment_in_column(document, start - 1, column)) ||
           (next < document->len && comment_in_column(document, next, column));
}

/* Return the number of blanks from `end` to the comment after it; 0 if there is no
 * comment or a tab in between. */
static size_t find_gap(const struct document *document, size_t end)
{
    size_t hash;

    if (!document_comment(document, end, &hash))
        return 0;
    for (size_t i = end; i < hash; i++)
        if (document->data[i] != ' ')
            return 0;
    return hash - end;
}

/* Keep the comment after the span in its column, or at least one blank away. */
static void keep_column(const struct rewrite *rewrite, struct span *span)
{
    const struct document *document = rewrite->document;
    size_t end = span->at + span->cut, gap = find_gap(document, end);
    size_t width = text_positions_character(&document->positions, end) -
                   text_positions_character(&document->positions, span->at);
    size_t new_width = 0, target;

    if (gap == 0 ||
        document_mark(document, span->at).line != document_mark(document, end).line ||
        !is_aligned(document, end, end + gap))
        return;
    for (const char *c = span->text; *c; c++)
        new_width += ((unsigned char)*c & 0xc0) != 0x80;
    target = gap + width > new_width ? gap + width - new_width : 1;
    if (target > gap)
        span->text =
            arena_printf(rewrite->arena, "%s%*s", span->text, (int)(target - gap), "");
    else
        span->cut += gap - target;
}

static enum rewrite_fault yaml_value(const struct rewrite *rewrite,
                                     const struct entry *entry, const char *value)
{
    enum rewrite_fault fault = check_value(rewrite, entry);
    struct span span = { .at = entry->value->at.byte, .cut = entry->value->bytes };

    if (fault != REWRITE_OK)
        return fault;
    span.text = quote(rewrite->arena, entry->value, value);
    if (!is_plain(span.text) && tab_follows(rewrite->document, end_of(entry->value)))
        return REWRITE_SHAPE;
    if (span.cut == 0 && !follows_colon(rewrite->document, entry))
        return REWRITE_SHAPE; /* `{key}`, `? key` */
    if (span.cut == 0)
        span.text = arena_printf(rewrite->arena, " %s", value);
    /* values other than a block list or block scalar must be indented deeper than their
     * key */
    if (((entry->value->kind == NODE_LIST && !entry->value->flow) ||
         is_block_scalar(entry->value)) &&
        entry->value->at.line > entry->key->at.line &&
        entry->value->at.column <= entry->key->at.column)
        span.text = arena_printf(rewrite->arena, "  %s", span.text);
    keep_column(rewrite, &span);
    if (rewrite->document->data[end_of(entry->value)] == '#')
        span.text = arena_printf(rewrite->arena, "%s ", span.text); /* `[]# comment` */
    span.label =
        strcmp(span.text, value) != 0 ? arena_strdup(rewrite->arena, value) : NULL;
    span.text = arena_strdup(rewrite->arena, span.text);
    span_emit(rewrite, span);
    return REWRITE_OK;
}

/* ---- Rename a key, insert a line, remove a line ---- */

static enum rewrite_fault yaml_key(const struct rewrite *rewrite,
                                   const struct entry *entry, const char *name)
{
    enum rewrite_fault fault = check_entry(rewrite, entry);
    const char *quoted;

    if (fault != REWRITE_OK)
        return fault;
    quoted = arena_strdup(rewrite->arena, quote(rewrite->arena, entry->key, name));
    span_emit(rewrite,
              (struct span) { entry->key->at.byte, entry->key->bytes, quoted, NULL });
    return REWRITE_OK;
}

/* Return the last node of an entry: its value, or its key if no value is written. */
static const struct node *last_part(const struct entry *entry)
{
    return entry->value->bytes > 0 ? entry->value : entry->key;
}

/* Return the last scalar of a value. */
static const struct node *last_leaf(const struct node *node)
{
    while (node->count > 0 && node->kind != NODE_SCALAR)
        node = node->kind == NODE_MAP ? last_part(&node->entries[node->count - 1])
                                      : node->items[node->count - 1];
    return node;
}

/* Return where the lines of an entry end.  Blank lines belong to a block scalar that
 * keeps them. */
static size_t lines_end(const struct document *document, const struct entry *entry)
{
    const struct node *leaf = last_leaf(entry->value);
    size_t end = end_of(entry->value) > end_of(entry->key) ? end_of(entry->value)
                                                           : end_of(entry->key);
    size_t at = document_line_end(document, end);

    if (!is_block_scalar(leaf))
        return at;
    while (at < document->len) {
        size_t next = document_line_end(document, at);

        if (strspn(document->data + at, " \t\r\n") < next - at)
            break;
        at = next;
    }
    return at;
}

/* Return whether all top-level keys start in this column. */
static bool is_in_column(const struct node *root, const struct entry *entry,
                         size_t indent)
{
    return !contains_entry(root, entry) || root->anchor || root->tag ||
           root->at.column == indent + 1;
}

/* Find the indentation of a block key.  Return false if the key is not the first on its
 * line. */
static bool find_indent(const struct document *document, const struct entry *entry,
                        size_t *start, size_t *indent)
{
    const char *line;

    *start = document_line_start(document, entry->key->at.byte);
    line = document->data + *start;
    *indent = strspn(line, " ");
    return *start + *indent == entry->key->at.byte &&
           is_in_column(document->root, entry, *indent);
}

static enum rewrite_fault insert_flow(const struct rewrite *rewrite,
                                      const struct entry *after, const char *key,
                                      const char *value)
{
    const struct node *old = after->value;
    struct span span = { .at = end_of(old) };

    key = quote(rewrite->arena, after->key, key);
    if (after->key->at.byte > span.at)
        return REWRITE_SHAPE;
    if (old->bytes == 0) { /* `{a: , b: 1}`: only a blank can follow the colon */
        span.at = after->key->at.byte;
        span.text = arena_printf(rewrite->arena, "%s: %s, ", key, value);
    } else {
        span.text = arena_printf(rewrite->arena, ", %s: %s", key, value);
    }
    span.label = arena_printf(rewrite->arena, "%s: %s", key, value);
    span_emit(rewrite, span);
    return REWRITE_OK;
}

static enum rewrite_fault yaml_insert(const struct rewrite *rewrite,
                                      const struct entry *after, const char *key,
                                      const char *value)
{
    const struct document *document = rewrite->document;
    const struct node *root = document->root;
    struct span span = { 0 };
    const char *newline;
    size_t start, indent;
    bool ended;

    for (size_t i = 0; !after && i < root->count; i++)
        if (!root->entries[root->count - 1 - i].from_merge)
            after = &root->entries[root->count - 1 - i];
    if (!after || after->from_merge)
        return REWRITE_ANCHOR;
    if (!is_named(document, after) || document->unicode_breaks)
        return REWRITE_SHAPE;
    if (map_of(document, after)->flow)
        return insert_flow(rewrite, after, key, value);
    if (!find_indent(document, after, &start, &indent))
        return REWRITE_SHAPE;
    span.at = lines_end(document, after);
    ended = span.at > start && span.at == document_line_start(document, span.at);
    if (!ended && is_block_scalar(last_leaf(after->value)))
        return REWRITE_SHAPE; /* a newline would become part of its text */
    if (!is_plain(value) && tab_follows(document, end_of(after->value)))
        return REWRITE_SHAPE;
    newline = document_newline(document, start);
    span.text = arena_printf(rewrite->arena, "%s%.*s%s: %s%s", ended ? "" : newline,
                             (int)indent, document->data + start, key, value, newline);
    span.label = arena_printf(rewrite->arena, "%s: %s", key, value);
    span_emit(rewrite, span);
    return REWRITE_OK;
}

/* Return the bytes with `# ` before every line except the first. */
static const char *comment_lines(const struct rewrite *rewrite, size_t at, size_t end)
{
    const struct document *document = rewrite->document;
    size_t lines = 0;
    char *out, *to;

    for (size_t i = at; i < end; i = document_line_end(document, i))
        lines++;
    out = to = arena_alloc(rewrite->arena, end - at + 2 * lines + 1);
    while (at < end) {
        size_t next = document_line_end(document, at);

        if (next > end)
            next = end;
        if (to > out) {
            *to++ = '#';
            *to++ = ' ';
        }
        memcpy(to, document->data + at, next - at);
        to += next - at;
        at = next;
    }
    return out;
}

static enum rewrite_fault yaml_remove(const struct rewrite *rewrite,
                                      const struct entry *entry, const char *rule)
{
    enum rewrite_fault fault = check_entry(rewrite, entry);
    const struct document *document = rewrite->document;
    size_t start, indent, end = end_of(entry->value);

    if (fault != REWRITE_OK)
        return fault;
    if (has_anchor(entry->value))
        return REWRITE_ANCHOR;
    if (document->root->flow || document->root->count == 1 || document->unicode_breaks ||
        !find_indent(document, entry, &start, &indent))
        return REWRITE_SHAPE;
    if (tab_follows(document, end))
        return REWRITE_SHAPE;
    start = entry->key->at.byte;
    span_emit(rewrite,
              (struct span) { start, end - start,
                              arena_printf(rewrite->arena, "# trainspool %s removed: %s",
                                           rule, comment_lines(rewrite, start, end)),
                              "removed" });
    return REWRITE_OK;
}

enum rewrite_fault rewrite_value(const struct rewrite *rewrite, const struct entry *entry,
                                 const char *value)
{
    const struct rewriter *rewriter = rewrite->document->rewriter;

    return rewriter ? rewriter->value(rewrite, entry, value)
                    : yaml_value(rewrite, entry, value);
}

enum rewrite_fault rewrite_key(const struct rewrite *rewrite, const struct entry *entry,
                               const char *name)
{
    const struct rewriter *rewriter = rewrite->document->rewriter;

    return rewriter ? rewriter->key(rewrite, entry, name)
                    : yaml_key(rewrite, entry, name);
}

enum rewrite_fault rewrite_insert(const struct rewrite *rewrite,
                                  const struct entry *after, const char *key,
                                  const char *value)
{
    const struct rewriter *rewriter = rewrite->document->rewriter;

    return rewriter ? rewriter->insert(rewrite, after, key, value)
                    : yaml_insert(rewrite, after, key, value);
}

enum rewrite_fault rewrite_remove(const struct rewrite *rewrite,
                                  const struct entry *entry, const char *rule)
{
    const struct rewriter *rewriter = rewrite->document->rewriter;

    return rewriter ? rewriter->remove(rewrite, entry, rule)
                    : yaml_remove(rewrite, entry, rule);
}
