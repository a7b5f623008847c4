/*
 * patcher/import/import_v1_data.c - train_dataset of a LLaMA-Factory v1 file: a dataset
 * on a hub, local files, or a YAML file that lists datasets.
 *
 * hiyouga/LlamaFactory at ff6d4d12, src/llamafactory/v1: core/data_engine.py,
 * plugins/data_plugins/loader.py and converter.py.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "train/dataset/dataset_kind.h"

#define SETS_MAX 64

/* The datasets of the file. */
struct reading {
    struct importing *im;
    struct import_data sets[SETS_MAX];
    const char *converters[SETS_MAX]; /* NULL: v1's own form */
    size_t count;
    bool pairs, alpaca, conversations; /* what any of them has */
};

/* ---- The list ---- */

/* Return the text of a scalar in the list; NULL without one. */
static const char *text_of(const struct node *map, const char *key)
{
    const struct entry *entry = node_find(map, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR && !node_is_null(value) &&
                   strlen(value->text) == value->len
               ? value->text
               : NULL;
}

static bool is_count(const char *text)
{
    return text && *text && strlen(text) < 10 &&
           strspn(text, "0123456789") == strlen(text);
}

/* Record the converter: what the records look like. */
static void read_converter(struct reading *reading, const char *name,
                           const char *converter)
{
    if (!converter || strcmp(converter, "sharegpt") == 0)
        reading->conversations = true;
    else if (strcmp(converter, "alpaca") == 0)
        reading->alpaca = true;
    else if (strcmp(converter, "pair") == 0)
        reading->pairs = true;
    else
        import_remark(reading->im, "dataset",
                      "%s: the converter %s is not supported: write the records as "
                      "instruction and output, or as messages",
                      name, converter);
}

/* A part is drawn with replacement in LLaMA-Factory v1: adjust_data_index. */
static void read_part(struct reading *reading, const struct node *map, const char *name,
                      struct import_data *set)
{
    const char *size = text_of(map, "size");

    if (is_count(size) && strtol(size, NULL, 10) > 0)
        set->samples = size;
    if (text_of(map, "weight"))
        import_remark(reading->im, "dataset",
                      "%s: weight: %s is not carried over: LLaMA-Factory v1 repeats or "
                      "leaves out samples accordingly; num_samples in dataset_info.json "
                      "does the same",
                      name, text_of(map, "weight"));
}

static bool read_entry(struct reading *reading, const char *name, const struct node *map)
{
    const char *path = map->kind == NODE_MAP ? text_of(map, "path") : NULL;
    const char *source = path ? text_of(map, "source") : NULL;
    struct import_data *set = &reading->sets[reading->count];

    if (!path || !*path || reading->count == SETS_MAX)
        return false;
    *set = (struct import_data) { .path = path,
                                  .split = text_of(map, "split"),
                                  .is_local = source && strcmp(source, "hf_hub") != 0 };
    if (set->is_local && !dataset_kind_is_supported(path) && !text_ends(path, "/"))
        set->path = arena_printf(reading->im->arena, "%s/", path);
    reading->converters[reading->count] = text_of(map, "converter");
    read_converter(reading, name, text_of(map, "converter"));
    read_part(reading, map, name, set);
    import_split(reading->im, "dataset", set, NULL, name);
    reading->count++;
    return true;
}

/* Read a list from the working folder, as LLaMA-Factory does, or from the file's. */
static bool open_list(const struct importing *im, const char *name, struct document *out)
{
    char *dir = path_dir(im->file), *other = path_join(dir, name);
    const char *const names[] = { name, other };
    struct text text;
    bool found = false;

    text_init(&text, 0);
    for (size_t i = 0; !found && i < TS_COUNT(names); i++) {
        struct error ignored = { 0 };

        found = file_exists(names[i]) &&
                file_read(names[i], DOCUMENT_MAX_BYTES, &text, NULL, &ignored);
    }
    if (found)
        document_read(text.data, text.len, im->arena, out);
    text_clear(&text);
    free(other);
    free(dir);
    return found && out->root;
}

/* The list is not on this machine, or cannot be read: give its name to the data. */
static void name_list(struct reading *reading, const char *path)
{
    struct importing *im = reading->im;
    const char *base = path_base(path);
    const char *name = arena_copy(im->arena, base, strlen(base) - strlen(".yaml"));

    import_set(im, "dataset", *name ? name : "data.jsonl", "name your files");
    import_remark(im, "dataset",
                  "%s lists the datasets, and is not here: import in the folder that it "
                  "is relative to, or name the files that it lists",
                  path);
    import_mark_dropped(im, "train_dataset", IMPORT_DIFFERS,
                        "%s cannot be read here: name the files that it lists in dataset",
                        path);
}

static bool read_list(struct reading *reading, const char *path)
{
    struct document list;

    if (!open_list(reading->im, path, &list))
        return false;
    for (size_t i = 0; i < list.root->count; i++)
        if (!read_entry(reading, list.root->entries[i].key->text,
                        node_value(list.root->entries[i].value)))
            return false;
    return reading->count > 0;
}

/* ---- One dataset ---- */

static void read_one(struct reading *reading, const char *path)
{
    struct import_data *set = &reading->sets[reading->count++];

    *set = (struct import_data) {
        .path = path, .is_local = dataset_kind_is_supported(path) || file_exists(path)
    };
    reading->conversations = true;
    import_local_folder(reading->im, set);
    if (set->is_local && file_is_dir(path) && !text_ends(set->path, "/"))
        set->path = arena_printf(reading->im->arena, "%s/", path);
}

/* ---- The stage ---- */

/* Return whether the word is in a name, between characters that are not letters. */
static bool has_word(const char *name, const char *word)
{
    const size_t len = strlen(word);

    for (const char *at = name; (at = strstr(at, word)); at += len)
        if ((at == name || !isalpha((unsigned char)at[-1])) &&
            !isalpha((unsigned char)at[len]))
            return true;
    return false;
}

/* The command decides, which the file does not have.  The data decide if they are known,
 * then a key of preferences, then the names of the files. */
static void choose_stage(struct reading *reading, const char *data)
{
    static const char *const keys[] = {
        "pref_loss", "pref_beta",           "pref_ftx",
        "ld_alpha",  "dpo_label_smoothing", "simpo_gamma"
    };
    struct importing *im = reading->im;
    bool known = reading->pairs || reading->alpaca, by_key = false, by_name;

    for (size_t i = 0; i < TS_COUNT(keys); i++)
        by_key |= import_find(im, keys[i]) != NULL;
    by_name = has_word(path_base(im->file), "dpo") || has_word(path_base(data), "dpo");
    if (reading->pairs || (!known && (by_key || by_name)))
        import_set(im, "stage", "dpo",
                   reading->pairs ? "the data are pairs of answers"
                   : by_key       ? "the file has keys of preferences"
                                  : "as the file's name says; the command decides in "
                                    "LLaMA-Factory v1");
    else
        import_set(im, "stage", "sft", NULL);
}

/* An entry of dataset_info.json names the columns of conversations.  Pairs of whole
 * conversations have no such entry, only a file. */
static void describe(struct reading *reading, size_t at)
{
    struct import_data *set = &reading->sets[at];
    const char *converter = reading->converters[at];

    set->ranking = import_is_preference(reading->im);
    if (!set->samples && !import_data_is_part(set))
        return;
    if (set->ranking) {
        import_remark(reading->im, "dataset",
                      "%s: a part of a file of pairs is not supported: all of it is used",
                      set->path);
        set->samples = NULL;
        set->split = set->is_local ? NULL : set->split;
    } else if (!converter) {
        set->form = "sharegpt";
        set->columns = "{\"messages\": \"messages\"}";
        set->tags = "{\"role_tag\": \"role\", \"content_tag\": \"content\", "
                    "\"user_tag\": \"user\", \"assistant_tag\": \"assistant\", "
                    "\"system_tag\": \"system\"}";
    } else if (strcmp(converter, "sharegpt") == 0) {
        set->form = "sharegpt";
    }
}

/* ---- The job ---- */

static void add_remarks(const struct reading *reading)
{
    struct importing *im = reading->im;

    import_remark(im, "dataset",
                  "no template is set: as in LLaMA-Factory v1, the model's own Jinja "
                  "template is used");
    if (reading->alpaca)
        import_remark(im, "dataset",
                      "the input of a sample begins a new line after its instruction; "
                      "LLaMA-Factory v1 joins both without one");
    if (reading->conversations && !import_is_preference(im))
        import_remark(im, "dataset",
                      "all answers of a conversation are trained in one sample; "
                      "LLaMA-Factory v1 makes a sample of each answer");
}

void import_v1_data(struct importing *im)
{
    struct reading reading = { .im = im };
    const char *path = import_get(im, "train_dataset");
    bool lists;

    if (!path)
        return;
    lists = text_ends(path, ".yaml");
    if (!*path) {
        import_refuse(im, ERROR_DATA, import_find(im, "train_dataset")->value,
                      "train_dataset must not be empty");
        return;
    }
    if (!lists)
        read_one(&reading, path);
    else if (!read_list(&reading, path))
        reading.count = 0;
    choose_stage(&reading, path);
    for (size_t i = 0; i < reading.count; i++)
        describe(&reading, i);
    if (reading.count == 0)
        name_list(&reading, path);
    else
        import_data(im, "dataset", reading.sets, reading.count);
    add_remarks(&reading);
    import_mark_carried(im, "train_dataset", "dataset");
}
