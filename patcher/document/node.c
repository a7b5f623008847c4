/* patcher/document/node.c - lookup and comparison of nodes. */
#include "config.h"

#include "patcher/document/node.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

static bool has_name(const struct entry *entry, const char *name)
{
    return entry->key->len == strlen(name) &&
           memcmp(entry->key->text, name, entry->key->len) == 0;
}

const struct entry *node_find(const struct node *map, const char *key)
{
    const struct entry *found = NULL;

    if (!map || map->kind != NODE_MAP)
        return NULL;
    for (size_t i = 0; i < map->count; i++) {
        const struct entry *entry = &map->entries[i];

        if (entry->from_merge && found)
            break; /* merged entries follow all written ones */
        if (has_name(entry, key))
            found = entry;
    }
    return found;
}

const struct entry *node_find_clear(const struct node *map, const char *key)
{
    const struct entry *last = node_find(map, key);

    for (size_t i = 0; last && i < map->count; i++) {
        const struct entry *entry = &map->entries[i];

        if (has_name(entry, key) && !node_same(entry->value, last->value))
            return NULL;
    }
    return last;
}

const struct node *node_value(const struct node *node)
{
    return node->kind == NODE_ALIAS ? node->target : node;
}

bool node_is_null(const struct node *node)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

    node = node_value(node);
    if (node->kind != NODE_SCALAR || node->style != STYLE_PLAIN || node->tag)
        return false;
    for (size_t i = 0; i < TS_COUNT(nulls); i++)
        if (strcmp(node->text, nulls[i]) == 0)
            return true;
    return false;
}

static bool same_members(const struct node *a, const struct node *b)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->kind == NODE_LIST && !node_same(a->items[i], b->items[i]))
            return false;
        if (a->kind == NODE_MAP && !(node_same(a->entries[i].key, b->entries[i].key) &&
                                     node_same(a->entries[i].value, b->entries[i].value)))
            return false;
    }
    return true;
}

/* DOCUMENT_MAX_DEPTH bounds the recursion: aliases are compared by name, not followed. */
bool node_same(const struct node *a, const struct node *b)
{
    if (a->kind != b->kind || a->count != b->count || a->len != b->len ||
        !text_equal(a->tag, b->tag) || !text_equal(a->anchor, b->anchor))
        return false;
    if ((a->style == STYLE_PLAIN) != (b->style == STYLE_PLAIN))
        return false;
    return memcmp(a->text, b->text, a->len) == 0 && same_members(a, b);
}
