/*
 * patcher/import/import_torchtune_data.c - torchtune's datasets: a component names a
 * builder with a source, a format and a prompt.
 *
 * pytorch/torchtune at bd2a0fc7: torchtune/datasets, torchtune/data.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_kind.h"

#define SETS_MAX 16

static const struct builder {
    const char *name;
    enum kind {
        KIND_ALPACA,
        KIND_PAIRS,
        KIND_CHAT,
        KIND_TEXT,
        KIND_RANKED, /* two answers, as conversations or after a question */
        KIND_MEDIA,  /* texts and images; each subset is a folder */
    } kind;
    const char *source;            /* the default source */
    const char *question, *answer; /* columns of KIND_PAIRS and KIND_RANKED, or NULL */
    bool trains_prompt;            /* default of train_on_input */
} builders[] = {
    { "alpaca_dataset", KIND_ALPACA, "tatsu-lab/alpaca", NULL, NULL, true },
    { "alpaca_cleaned_dataset", KIND_ALPACA, "yahma/alpaca-cleaned", NULL, NULL, true },
    { "instruct_dataset", KIND_PAIRS, NULL, "input", "output", false },
    { "chat_dataset", KIND_CHAT, NULL, NULL, NULL, false },
    { "grammar_dataset", KIND_PAIRS, "liweili/c4_200m", "input", "output", false },
    { "samsum_dataset", KIND_PAIRS, "Samsung/samsum", "dialogue", "summary", false },
    { "slimorca_dataset", KIND_CHAT, "Open-Orca/SlimOrca-Dedup", NULL, NULL, false },
    { "text_completion_dataset", KIND_TEXT, NULL, NULL, NULL, false },
    { "cnn_dailymail_articles_dataset", KIND_TEXT, "ccdv/cnn_dailymail", NULL, NULL,
      false },
    { "wikitext_dataset", KIND_TEXT, "EleutherAI/wikitext_document_level", NULL, NULL,
      false },
    { "preference_dataset", KIND_RANKED, NULL, NULL, NULL, false },
    { "hh_rlhf_helpful_dataset", KIND_RANKED, "RLHFlow/HH-RLHF-Helpful-standard", NULL,
      NULL, false },
    { "stack_exchange_paired_dataset", KIND_RANKED, "lvwerra/stack-exchange-paired",
      "question", "response_j", false },
    { "the_cauldron_dataset", KIND_MEDIA, "HuggingFaceM4/the_cauldron", NULL, NULL,
      false },
    { "the_cauldron_transform", KIND_MEDIA, "HuggingFaceM4/the_cauldron", NULL, NULL,
      false },
};

/* The default column of the rejected answer in stack_exchange_paired_dataset. */
#define REJECTED_ANSWER "response_k"
#define REJECTED_FOLDER "data/rl"

/* Keys of a dataset that are read. */
static const char *const known[] = { "_component_",    "source",
                                     "split",          "column_map",
                                     "packed",         "data_files",
                                     "train_on_input", "column",
                                     "name",           "conversation_column",
                                     "revision",       "conversation_style",
                                     "subset",         "new_system_prompt",
                                     "transform" };

/* One dataset: the map and its path. */
struct item {
    struct importing *im;
    const struct node *map;
    const char *path;
};

static const struct entry *entry_of(const struct item *item, const char *key)
{
    const struct entry *entry = node_find(item->map, key);

    return entry && !node_is_null(entry->value) ? entry : NULL;
}

static const char *text_of(const struct item *item, const char *key)
{
    const struct entry *entry = entry_of(item, key);

    return entry ? import_text(item->im, entry->value) : NULL;
}

/* Return the column that column_map gives for `name`. */
static const char *column_of(const struct item *item, const char *name,
                             const char *default_value)
{
    const struct entry *entry = entry_of(item, "column_map");
    const struct entry *column = entry ? node_find(node_value(entry->value), name) : NULL;

    return column && !node_is_null(column->value) ? import_text(item->im, column->value)
                                                  : default_value;
}

/* Return the name of the builder, or of the transform of a dataset among others. */
static const char *component_of(const struct item *item)
{
    const struct entry *transform = entry_of(item, "transform");
    const struct node *map = transform ? node_value(transform->value) : NULL;

    if (map && map->kind == NODE_MAP && !entry_of(item, "_component_"))
        return text_of(&(struct item) { item->im, map, item->path }, "_component_");
    return text_of(item, "_component_");
}

static const struct builder *builder_of(const struct item *item)
{
    const char *component = component_of(item);
    const char *dot = component ? strrchr(component, '.') : NULL;
    const char *name = dot ? dot + 1 : component ? component : "";

    for (size_t i = 0; i < TS_COUNT(builders); i++)
        if (strcmp(builders[i].name, name) == 0)
            return &builders[i];
    return NULL;
}

static void set_chat_columns(const struct item *item, struct import_data *set)
{
    const char *style = text_of(item, "conversation_style");
    const char *column = text_of(item, "conversation_column");
    bool is_openai = style && strcmp(style, "openai") == 0;

    column = column ? column : is_openai ? "messages" : "conversations";
    if (!import_data_is_part(set) &&
        (strcmp(column, "messages") == 0 || strcmp(column, "conversations") == 0))
        return;
    set->form = "sharegpt";
    set->columns = arena_printf(item->im->arena, "{\"messages\": \"%s\"}",
                                import_json_name(item->im, column));
    if (is_openai)
        set->tags = "{\"role_tag\": \"role\", \"content_tag\": \"content\", "
                    "\"user_tag\": \"user\", \"assistant_tag\": \"assistant\"}";
}

/* Conversations under the usual names are detected automatically. */
static void set_ranked_columns(const struct item *item, const struct builder *builder,
                               struct import_data *set)
{
    struct importing *im = item->im;
    const bool has_question = builder->question != NULL;
    const bool mapped = entry_of(item, "column_map") != NULL;
    const bool usual = mapped || !has_question; /* names not in column_map */
    const char *chosen = column_of(item, "chosen", usual ? "chosen" : builder->answer);
    const char *rejected =
        column_of(item, "rejected", usual ? "rejected" : REJECTED_ANSWER);
    const char *prompt = column_of(item, "prompt", usual ? "prompt" : builder->question);

    set->ranking = true;
    if (has_question && !entry_of(item, "source"))
        set->folder = REJECTED_FOLDER;
    if (!mapped && !has_question && !import_data_is_part(set))
        return;
    set->columns = arena_printf(
        im->arena, "{%s%s%s\"chosen\": \"%s\", \"rejected\": \"%s\"}",
        has_question ? "\"prompt\": \"" : "",
        has_question ? import_json_name(im, prompt) : "", has_question ? "\", " : "",
        import_json_name(im, chosen), import_json_name(im, rejected));
}

static void set_columns(const struct item *item, const struct builder *builder,
                        struct import_data *set)
{
    struct importing *im = item->im;
    const char *column = text_of(item, "column");

    set->form = "alpaca";
    column = column ? column : "text";
    if (builder->kind == KIND_TEXT &&
        (strcmp(column, "text") != 0 || import_data_is_part(set)))
        set->columns =
            arena_printf(im->arena, "{\"prompt\": \"%s\"}", import_json_name(im, column));
    if (builder->kind == KIND_PAIRS)
        set->columns = arena_printf(
            im->arena, "{\"prompt\": \"%s\", \"response\": \"%s\"}",
            import_json_name(im, column_of(item, "input", builder->question)),
            import_json_name(im, column_of(item, "output", builder->answer)));
    if (builder->kind == KIND_ALPACA && entry_of(item, "column_map"))
        set->columns = arena_printf(
            im->arena, "{\"prompt\": \"%s\", \"query\": \"%s\", \"response\": \"%s\"}",
            import_json_name(im, column_of(item, "instruction", "instruction")),
            import_json_name(im, column_of(item, "input", "input")),
            import_json_name(im, column_of(item, "output", "output")));
    if (builder->kind == KIND_CHAT)
        set_chat_columns(item, set);
    if (builder->kind == KIND_MEDIA) {
        set->media = true;
        set->folder = set->name;
    }
    if (builder->kind == KIND_RANKED)
        set_ranked_columns(item, builder, set);
}

/* `source` may be the type of a local file, whose name is in data_files. */
static void set_source(const struct item *item, const struct builder *builder,
                       struct import_data *set)
{
    static const char *const kinds[] = { "json", "csv", "text", "parquet" };
    const struct entry *entry = entry_of(item, "data_files");
    const char *files = entry ? import_joined(item->im, entry->value) : NULL;

    set->path = text_of(item, "source");
    if (!set->path && builder)
        set->path = builder->source;
    set->split = text_of(item, "split");
    set->name = text_of(item, "name") ? text_of(item, "name") : text_of(item, "subset");
    set->revision = text_of(item, "revision");
    for (size_t i = 0; set->path && files && i < TS_COUNT(kinds); i++)
        if (strcmp(set->path, kinds[i]) == 0) {
            set->path = files;
            set->is_local = true;
            return;
        }
    set->files = files;
    set->is_local = set->path && dataset_kind_is_supported(set->path);
    import_local_folder(item->im, set);
}

static void record_keys(const struct item *item, const char *into)
{
    for (size_t i = 0; i < item->map->count; i++) {
        const struct entry *entry = &item->map->entries[i];
        struct import_key key = { .outcome = IMPORT_DIFFERS };
        bool is_known = false;

        key.name = arena_printf(item->im->arena, "%s.%s", item->path, entry->key->text);
        for (size_t k = 0; k < TS_COUNT(known); k++)
            is_known |= strcmp(known[k], entry->key->text) == 0;
        key.why = import_idle_reason(entry->value, NULL);
        if (key.why) {
            key.outcome = IMPORT_IDLE;
        } else if (is_known) {
            key.outcome = IMPORT_CARRIED;
            key.into = into;
        } else {
            key.why = "not supported for this dataset";
        }
        import_add_outcome(item->im, entry, &key);
    }
}

/* ---- settings that apply to the whole job ---- */

static void report_template(const struct item *item, const struct builder *builder)
{
    struct importing *im = item->im;
    const struct entry *tokenizer = import_find(im, "tokenizer._component_");
    const char *name = tokenizer ? node_value(tokenizer->value)->text : "";
    static const char *const templates[][2] = {
        { ".llama3_2_vision.", "mllama" },
        { ".llama3.", "llama3" },
        { ".llama2.", "llama2" },
        { ".mistral.", "mistral" },
        { ".phi3.", "phi" },
        { ".phi4.", "phi4" },
        { ".qwen2", "chatml" },
        { ".qwen3", "chatml" },
        { ".gemma", "alpaca" },
    };
    const char *found = NULL;

    for (size_t i = 0; i < TS_COUNT(templates) && !found; i++)
        if (strstr(name, templates[i][0]))
            found = templates[i][1];
    if (found && strcmp(found, "alpaca") == 0 && builder && builder->kind != KIND_ALPACA)
        found = "empty"; /* torchtune's Gemma tokenizer adds no text */
    if (found)
        import_set(im, "template", found, NULL);
    import_mark_dropped(
        im, "tokenizer._component_", found ? IMPORT_IDLE : IMPORT_DIFFERS,
        found ? "template determines the format of a conversation"
              : "there is no such template in trainspool; without one, the model's "
                "tokenizer decides between llama3, gemma and chatml");
    if (builder && builder->kind == KIND_ALPACA && found && strcmp(found, "alpaca") != 0)
        import_remark(
            im, "template",
            "torchtune also puts Alpaca's prompt (Below is an instruction ..., ### "
            "Response:) into the question, inside this template; this job does not");
    if (found && strcmp(found, "alpaca") == 0)
        import_remark(
            im, "template",
            "the input of a sample follows its instruction; torchtune writes ### Input: "
            "before it");
    if (entry_of(item, "new_system_prompt"))
        import_set(im, "default_system", text_of(item, "new_system_prompt"), NULL);
    if (import_find(im, "tokenizer.prompt_template"))
        import_mark_dropped(im, "tokenizer.prompt_template", IMPORT_DIFFERS,
                            "a custom prompt; this job uses the template instead");
}

static bool trains_prompt(const struct item *item)
{
    const struct entry *entry = entry_of(item, "train_on_input");
    const struct builder *builder = builder_of(item);

    return entry ? !import_is_off(entry->value) : builder && builder->trains_prompt;
}

static void import_masking(const struct item *item)
{
    const struct entry *entry = entry_of(item, "train_on_input");

    if (trains_prompt(item) && !import_is_preference(item->im))
        import_set(item->im, "train_on_prompt", "true",
                   entry ? "train_on_input"
                         : "torchtune's Alpaca also trains on the questions by default");
}

/* In stage pt, packing joins all texts, and neat_packing has no effect. */
static void import_packing(const struct item *item)
{
    const struct entry *packed = entry_of(item, "packed");
    bool is_text = strcmp(import_value(item->im, "stage"), "pt") == 0;
    bool packs = packed && !import_is_off(packed->value);

    if (import_is_preference(item->im))
        return;
    if (packs)
        import_set(
            item->im, "packing", "true",
            is_text
                ? "texts in one block can attend to each other; in torchtune they cannot"
                : NULL);
    else if (is_text)
        import_set(item->im, "packing", "false", "each text is one sample");
    if (packs && !is_text)
        import_set(item->im, "neat_packing", "true",
                   "packed samples cannot attend to each other");
}

static void report_key(const struct item *item, const char *name, const char *why)
{
    struct importing *im = item->im;
    const char *path;

    if (!node_find(item->map, name))
        name = "_component_"; /* which sets the default */
    path = arena_printf(im->arena, "%s.%s", item->path, name);
    import_remark(im, "dataset", "%s: %s", path, why);
    import_add_outcome(
        im, node_find(item->map, name),
        &(struct import_key) { .name = path, .outcome = IMPORT_DIFFERS, .why = why });
}

/* Report settings for the whole job in which a dataset differs from the first one. */
static void report_differences(const struct item *first, const struct item *item)
{
    const struct builder *first_builder = builder_of(first), *builder = builder_of(item);
    const char *prompt = text_of(first, "new_system_prompt");
    const char *other = text_of(item, "new_system_prompt");

    if (first_builder && builder &&
        (first_builder->kind == KIND_TEXT) != (builder->kind == KIND_TEXT))
        report_key(
            item, "_component_",
            "plain text requires stage pt and samples with answers require stage sft, in "
            "separate jobs; this job follows the first dataset");
    else if (trains_prompt(first) != trains_prompt(item))
        report_key(
            item, "train_on_input",
            "a job trains on the questions of all its data or of none; this job follows "
            "the first dataset");
    if (prompt ? !other || strcmp(prompt, other) != 0 : other != NULL)
        report_key(
            item, "new_system_prompt",
            "a job has one default_system; this job uses that of the first dataset");
}

/* Report records that Python code produces.  They must be written to a file, which gets a
 * name here. */
static void report_code(const struct item *item, const char *key, struct import_data *set)
{
    struct importing *im = item->im;
    const char *why =
        import_is_preference(im)
            ? "torchtune produces these records with code: write them to the file named "
              "in dataset, as prompt, chosen and rejected"
        : import_torchtune_has_images(im)
            ? "torchtune produces these records with code: write them to the file named "
              "in dataset, as messages and images, with <image> in the first question "
              "for each image"
            : "torchtune produces these records with code: write them to the file named "
              "in dataset, as instruction and output or as messages";
    const char *component = text_of(item, "_component_");
    const char *dot = component ? strrchr(component, '.') : NULL;

    import_remark(im, key, "%s: %s", item->path, why);
    import_add_outcome(im, node_find(item->map, "_component_"),
                       &(struct import_key) {
                           .name = arena_printf(im->arena, "%s._component_", item->path),
                           .outcome = IMPORT_DIFFERS,
                           .why = why });
    if (set->path)
        return;
    set->path = arena_printf(im->arena, "%s.jsonl", dot ? dot + 1 : "data");
    set->is_local = true;
}

/* Return whether records with media are in a folder, under the names that a job detects. */
static bool has_usual_media(const struct item *item)
{
    return !entry_of(item, "column_map") && !entry_of(item, "data_files") &&
           text_of(item, "subset");
}

static void read_one(const struct item *item, const char *key, struct import_data *sets,
                     size_t *count)
{
    const struct builder *builder;
    struct import_data *set = &sets[*count];
    struct importing *im = item->im;

    if (item->map->kind != NODE_MAP || *count == SETS_MAX) {
        import_refuse(im, ERROR_DATA, item->map,
                      "%s must be a dataset, one of at most %d", item->path, SETS_MAX);
        return;
    }
    builder = builder_of(item);
    if (builder && ((builder->kind == KIND_RANKED) != import_is_preference(im) ||
                    (builder->kind == KIND_MEDIA && !has_usual_media(item))))
        builder = NULL; /* its records do not match the stage, or a job's columns */
    *set = (struct import_data) { 0 };
    set_source(item, builder, set);
    import_split(im, key, set, node_find(item->map, "split"), item->path);
    if (builder)
        set_columns(item, builder, set);
    else
        report_code(item, key, set);
    if (!set->path || !*set->path) {
        import_refuse(im, ERROR_DATA, item->map, "%s has no source", item->path);
        return;
    }
    record_keys(item, key);
    ++*count;
}

static void read_sets(struct importing *im, const char *from, const char *key)
{
    const struct entry *entry = import_find(im, from);
    const struct node *value = entry ? node_value(entry->value) : NULL;
    struct import_data sets[SETS_MAX];
    size_t count = 0;

    if (!value)
        return;
    if (value->kind == NODE_LIST)
        for (size_t i = 0; i < value->count && !import_failed(im); i++)
            read_one(&(struct item) { im, node_value(value->items[i]),
                                      arena_printf(im->arena, "%s[%zu]", from, i) },
                     key, sets, &count);
    else
        read_one(&(struct item) { im, value, from }, key, sets, &count);
    if (!import_failed(im))
        import_data(im, key, sets, count);
}

void import_torchtune_data(struct importing *im)
{
    const char *key = import_find(im, "dataset") ? "dataset" : "datasets";
    const struct entry *entry = import_find(im, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;
    struct item first = { im, value, key };
    const struct builder *builder;

    if (value && value->kind == NODE_LIST && value->count > 0)
        first.map = node_value(value->items[0]);
    if (!first.map) {
        import_refuse(im, ERROR_DATA, im->source->root,
                      "dataset is missing: this torchtune file trains nothing");
        return;
    }
    builder = first.map->kind == NODE_MAP ? builder_of(&first) : NULL;
    if (!import_value(im, "stage"))
        import_set(im, "stage", builder && builder->kind == KIND_TEXT ? "pt" : "sft",
                   NULL);
    for (size_t i = 1; value->kind == NODE_LIST && i < value->count; i++) {
        struct item further = { im, node_value(value->items[i]),
                                arena_printf(im->arena, "%s[%zu]", key, i) };

        if (first.map->kind == NODE_MAP && further.map->kind == NODE_MAP)
            report_differences(&first, &further);
    }
    read_sets(im, key, "dataset");
    if (import_number(im, "run_val_every_n_steps", 0) > 0)
        read_sets(im, "dataset_val", "eval_dataset");
    if (import_failed(im))
        return;
    report_template(&first, builder);
    import_masking(&first);
    import_packing(&first);
}
