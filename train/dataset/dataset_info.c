/* train/dataset/dataset_info.c - entries of dataset_info.json by LLaMA-Factory's meaning
 * (src/llamafactory/data/parser.py and loader.py). */
#include "config.h"

#include "train/dataset/dataset_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"

#define DRAWN_MAX 1000000000 /* samples of one data set; 4 bytes each */

/* Columns and tags: the name in dataset_info.json, its default, and where it goes. */
struct part {
    const char *name, *default_value;
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
    PART(chosen, NULL),
    PART(rejected, NULL),
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
    { "kto_tag", "preference marks" },
};

/* Where an entry says that its data are, if not in file_name, and how they are come
 * by. */
static const struct {
    const char *key, *remedy;
} elsewhere[] = {
    { "hf_hub_url",
      "nothing is downloaded here: `hf download --repo-type dataset` gets it" },
    { "ms_hub_url",
      "nothing is downloaded here: `modelscope download --dataset` gets it" },
    { "om_hub_url", "nothing is downloaded here: get it from openMind" },
    { "cloud_file_name", "nothing is downloaded here: copy it" },
    { "script_url", "no Python is run here: let it write its records as .jsonl" },
};

static const char **column(struct dataset_columns *out, const struct part *part)
{
    return (const char **)(void *)((char *)out + part->into);
}

/* Where the entry has the table, only what it names is there; else the defaults are. */
static bool read_parts(const struct dataset_info *info, const json_t *table,
                       const struct part *parts, size_t count,
                       struct dataset_columns *out, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name =
            table ? json_get_string(table, parts[i].name, NULL, info->name, err)
                  : parts[i].default_value;

        *column(out, &parts[i]) = arena_strdup(info->arena, name);
    }
    return !err || err->code == ERROR_NONE;
}

static bool refuse_foreign(const struct dataset_info *info, const char *name,
                           const json_t *entry, struct error *err)
{
    const json_t *table = json_object_get(entry, "columns");

    for (size_t i = 0; i < TS_COUNT(foreign); i++)
        if (json_object_get(table, foreign[i].name))
            return error_set(
                err, ERROR_DATA,
                "%s: data set %s has a column of %s, which are not supported", info->name,
                name, foreign[i].what);
    return true;
}

/* Two answers to each question have a column each. */
static bool read_ranking(const struct dataset_info *info, const char *name,
                         const json_t *entry, struct dataset_source *out,
                         struct error *err)
{
    out->ranking = json_get_bool(entry, "ranking", false, info->name, err);
    if (!out->ranking || (out->columns.chosen && out->columns.rejected))
        return !err || err->code == ERROR_NONE;
    return error_set(err, ERROR_DATA,
                     "%s: data set %s is one of preference pairs (ranking) and names no "
                     "column \"%s\": say under columns which one has that answer",
                     info->name, name, out->columns.chosen ? "rejected" : "chosen");
}

static bool read_form(const struct dataset_info *info, const char *name,
                      const json_t *entry, enum dataset_form *out, struct error *err)
{
    const char *form = json_get_string(entry, "formatting", "alpaca", info->name, err);

    *out = strcmp(form, "alpaca") == 0 ? DATASET_ALPACA : DATASET_MESSAGES;
    if (*out == DATASET_ALPACA || strcmp(form, "sharegpt") == 0 ||
        strcmp(form, "openai") == 0)
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: data set %s: formatting \"%s\" is not supported, only alpaca, "
                     "sharegpt and openai",
                     info->name, name, form);
}

/* The entry names no file: where does it say that the data are? */
static bool fail_elsewhere(const struct dataset_info *info, const char *name,
                           const json_t *entry, struct error *err)
{
    for (size_t i = 0; i < TS_COUNT(elsewhere); i++) {
        const char *place = json_string_value(json_object_get(entry, elsewhere[i].key));

        if (place)
            return error_set(err, ERROR_DATA,
                             "%s: data set %s is %s %s; %s, into %s, and name the file "
                             "or folder in file_name",
                             info->name, name, elsewhere[i].key, place,
                             elsewhere[i].remedy, info->dir);
    }
    return error_set(err, ERROR_DATA,
                     "%s: data set %s has no file_name: put its file into %s and name it",
                     info->name, name, info->dir);
}

/* The file or folder of an entry; a hub's address beside it is passed over, as nothing is
 * ever downloaded. */
static bool read_file_name(const struct dataset_info *info, const char *name,
                           const json_t *entry, const char **out, struct error *err)
{
    const char *file = json_get_string(entry, "file_name", NULL, info->name, err);
    char *path;

    if (err && err->code != ERROR_NONE)
        return false;
    if (!file)
        return fail_elsewhere(info, name, entry, err);
    path = path_join(info->dir, file);
    *out = arena_strdup(info->arena, path);
    free(path);
    return true;
}

/* A whole number and perhaps a per cent sign, up to `end`. */
static bool read_bound(const char **at, const char *end, bool *given, int64_t *value,
                       bool *percent)
{
    char *rest;

    *given = **at != *end;
    if (!*given)
        return true;
    errno = 0;
    *value = strtoll(*at, &rest, 10);
    if (rest == *at || errno || **at == ' ' || **at == '+')
        return false;
    *percent |= *rest == '%';
    *at = rest + (*rest == '%');
    return **at == *end;
}

bool dataset_slice_read(const char *split, struct dataset_slice *out)
{
    const char *at = split;

    *out = (struct dataset_slice) { 0 };
    if (!text_starts(at, "train"))
        return false;
    at += strlen("train");
    if (*at == 0)
        return true;
    return *at++ == '[' &&
           read_bound(&at, ":", &out->has_from, &out->from, &out->percent) &&
           *at++ == ':' && read_bound(&at, "]", &out->has_to, &out->to, &out->percent) &&
           *at++ == ']' && *at == 0 &&
           (!out->percent || (llabs(out->from) <= 100 && llabs(out->to) <= 100));
}

static bool read_choice(const struct dataset_info *info, const char *name,
                        const json_t *entry, struct dataset_source *out,
                        struct error *err)
{
    const char *split = json_get_string(entry, "split", "train", info->name, err);

    out->num_samples = json_get_int(entry, "num_samples", 0, info->name, err);
    if (err && err->code != ERROR_NONE)
        return false;
    if (json_object_get(entry, "num_samples") &&
        (out->num_samples < 1 || out->num_samples > DRAWN_MAX))
        return error_set(err, ERROR_DATA,
                         "%s: data set %s: num_samples must be from 1 to %d, not %lld",
                         info->name, name, DRAWN_MAX, (long long)out->num_samples);
    return dataset_slice_read(split, &out->slice) ||
           error_set(err, ERROR_DATA,
                     "%s: data set %s: split \"%s\" is none that a file has: train, or "
                     "a part of it, as train[:1000] or train[10%%:90%%]",
                     info->name, name, split);
}

bool dataset_info_read(const struct dataset_info *info, const char *name,
                       const json_t *entry, struct dataset_source *out, struct error *err)
{
    const json_t *column_table = json_object_get(entry, "columns");
    const json_t *tag_table = json_object_get(entry, "tags");

    out->lines = true;
    out->info = arena_strdup(info->arena, info->name);
    return refuse_foreign(info, name, entry, err) &&
           read_form(info, name, entry, &out->form, err) &&
           read_file_name(info, name, entry, &out->path, err) &&
           read_choice(info, name, entry, out, err) &&
           read_parts(info, column_table, columns, TS_COUNT(columns), &out->columns,
                      err) &&
           read_parts(info, tag_table, tags, TS_COUNT(tags), &out->columns, err) &&
           read_ranking(info, name, entry, out, err);
}
