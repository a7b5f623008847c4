/* train/dataset/dataset_source.c - names to files and folders; dataset_info.json is read
 * once. */
#include "config.h"

#include "train/dataset/dataset_source.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/dataset/dataset_info.h"
#include "train/dataset/dataset_kind.h"

#define INFO_MAX     ((size_t)16 << 20)
#define FOLDER_FILES 100000 /* of one dataset */

struct dataset_lookup {
    struct dataset_info info;
    char *info_name; /* of dataset_info.json */
    json_t *table;   /* NULL until first used */
};

struct dataset_lookup *dataset_lookup_open(const char *dir, struct arena *arena)
{
    struct dataset_lookup *lookup = memory_alloc(sizeof(*lookup));

    lookup->info_name = path_join(dir, "dataset_info.json");
    lookup->info = (struct dataset_info) { lookup->info_name, dir, arena };
    return lookup;
}

void dataset_lookup_close(struct dataset_lookup *lookup)
{
    if (!lookup)
        return;
    json_decref(lookup->table);
    free(lookup->info_name);
    free(lookup);
}

/* Report an unknown name and the names that exist, as many as fit. */
static bool fail_unknown(const struct dataset_lookup *lookup, const char *name,
                         struct error *err)
{
    struct text names;
    const char *key;
    json_t *value;

    text_init(&names, 300);
    json_object_foreach(lookup->table, key, value)
    {
        text_addf(&names, "%s%s", names.len > 0 ? ", " : "", key);
        if (names.overflow)
            break;
    }
    error_set(err, ERROR_DATA,
              "%s has no dataset \"%s\"; it has %s%s (name a file with its extension, "
              "as in %s.jsonl, a folder with a slash: %s/)",
              lookup->info_name, name, names.data, names.overflow ? ", ..." : "", name,
              name);
    text_clear(&names);
    return false;
}

static bool find_named(struct dataset_lookup *lookup, const char *name,
                       struct dataset_source *out, struct error *err)
{
    const json_t *entry;

    if (!lookup->table && !file_exists(lookup->info_name))
        return error_set(err, ERROR_DATA,
                         "dataset \"%s\": there is no file %s to look it up in; name a "
                         "file (%s.jsonl), a folder (%s/), or set dataset_dir",
                         name, lookup->info_name, name, name);
    if (!lookup->table)
        lookup->table = json_read_file(lookup->info_name, INFO_MAX, err);
    if (!lookup->table)
        return false;
    entry = json_object_get(lookup->table, name);
    if (!json_is_object(entry))
        return fail_unknown(lookup, name, err);
    return dataset_info_read(&lookup->info, name, entry, out, err);
}

static bool is_folder_name(const char *name)
{
    return text_ends(name, "/");
}

bool dataset_name_is_path(const char *name)
{
    return dataset_kind_is_supported(name) || is_folder_name(name);
}

/* A file or folder named in the job: next to it, or else in dataset_dir. */
static bool find_path(const struct dataset_lookup *lookup, const char *name,
                      struct dataset_source *out, struct error *err)
{
    const struct dataset_info *info = &lookup->info;
    char *path = NULL;
    bool exists = file_exists(name);

    if (!exists) {
        path = path_join(info->dir, name);
        exists = file_exists(path);
    }
    if (exists)
        out->path = arena_strdup(info->arena, path ? path : name);
    else
        error_set(err, ERROR_DATA, "the data %s %s does not exist, nor does it in %s",
                  is_folder_name(name) ? "folder" : "file", name, info->dir);
    free(path);
    return exists;
}

bool dataset_lookup_find(struct dataset_lookup *lookup, const char *name,
                         struct dataset_source *out, struct error *err)
{
    *out = (struct dataset_source) { .name = name };
    if (dataset_kind_is_foreign(name))
        return dataset_kind_refuse(name, err);
    return dataset_name_is_path(name) ? find_path(lookup, name, out, err)
                                      : find_named(lookup, name, out, err);
}

/* Check the marks of stage kto. */
static bool check_marks(const struct dataset_source *source, enum stage stage,
                        struct error *err)
{
    if (!source->columns.kto_tag == (stage != STAGE_KTO))
        return true;
    if (stage == STAGE_KTO)
        return error_set(err, ERROR_DATA,
                         "%s: dataset %s does not mark its answers as good or bad, which "
                         "stage: kto requires; name the column of true and false as "
                         "kto_tag under columns",
                         source->info, source->name);
    return error_set(
        err, ERROR_DATA,
        "%s: dataset %s marks its answers as good or bad (kto_tag), which is "
        "for stage: kto",
        source->info, source->name);
}

bool dataset_source_check(const struct dataset_source *source, enum stage stage,
                          struct error *err)
{
    const bool pairs = stage == STAGE_DPO || stage == STAGE_RM;

    if (!source->info)
        return true;
    if (source->ranking == pairs)
        return check_marks(source, stage, err);
    if (pairs)
        return error_set(
            err, ERROR_DATA,
            "%s: dataset %s has one answer per question, and stage: %s compares two; "
            "if its records have two, set \"ranking\": true and the columns chosen and "
            "rejected, else use stage: sft",
            source->info, source->name, stage == STAGE_RM ? "rm" : "dpo");
    return error_set(
        err, ERROR_DATA,
        "%s: dataset %s has two answers per question (ranking), which stages dpo and rm "
        "compare; use one of them, or name a dataset of single answers",
        source->info, source->name);
}

static size_t count_names(const char *names)
{
    size_t count = 1;

    for (; *names; names++)
        count += *names == ',';
    return count;
}

bool dataset_sources_find(const char *names, const char *dir, struct arena *arena,
                          struct dataset_sources *out, struct error *err)
{
    struct dataset_lookup *lookup = dataset_lookup_open(dir, arena);
    char *copy = arena_strdup(arena, names), *rest = copy, *name;
    bool ok = true;

    out->list = arena_array(arena, count_names(names), sizeof(struct dataset_source));
    out->count = 0;
    while (ok && (name = strsep(&rest, ","))) {
        size_t len;

        name += strspn(name, " \t");
        for (len = strlen(name); len > 0 && strchr(" \t", name[len - 1]); len--)
            name[len - 1] = 0;
        if (len > 0)
            ok = dataset_lookup_find(lookup, name, &out->list[out->count++], err);
    }
    if (ok && out->count == 0)
        ok = error_set(err, ERROR_DATA, "the job names no dataset");
    dataset_lookup_close(lookup);
    return ok;
}

/* ---- The files of a source ---- */

static int is_data(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool check_entries(const char *path, struct dirent *const *entries, int count,
                          struct error *err)
{
    for (int i = 0; i < count; i++)
        if (!dataset_kind_is_supported(entries[i]->d_name))
            return error_set(err, ERROR_DATA,
                             "the data folder %s has %s, which has an unsupported "
                             "format (supported are %s); remove it, or name the files",
                             path, entries[i]->d_name, DATASET_FORMATS);
    if (count == 0)
        return error_set(err, ERROR_DATA, "the data folder %s is empty", path);
    return count <= FOLDER_FILES ||
           error_set(err, ERROR_DATA, "the data folder %s has more than %d files", path,
                     FOLDER_FILES);
}

static bool list_folder(const char *path, struct arena *arena, const char *const **files,
                        size_t *count, struct error *err)
{
    struct dirent **entries = NULL;
    int found = scandir(path, &entries, is_data, by_bytes);
    const char **list;
    bool ok;

    if (found < 0)
        return error_errno_data(err, "cannot read the data folder %s", path);
    ok = check_entries(path, entries, found, err);
    list = arena_array(arena, (size_t)found + 1, sizeof(*list));
    for (int i = 0; i < found; i++) {
        char *name = path_join(path, entries[i]->d_name);

        list[i] = arena_strdup(arena, name);
        free(name);
        free(entries[i]);
    }
    free(entries);
    *files = list;
    *count = (size_t)found;
    return ok;
}

bool dataset_source_files(const struct dataset_source *source, struct arena *arena,
                          const char *const **files, size_t *count, struct error *err)
{
    const char **one;

    if (file_is_dir(source->path))
        return list_folder(source->path, arena, files, count, err);
    one = arena_array(arena, 1, sizeof(*one));
    one[0] = source->path;
    *files = one;
    *count = 1;
    return true;
}
