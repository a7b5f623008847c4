/* patcher/import/import_report.c - the outcome for each key of the source, so that none
 * is lost. */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

const char *const import_outcome_names[IMPORT_OUTCOMES] = {
    [IMPORT_CARRIED] = "carried", [IMPORT_DIFFERS] = "differs", [IMPORT_IDLE] = "idle"
};

struct outcome_list {
    struct import_key *keys;
    const struct entry **entries; /* of the source, parallel to keys */
    size_t count, room;
};

static struct outcome_list *outcomes_of(struct importing *im)
{
    struct outcome_list *outcomes = im->outcomes;

    if (!outcomes)
        outcomes = im->outcomes = arena_alloc(im->arena, sizeof(*outcomes));
    if (outcomes->count == outcomes->room) {
        struct outcome_list old = *outcomes;

        outcomes->room = old.room ? 2 * old.room : 128;
        outcomes->keys = arena_array(im->arena, outcomes->room, sizeof(*outcomes->keys));
        outcomes->entries =
            arena_array(im->arena, outcomes->room, sizeof(*outcomes->entries));
        for (size_t i = 0; i < old.count; i++) {
            outcomes->keys[i] = old.keys[i];
            outcomes->entries[i] = old.entries[i];
        }
    }
    return outcomes;
}

bool import_has_outcome(const struct importing *im, const struct entry *entry)
{
    for (size_t i = 0; im->outcomes && i < im->outcomes->count; i++)
        if (im->outcomes->entries[i] == entry)
            return true;
    return false;
}

/* The first outcome of a key counts, so special cases come before the rule of their
 * group. */
void import_add_outcome(struct importing *im, const struct entry *entry,
                        const struct import_key *key)
{
    struct outcome_list *outcomes;

    if (!entry || import_has_outcome(im, entry))
        return;
    outcomes = outcomes_of(im);
    outcomes->entries[outcomes->count] = entry;
    outcomes->keys[outcomes->count] = *key;
    outcomes->keys[outcomes->count].at = entry->key->at;
    outcomes->count++;
}

size_t import_keys(const struct importing *im, const struct import_key **out)
{
    *out = im->outcomes ? im->outcomes->keys : NULL;
    return im->outcomes ? im->outcomes->count : 0;
}

void import_mark_carried(struct importing *im, const char *path, const char *into)
{
    import_add_outcome(
        im, import_find_written(im, path),
        &(struct import_key) { .name = path, .outcome = IMPORT_CARRIED, .into = into });
}

void import_mark_dropped(struct importing *im, const char *path,
                         enum import_outcome outcome, const char *fmt, ...)
{
    char why[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    import_add_outcome(im, import_find_written(im, path),
                       &(struct import_key) { .name = arena_strdup(im->arena, path),
                                              .outcome = outcome,
                                              .why = arena_strdup(im->arena, why) });
}

const char *import_idle_reason(const struct node *value, const char *why)
{
    return node_is_null(value) ? "empty" : import_is_off(value) ? "off" : why;
}

void import_mark_idle(struct importing *im, const char *path, const char *why)
{
    const struct entry *entry = import_find_written(im, path);

    if (entry)
        import_mark_dropped(im, path, IMPORT_IDLE, "%s",
                            import_idle_reason(entry->value, why));
}

/* A node visited while collecting the remaining keys. */
struct walk {
    struct importing *im;
    const char *why;
    const char *path; /* of the node: "", "model", "datasets[0]" */
};

static void walk_node(const struct walk *walk, const struct node *node);

static bool has_keys(const struct node *node)
{
    if (node->kind == NODE_MAP)
        return node->count > 0;
    for (size_t i = 0; node->kind == NODE_LIST && i < node->count; i++)
        if (has_keys(node->items[i]))
            return true;
    return false;
}

static void walk_entry(const struct walk *walk, const struct entry *entry)
{
    struct importing *im = walk->im;
    const char *name = entry->key->text;
    struct walk below = *walk;

    if (import_has_outcome(im, entry))
        return;
    below.path =
        walk->path[0] ? arena_printf(im->arena, "%s.%s", walk->path, name) : name;
    if (has_keys(entry->value))
        walk_node(&below, entry->value);
    else
        import_add_outcome(
            im, entry,
            &(struct import_key) {
                .name = below.path,
                .outcome = node_is_null(entry->value) ? IMPORT_IDLE : IMPORT_DIFFERS,
                .why = node_is_null(entry->value) ? "empty" : walk->why });
}

static void walk_node(const struct walk *walk, const struct node *node)
{
    struct walk below = *walk;

    for (size_t i = 0; node->kind == NODE_MAP && i < node->count; i++)
        walk_entry(walk, &node->entries[i]);
    for (size_t i = 0; node->kind == NODE_LIST && i < node->count; i++) {
        below.path = arena_printf(walk->im->arena, "%s[%zu]", walk->path, i);
        walk_node(&below, node->items[i]);
    }
}

void import_mark_rest_unknown(struct importing *im, const char *why)
{
    walk_node(&(struct walk) { im, why, "" }, im->source->root);
}
