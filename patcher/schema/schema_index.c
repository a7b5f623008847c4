/* patcher/schema/schema_index.c - the keys of a job in the order of their names: a check
 * looks for hundreds of names in a table of hundreds of keys. */
#include "config.h"

#include "patcher/schema/schema.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static struct {
    const struct key **keys; /* by name */
    size_t count;
    const struct key **aliases; /* KEY_RENAMED, by the key that they mean */
    size_t alias_count;
} by_name;

static int compare_names(const void *one, const void *other)
{
    const struct key *const *a = one, *const *b = other;

    return strcmp((*a)->name, (*b)->name);
}

/* Aliases of one key keep the order of the table. */
static void add_alias(const struct key *key)
{
    size_t at = by_name.alias_count++;

    for (; at > 0 && strcmp(by_name.aliases[at - 1]->now, key->now) > 0; at--)
        by_name.aliases[at] = by_name.aliases[at - 1];
    by_name.aliases[at] = key;
}

static void make(void)
{
    size_t count = 0;

    for (const struct keys *const *keys = schema_job.sections; *keys; keys++)
        count += (*keys)->count;
    by_name.keys = memory_alloc(count * sizeof(*by_name.keys));
    by_name.aliases = memory_alloc(count * sizeof(*by_name.aliases));
    for (const struct keys *const *keys = schema_job.sections; *keys; keys++)
        for (size_t i = 0; i < (*keys)->count; i++) {
            const struct key *key = &(*keys)->list[i];

            by_name.keys[by_name.count++] = key;
            if (key->use == KEY_RENAMED)
                add_alias(key);
        }
    qsort(by_name.keys, by_name.count, sizeof(*by_name.keys), compare_names);
}

static void make_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make);
}

static int compare_with_name(const void *name, const void *element)
{
    const struct key *const *key = element;

    return strcmp(name, (*key)->name);
}

const struct key *schema_find(const char *name)
{
    const struct key **found;

    make_once();
    found = bsearch(name, by_name.keys, by_name.count, sizeof(*by_name.keys),
                    compare_with_name);
    return found ? *found : NULL;
}

const struct key *const *schema_aliases(const char *name, size_t *count)
{
    size_t first = 0, end;

    make_once();
    while (first < by_name.alias_count && strcmp(by_name.aliases[first]->now, name) < 0)
        first++;
    for (end = first; end < by_name.alias_count; end++)
        if (strcmp(by_name.aliases[end]->now, name) != 0)
            break;
    *count = end - first;
    return by_name.aliases + first;
}
