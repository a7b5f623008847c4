/* patcher/schema/redact.c - finds the values of secret keys: by the document where there is one,
 * and by the look of each line, for what is commented out or cannot be read. */
#include "config.h"

#include "patcher/schema/redact.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "patcher/schema/schema.h"

struct mask {
    bool *hidden; /* of each byte of a text */
    size_t len;
    bool known; /* by the document: which of it are values */
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

/* Values under a secret key, at any depth. */
static void hide_below(const struct mask *mask, const struct node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct entry *entry = map->kind == NODE_MAP ? &map->entries[i] : NULL;
        const struct node *value = entry ? entry->value : map->items[i];

        if (entry && schema_is_secret(entry->key->text))
            hide_node(mask, value);
        else if (value->kind == NODE_MAP || value->kind == NODE_LIST)
            hide_below(mask, value);
    }
}

/* Is `key:` of a secret at *at?  Then *at is where its value begins, else behind the
 * word. */
static bool names_secret(const char *data, size_t end, size_t *at)
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
    if (*at >= end || data[*at] != ':' || !schema_is_secret(name))
        return false;
    for (++*at; *at < end && (data[*at] == ' ' || data[*at] == '\t');)
        ++*at;
    return true;
}

/* `key: value`, commented out or not, at the start of a line; in a text that cannot be
 * read as a document, anywhere in it.  Was there one? */
static bool hide_line(const struct mask *mask, const char *data, size_t at, size_t end)
{
    const char *before = mask->known ? " \t#-?\"'" : " \t#-?\"'{[,:";
    bool first = true;

    while (end > at && (data[end - 1] == '\n' || data[end - 1] == '\r'))
        end--;
    while (at < end && (first || !mask->known)) {
        while (at < end && strchr(before, data[at]))
            at++;
        if (names_secret(data, end, &at)) {
            hide(mask, at, end);
            return true;
        }
        first = false;
    }
    return false;
}

/* Bytes before what a line says. */
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

static void hide_all(const struct mask *mask, const struct node *root, const char *data)
{
    /* of what may be the value of a key in a line before ... */
    bool inside = false;
    size_t at = 0, indent = 0; /* ... which had these blanks before it */

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
            inside = hide_line(mask, data, at, next) && !mask->known;
            indent = blanks;
        }
        at = next;
    }
}

void redact_mask(const struct document *document, bool *hidden)
{
    const struct mask mask = { hidden, document->len, document->root != NULL };

    hide_all(&mask, document->root, document->data);
}

/* A secret of several lines keeps their number. */
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
    struct document document;

    document_read(data, len, arena, &document);
    hide_all(&(struct mask) { hidden, len, document.root != NULL }, document.root, data);
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
