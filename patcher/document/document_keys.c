/* patcher/document/document_keys.c - duplicate keys, merged keys, and comparison of
 * documents. */
#include "config.h"

#include "patcher/document/document_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

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

static void report_duplicates(struct document *document, struct arena *arena,
                              const struct node *map)
{
    struct ranked *ranked = arena_array(arena, map->count, sizeof(*ranked));
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
        document_report(
            document, DOCUMENT_DUPLICATE, key->at.byte, key->bytes,
            "the key %.64s is given twice, in lines %u and %u; keep one of them",
            key->text, (unsigned)ranked[first].entry->key->at.line,
            (unsigned)key->at.line);
    }
}

void document_check_duplicates(struct document *document, struct arena *arena,
                               const struct node *node)
{
    if (node->kind == NODE_MAP)
        report_duplicates(document, arena, node);
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == NODE_LIST)
            document_check_duplicates(document, arena, node->items[i]);
        if (node->kind == NODE_MAP)
            document_check_duplicates(document, arena, node->entries[i].value);
    }
}

struct merge {
    struct arena *arena;
    struct entry
        *list; /* written entries, followed by merged entries in order of precedence */
    size_t count, room;
    const struct node
        /* each map is merged once, so that nested merges cannot grow without bound */
        *seen[2 * DOCUMENT_MAX_ALIASES];
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

/* Of the merged entries of one name, keep only the first, and only if the name is not
 * written. */
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

void document_expand_merges(struct arena *arena, struct node *root)
{
    struct merge merge = { .arena = arena };
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

const struct entry *document_find(const struct document *document, const char *key)
{
    return node_find(document->root, key);
}

static bool is_among(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* Return the next entry from *at on that is not in the exceptions. */
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
