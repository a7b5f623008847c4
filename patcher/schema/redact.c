/* patcher/schema/redact.c - finds the values of secret keys: in the parsed document, and
 * with a scan of the lines for comments and for text that cannot be parsed. */
#include "config.h"

#include "patcher/schema/redact.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "patcher/schema/schema.h"

struct mask {
    bool *hidden; /* for each byte of the text */
    size_t len;
    bool parsed; /* the document shows where values begin and end */
    struct schema_secrets secrets;
};

static void hide(const struct mask *mask, size_t from, size_t to)
{
    for (; from < to && from < mask->len; from++)
        mask->hidden[from] = true;
}

static void hide_node(const struct mask *mask, const struct node *node)
{
    hide(mask, node->at.byte, node->at.byte + node->bytes);
    if (node->kind == NODE_ALIAS && node->target)
        hide(mask, node->target->at.byte, node->target->at.byte + node->target->bytes);
}

/* Hide the values of secret keys, at any depth. */
static void hide_below(const struct mask *mask, const struct node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct entry *entry = map->kind == NODE_MAP ? &map->entries[i] : NULL;
        const struct node *value = entry ? entry->value : map->items[i];

        if (entry && schema_secrets_have(&mask->secrets, entry->key->text))
            hide_node(mask, value);
        else if (value->kind == NODE_MAP || value->kind == NODE_LIST)
            hide_below(mask, value);
    }
}

/* Return whether the text at *at is a secret key and a colon.  If so, move *at to its
 * value, else past the word. */
static bool skip_secret_key(const struct mask *mask, const char *data, size_t end,
                            size_t *at)
{
    size_t key = *at;
    char name[128];

    while (*at < end && !strchr(":\"' \t{[,", data[*at]))
        ++*at;
    if (*at == key || *at - key >= sizeof(name))
        return false;
    memcpy(name, data + key, *at - key);
    name[*at - key] = 0;
    while (*at < end && strchr("\"' \t", data[*at]))
        ++*at;
    if (*at >= end || data[*at] != ':' || !schema_secrets_have(&mask->secrets, name))
        return false;
    for (++*at; *at < end && (data[*at] == ' ' || data[*at] == '\t');)
        ++*at;
    return true;
}

/* Hide the value of `key: value`, commented out or not: at the start of the line or, if
 * the text could not be parsed, anywhere in it.  Return whether there was one. */
static bool hide_line(const struct mask *mask, const char *data, size_t at, size_t end)
{
    const char *before = mask->parsed ? " \t#-?\"'" : " \t#-?\"'{[,:";
    bool first = true;

    while (end > at && (data[end - 1] == '\n' || data[end - 1] == '\r'))
        end--;
    while (at < end && (first || !mask->parsed)) {
        while (at < end && strchr(before, data[at]))
            at++;
        if (skip_secret_key(mask, data, end, &at)) {
            hide(mask, at, end);
            return true;
        }
        first = false;
    }
    return false;
}

/* Return the width of the indentation in bytes. */
static size_t indent_of(const char *data, size_t at, size_t end)
{
    size_t from = at;

    while (at < end && (data[at] == ' ' || data[at] == '\t'))
        at++;
    return at - from;
}

static bool is_empty(const char *data, size_t at, size_t end)
{
    return at == end || data[at] == '\n' || data[at] == '\r';
}

static void hide_all(struct mask *mask, const struct node *root, const char *data)
{
    bool inside =
        false; /* in lines that may continue the value of an earlier secret key */
    size_t at = 0, indent = 0; /* of that key's line */

    schema_secrets_find(&mask->secrets);
    memset(mask->hidden, 0, mask->len * sizeof(*mask->hidden));
    if (root)
        hide_below(mask, root);
    while (at < mask->len) {
        const char *newline = memchr(data + at, '\n', mask->len - at);
        size_t next = newline ? (size_t)(newline - data) + 1 : mask->len;
        size_t blanks = indent_of(data, at, next);

        if (inside && blanks > indent) {
            hide(mask, at + blanks, newline ? next - 1 : next);
        } else if (!inside || !is_empty(data, at + blanks, next)) {
            inside = hide_line(mask, data, at, next) && !mask->parsed;
            indent = blanks;
        }
        at = next;
    }
}

void redact_mask(const struct document *document, bool *hidden)
{
    struct mask mask = { .hidden = hidden,
                         .len = document->len,
                         .parsed = document->root != NULL };

    hide_all(&mask, document->root, document->data);
}

/* A secret keeps its number of lines. */
static void add_hidden(const char *data, size_t len, struct text *out)
{
    text_adds(out, REDACT_SHOWN);
    for (size_t i = 0; i < len; i++)
        text_adds(out, data[i] == '\n' ? "\n" REDACT_SHOWN : "");
}

bool redact_text(const char *data, size_t len, struct text *out)
{
    struct arena *arena = arena_new();
    bool *hidden = memory_alloc(len + 1);
    struct mask mask = { .hidden = hidden, .len = len };
    struct document document;

    document_read(data, len, arena, &document);
    mask.parsed = document.root != NULL;
    hide_all(&mask, document.root, data);
    for (size_t at = 0, next; at < len; at = next) {
        for (next = at; next < len && hidden[next] == hidden[at];)
            next++;
        if (hidden[at])
            add_hidden(data + at, next - at, out);
        else
            text_add(out, data + at, next - at);
    }
    free(hidden);
    arena_free(arena);
    return !out->overflow;
}
