/*
 * patcher/import_data.c - data sets of a hub as files of this machine: their names, how
 * they are come by, and what dataset_info.json must say where the columns have other
 * names.
 */
#include "config.h"

#include "patcher/import_parts.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"

/* Goes into a line that a person may paste into a shell: nothing that means anything
 * there. */
static bool is_harmless(const char *word)
{
    for (; word && *word; word++)
        if (!isalnum((unsigned char)*word) && !strchr("._-/:%[]+, ", *word))
            return false;
    return true;
}

/* "mlabonne/FineTome-100k" -> "FineTome-100k", with what a file's name may hold. */
static const char *short_name(struct arena *arena, const char *path)
{
    size_t len = strlen(path);
    char *name;

    while (len > 0 && path[len - 1] == '/')
        len--;
    name = arena_copy(arena, path, len);
    name = arena_strdup(arena, path_base(name));
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '_';
    return *name ? name : "data";
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

const char *import_json_word(struct importing *im, const char *word)
{
    char *copy = arena_strdup(im->arena, word ? word : "");

    for (char *at = copy; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '_';
    return copy;
}

bool import_same_data(const struct import_data *a, const struct import_data *b)
{
    return same_text(a->path, b->path) && same_text(a->split, b->split) &&
           same_text(a->name, b->name) && same_text(a->revision, b->revision) &&
           same_text(a->files, b->files);
}

/* Different parts of one data set are different files. */
static const char *name_of(struct importing *im, const char *key,
                           const struct import_data *sets, size_t at)
{
    const char *name = short_name(im->arena, sets[at].path);
    size_t same = strcmp(key, "eval_dataset") == 0;

    for (size_t i = 0; i < at; i++) {
        if (import_same_data(&sets[i], &sets[at]))
            break;
        same += strcmp(short_name(im->arena, sets[i].path), name) == 0;
    }
    return same ? arena_printf(im->arena, "%s-%s%zu", name,
                               strcmp(key, "eval_dataset") == 0 ? "eval" : "", same)
                : name;
}

static const char *argument(struct arena *arena, const char *before, const char *value)
{
    return value ? arena_printf(arena, ", %s\"%s\"", before, value) : "";
}

/* ', data_files=["a", "b"]' of "a,b". */
static const char *file_list(struct arena *arena, const char *files)
{
    const char *list = "";

    if (!files)
        return "";
    while (*files) {
        size_t len = strcspn(files, ",");

        list =
            arena_printf(arena, "%s%s\"%.*s\"", list, *list ? ", " : "", (int)len, files);
        files += len;
        files += *files == ',';
    }
    return arena_printf(arena, ", data_files=[%s]", list);
}

/* How the file is made, with the library that the other tools read their data by. */
static void tell_fetch(struct importing *im, const char *key,
                       const struct import_data *set, const char *file)
{
    struct arena *arena = im->arena;

    if (!is_harmless(set->path) || !is_harmless(set->split) || !is_harmless(set->name) ||
        !is_harmless(set->revision) || !is_harmless(set->files)) {
        import_remark(im, key, "%s: the data set %s of a hub, which nothing here fetches",
                      file, set->path);
        return;
    }
    import_remark(im, key, "%s: the data set %s of the Hugging Face hub, as made by",
                  file, set->path);
    import_remark(im, key,
                  "  python3 -c 'from datasets import load_dataset as load; "
                  "load(\"%s\"%s%s%s%s).to_json(\"%s\")'",
                  set->path, argument(arena, "", set->name), file_list(arena, set->files),
                  argument(arena, "split=", set->split ? set->split : "train"),
                  argument(arena, "revision=", set->revision), file);
}

static void tell_columns(struct importing *im, const char *key,
                         const struct import_data *set, const char *name,
                         const char *file)
{
    import_remark(im, key,
                  "its columns have names of their own: data/dataset_info.json "
                  "must say");
    import_remark(im, key,
                  "  {\"%s\": {\"file_name\": \"%s\", \"formatting\": \"%s\", "
                  "\"columns\": %s%s%s}}",
                  name, file, set->form, set->columns, set->tags ? ", \"tags\": " : "",
                  set->tags ? set->tags : "");
}

/* The word for one set. */
static const char *word_of(struct importing *im, const char *key,
                           const struct import_data *sets, size_t at)
{
    const struct import_data *set = &sets[at];
    const char *name, *file;

    if (set->is_local && !set->columns)
        return set->path;
    name = name_of(im, key, sets, at);
    file = set->is_local ? set->path : arena_printf(im->arena, "%s.jsonl", name);
    for (size_t i = 0; i < at; i++)
        if (import_same_data(&sets[i], set))
            return set->columns ? name : file; /* said above */
    if (!set->is_local)
        tell_fetch(im, key, set,
                   set->columns ? arena_printf(im->arena, "data/%s", file) : file);
    if (set->columns)
        tell_columns(im, key, set, name, file);
    return set->columns ? name : file;
}

void import_data(struct importing *im, const char *key, const struct import_data *sets,
                 size_t count)
{
    const char *words = "";

    for (size_t i = 0; i < count; i++)
        words = arena_printf(im->arena, "%s%s%s", words, i ? "," : "",
                             word_of(im, key, sets, i));
    if (count > 0)
        import_set(im, key, words, NULL);
}
