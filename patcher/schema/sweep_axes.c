/* patcher/schema/sweep_axes.c - checks each key and each value against the key table. */
#include "config.h"

#include "patcher/schema/sweep_axes.h"

#include <string.h>

#include "patcher/schema/schema.h"

static bool read_key(const struct node *node, const char **out, struct error *err)
{
    const struct key *key = node->kind == NODE_SCALAR ? schema_find(node->text) : NULL;

    *out = node->text;
    if (!key)
        return error_set(err, ERROR_JOB,
                         "there is no key %.80s at the top level of a job", node->text);
    return key->use == KEY_USED || key->use == KEY_RENAMED ||
           error_set(err, ERROR_JOB, "%s has no effect, so its values cannot differ",
                     node->text);
}

static bool read_value(struct sweep_axis *axis, const char **values,
                       const struct node *node, struct arena *arena, struct error *err)
{
    struct plan scratch = { 0 };
    struct error why = { 0 };

    node = node_value(node);
    if (node->kind != NODE_SCALAR)
        return error_set(err, ERROR_JOB,
                         "each value of %s must be a text or a number on one line",
                         axis->key);
    for (size_t i = 0; i < axis->count; i++)
        if (strcmp(values[i], node->text) == 0)
            return error_set(err, ERROR_JOB, "%s has the value %.80s twice", axis->key,
                             node->text);
    if (!schema_set(axis->key, node->text, arena, &scratch, &why))
        return error_set(err, ERROR_JOB, "%s", why.text);
    values[axis->count++] = node->text;
    return true;
}

static bool read_axis(const struct entry *entry, struct arena *arena,
                      struct sweep_axis *out, struct error *err)
{
    const struct node *list = node_value(entry->value);
    const char **values;

    *out = (struct sweep_axis) { 0 };
    if (!read_key(entry->key, &out->key, err))
        return false;
    if (list->kind != NODE_LIST || list->count == 0)
        return error_set(err, ERROR_JOB, "%s must have a list of values, such as [1, 2]",
                         out->key);
    values = arena_alloc(arena, list->count * sizeof(*values));
    out->values = values;
    for (size_t i = 0; i < list->count; i++)
        if (!read_value(out, values, list->items[i], arena, err))
            return false;
    return true;
}

bool sweep_axes_read(const struct node *value, struct arena *arena,
                     struct sweep_axes *out, struct error *err)
{
    const struct node *map = node_value(value);

    *out = (struct sweep_axes) { .jobs = 1 };
    if (map->kind != NODE_MAP || map->count == 0)
        return error_set(err, ERROR_JOB,
                         "expected keys with lists of values, such as {learning_rate: "
                         "[1e-5, 2e-5]}");
    if (map->count > SWEEP_AXES_MAX)
        return error_set(err, ERROR_JOB, "at most %d keys can vary, not %zu",
                         SWEEP_AXES_MAX, map->count);
    for (size_t i = 0; i < map->count; i++) {
        if (!read_axis(&map->entries[i], arena, &out->list[out->count++], err))
            return false;
        out->jobs *= out->list[i].count;
        if (out->jobs > SWEEP_JOBS_MAX)
            return error_set(err, ERROR_JOB, "more than %d combinations of values",
                             SWEEP_JOBS_MAX);
    }
    return true;
}

const char *sweep_axes_value(const struct sweep_axes *axes, size_t job, size_t axis)
{
    for (size_t i = axes->count; i-- > axis + 1;)
        job /= axes->list[i].count;
    return axes->list[axis].values[job % axes->list[axis].count];
}
