/* patcher/relocation.c - finds the paths of a job by the key table, and sets each as --set
 * does. */
#include "config.h"

#include "patcher/relocation.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "patcher/document/document.h"
#include "patcher/schema/schema.h"
#include "patcher/setting.h"
#include "train/dataset/dataset_source.h"

struct mover {
    const char *dir; /* of the job, from the root */
    struct document document;
    struct relocation *out;
    struct error *err;
};

/* Return the full path of `name` in a folder. Only the file system knows what `..` means
 * after a link. */
static char *full_path(const char *dir, const char *name)
{
    char *joined = path_join(dir, name);
    char *real = strstr(name, "..") ? realpath(joined, NULL) : NULL;
    char *full = real ? real : path_absolute(joined);

    free(joined);
    return full;
}

/* Return the full path of an input in the arena; NULL: it does not exist, or is one. */
static const char *find_input(const struct mover *mover, const char *name)
{
    const char *const dirs[] = { mover->dir, "." };
    const char *found = NULL;

    if (!name[0] || name[0] == '/')
        return NULL;
    for (int i = 0; i < 2 && !found; i++) {
        char *path = full_path(dirs[i], name);

        if (file_exists(path))
            found = arena_strdup(mover->out->arena, path);
        free(path);
    }
    return found;
}

/* Set a key to a new value in the text. */
static bool set_key(struct mover *mover, const char *key, const char *from,
                    const char *to)
{
    struct relocation *out = mover->out;
    const char *const settings[] = { arena_printf(out->arena, "%s=%s", key, to), NULL };
    struct error err = { 0 };
    struct relocated *list;

    if (!setting_apply(settings, out->arena, &out->text, &out->len, &err))
        return error_set(mover->err, ERROR_JOB, "%s; write the full path: %s", err.text,
                         to);
    if (out->count == out->room) {
        list = arena_alloc(out->arena, (2 * out->room + 8) * sizeof(*list));
        if (out->count > 0)
            memcpy(list, out->list, out->count * sizeof(*list));
        out->list = list;
        out->room = 2 * out->room + 8;
    }
    out->list[out->count++] = (struct relocated) { key, from, to };
    return true;
}

/* Move each of the names that a comma separates. */
static bool move_inputs(struct mover *mover, const char *key, const char *names)
{
    struct arena *arena = mover->out->arena;
    const char *to = "";
    bool moves = false;

    for (const char *at = names; *(at += strspn(at, ", "));) {
        size_t len = strcspn(at, ",");
        const char *name = arena_copy(arena, at, len), *path = find_input(mover, name);

        to = arena_printf(arena, "%s%s%s", to, *to ? "," : "", path ? path : name);
        moves |= path != NULL;
        at += len;
    }
    return !moves || set_key(mover, key, names, to);
}

static bool move_output(struct mover *mover, const char *key, const char *name)
{
    const char *to;
    char *path;

    if (name[0] == '/' || !path_climbs(name))
        return true;
    path = full_path(mover->dir, name);
    to = arena_strdup(mover->out->arena, path);
    free(path);
    return set_key(mover, key, name, to);
}

static bool move_key(struct mover *mover, const struct key *row, const char *key,
                     const struct node *value)
{
    bool path = row->type == KEY_PATH || strcmp(row->name, "resume_from_checkpoint") == 0;

    if (row->use != KEY_USED || !path || value->kind != NODE_SCALAR || value->len == 0)
        return true;
    if (row->written && !find_input(mover, value->text))
        return move_output(mover, key, value->text);
    if (row->written && strcmp(row->name, "teacher_logits") != 0)
        return move_output(mover, key, value->text);
    return move_inputs(mover, key, value->text);
}

/* Move the paths of one map: the job, or its block `trainspool`. */
static bool move_keys(struct mover *mover, const struct node *map,
                      const struct vocabulary *keys, const char *prefix)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct entry *entry = &map->entries[i];
        const struct key *row = entry->key->kind == NODE_SCALAR
                                    ? schema_find_in(keys, entry->key->text)
                                    : NULL;
        const char *key =
            arena_printf(mover->out->arena, "%s%s", prefix, row ? entry->key->text : "");

        if (row && row->use == KEY_RENAMED && row->now)
            row = schema_find_in(keys, row->now);
        if (row && !move_key(mover, row, key, node_value(entry->value)))
            return false;
    }
    return true;
}

/* Return the items of a list, or a scalar, separated by commas; NULL for any other. */
static const char *joined_names(const struct node *value, struct arena *arena)
{
    const char *names = "";

    if (value->kind == NODE_SCALAR)
        return value->text;
    if (value->kind != NODE_LIST)
        return NULL;
    for (size_t i = 0; i < value->count; i++) {
        const struct node *item = node_value(value->items[i]);

        if (item->kind != NODE_SCALAR || strchr(item->text, ','))
            return NULL;
        names = arena_printf(arena, "%s%s%s", names, i > 0 ? "," : "", item->text);
    }
    return names;
}

/* The datasets of one key. */
struct datasets {
    const char *key, *names;
    const char *dir; /* dataset_dir as it is where the job comes from; NULL: none */
    bool by_dir;     /* set: some name is looked up in it */
};

/* Return the full path of a file or folder of data, which is in dataset_dir or where other
 * inputs are. */
static const char *find_data(const struct mover *mover, const struct datasets *datasets,
                             const char *name)
{
    const char *found = NULL;
    char *path;

    if (!dataset_name_is_path(name))
        return NULL;
    found = find_input(mover, name);
    if (found || !datasets->dir || name[0] == '/')
        return found;
    path = full_path(datasets->dir, name);
    if (file_exists(path))
        found = arena_strdup(mover->out->arena, path);
    free(path);
    return found;
}

static bool move_datasets(struct mover *mover, struct datasets *datasets)
{
    struct arena *arena = mover->out->arena;
    const char *to = "";
    bool moves = false;

    for (const char *at = datasets->names; *(at += strspn(at, ", "));) {
        size_t len = strcspn(at, ",");
        const char *name = arena_copy(arena, at, len);
        const char *path = find_data(mover, datasets, name);

        datasets->by_dir |= !dataset_name_is_path(name);
        to = arena_printf(arena, "%s%s%s", to, *to ? "," : "", path ? path : name);
        moves |= path != NULL;
        at += len;
    }
    return !moves || set_key(mover, datasets->key, datasets->names, to);
}

/* Move datasets, and dataset_dir if the job uses the default. */
static bool move_data(struct mover *mover)
{
    static const char *const keys[] = { "dataset", "eval_dataset" };
    const struct entry *named = document_find(&mover->document, "dataset_dir");
    const char *usual = schema_find("dataset_dir")->default_value;
    const char *dir = named ? node_value(named->value)->text : usual, *found;
    bool by_dir = false;

    found = dir && dir[0] == '/' ? dir : dir ? find_input(mover, dir) : NULL;
    for (size_t i = 0; i < 2; i++) {
        const struct entry *entry = document_find(&mover->document, keys[i]);
        struct datasets datasets = { .key = keys[i], .dir = found };

        datasets.names =
            entry ? joined_names(node_value(entry->value), mover->out->arena) : NULL;
        if (datasets.names && !move_datasets(mover, &datasets))
            return false;
        by_dir |= datasets.by_dir;
    }
    return named || !by_dir || !found || set_key(mover, "dataset_dir", usual, found);
}

bool relocate(const char *data, size_t len, const char *dir, struct relocation *out,
              struct error *err)
{
    struct mover mover = { .out = out, .err = err };
    const struct entry *block;
    char *full;
    bool ok;

    *out = (struct relocation) { .arena = arena_new(), .text = data, .len = len };
    full = path_absolute(dir);
    mover.dir = arena_strdup(out->arena, full);
    free(full);
    document_read(data, len, out->arena, &mover.document);
    if (!mover.document.root || mover.document.root->kind != NODE_MAP)
        return true;
    ok = move_keys(&mover, mover.document.root, &schema_job, "") && move_data(&mover);
    block = document_find(&mover.document, "trainspool");
    if (ok && block && block->value->kind == NODE_MAP)
        ok = move_keys(&mover, block->value, &schema_block, "trainspool.");
    return ok;
}

void relocation_clear(struct relocation *relocation)
{
    if (relocation->arena)
        arena_free(relocation->arena);
    *relocation = (struct relocation) { 0 };
}
