/*
 * patcher/import/import_axolotl_data.c - Axolotl's lists of datasets: file, format,
 * template.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: schemas/datasets.py, prompters.py,
 * prompt_strategies, utils/chat_templates.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_kind.h"

#define SETS_MAX 64

/* The meaning of `type`; a `*` at the end of a type matches any suffix. */
static const struct type {
    const char *name;
    enum kind { KIND_ALPACA, KIND_MESSAGES, KIND_TEXT, KIND_PAIRS } kind;
    const char *template_name; /* NULL: the template of chat_template */
} types[] = {
    { "alpaca", KIND_ALPACA, "alpaca" },       { "alpaca:chatml", KIND_ALPACA, "chatml" },
    { "alpaca:phi", KIND_ALPACA, "phi" },      { "alpaca:chat", KIND_ALPACA, "vicuna" },
    { "chat_template*", KIND_MESSAGES, NULL }, { "sharegpt*", KIND_MESSAGES, NULL },
    { "completion", KIND_TEXT, NULL },         { "pretrain", KIND_TEXT, NULL },
};

/* The same with rl: prompt_strategies/dpo, and orpo for pairs of conversations; and with
 * reward_model: prompt_strategies/bradley_terry. */
static const struct type pair_types[] = {
    { "chat_template", KIND_MESSAGES, NULL },
    { "chat_template.default", KIND_MESSAGES, NULL },
    { "chat_template.argilla*", KIND_PAIRS, NULL },
    { "bradley_terry.chat_template", KIND_PAIRS, NULL },
    { "bradley_terry.llama3", KIND_PAIRS, "llama3" },
    { "chatml", KIND_PAIRS, "chatml" },
    { "chatml.*", KIND_PAIRS, "chatml" },
    { "llama3", KIND_PAIRS, "llama3" },
    { "llama3.*", KIND_PAIRS, "llama3" },
};

/* Axolotl's templates that a job has, and similar ones, with a note on the difference. */
static const struct chat {
    const char *axolotl, *template_name, *note;
} chats[] = {
    { "alpaca", "alpaca", NULL },
    { "chatml", "chatml", NULL },
    { "gemma", "gemma", NULL },
    { "gemma3", "gemma", "Axolotl's gemma3; the same for text" },
    { "gemma4", "gemma4",
      "Axolotl's gemma4; this one always has a system message, and thoughts" },
    { "gemma4_unified", "gemma4",
      "Axolotl's gemma4_unified; this one always has a system message, and thoughts" },
    { "llama3", "llama3", NULL },
    { "llava", "llava", NULL },
    { "mistral_v2v3", "mistral", NULL },
    { "phi_3", "phi", NULL },
    { "phi_35", "phi", NULL },
    { "pixtral", "pixtral", NULL },
    { "qwen2_vl", "qwen2_vl", NULL },
    { "qwen_25", "qwen", NULL },
    { "qwen3", "qwen3_nothink", "Axolotl's qwen3; this one has no empty think block" },
};

/* Keys of a dataset that are read below. */
static const char *const known[] = {
    "path",
    "split",
    "name",
    "revision",
    "type",
    "data_files",
    "ds_type",
    "field",
    "field_messages",
    "chat_template",
    "message_property_mappings",
    "message_field_role",
    "message_field_content",
};

/* Additional keys of pairs. */
static const char *const known_of_pairs[] = { "field_chosen", "field_rejected", "roles" };

static const struct type *type_of(const char *name, bool pairs)
{
    const struct type *list = pairs ? pair_types : types;
    size_t count = pairs ? TS_COUNT(pair_types) : TS_COUNT(types);

    for (size_t i = 0; name && i < count; i++) {
        size_t len = strlen(list[i].name);

        if (list[i].name[len - 1] == '*' ? strncmp(name, list[i].name, len - 1) == 0
                                         : strcmp(name, list[i].name) == 0)
            return &list[i];
    }
    return NULL;
}

/* Return the names in data_files, separated by commas; NULL if there are none. */
static const char *files_of(struct importing *im, const struct node *map)
{
    const struct entry *entry = node_find(map, "data_files");

    return entry && !node_is_null(entry->value) ? import_joined(im, entry->value) : NULL;
}

static bool is_local(const char *path)
{
    return path[0] == '.' || path[0] == '/' || dataset_kind_is_supported(path);
}

/* Return the name of a conversation's field, such as `role` and `value`. */
static const char *part_of(struct importing *im, const struct node *map, const char *key,
                           const char *old, const char *default_value)
{
    const struct entry *entry = node_find(map, "message_property_mappings");
    const char *name = NULL;

    if (entry && node_value(entry->value)->kind == NODE_MAP)
        name = import_text_of(im, node_value(entry->value), key);
    if (!name)
        name = import_text_of(im, map, old);
    return name ? name : default_value;
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* Return the name of a role in a conversation, which `roles` of pairs may override. */
static const char *role_of(struct importing *im, const struct node *map, const char *role,
                           const char *default_value)
{
    const struct entry *roles = import_is_preference(im) ? node_find(map, "roles") : NULL;
    const struct entry *entry = roles ? node_find(node_value(roles->value), role) : NULL;
    const struct node *list = entry ? node_value(entry->value) : NULL;

    if (list && list->kind == NODE_LIST && list->count > 0)
        return import_text(im, list->items[0]);
    return default_value;
}

/* Message fields with names that are not detected automatically require an entry in
 * dataset_info.json. */
static void read_columns(struct importing *im, const struct node *map,
                         struct import_data *set)
{
    const char *field = import_text_of(im, map, "field_messages");
    const char *role = part_of(im, map, "role", "message_field_role", "role");
    const char *content = part_of(im, map, "content", "message_field_content", "content");
    bool is_share = strcmp(role, "from") == 0, pairs = import_is_preference(im);
    const char *answers = NULL;
    bool renamed = pairs && import_axolotl_answer_columns(im, map, &answers);

    field = field ? field : "messages";
    if (is_one_of(field, "messages", "conversations") &&
        is_one_of(role, "role", "from") && is_one_of(content, "content", "value") &&
        !import_data_is_part(set) && !renamed)
        return;
    set->form = "sharegpt";
    set->columns =
        arena_printf(im->arena, "{\"messages\": \"%s\"%s%s}", import_json_name(im, field),
                     pairs ? ", " : "", pairs ? answers : "");
    set->tags = arena_printf(
        im->arena,
        "{\"role_tag\": \"%s\", \"content_tag\": \"%s\", \"user_tag\": \"%s\", "
        "\"assistant_tag\": \"%s\", \"system_tag\": \"system\"}",
        import_json_name(im, role), import_json_name(im, content),
        import_json_name(im, role_of(im, map, "user", is_share ? "human" : "user")),
        import_json_name(im,
                         role_of(im, map, "assistant", is_share ? "gpt" : "assistant")));
}

/* `type` as a map: user-defined columns and prompt. */
static void read_custom(struct importing *im, const struct node *type,
                        struct import_data *set)
{
    const char *prompt = import_text_of(im, type, "field_instruction");
    const char *query = import_text_of(im, type, "field_input");
    const char *answer = import_text_of(im, type, "field_output");

    set->form = "alpaca";
    set->columns = arena_printf(
        im->arena, "{\"prompt\": \"%s\", %s%s%s\"response\": \"%s\"}",
        import_json_name(im, prompt ? prompt : "instruction"),
        query ? "\"query\": \"" : "", query ? import_json_name(im, query) : "",
        query ? "\", " : "", import_json_name(im, answer ? answer : "output"));
}

/* The template that one dataset requires; a job has only one. */
struct template_request {
    const struct node *map;
    const char *path; /* "datasets[0]" */
    const char *type; /* as in Axolotl; NULL: not a known one */
    bool is_text, is_local;
    /* of one of the job's templates, or chat; NULL: no template required */
    const char *template_name;
    const char *chat; /* conversations: the chat_template in Axolotl */
    /* the key that sets chat, in the dataset or in the file; or NULL */
    const struct entry *source;
    const char *source_name;
};

/* The datasets of the file. */
struct reading {
    struct importing *im;
    const char *key;  /* dataset, eval_dataset */
    const char *path; /* of the current dataset: "datasets[0]" */
    struct import_data sets[SETS_MAX];
    size_t count;
    size_t texts; /* datasets of plain text */
    struct template_request requests[SETS_MAX];
    size_t request_count;
};

static const struct chat *chat_of(const char *axolotl)
{
    for (size_t i = 0; axolotl && i < TS_COUNT(chats); i++)
        if (strcmp(chats[i].axolotl, axolotl) == 0)
            return &chats[i];
    return NULL;
}

/* Find the chat_template of a conversation dataset: its own, or that of the file. */
static void read_chat(struct importing *im, struct template_request *template_request)
{
    const struct entry *own = node_find(template_request->map, "chat_template");

    if (own && !node_is_null(own->value)) {
        template_request->source = own;
        template_request->source_name =
            arena_printf(im->arena, "%s.chat_template", template_request->path);
    } else {
        template_request->source = import_find(im, "chat_template");
        template_request->source_name = "chat_template";
    }
    template_request->chat = template_request->source
                                 ? import_text(im, template_request->source->value)
                                 : "tokenizer_default";
    template_request->template_name = chat_of(template_request->chat)
                                          ? chat_of(template_request->chat)->template_name
                                          : template_request->chat;
}

/* Report an unsupported prompt, where the data is named and in the list of keys. */
static void report_type(struct reading *reading, const struct entry *type,
                        const char *why)
{
    struct importing *im = reading->im;

    import_remark(im, reading->key, "%s: %s", reading->path, why);
    import_add_outcome(
        im, type,
        &(struct import_key) { .name = arena_printf(im->arena, "%s.type", reading->path),
                               .outcome = IMPORT_DIFFERS,
                               .why = why });
}

static void read_type(struct reading *reading, const struct node *map,
                      struct import_data *set)
{
    struct importing *im = reading->im;
    const struct entry *entry = node_find(map, "type");
    const struct node *value = entry ? node_value(entry->value) : NULL;
    const char *name = value && value->kind == NODE_SCALAR ? value->text : NULL;
    const bool pairs = import_is_preference(im), marks = import_is_feedback(im);
    const struct type *type = type_of(name, pairs || marks);
    struct template_request *template_request =
        &reading->requests[reading->request_count++];

    *template_request = (struct template_request) { .map = map,
                                                    .path = reading->path,
                                                    .is_local = set->is_local };
    set->ranking = pairs;
    if (value && value->kind == NODE_MAP) {
        if (pairs)
            import_axolotl_pair(im, value, NULL, set);
        else if (marks)
            import_axolotl_answer(im, value, NULL, set);
        else
            read_custom(im, value, set);
        report_type(reading, entry,
                    "Axolotl has a custom prompt; this job uses the template instead");
        return;
    }
    if (!type || (marks && !import_axolotl_answer(im, NULL, name, set))) {
        report_type(
            reading, entry,
            arena_printf(im->arena,
                         "Axolotl's type %s is not supported: write the records as %s",
                         name && *name ? name : "(none)",
                         pairs   ? "prompt, chosen and rejected"
                         : marks ? "prompt, completion and label"
                                 : "instruction and output, or as messages"));
        return;
    }
    template_request->type = name;
    template_request->is_text = type->kind == KIND_TEXT;
    template_request->template_name = type->template_name;
    reading->texts += template_request->is_text;
    if (type->kind == KIND_MESSAGES && !marks) {
        read_columns(im, map, set);
        read_chat(im, template_request);
    }
    if (type->kind == KIND_PAIRS && !marks) {
        import_axolotl_pair(im, map, name, set);
        if (!type->template_name)
            read_chat(im, template_request);
    }
    if (type->kind == KIND_TEXT) {
        const char *field = import_text_of(im, map, "field");

        field = field ? field : "text";
        if (strcmp(field, "text") == 0 && !import_data_is_part(set))
            return;
        set->form = "alpaca";
        set->columns =
            arena_printf(im->arena, "{\"prompt\": \"%s\"}", import_json_name(im, field));
    }
}

static void read_item(struct reading *reading, const struct node *map, const char *path)
{
    struct importing *im = reading->im;
    struct import_data *set = &reading->sets[reading->count];

    if (map->kind != NODE_MAP || reading->count == SETS_MAX) {
        import_refuse(im, ERROR_DATA, map, "%s must be a dataset with a path%s", path,
                      map->kind == NODE_MAP ? ", one of at most 64" : "");
        return;
    }
    *set = (struct import_data) { .path = import_text_of(im, map, "path"),
                                  .split = import_text_of(im, map, "split"),
                                  .name = import_text_of(im, map, "name"),
                                  .revision = import_text_of(im, map, "revision"),
                                  .files = files_of(im, map),
                                  .media = import_find(im, "processor_type") };
    if (!set->path || !*set->path) {
        import_refuse(im, ERROR_DATA, map, "%s has no path", path);
        return;
    }
    set->is_local = is_local(set->path);
    import_local_folder(im, set);
    if (import_text_of(im, map, "ds_type") && set->files) {
        set->path = set->files; /* on this machine; path is the file type */
        set->files = NULL;
        set->is_local = true;
    }
    reading->path = path;
    import_split(im, reading->key, set, node_find(map, "split"), path);
    read_type(reading, map, set);
    reading->count++;
}

static void read_list(struct reading *reading, const char *from)
{
    const struct entry *entry = import_find(reading->im, from);
    const struct node *list = entry ? node_value(entry->value) : NULL;
    struct arena *arena = reading->im->arena;

    if (!list)
        return;
    if (list->kind == NODE_MAP)
        read_item(reading, list, from);
    else if (list->kind == NODE_SCALAR)
        import_refuse(reading->im, ERROR_DATA, list, "%s must be a list of datasets",
                      from);
    for (size_t i = 0; list->kind == NODE_LIST && i < list->count; i++)
        if (!import_failed(reading->im))
            read_item(reading, node_value(list->items[i]),
                      arena_printf(arena, "%s[%zu]", from, i));
}

/* ---- one template for all datasets ---- */

static void set_chat(struct importing *im, const char *chat)
{
    const struct chat *known_chat = chat_of(chat);

    if (known_chat)
        import_set(im, "template", known_chat->template_name, known_chat->note);
    else if (strcmp(chat, "tokenizer_default") == 0)
        import_remark(
            im, "dataset",
            "no template is set: as in Axolotl, the model's own Jinja template is used");
    else
        import_remark(
            im, "dataset",
            "no template is set: the model's own is used, where Axolotl uses %s", chat);
}

static void set_template(struct importing *im,
                         const struct template_request *template_request)
{
    if (template_request->chat) {
        set_chat(im, template_request->chat);
        return;
    }
    import_set(im, "template", template_request->template_name, NULL);
    if (strcmp(template_request->template_name, "alpaca") == 0)
        import_remark(
            im, "template",
            "the input of a sample follows its instruction; Axolotl writes ### Input: "
            "before it");
    else if (strcmp(template_request->template_name, "vicuna") == 0)
        import_remark(im, "template", "the closest match for Axolotl's alpaca:chat");
}

/* Report the chat_template that the job's template comes from. */
static void record_chat(struct importing *im,
                        const struct template_request *template_request)
{
    struct import_key key = { .name = template_request->source_name };

    if (chat_of(template_request->chat)) {
        key.into = "template";
    } else if (strcmp(template_request->chat, "tokenizer_default") == 0) {
        key.outcome = IMPORT_IDLE;
        key.why = "without a template, the model's own is used";
    } else {
        key.outcome = IMPORT_DIFFERS;
        key.why = "there is no such template in trainspool; set template to choose one";
    }
    import_add_outcome(im, template_request->source, &key);
}

/* Report a dataset that requires a different template. */
static void report_other_template(struct reading *reading,
                                  const struct template_request *template_request)
{
    struct importing *im = reading->im;
    const char *job_template = import_value(im, "template");
    bool is_own = template_request->chat &&
                  strcmp(template_request->chat, "tokenizer_default") == 0;
    const char *why = arena_printf(
        im->arena,
        "%s, of type %s, requires %s%s; a job has one template for all its data, here %s",
        import_text_of(im, template_request->map, "path"), template_request->type,
        is_own ? "the model's own template"
        : template_request->chat && !chat_of(template_request->chat)
            ? "Axolotl's template "
            : "the template ",
        is_own ? "" : template_request->template_name,
        job_template ? job_template : "the model's own");

    reading->path = template_request->path;
    report_type(reading, node_find(template_request->map, "type"), why);
    import_add_outcome(im, template_request->source,
                       &(struct import_key) { .name = template_request->source_name,
                                              .outcome = IMPORT_DIFFERS,
                                              .why = why });
}

static void report_templates(struct reading *reading,
                             const struct template_request *chosen)
{
    bool is_plain = strcmp(import_value(reading->im, "stage"), "pt") == 0;

    for (size_t i = 0; i < reading->request_count; i++) {
        const struct template_request *template_request = &reading->requests[i];

        reading->path = template_request->path;
        if (template_request->is_text && !is_plain)
            report_type(
                reading, node_find(template_request->map, "type"),
                "this dataset is plain text, and others are not: it requires stage pt, "
                "in a separate job");
        if (!template_request->template_name || !chosen)
            continue;
        if (strcmp(template_request->template_name, chosen->template_name) != 0)
            report_other_template(reading, template_request);
        else if (template_request->chat)
            record_chat(reading->im, template_request);
    }
}

/* Choose the template of the first dataset that requires one. */
static void choose_template(struct reading *train, struct reading *test)
{
    struct importing *im = train->im;
    const struct template_request *chosen = NULL;
    bool any_chat = false;

    for (size_t i = 0; i < train->request_count; i++) {
        any_chat |= train->requests[i].chat != NULL;
        if (!chosen && train->requests[i].template_name)
            chosen = &train->requests[i];
    }
    if (chosen)
        set_template(im, chosen);
    report_templates(train, chosen);
    report_templates(test, chosen);
    import_mark_dropped(im, "chat_template", IMPORT_IDLE,
                        any_chat ? "each conversation dataset has its own"
                                 : "the file has no conversation dataset");
}

/* ---- outcome for the keys of a dataset ---- */

static const char *target_of(const struct reading *reading,
                             const struct template_request *template_request,
                             const char *name)
{
    if (strcmp(name, "chat_template") == 0)
        return "template";
    if (strcmp(name, "type") != 0)
        return reading->key;
    return template_request->is_text                                    ? "stage"
           : template_request->template_name && !template_request->chat ? "template"
                                                                        : reading->key;
}

/* Return why a key of a dataset is not in the job; NULL: it is. */
static const char *reason_dropped(const struct template_request *template_request,
                                  const struct entry *entry, bool pairs,
                                  enum import_outcome *outcome)
{
    const char *name = entry->key->text, *why = NULL;
    bool is_known = false;

    for (size_t i = 0; i < TS_COUNT(known); i++)
        is_known |= strcmp(known[i], name) == 0;
    for (size_t i = 0; pairs && i < TS_COUNT(known_of_pairs); i++)
        is_known |= strcmp(known_of_pairs[i], name) == 0;
    *outcome = IMPORT_IDLE;
    if (strcmp(name, "trust_remote_code") == 0)
        why = "no third-party code is run";
    else if (template_request->is_local && is_one_of(name, "name", "revision"))
        why = "applies to hubs; this dataset is a file";
    else if (strcmp(name, "chat_template") == 0 && !template_request->chat)
        why = "this is not a conversation dataset";
    if (import_idle_reason(entry->value, why) || is_known)
        return import_idle_reason(entry->value, why);
    *outcome = IMPORT_DIFFERS;
    return "not supported for this dataset";
}

static void record_keys(const struct reading *reading)
{
    struct arena *arena = reading->im->arena;

    for (size_t i = 0; i < reading->request_count; i++) {
        const struct template_request *template_request = &reading->requests[i];

        for (size_t k = 0; k < template_request->map->count; k++) {
            const struct entry *entry = &template_request->map->entries[k];
            struct import_key key = { .name = arena_printf(arena, "%s.%s",
                                                           template_request->path,
                                                           entry->key->text) };

            key.why = reason_dropped(template_request, entry,
                                     import_is_preference(reading->im), &key.outcome);
            if (!key.why) {
                key.outcome = IMPORT_CARRIED;
                key.into = target_of(reading, template_request, entry->key->text);
            }
            import_add_outcome(reading->im, entry, &key);
        }
    }
}

/* Remove datasets that are listed twice.  Duplicates within a dataset stay. */
static void remove_duplicates(struct reading *reading)
{
    size_t kept = 0;

    for (size_t i = 0; i < reading->count; i++) {
        size_t k = 0;

        while (k < kept && !import_same_data(&reading->sets[k], &reading->sets[i]))
            k++;
        if (k == kept)
            reading->sets[kept++] = reading->sets[i];
    }
    reading->count = kept;
    import_mark_dropped(
        reading->im, "dataset_exact_deduplication", IMPORT_DIFFERS,
        "a dataset that is listed twice is used once; duplicate samples within it stay");
}

void import_axolotl_data(struct importing *im)
{
    struct reading train = { .im = im, .key = "dataset" };
    struct reading test = { .im = im, .key = "eval_dataset" };

    read_list(&train, "datasets");
    read_list(&train, "pretraining_dataset");
    read_list(&test, "test_datasets");
    if (import_failed(im))
        return;
    if (import_is_true(im, "dataset_exact_deduplication"))
        remove_duplicates(&train);
    import_data(im, "dataset", train.sets, train.count);
    import_data(im, "eval_dataset", test.sets, test.count);
    import_set_default(
        im, "stage", train.count > 0 && train.texts == train.count ? "pt" : "sft",
        train.texts == train.count || train.texts == 0
            ? NULL
            : "some datasets are plain text: they require stage pt, in a separate job");
    choose_template(&train, &test);
    record_keys(&train);
    record_keys(&test);
    import_axolotl_packing(im, train.count > 0 && train.texts == train.count);
}
