/*
 * patcher/import/import_axolotl_data.c - Axolotl's lists of data sets: which file, which form,
 * which template.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: schemas/datasets.py, prompters.py,
 * prompt_strategies, utils/chat_templates.
 */
#include "config.h"

#include "patcher/import/import_parts.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_reader.h"

#define SETS_MAX 64

/* What `type` means; a type that ends in `*` begins so. */
static const struct type {
    const char *name;
    enum kind { KIND_ALPACA, KIND_MESSAGES, KIND_TEXT, KIND_PAIRS } kind;
    const char *template_name; /* NULL: that of chat_template */
} types[] = {
    { "alpaca", KIND_ALPACA, "alpaca" },       { "alpaca:chatml", KIND_ALPACA, "chatml" },
    { "alpaca:phi", KIND_ALPACA, "phi" },      { "alpaca:chat", KIND_ALPACA, "vicuna" },
    { "chat_template*", KIND_MESSAGES, NULL }, { "sharegpt*", KIND_MESSAGES, NULL },
    { "completion", KIND_TEXT, NULL },         { "pretrain", KIND_TEXT, NULL },
};

/* The same with rl: prompt_strategies/dpo, and orpo, where pairs of conversations are. */
static const struct type pair_types[] = {
    { "chat_template", KIND_MESSAGES, NULL },
    { "chat_template.default", KIND_MESSAGES, NULL },
    { "chat_template.argilla*", KIND_PAIRS, NULL },
    { "chatml", KIND_PAIRS, "chatml" },
    { "chatml.*", KIND_PAIRS, "chatml" },
    { "llama3", KIND_PAIRS, "llama3" },
    { "llama3.*", KIND_PAIRS, "llama3" },
};

/* Axolotl's templates that there are here, and those that come near: then `note` says
 * so. */
static const struct chat {
    const char *axolotl, *here, *note;
} chats[] = {
    { "alpaca", "alpaca", NULL },
    { "chatml", "chatml", NULL },
    { "gemma", "gemma", NULL },
    { "gemma3", "gemma", "gemma3 of Axolotl; the same for text" },
    { "llama3", "llama3", NULL },
    { "mistral_v2v3", "mistral", NULL },
    { "phi_3", "phi", NULL },
    { "phi_35", "phi", NULL },
    { "qwen_25", "qwen", NULL },
    { "qwen3", "qwen3_nothink", "qwen3 of Axolotl; here without its empty thoughts" },
};

/* Keys of one data set that are looked at below. */
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

/* Of pairs besides. */
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

/* The files of data_files, with commas between; NULL where there are none. */
static const char *files_of(struct importing *im, const struct node *map)
{
    const struct entry *entry = node_find(map, "data_files");

    return entry && !node_is_null(entry->value) ? import_joined(im, entry->value) : NULL;
}

static bool is_local(const char *path)
{
    return path[0] == '.' || path[0] == '/' || dataset_reader_knows(path);
}

/* The names of a conversation's parts, as `role` and `value` say where they are. */
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

/* The role of that name in a conversation, where `roles` of pairs says another. */
static const char *role_of(struct importing *im, const struct node *map, const char *role,
                           const char *default_value)
{
    const struct entry *roles = import_is_of_pairs(im) ? node_find(map, "roles") : NULL;
    const struct entry *entry = roles ? node_find(node_value(roles->value), role) : NULL;
    const struct node *list = entry ? node_value(entry->value) : NULL;

    if (list && list->kind == NODE_LIST && list->count > 0)
        return import_text(im, list->items[0]);
    return default_value;
}

/* Messages under names that are not found out by themselves need a word in
 * dataset_info.json. */
static void read_columns(struct importing *im, const struct node *map,
                         struct import_data *set)
{
    const char *field = import_text_of(im, map, "field_messages");
    const char *role = part_of(im, map, "role", "message_field_role", "role");
    const char *content = part_of(im, map, "content", "message_field_content", "content");
    bool is_share = strcmp(role, "from") == 0, pairs = import_is_of_pairs(im);
    const char *answers = NULL;
    bool renamed = pairs && import_axolotl_answers(im, map, &answers);

    field = field ? field : "messages";
    if (is_one_of(field, "messages", "conversations") &&
        is_one_of(role, "role", "from") && is_one_of(content, "content", "value") &&
        !import_takes_part(set) && !renamed)
        return;
    set->form = "sharegpt";
    set->columns =
        arena_printf(im->arena, "{\"messages\": \"%s\"%s%s}", import_json_word(im, field),
                     pairs ? ", " : "", pairs ? answers : "");
    set->tags = arena_printf(
        im->arena,
        "{\"role_tag\": \"%s\", \"content_tag\": \"%s\", \"user_tag\": \"%s\", "
        "\"assistant_tag\": \"%s\", \"system_tag\": \"system\"}",
        import_json_word(im, role), import_json_word(im, content),
        import_json_word(im, role_of(im, map, "user", is_share ? "human" : "user")),
        import_json_word(im,
                         role_of(im, map, "assistant", is_share ? "gpt" : "assistant")));
}

/* `type` as a map: columns and a prompt of one's own. */
static void read_custom(struct importing *im, const struct node *type,
                        struct import_data *set)
{
    const char *prompt = import_text_of(im, type, "field_instruction");
    const char *query = import_text_of(im, type, "field_input");
    const char *answer = import_text_of(im, type, "field_output");

    set->form = "alpaca";
    set->columns = arena_printf(
        im->arena, "{\"prompt\": \"%s\", %s%s%s\"response\": \"%s\"}",
        import_json_word(im, prompt ? prompt : "instruction"),
        query ? "\"query\": \"" : "", query ? import_json_word(im, query) : "",
        query ? "\", " : "", import_json_word(im, answer ? answer : "output"));
}

/* What one set asks of the whole job, which has one template. */
struct wish {
    const struct node *map;
    const char *path; /* "datasets[0]" */
    const char *type; /* as Axolotl has it; NULL: none that is known */
    bool is_text, is_local;
    const char *template_name; /* of a template here, or chat; NULL: none is wanted */
    const char *chat;          /* of conversations: the chat_template in Axolotl */
    const struct entry *says;  /* chat, of the set or of the whole file; or NULL */
    const char *says_name;
};

/* What all sets of the file come to. */
struct reading {
    struct importing *im;
    const char *key;  /* dataset, eval_dataset */
    const char *path; /* of the set at hand: "datasets[0]" */
    struct import_data sets[SETS_MAX];
    size_t count;
    size_t texts; /* sets of plain text */
    struct wish wishes[SETS_MAX];
    size_t wish_count;
};

static const struct chat *chat_of(const char *axolotl)
{
    for (size_t i = 0; axolotl && i < TS_COUNT(chats); i++)
        if (strcmp(chats[i].axolotl, axolotl) == 0)
            return &chats[i];
    return NULL;
}

/* Which chat_template a set of conversations has: its own, or that of the file. */
static void read_chat(struct importing *im, struct wish *wish)
{
    const struct entry *own = node_find(wish->map, "chat_template");

    if (own && !node_is_null(own->value)) {
        wish->says = own;
        wish->says_name = arena_printf(im->arena, "%s.chat_template", wish->path);
    } else {
        wish->says = import_find(im, "chat_template");
        wish->says_name = "chat_template";
    }
    wish->chat = wish->says ? import_text(im, wish->says->value) : "tokenizer_default";
    wish->template_name = chat_of(wish->chat) ? chat_of(wish->chat)->here : wish->chat;
}

/* A prompt that cannot be had here: said where the data is named, and in the account. */
static void tell_type(struct reading *reading, const struct entry *type, const char *why)
{
    struct importing *im = reading->im;

    import_remark(im, reading->key, "%s: %s", reading->path, why);
    import_note(
        im, type,
        &(struct import_key) { .name = arena_printf(im->arena, "%s.type", reading->path),
                               .fate = IMPORT_DIFFERS,
                               .why = why });
}

static void read_type(struct reading *reading, const struct node *map,
                      struct import_data *set)
{
    struct importing *im = reading->im;
    const struct entry *entry = node_find(map, "type");
    const struct node *value = entry ? node_value(entry->value) : NULL;
    const char *name = value && value->kind == NODE_SCALAR ? value->text : NULL;
    const bool pairs = import_is_of_pairs(im);
    const struct type *type = type_of(name, pairs);
    struct wish *wish = &reading->wishes[reading->wish_count++];

    *wish =
        (struct wish) { .map = map, .path = reading->path, .is_local = set->is_local };
    set->ranking = pairs;
    if (value && value->kind == NODE_MAP) {
        if (pairs)
            import_axolotl_pair(im, value, NULL, set);
        else
            read_custom(im, value, set);
        tell_type(reading, entry,
                  "a prompt of its own in Axolotl; here the template is it");
        return;
    }
    if (!type) {
        tell_type(
            reading, entry,
            arena_printf(im->arena,
                         "Axolotl's type %s is not known here: write the records as %s",
                         name && *name ? name : "(none)",
                         pairs ? "prompt, chosen and rejected"
                               : "instruction and output, or as messages"));
        return;
    }
    wish->type = name;
    wish->is_text = type->kind == KIND_TEXT;
    wish->template_name = type->template_name;
    reading->texts += wish->is_text;
    if (type->kind == KIND_MESSAGES) {
        read_columns(im, map, set);
        read_chat(im, wish);
    }
    if (type->kind == KIND_PAIRS) {
        import_axolotl_pair(im, map, name, set);
        if (!type->template_name)
            read_chat(im, wish);
    }
    if (type->kind == KIND_TEXT) {
        const char *field = import_text_of(im, map, "field");

        field = field ? field : "text";
        if (strcmp(field, "text") == 0 && !import_takes_part(set))
            return;
        set->form = "alpaca";
        set->columns =
            arena_printf(im->arena, "{\"prompt\": \"%s\"}", import_json_word(im, field));
    }
}

static void read_item(struct reading *reading, const struct node *map, const char *path)
{
    struct importing *im = reading->im;
    struct import_data *set = &reading->sets[reading->count];

    if (map->kind != NODE_MAP || reading->count == SETS_MAX) {
        import_refuse(im, ERROR_DATA, map, "%s must be a data set with a path%s", path,
                      map->kind == NODE_MAP ? ", and one of 64 at most" : "");
        return;
    }
    *set = (struct import_data) { .path = import_text_of(im, map, "path"),
                                  .split = import_text_of(im, map, "split"),
                                  .name = import_text_of(im, map, "name"),
                                  .revision = import_text_of(im, map, "revision"),
                                  .files = files_of(im, map) };
    if (!set->path || !*set->path) {
        import_refuse(im, ERROR_DATA, map, "%s has no path", path);
        return;
    }
    set->is_local = is_local(set->path);
    if (import_text_of(im, map, "ds_type") && set->files) {
        set->path = set->files; /* of this machine: path says their kind */
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
        import_refuse(reading->im, ERROR_DATA, list, "%s must be a list of data sets",
                      from);
    for (size_t i = 0; list->kind == NODE_LIST && i < list->count; i++)
        if (!import_failed(reading->im))
            read_item(reading, node_value(list->items[i]),
                      arena_printf(arena, "%s[%zu]", from, i));
}

/* ---- one template for all ---- */

static void set_chat(struct importing *im, const char *chat)
{
    const struct chat *here = chat_of(chat);

    if (here)
        import_set(im, "template", here->here, here->note);
    else if (strcmp(chat, "tokenizer_default") == 0)
        import_remark(
            im, "dataset",
            "no template is named here: as in Axolotl the model's own is taken, in "
            "Jinja");
    else
        import_remark(
            im, "dataset",
            "no template is named here: the model's own is taken, where Axolotl has %s",
            chat);
}

static void set_template(struct importing *im, const struct wish *wish)
{
    if (wish->chat) {
        set_chat(im, wish->chat);
        return;
    }
    import_set(im, "template", wish->template_name, NULL);
    if (strcmp(wish->template_name, "alpaca") == 0)
        import_remark(im, "template",
                      "a sample with an input has it behind its instruction here; "
                      "Axolotl writes ### Input: before it");
    else if (strcmp(wish->template_name, "vicuna") == 0)
        import_remark(im, "template", "the nearest to alpaca:chat of Axolotl");
}

/* The chat_template that the job's template came of. */
static void note_chat(struct importing *im, const struct wish *wish)
{
    struct import_key key = { .name = wish->says_name };

    if (chat_of(wish->chat)) {
        key.into = "template";
    } else if (strcmp(wish->chat, "tokenizer_default") == 0) {
        key.fate = IMPORT_IDLE;
        key.why = "without a template the model's own is taken";
    } else {
        key.fate = IMPORT_DIFFERS;
        key.why = "there is no such template here; name one with template";
    }
    import_note(im, wish->says, &key);
}

/* A set that wants another template than the job's. */
static void tell_other(struct reading *reading, const struct wish *wish)
{
    struct importing *im = reading->im;
    const char *ours = import_said(im, "template");
    bool is_own = wish->chat && strcmp(wish->chat, "tokenizer_default") == 0;
    const char *why = arena_printf(
        im->arena,
        "%s, of type %s, wants %s%s; a job has one template for all its data, here %s",
        import_text_of(im, wish->map, "path"), wish->type,
        is_own                               ? "the model's own template"
        : wish->chat && !chat_of(wish->chat) ? "Axolotl's template "
                                             : "the template ",
        is_own ? "" : wish->template_name, ours ? ours : "the model's own");

    reading->path = wish->path;
    tell_type(reading, node_find(wish->map, "type"), why);
    import_note(im, wish->says,
                &(struct import_key) {
                    .name = wish->says_name, .fate = IMPORT_DIFFERS, .why = why });
}

static void tell_wishes(struct reading *reading, const struct wish *chosen)
{
    bool is_plain = strcmp(import_said(reading->im, "stage"), "pt") == 0;

    for (size_t i = 0; i < reading->wish_count; i++) {
        const struct wish *wish = &reading->wishes[i];

        reading->path = wish->path;
        if (wish->is_text && !is_plain)
            tell_type(reading, node_find(wish->map, "type"),
                      "plain text, and other data sets are not: stage pt, in a job of "
                      "its own");
        if (!wish->template_name || !chosen)
            continue;
        if (strcmp(wish->template_name, chosen->template_name) != 0)
            tell_other(reading, wish);
        else if (wish->chat)
            note_chat(reading->im, wish);
    }
}

/* That of the first set which asks for one. */
static void choose_template(struct reading *train, struct reading *test)
{
    struct importing *im = train->im;
    const struct wish *chosen = NULL;
    bool any_chat = false;

    for (size_t i = 0; i < train->wish_count; i++) {
        any_chat |= train->wishes[i].chat != NULL;
        if (!chosen && train->wishes[i].template_name)
            chosen = &train->wishes[i];
    }
    if (chosen)
        set_template(im, chosen);
    tell_wishes(train, chosen);
    tell_wishes(test, chosen);
    import_left(im, "chat_template", IMPORT_IDLE,
                any_chat ? "each data set of conversations has its own"
                         : "no data set of the file is one of conversations");
}

/* ---- what became of the keys of a set ---- */

static const char *goes_into(const struct reading *reading, const struct wish *wish,
                             const char *name)
{
    if (strcmp(name, "chat_template") == 0)
        return "template";
    if (strcmp(name, "type") != 0)
        return reading->key;
    return wish->is_text                        ? "stage"
           : wish->template_name && !wish->chat ? "template"
                                                : reading->key;
}

/* Why a key of a set is not in the job; NULL: it is. */
static const char *lost_why(const struct wish *wish, const struct entry *entry,
                            bool pairs, enum import_fate *fate)
{
    const char *name = entry->key->text, *why = NULL;
    bool is_known = false;

    for (size_t i = 0; i < TS_COUNT(known); i++)
        is_known |= strcmp(known[i], name) == 0;
    for (size_t i = 0; pairs && i < TS_COUNT(known_of_pairs); i++)
        is_known |= strcmp(known_of_pairs[i], name) == 0;
    *fate = IMPORT_IDLE;
    if (strcmp(name, "trust_remote_code") == 0)
        why = "no code of others is run";
    else if (wish->is_local && is_one_of(name, "name", "revision"))
        why = "of a hub; the data set is a file";
    else if (strcmp(name, "chat_template") == 0 && !wish->chat)
        why = "not of a data set of conversations";
    if (import_idle_why(entry->value, why) || is_known)
        return import_idle_why(entry->value, why);
    *fate = IMPORT_DIFFERS;
    return "of this data set, and not done here";
}

static void note_items(const struct reading *reading)
{
    struct arena *arena = reading->im->arena;

    for (size_t i = 0; i < reading->wish_count; i++) {
        const struct wish *wish = &reading->wishes[i];

        for (size_t k = 0; k < wish->map->count; k++) {
            const struct entry *entry = &wish->map->entries[k];
            struct import_key key = { .name = arena_printf(arena, "%s.%s", wish->path,
                                                           entry->key->text) };

            key.why = lost_why(wish, entry, import_is_of_pairs(reading->im), &key.fate);
            if (!key.why) {
                key.fate = IMPORT_CARRIED;
                key.into = goes_into(reading, wish, entry->key->text);
            }
            import_note(reading->im, entry, &key);
        }
    }
}

/* A data set that is there twice counts once; doubles within one are another matter. */
static void drop_doubles(struct reading *reading)
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
    import_left(reading->im, "dataset_exact_deduplication", IMPORT_DIFFERS,
                "a data set that is listed twice is taken once; equal samples within "
                "it stay");
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
        drop_doubles(&train);
    import_data(im, "dataset", train.sets, train.count);
    import_data(im, "eval_dataset", test.sets, test.count);
    import_preset(im, "stage",
                  train.count > 0 && train.texts == train.count ? "pt" : "sft",
                  train.texts == train.count || train.texts == 0
                      ? NULL
                      : "some data sets are plain text: stage pt, in a job of their own");
    choose_template(&train, &test);
    note_items(&train);
    note_items(&test);
    import_axolotl_packing(im, train.count > 0 && train.texts == train.count);
}
