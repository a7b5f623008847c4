/* patcher/import/import_data.c - hub datasets as local files: their names, how to
 * download them, and the entry of dataset_info.json for columns with other names. */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "train/dataset/dataset_kind.h"
#include "train/dataset/dataset_info.h"

/* Return whether the word has no special characters of the shell: users may paste the
 * line that contains it. */
static bool is_shell_safe(const char *word)
{
    for (; word && *word; word++)
        if (!isalnum((unsigned char)*word) && !strchr("._-/:%[]+, ", *word))
            return false;
    return true;
}

/* "mlabonne/FineTome-100k" -> "FineTome-100k", limited to characters allowed in file
 * names. */
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

/* Return the name in a job: for a local file, without its extension, because a name with
 * an extension is taken as a file and not looked up. */
static const char *data_name(struct arena *arena, const struct import_data *set)
{
    static const char *const endings[] = { ".gz", ".jsonl", ".json", ".txt" };
    const char *name = short_name(arena, set->path);

    for (size_t i = 0; set->is_local && i < TS_COUNT(endings); i++) {
        size_t len = strlen(name), end = strlen(endings[i]);

        if (len > end && strcmp(name + len - end, endings[i]) == 0)
            name = arena_copy(arena, name, len - end);
    }
    return name;
}

const char *import_json_name(struct importing *im, const char *word)
{
    char *copy = arena_strdup(im->arena, word ? word : "");

    for (char *at = copy; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '_';
    return copy;
}

bool import_same_data(const struct import_data *a, const struct import_data *b)
{
    return text_equal(a->path, b->path) && text_equal(a->split, b->split) &&
           text_equal(a->name, b->name) && text_equal(a->revision, b->revision) &&
           text_equal(a->files, b->files) && text_equal(a->folder, b->folder) &&
           text_equal(a->samples, b->samples);
}

/* Return a unique name: different parts of a dataset are different files. */
static const char *name_of(struct importing *im, const char *key,
                           const struct import_data *sets, size_t at)
{
    const char *name = data_name(im->arena, &sets[at]);
    size_t same = strcmp(key, "eval_dataset") == 0;

    for (size_t i = 0; i < at; i++) {
        if (import_same_data(&sets[i], &sets[at]))
            break;
        same += strcmp(data_name(im->arena, &sets[i]), name) == 0;
    }
    return same ? arena_printf(im->arena, "%s-%s%zu", name,
                               strcmp(key, "eval_dataset") == 0 ? "eval" : "", same)
                : name;
}

static const char *argument(struct arena *arena, const char *before, const char *value)
{
    return value ? arena_printf(arena, ", %s\"%s\"", before, value) : "";
}

/* "a,b" -> ', data_files=["a", "b"]'. */
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

/* Images and sounds are in the Parquet files of a hub, which a job reads as they are. */
static void report_media(struct importing *im, const char *key,
                         const struct import_data *set, const char *folder)
{
    import_remark(
        im, key,
        "%s: dataset %s from the Hugging Face hub, whose Parquet files have the "
        "images or sounds; download them with",
        folder, set->path);
    import_remark(
        im, key, "  hf download %s --repo-type dataset%s --local-dir %s", set->path,
        set->folder ? arena_printf(im->arena, " --include '%s/*'", set->folder) : "",
        data_name(im->arena, set));
    if (set->split && strcmp(set->split, "train") != 0)
        import_remark(im, key,
                      "of which only %s is used there: remove other files, or set "
                      "max_samples",
                      set->split);
}

/* Show how to make the file, with the library that the other tools use to read it. */
static void report_download(struct importing *im, const char *key,
                            const struct import_data *set, const char *file)
{
    struct arena *arena = im->arena;

    if (!is_shell_safe(set->path) || !is_shell_safe(set->split) ||
        !is_shell_safe(set->name) || !is_shell_safe(set->revision) ||
        !is_shell_safe(set->files) || !is_shell_safe(set->folder)) {
        import_remark(im, key,
                      "%s: dataset %s on a hub, which trainspool does not download", file,
                      set->path);
        return;
    }
    if (set->media) {
        report_media(im, key, set, file);
        return;
    }
    import_remark(im, key, "%s: dataset %s from the Hugging Face hub; download it with",
                  file, set->path);
    import_remark(im, key,
                  "  python3 -c 'from datasets import load_dataset as load; "
                  "load(\"%s\"%s%s%s%s%s).to_json(\"%s\")'",
                  set->path, argument(arena, "", set->name), file_list(arena, set->files),
                  argument(arena, "data_dir=", set->folder),
                  argument(arena, "split=", set->split ? set->split : "train"),
                  argument(arena, "revision=", set->revision), file);
}

/* Return the file name for dataset_info.json, which is in data/. */
static const char *file_name(struct arena *arena, const char *path)
{
    if (path[0] == '/')
        return path;
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    return arena_printf(arena, "../%s", path);
}

static const char *member(struct arena *arena, const char *key, const char *json)
{
    return json ? arena_printf(arena, ", \"%s\": %s", key, json) : "";
}

static const char *quoted(struct importing *im, const char *word)
{
    return word ? arena_printf(im->arena, "\"%s\"", import_json_name(im, word)) : NULL;
}

static void report_entry(struct importing *im, const char *key,
                         const struct import_data *set, const char *name,
                         const char *file)
{
    struct arena *arena = im->arena;

    import_remark(im, key, "%s: data/dataset_info.json must have",
                  !import_data_is_part(set) && !set->samples
                      ? "its columns have other names"
                      : "only a part of the file is used");
    import_remark(
        im, key, "  {\"%s\": {\"file_name\": %s%s%s%s%s%s%s}}", name,
        quoted(im, set->is_local ? file_name(arena, file) : file),
        member(arena, "formatting", quoted(im, set->form)),
        member(arena, "ranking", set->ranking ? "true" : NULL),
        member(arena, "columns", set->columns), member(arena, "tags", set->tags),
        member(arena, "num_samples", set->samples),
        member(arena, "split", import_data_is_part(set) ? quoted(im, set->split) : NULL));
}

/* Return the file that a dataset of a hub becomes, or the folder with its media, which a job
 * recognizes by its slash. */
static const char *downloaded(struct arena *arena, const struct import_data *set,
                              const char *name)
{
    if (!set->media)
        return arena_printf(arena, "%s.jsonl", name);
    return set->folder ? arena_printf(arena, "%s/%s/", data_name(arena, set), set->folder)
                       : arena_printf(arena, "%s/data/", name);
}

/* Return the name of one dataset in the job. */
static const char *name_in_job(struct importing *im, const char *key,
                               const struct import_data *sets, size_t at)
{
    const struct import_data *set = &sets[at];
    bool has_entry = set->columns || set->samples || import_data_is_part(set);
    const char *name, *file;

    if (set->is_local && text_ends(set->path, "/"))
        import_remark(
            im, key,
            "%s: a folder of this machine, of which a job reads the files .json, "
            ".jsonl and .txt",
            set->path);
    if (set->is_local && !has_entry)
        return set->path;
    name = name_of(im, key, sets, at);
    file = set->is_local ? set->path : downloaded(im->arena, set, name);
    for (size_t i = 0; i < at; i++)
        if (import_same_data(&sets[i], set))
            return has_entry ? name : file; /* reported above */
    if (!set->is_local)
        report_download(im, key, set,
                        has_entry ? arena_printf(im->arena, "data/%s", file) : file);
    if (has_entry)
        report_entry(im, key, set, name, file);
    return has_entry ? name : file;
}

void import_local_folder(struct importing *im, struct import_data *set)
{
    static const char *const starts[] = { "./", "../", "/", "~/" };
    bool local = false;

    for (size_t i = 0; set->path && i < TS_COUNT(starts); i++)
        local |= text_starts(set->path, starts[i]);
    if (!local || dataset_kind_is_supported(set->path))
        return;
    set->is_local = true;
    if (!text_ends(set->path, "/"))
        set->path = arena_printf(im->arena, "%s/", set->path);
}

bool import_is_preference(const struct importing *im)
{
    const char *stage = import_value(im, "stage");

    return stage && (strcmp(stage, "dpo") == 0 || strcmp(stage, "rm") == 0);
}

bool import_data_is_part(const struct import_data *set)
{
    return set->is_local && set->split && strcmp(set->split, "train") != 0;
}

static const char *reason_no_split(const struct import_data *set)
{
    struct dataset_slice slice;

    if (!dataset_slice_read(set->split, &slice))
        return "not a part of a file like train[:1000]: the whole file is used";
    return strchr(set->path, ',')
               ? "a part of several files is not supported: all of them are used "
                 "completely"
               : NULL;
}

void import_split(struct importing *im, const char *key, struct import_data *set,
                  const struct entry *entry, const char *path)
{
    const char *why = import_data_is_part(set) ? reason_no_split(set) : NULL;

    if (!why)
        return;
    import_remark(im, key, "%s: split %s: %s", path, set->split, why);
    import_add_outcome(
        im, entry,
        &(struct import_key) { .name = arena_printf(im->arena, "%s.split", path),
                               .outcome = IMPORT_DIFFERS,
                               .why = why });
    set->split = NULL;
}

void import_data(struct importing *im, const char *key, const struct import_data *sets,
                 size_t count)
{
    const char *words = "";

    for (size_t i = 0; i < count; i++)
        words = arena_printf(im->arena, "%s%s%s", words, i ? "," : "",
                             name_in_job(im, key, sets, i));
    if (count > 0)
        import_set(im, key, words, NULL);
}
