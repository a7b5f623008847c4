/*
 * train/media_cache.c - parts features-00001.safetensors, ..., each of which gets its name when
 * it is complete, and features.safetensors.index.json, which names all and is written once they
 * are: written with each part, it would soon be larger than the parts.
 */
#include "config.h"

#include "train/media_cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/leftovers.h"
#include "base/path.h"
#include "base/walk.h"
#include "train/files/safetensors.h"

/* A part is written when it has so many bytes, or its first rows are so old. */
#define PART_BYTES   ((size_t)256 << 20)
#define PART_SECONDS 60.0
/* Of an index, which safetensors_open reads: millions of tensors. */
#define INDEX_BYTES ((size_t)1 << 30)
#define INDEX       "features.safetensors.index.json"
#define PART_START  "features-"
#define PART_END    ".safetensors"
#define HEX_DIGITS  16 /* of the description in a folder's name */

struct entry {
    char *key;
    int32_t grid[3];
    struct tower_output rows;
};

struct media_cache {
    char *dir;
    json_t *map;           /* of the index: tensor -> file */
    size_t parts;          /* the largest number of one */
    bool listed;           /* the index has this map */
    struct entry *entries; /* not written yet */
    size_t count, room, bytes;
    double since; /* clock_seconds of the first of them */
};

static char *index_name(const struct media_cache *cache)
{
    return path_join(cache->dir, INDEX);
}

static char *part_name(size_t part)
{
    struct text name;

    text_init(&name, 0);
    text_addf(&name, PART_START "%05zu" PART_END, part);
    return text_detach(&name, NULL);
}

/* ---- Reading ---- */

/* Return the number of a part; 0: the file is not one. */
static size_t part_of(const char *file)
{
    const char *digits = file + strlen(PART_START);
    size_t len;

    if (!text_starts(file, PART_START))
        return 0;
    len = strspn(digits, "0123456789");
    return len >= 5 && len < 10 && strcmp(digits + len, PART_END) == 0
               ? strtoul(digits, NULL, 10)
               : 0;
}

/* What cannot be read is computed again. */
static void read_part(struct media_cache *cache, const char *file)
{
    char *name = path_join(cache->dir, file);
    struct error why = { 0 };
    struct safetensors *set = safetensors_open(name, "features", true, &why);

    if (!set)
        walk_unlink(name);
    for (size_t i = 0; set && i < safetensors_count(set); i++)
        json_object_set_new(cache->map, safetensors_at(set, i)->name, json_string(file));
    safetensors_close(set);
    free(name);
}

static bool read_parts(struct media_cache *cache, struct error *err)
{
    DIR *dir = opendir(cache->dir);
    const struct dirent *entry;

    if (!dir)
        return error_errno(err, "cannot read the folder %s", cache->dir);
    while ((entry = readdir(dir))) {
        size_t part = part_of(entry->d_name);

        if (part == 0)
            continue;
        cache->parts = part > cache->parts ? part : cache->parts;
        read_part(cache, entry->d_name);
    }
    closedir(dir);
    return true;
}

static bool index_has(const struct media_cache *cache)
{
    char *name = index_name(cache);
    struct error why = { 0 };
    json_t *root = file_exists(name) ? json_read_file(name, INDEX_BYTES, &why) : NULL;
    bool same = root && json_equal(json_object_get(root, "weight_map"), cache->map);

    json_decref(root);
    free(name);
    return same;
}

static void clear_entries(struct media_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++) {
        free(cache->entries[i].key);
        tower_output_clear(&cache->entries[i].rows);
    }
    cache->count = cache->bytes = 0;
}

void media_cache_close(struct media_cache *cache)
{
    if (!cache)
        return;
    clear_entries(cache);
    free(cache->entries);
    json_decref(cache->map);
    free(cache->dir);
    free(cache);
}

struct media_cache *media_cache_open(const char *dir, struct error *err)
{
    struct media_cache *cache;

    if (!file_make_dirs(dir, 0755, err))
        return NULL;
    cache = memory_alloc(sizeof(*cache));
    cache->dir = memory_strdup(dir);
    cache->map = json_object();
    leftovers_remove(dir, NULL);
    if (!read_parts(cache, err)) {
        media_cache_close(cache);
        return NULL;
    }
    cache->listed = index_has(cache);
    return cache;
}

bool media_cache_has(const struct media_cache *cache, const char *key)
{
    return json_object_get(cache->map, key) != NULL;
}

/* ---- Writing ---- */

static bool copy_bytes(const void *context, size_t index, void *to, struct error *err)
{
    (void)err;
    memcpy(to, context, index);
    return true;
}

/* Sources of an entry: its rows, those of DeepStack, its grid. */
static size_t add_sources(const struct entry *e, struct arena *arena,
                          struct tensor_source *out)
{
    const size_t bytes = format_info(e->rows.format)->bytes;
    size_t count = 0;

    out[count++] =
        (struct tensor_source) { .name = e->key,
                                 .format = e->rows.format,
                                 .rank = 2,
                                 .shape = { e->rows.count, e->rows.width },
                                 .read = copy_bytes,
                                 .context = e->rows.rows,
                                 .index = e->rows.count * e->rows.width * bytes };
    for (size_t i = 0; i < e->rows.deep; i++)
        out[count++] = (struct tensor_source) {
            .name = arena_printf(arena, "%s#deep%zu", e->key, i),
            .format = e->rows.format,
            .rank = 2,
            .shape = { e->rows.count, e->rows.deep_width },
            .read = copy_bytes,
            .context = e->rows.deep_rows[i],
            .index = e->rows.count * e->rows.deep_width * bytes,
        };
    if (e->grid[0] > 0)
        out[count++] =
            (struct tensor_source) { .name = arena_printf(arena, "%s#grid", e->key),
                                     .dtype = "I32",
                                     .rank = 1,
                                     .shape = { 3 },
                                     .read = copy_bytes,
                                     .context = e->grid,
                                     .index = sizeof(e->grid) };
    return count;
}

static bool write_index(const struct media_cache *cache, struct error *err)
{
    json_t *root = json_pack("{s:{}, s:O}", "metadata", "weight_map", cache->map);
    char *name = index_name(cache);
    struct text out;
    bool ok;

    text_init(&out, INDEX_BYTES);
    ok =
        json_write_pretty(root, &out) ||
        error_set(err, ERROR_SYSTEM, "cannot write %s: there are too many tensors", name);
    ok = ok && file_replace(name, out.data, out.len, 0644, err);
    text_clear(&out);
    json_decref(root);
    free(name);
    return ok;
}

/* The part gets its name once it is on disk. */
static bool write_part(struct media_cache *cache, const struct tensor_source *sources,
                       size_t count, struct error *err)
{
    char *file = part_name(cache->parts + 1), *name = path_join(cache->dir, file);
    char *temporary = leftover_name(name);
    bool ok;

    walk_unlink(temporary); /* of a process with the same id */
    ok = safetensors_write(temporary, sources, count, err) &&
         (walk_rename(temporary, name) == 0 ||
          error_errno(err, "cannot rename %s", temporary)) &&
         file_sync_dir(cache->dir, err);
    if (ok) {
        cache->parts++;
        cache->listed = false;
        for (size_t i = 0; i < count; i++)
            json_object_set_new(cache->map, sources[i].name, json_string(file));
    } else {
        walk_unlink(temporary);
    }
    free(temporary);
    free(name);
    free(file);
    return ok;
}

bool media_cache_flush(struct media_cache *cache, struct error *err)
{
    struct arena *arena = arena_new();
    struct tensor_source *sources =
        arena_array(arena, cache->count * (2 + TOWER_DEEP_MAX) + 1, sizeof(*sources));
    size_t count = 0;
    bool ok;

    for (size_t i = 0; i < cache->count; i++)
        count += add_sources(&cache->entries[i], arena, sources + count);
    ok = count == 0 || write_part(cache, sources, count, err);
    clear_entries(cache);
    arena_free(arena);
    return ok;
}

bool media_cache_finish(struct media_cache *cache, struct error *err)
{
    if (!media_cache_flush(cache, err))
        return false;
    cache->listed = cache->listed || write_index(cache, err);
    return cache->listed;
}

bool media_cache_add(struct media_cache *cache, const char *key, const int32_t grid[3],
                     struct tower_output *rows, struct error *err)
{
    struct entry *e;

    if (cache->count == cache->room) {
        cache->room = 2 * cache->room + 16;
        cache->entries =
            memory_resize(cache->entries, cache->room, sizeof(*cache->entries));
    }
    if (cache->count == 0)
        cache->since = clock_seconds();
    e = &cache->entries[cache->count++];
    *e = (struct entry) { .key = memory_strdup(key), .rows = *rows };
    memcpy(e->grid, grid, sizeof(e->grid));
    cache->bytes += (rows->width + rows->deep * rows->deep_width) * rows->count *
                    format_info(rows->format)->bytes;
    *rows = (struct tower_output) { 0 };
    if (cache->bytes < PART_BYTES && clock_seconds() - cache->since < PART_SECONDS)
        return true;
    return media_cache_flush(cache, err);
}

/* ---- Folders that a job no longer uses ---- */

static bool is_cache_name(const char *name)
{
    const char *digits = name + strlen(PART_START);

    return text_starts(name, PART_START) && strlen(digits) == HEX_DIGITS &&
           strspn(digits, "0123456789abcdef") == HEX_DIGITS;
}

static bool is_own_file(const char *name)
{
    return part_of(name) > 0 || strcmp(name, INDEX) == 0 ||
           text_starts(name, "." PART_START) || text_starts(name, "." INDEX);
}

/* Remove what this module writes; a folder with anything else stays. */
static void remove_cache(const char *dir)
{
    DIR *entries = opendir(dir);
    const struct dirent *entry;

    while (entries && (entry = readdir(entries))) {
        char *name = path_join(dir, entry->d_name);

        if (is_own_file(entry->d_name))
            walk_unlink(name);
        free(name);
    }
    if (entries)
        closedir(entries);
    walk_rmdir(dir);
}

static bool is_own_dir(const char *name)
{
    struct stat st;

    return lstat(name, &st) == 0 && S_ISDIR(st.st_mode);
}

void media_cache_remove_others(const char *parent, const char *keep)
{
    DIR *dir = opendir(parent);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char *name = path_join(parent, entry->d_name);

        if (is_cache_name(entry->d_name) && is_own_dir(name) && strcmp(name, keep) != 0)
            remove_cache(name);
        free(name);
    }
    if (dir)
        closedir(dir);
}

char *media_cache_name(const char *parent, const char *description)
{
    char file[sizeof(PART_START) + HEX_DIGITS];

    snprintf(file, sizeof(file), PART_START "%.*s", HEX_DIGITS, description);
    return path_join(parent, file);
}
