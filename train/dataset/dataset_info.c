/* train/dataset/dataset_info.c - entries of dataset_info.json, with LLaMA-Factory's
 * meaning (src/llamafactory/data/parser.py and loader.py). */
#include "config.h"

#include "train/dataset/dataset_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"

#define DRAWN_MAX 1000000000 /* samples of one dataset; 4 bytes each */

/* Columns and tags: the name in dataset_info.json, its default, and the field it sets. */
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
    PART(kto_tag, NULL),
    PART(images, NULL),
    PART(audios, NULL),
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

/* Other keys that locate the data of an entry, and how to get the data. */
static const struct {
    const char *key, *remedy;
} locations[] = {
    { "hf_hub_url",
      "nothing is downloaded automatically: `hf download --repo-type dataset` gets it" },
    { "ms_hub_url",
      "nothing is downloaded automatically: `modelscope download --dataset` gets it" },
    { "om_hub_url", "nothing is downloaded automatically: get it from openMind" },
    { "cloud_file_name", "nothing is downloaded automatically: copy it" },
    { "script_url", "Python scripts are not supported: write the script's records as "
                    ".jsonl" },
};

static const char **column(struct dataset_columns *out, const struct part *part)
{
    return (const char **)(void *)((char *)out + part->into);
}

/* If the entry has the table, only the names in it are set; otherwise the defaults
 * apply. */
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

static bool refuse_videos(const struct dataset_info *info, const char *name,
                          const json_t *entry, struct error *err)
{
    const json_t *table = json_object_get(entry, "columns");
    const json_t *column = json_object_get(table, "videos");
    const char *is = json_string_value(column);

    return !column ||
           error_set(err, ERROR_DATA,
                     "%s: dataset %s has the column \"%s\" of videos, which are not "
                     "supported; give frames as images",
                     info->name, name, is ? is : "videos");
}

/* Read the columns of the two answers to a question. */
static bool read_ranking(const struct dataset_info *info, const char *name,
                         const json_t *entry, struct dataset_source *out,
                         struct error *err)
{
    out->ranking = json_get_bool(entry, "ranking", false, info->name, err);
    if (!out->ranking || (out->columns.chosen && out->columns.rejected))
        return !err || err->code == ERROR_NONE;
    return error_set(err, ERROR_DATA,
                     "%s: dataset %s has preference pairs (ranking) and names no "
                     "column \"%s\": name the column of that answer under columns",
                     info->name, name, out->columns.chosen ? "rejected" : "chosen");
}

static bool read_form(const struct dataset_info *info, const char *name,
                      const json_t *entry, enum dataset_form *out, struct error *err)
{
    const char *form = json_get_string(entry, "formatting", "alpaca", info->name, err);

    if (json_object_get(entry, "format"))
        return error_set(err, ERROR_DATA,
                         "%s: dataset %s: there is no key format; the key is formatting",
                         info->name, name);

    *out = strcmp(form, "alpaca") == 0 ? DATASET_ALPACA : DATASET_MESSAGES;
    if (*out == DATASET_ALPACA || strcmp(form, "sharegpt") == 0 ||
        strcmp(form, "openai") == 0)
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: dataset %s: formatting must be alpaca, sharegpt or openai, "
                     "not \"%s\"",
                     info->name, name, form);
}

/* Report where to get the data of an entry without a file name. */
static bool fail_without_file(const struct dataset_info *info, const char *name,
                              const json_t *entry, struct error *err)
{
    for (size_t i = 0; i < TS_COUNT(locations); i++) {
        const char *location =
            json_string_value(json_object_get(entry, locations[i].key));

        if (location)
            return error_set(err, ERROR_DATA,
                             "%s: dataset %s is %s %s; %s; put it into %s and name the "
                             "file or folder in file_name",
                             info->name, name, locations[i].key, location,
                             locations[i].remedy, info->dir);
    }
    return error_set(err, ERROR_DATA,
                     "%s: dataset %s has no file_name: put its file into %s and name it",
                     info->name, name, info->dir);
}

/* The file or folder of an entry. A hub address next to it is ignored: nothing is
 * downloaded. */
static bool read_file_name(const struct dataset_info *info, const char *name,
                           const json_t *entry, const char **out, struct error *err)
{
    const char *file = json_get_string(entry, "file_name", NULL, info->name, err);
    char *path;

    if (err && err->code != ERROR_NONE)
        return false;
    if (!file)
        return fail_without_file(info, name, entry, err);
    path = path_join(info->dir, file);
    *out = arena_strdup(info->arena, path);
    free(path);
    return true;
}

/* Parse an integer with an optional percent sign, up to `end`. */
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
                         "%s: dataset %s: num_samples must be from 1 to %d, not %lld",
                         info->name, name, DRAWN_MAX, (long long)out->num_samples);
    return dataset_slice_read(split, &out->slice) ||
           error_set(err, ERROR_DATA,
                     "%s: dataset %s: split \"%s\" must be train or a part of it, "
                     "as train[:1000] or train[10%%:90%%]",
                     info->name, name, split);
}

bool dataset_info_read(const struct dataset_info *info, const char *name,
                       const json_t *entry, struct dataset_source *out, struct error *err)
{
    const json_t *column_table = json_object_get(entry, "columns");
    const json_t *tag_table = json_object_get(entry, "tags");

    out->lines = true;
    out->info = arena_strdup(info->arena, info->name);
    return refuse_videos(info, name, entry, err) &&
           read_form(info, name, entry, &out->form, err) &&
           read_file_name(info, name, entry, &out->path, err) &&
           read_choice(info, name, entry, out, err) &&
           read_parts(info, column_table, columns, TS_COUNT(columns), &out->columns,
                      err) &&
           read_parts(info, tag_table, tags, TS_COUNT(tags), &out->columns, err) &&
           read_ranking(info, name, entry, out, err);
}
