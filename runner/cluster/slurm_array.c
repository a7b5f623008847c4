/* runner/cluster/slurm_array.c - reads and writes the files of arrays. */
#include "config.h"

#include "runner/cluster/slurm_array.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/walk.h"

enum { ARRAY_FILE_MAX = 1 << 20, ARRAYS_MAX = 4096 };

char *slurm_array_file(const char *folder, const char *name, const char *ending,
                       struct arena *arena)
{
    return arena_printf(arena, "%s/%s%s", folder, name, ending);
}

/* ---- Reading ---- */

static bool read_text(const char *name, struct text *out)
{
    return file_exists(name) && file_read(name, ARRAY_FILE_MAX, out, NULL, NULL) &&
           out->len > 0;
}

static void read_state(const char *folder, struct arena *arena, struct slurm_array *out)
{
    struct text text;

    text_init(&text, 0);
    if (read_text(slurm_array_file(folder, out->name, ".id", arena), &text) &&
        (out->id = strtoll(text.data, NULL, 10)) > 0) {
        out->state = SLURM_ARRAY_SUBMITTED;
    } else if (read_text(slurm_array_file(folder, out->name, ".refused", arena), &text)) {
        out->state = SLURM_ARRAY_REFUSED;
        snprintf(out->why, sizeof(out->why), "%s", text.data);
    }
    text_clear(&text);
}

static bool read_tasks(const char *file, struct arena *arena, struct slurm_array *out)
{
    json_t *object = json_read_file(file, ARRAY_FILE_MAX, NULL), *item;
    json_t *tasks = json_object_get(object, "tasks");
    size_t i;
    bool ok = json_is_array(tasks) && json_array_size(tasks) > 0;

    if (ok)
        out->tasks = arena_alloc(arena, json_array_size(tasks) * sizeof(*out->tasks));
    json_array_foreach(tasks, i, item)
    {
        ok = ok && json_is_string(item);
        if (ok)
            out->tasks[out->count++] = arena_strdup(arena, json_string_value(item));
    }
    json_decref(object);
    return ok;
}

/* Take the name from that of its file. */
static bool read_array(const char *folder, const char *base, struct arena *arena,
                       struct slurm_array *out)
{
    const size_t len = strlen(base), ending = strlen(".json");

    *out = (struct slurm_array) { .state = SLURM_ARRAY_OPEN };
    if (base[0] == '.' || len <= ending || len - ending >= sizeof(out->name) ||
        strcmp(base + len - ending, ".json") != 0)
        return false;
    memcpy(out->name, base, len - ending);
    if (!read_tasks(slurm_array_file(folder, out->name, ".json", arena), arena, out))
        return false;
    read_state(folder, arena, out);
    return true;
}

void slurm_arrays_read(const char *folder, struct arena *arena, struct slurm_arrays *out)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    struct slurm_array array;

    *out = (struct slurm_arrays) { .count = 0 };
    out->list = arena_alloc(arena, 0);
    while (dir && out->count < ARRAYS_MAX && (entry = file_next(dir, folder))) {
        struct slurm_array *more;

        if (!read_array(folder, entry->d_name, arena, &array))
            continue;
        more = arena_alloc(arena, (out->count + 1) * sizeof(*more));
        if (out->count > 0)
            memcpy(more, out->list, out->count * sizeof(*more));
        more[out->count++] = array;
        out->list = more;
    }
    if (dir)
        closedir(dir);
}

const struct slurm_array *slurm_arrays_find(const struct slurm_arrays *arrays,
                                            const char *submission, int64_t *task)
{
    for (size_t i = 0; i < arrays->count; i++)
        for (size_t k = 0; k < arrays->list[i].count; k++)
            if (strcmp(arrays->list[i].tasks[k], submission) == 0) {
                *task = (int64_t)k;
                return &arrays->list[i];
            }
    return NULL;
}

/* ---- Writing ---- */

static bool replace(const char *folder, const char *name, const char *ending,
                    const struct text *text, struct error *err)
{
    struct text file;
    bool ok;

    text_init(&file, 0);
    text_addf(&file, "%s/%s%s", folder, name, ending);
    ok = file_replace(file.data, text->data, text->len, 0600, err);
    text_clear(&file);
    return ok;
}

bool slurm_array_write(const char *folder, const struct slurm_array *array,
                       struct error *err)
{
    json_t *object = json_object(), *tasks = json_array();
    struct text text;
    bool ok;

    for (size_t i = 0; i < array->count; i++)
        json_array_append_new(tasks, json_string(array->tasks[i]));
    json_object_set_new(object, "tasks", tasks);
    text_init(&text, 0);
    ok = json_write_pretty(object, &text) &&
         replace(folder, array->name, ".json", &text, err);
    text_clear(&text);
    json_decref(object);
    return ok;
}

bool slurm_array_note(const char *folder, const struct slurm_array *array,
                      struct error *err)
{
    const bool refused = array->state == SLURM_ARRAY_REFUSED;
    struct text text;
    bool ok;

    text_init(&text, 0);
    if (refused)
        text_adds(&text, array->why);
    else
        text_addf(&text, "%" PRId64 "\n", array->id);
    ok = replace(folder, array->name, refused ? ".refused" : ".id", &text, err);
    text_clear(&text);
    return ok;
}

void slurm_array_remove(const char *folder, const char *name, bool script)
{
    static const char *const endings[] = { ".json", ".id", ".refused", ".sh" };
    struct text file;

    text_init(&file, 0);
    for (size_t i = 0; i < TS_COUNT(endings) - !script; i++) {
        text_reset(&file);
        text_addf(&file, "%s/%s%s", folder, name, endings[i]);
        walk_unlink(file.data);
    }
    text_clear(&file);
}

void slurm_arrays_remove(const char *folder)
{
    struct arena *arena = arena_new();
    struct slurm_arrays arrays;

    slurm_arrays_read(folder, arena, &arrays);
    for (size_t i = 0; i < arrays.count; i++)
        slurm_array_remove(folder, arrays.list[i].name, false);
    arena_free(arena);
}
