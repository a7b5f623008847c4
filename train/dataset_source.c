/* train/dataset_source.c - names to files; dataset_info.json is read once a list. */
#include "config.h"

#include "train/dataset_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/dataset_reader.h"

#define INFO_MAX ((size_t)16 << 20)

/* Columns and tags: the name in dataset_info.json, its preset, and where it goes
 * (LLaMA-Factory, src/llamafactory/data/parser.py, DatasetAttr). */
struct part {
    const char *name, *preset;
    size_t into;
};

#define PART(field, text)                                     \
    {                                                         \
#field, text, offsetof(struct dataset_columns, field) \
    }

static const struct part columns[] = {
    PART(prompt, "instruction"),
    PART(query, "input"),
    PART(response, "output"),
    PART(history, NULL),
    PART(system, NULL),
    PART(tools, NULL),
    PART(messages, "conversations"),
};

static const struct part tags[] = {
    PART(role_tag, "from"),
    PART(content_tag, "value"),
    PART(user_tag, "human"),
    PART(assistant_tag, "gpt"),
    PART(observation_tag, "observation"),
    PART(function_tag, "function_call"),
    PART(system_tag, "system"),
};

/* Columns that ask for what is not done here. */
static const struct {
    const char *name, *what;
} foreign[] = {
    { "images", "images" },
    { "videos", "videos" },
    { "audios", "sound" },
    { "chosen", "preference pairs" },
    { "rejected", "preference pairs" },
    { "kto_tag", "preference marks" },
};

/* One look-up. */
struct lookup {
    const char *dir;
    struct arena *arena;
    char *info_name; /* of dataset_info.json */
    json_t *info;    /* NULL until it is needed */
};

static const char **column(struct dataset_columns *out, const struct part *part)
{
    return (const char **)(void *)((char *)out + part->into);
}

/* Where the entry has the table, only what it names is there; else the presets are. */
static bool read_parts(const struct lookup *lookup, const json_t *table,
                       const struct part *parts, size_t count,
                       struct dataset_columns *out, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name =
            table ? json_get_string(table, parts[i].name, NULL, lookup->info_name, err)
                  : parts[i].preset;

        *column(out, &parts[i]) = arena_strdup(lookup->arena, name);
    }
    return !err || err->code == ERROR_NONE;
}

static bool refuse_foreign(const struct lookup *lookup, const char *name,
                           const json_t *entry, struct error *err)
{
    const json_t *table = json_object_get(entry, "columns");

    for (size_t i = 0; i < TS_COUNT(foreign); i++)
        if (json_object_get(table, foreign[i].name))
            return error_set(
                err, ERROR_DATA,
                "%s: data set %s has a column of %s, which are not supported",
                lookup->info_name, name, foreign[i].what);
    if (json_is_true(json_object_get(entry, "ranking")))
        return error_set(
            err, ERROR_DATA,
            "%s: data set %s is one of preference pairs (ranking), which are "
            "not supported",
            lookup->info_name, name);
    if (json_is_integer(json_object_get(entry, "num_samples")))
        return error_set(
            err, ERROR_DATA,
            "%s: data set %s: num_samples is not supported; use max_samples in "
            "the job",
            lookup->info_name, name);
    return true;
}

static bool read_form(const struct lookup *lookup, const char *name, const json_t *entry,
                      enum dataset_form *out, struct error *err)
{
    const char *form =
        json_get_string(entry, "formatting", "alpaca", lookup->info_name, err);

    *out = strcmp(form, "alpaca") == 0 ? DATASET_ALPACA : DATASET_MESSAGES;
    if (*out == DATASET_ALPACA || strcmp(form, "sharegpt") == 0 ||
        strcmp(form, "openai") == 0)
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: data set %s: formatting \"%s\" is not supported, only alpaca, "
                     "sharegpt and openai",
                     lookup->info_name, name, form);
}

/* The file of an entry; nothing is ever downloaded. */
static bool read_file_name(const struct lookup *lookup, const char *name,
                           const json_t *entry, const char **out, struct error *err)
{
    const char *file = json_get_string(entry, "file_name", NULL, lookup->info_name, err);
    char *path;

    if (!file)
        return error_set(
            err, ERROR_DATA,
            "%s: data set %s has no file_name; nothing is downloaded here, so "
            "put its file into %s and name it",
            lookup->info_name, name, lookup->dir);
    path = path_join(lookup->dir, file);
    *out = arena_strdup(lookup->arena, path);
    free(path);
    return true;
}

static bool read_entry(const struct lookup *lookup, const char *name, const json_t *entry,
                       struct dataset_source *out, struct error *err)
{
    const json_t *column_table = json_object_get(entry, "columns");
    const json_t *tag_table = json_object_get(entry, "tags");

    out->lines = true;
    return refuse_foreign(lookup, name, entry, err) &&
           read_form(lookup, name, entry, &out->form, err) &&
           read_file_name(lookup, name, entry, &out->path, err) &&
           read_parts(lookup, column_table, columns, TS_COUNT(columns), &out->columns,
                      err) &&
           read_parts(lookup, tag_table, tags, TS_COUNT(tags), &out->columns, err);
}

/* "unknown; there are a, b, c", as many as fit. */
static bool fail_unknown(const struct lookup *lookup, const char *name, struct error *err)
{
    struct text names;
    const char *key;
    json_t *value;

    text_init(&names, 300);
    json_object_foreach(lookup->info, key, value)
        text_addf(&names, "%s%s", names.len > 0 ? ", " : "", key);
    error_set(
        err, ERROR_DATA,
        "%s has no data set \"%s\"; it has %s%s (a file is named with its ending, as "
        "in %s.jsonl)",
        lookup->info_name, name, names.data, names.overflow ? ", ..." : "", name);
    text_clear(&names);
    return false;
}

static bool find_named(struct lookup *lookup, const char *name,
                       struct dataset_source *out, struct error *err)
{
    const json_t *entry;

    if (!lookup->info && !file_exists(lookup->info_name))
        return error_set(err, ERROR_DATA,
                         "data set \"%s\": there is no file %s to look it up in; name a "
                         "file (%s.jsonl), or set dataset_dir",
                         name, lookup->info_name, name);
    if (!lookup->info)
        lookup->info = json_read_file(lookup->info_name, INFO_MAX, err);
    if (!lookup->info)
        return false;
    entry = json_object_get(lookup->info, name);
    if (!json_is_object(entry))
        return fail_unknown(lookup, name, err);
    return read_entry(lookup, name, entry, out, err);
}

/* A file named in the job: beside it, else in dataset_dir. */
static bool find_file(const struct lookup *lookup, const char *name,
                      struct dataset_source *out, struct error *err)
{
    char *path = NULL;
    bool there = file_exists(name);

    if (!there) {
        path = path_join(lookup->dir, name);
        there = file_exists(path);
    }
    if (there)
        out->path = arena_strdup(lookup->arena, path ? path : name);
    else
        error_set(err, ERROR_DATA, "the data file %s is not there, nor in %s", name,
                  lookup->dir);
    free(path);
    return there;
}

static bool find_one(struct lookup *lookup, const char *name, struct dataset_source *out,
                     struct error *err)
{
    out->name = name;
    return dataset_reader_knows(name) ? find_file(lookup, name, out, err)
                                      : find_named(lookup, name, out, err);
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
    struct lookup lookup = { .dir = dir, .arena = arena };
    char *copy = arena_strdup(arena, names), *rest = copy, *name;
    bool ok = true;

    lookup.info_name = path_join(dir, "dataset_info.json");
    out->list = arena_array(arena, count_names(names), sizeof(struct dataset_source));
    out->count = 0;
    while (ok && (name = strsep(&rest, ","))) {
        size_t len;

        name += strspn(name, " \t");
        for (len = strlen(name); len > 0 && strchr(" \t", name[len - 1]); len--)
            name[len - 1] = 0;
        if (len > 0)
            ok = find_one(&lookup, name, &out->list[out->count++], err);
    }
    if (ok && out->count == 0)
        ok = error_set(err, ERROR_DATA, "the job names no data set");
    json_decref(lookup.info);
    free(lookup.info_name);
    return ok;
}
