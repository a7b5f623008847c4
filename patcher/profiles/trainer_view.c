/* patcher/profiles/trainer_view.c - tables of commands and keys that identify a trainer. */
#include "config.h"

#include "patcher/profiles/trainer_view.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

static const struct node *block_value(const struct document *document, const char *key)
{
    const struct entry *block =
        document->root ? node_find_clear(document->root, "trainspool") : NULL;
    const struct entry *entry =
        block ? node_find_clear(node_value(block->value), key) : NULL;

    return entry && !node_is_null(entry->value) ? node_value(entry->value) : NULL;
}

/* ---- The command ---- */

void trainer_words_init(const struct document *document, struct trainer_words *words)
{
    const struct node *command = block_value(document, "command");

    *words = (struct trainer_words) { 0 };
    if (!command || (command->kind != NODE_LIST && command->kind != NODE_SCALAR))
        return;
    words->command = command;
    words->at = command->kind == NODE_SCALAR ? command->text : "";
}

const char *trainer_next_word(struct trainer_words *words)
{
    const char *text = NULL;
    size_t len = 0;

    if (!words->command)
        return NULL;
    if (words->command->kind == NODE_LIST) {
        while (!text && words->next < words->command->count)
            text = node_value(words->command->items[words->next++])->text;
        len = text ? strlen(text) : 0;
    } else {
        text = words->at + strspn(words->at, " \t\n");
        len = strcspn(text, " \t\n");
        words->at = text + len;
        if (len == 0)
            return NULL;
    }
    if (!text)
        return NULL;
    if (len >= sizeof(words->word))
        len = sizeof(words->word) - 1;
    memcpy(words->word, text, len);
    words->word[len] = 0;
    return words->word;
}

/* How a mark is found in a word. */
enum match {
    MATCH_PROGRAM, /* the file name of a path */
    MATCH_MODULE,  /* the start of a module name, as in `python -m axolotl.cli.train` */
    MATCH_PART     /* anything but an option, an assignment or a configuration */
};

/* Words that only the command of one trainer has. */
static const struct command_mark {
    const char *text;
    enum match match;
    enum trainer trainer;
} command_marks[] = {
    { "llamafactory", MATCH_PART, TRAINER_LLAMAFACTORY },
    { "llama-factory", MATCH_PART, TRAINER_LLAMAFACTORY },
    { "trl", MATCH_PROGRAM, TRAINER_TRL },
    { "trl.", MATCH_MODULE, TRAINER_TRL },
    { "trl/scripts/", MATCH_PART, TRAINER_TRL },
    { "trl/commands/", MATCH_PART, TRAINER_TRL },
    { "axolotl", MATCH_PROGRAM, TRAINER_AXOLOTL },
    { "axolotl.", MATCH_MODULE, TRAINER_AXOLOTL },
    { "tune", MATCH_PROGRAM, TRAINER_TORCHTUNE },
    { "unsloth", MATCH_PROGRAM, TRAINER_UNSLOTH },
    { "unsloth-cli.py", MATCH_PROGRAM, TRAINER_UNSLOTH },
    { "lightning", MATCH_PROGRAM, TRAINER_LIGHTNING },
    { "litgpt", MATCH_PROGRAM, TRAINER_LIGHTNING },
};

/* Return whether the word is an option, an assignment such as WANDB_PROJECT=trl, or a
 * configuration such as axolotl.yaml.  `sh -c` takes a whole command as one word. */
static bool is_setting(const char *word)
{
    static const char *const endings[] = { ".yaml", ".yml", ".json", ".toml" };

    if (word[strcspn(word, " \t\n")])
        return false;
    if (word[0] == '-' || strchr(word, '='))
        return true;
    for (size_t i = 0; i < TS_COUNT(endings); i++)
        if (text_ends(word, endings[i]))
            return true;
    return false;
}

static bool matches(const struct command_mark *mark, const char *word)
{
    const char *slash = strrchr(word, '/');

    switch (mark->match) {
    case MATCH_PROGRAM:
        return strcmp(slash ? slash + 1 : word, mark->text) == 0;
    case MATCH_MODULE:
        return text_starts(word, mark->text) && !is_setting(word);
    case MATCH_PART:
        return strstr(word, mark->text) != NULL && !is_setting(word);
    }
    return false;
}

/* The words after a script are its arguments. */
static enum trainer find_by_command(const struct document *document)
{
    struct trainer_words words;
    const char *word;

    trainer_words_init(document, &words);
    while ((word = trainer_next_word(&words))) {
        for (size_t i = 0; i < TS_COUNT(command_marks); i++)
            if (matches(&command_marks[i], word))
                return command_marks[i].trainer;
        if (text_ends(word, ".py"))
            break;
    }
    return TRAINER_EXTERNAL;
}

/* Return the program of a trainer that a word names: "sft" in `trl sft`,
 * `trl.scripts.sft` and `examples/scripts/sft.py`; or NULL. */
static const char *program_in(const struct profile_table *table, const char *word)
{
    const char *base = word + strlen(word);
    size_t len;

    if (strlen(word) > 3 && strcmp(base - 3, ".py") == 0)
        base -= 3;
    len = (size_t)(base - word);
    for (size_t i = 0; i < table->program_count; i++) {
        size_t own = strlen(table->programs[i]);

        if (len >= own && strncmp(word + len - own, table->programs[i], own) == 0 &&
            (len == own || word[len - own - 1] == '/' || word[len - own - 1] == '.'))
            return table->programs[i];
    }
    return NULL;
}

static const char *find_program(const struct document *document, enum trainer trainer)
{
    const struct profile_table *table = profile_at(trainer)->table;
    const struct node *named = document->script ? block_value(document, "program") : NULL;
    struct trainer_words words;
    const char *word, *program = named ? named->text : NULL;

    trainer_words_init(document, &words);
    while (table && !program && (word = trainer_next_word(&words)))
        program = program_in(table, word);
    return program;
}

/* ---- The keys ---- */

/* Keys that identify a trainer, with their weights: 2 for a key that no other program's
 * file has, 1 for a key that a script may have, too. */
static const struct key_mark {
    const char *key;
    enum trainer trainer;
    int weight;
} key_marks[] = {
    { "template", TRAINER_LLAMAFACTORY, 2 },
    { "cutoff_len", TRAINER_LLAMAFACTORY, 2 },
    { "dataset_dir", TRAINER_LLAMAFACTORY, 2 },
    /* TRL's ModelConfig and ScriptArguments */
    { "dataset_name", TRAINER_TRL, 2 },
    { "dataset_mixture", TRAINER_TRL, 2 },
    { "dataset_train_split", TRAINER_TRL, 1 },
    { "dataset_test_split", TRAINER_TRL, 1 },
    { "use_peft", TRAINER_TRL, 1 },
    { "lora_target_modules", TRAINER_TRL, 1 },
    { "lora_modules_to_save", TRAINER_TRL, 1 },
    { "lora_task_type", TRAINER_TRL, 1 },
    { "use_bnb_nested_quant", TRAINER_TRL, 1 },
};

static int weigh(const struct document *document, enum trainer trainer)
{
    int weight = 0;

    for (size_t i = 0; i < TS_COUNT(key_marks); i++) {
        const struct entry *entry = key_marks[i].trainer == trainer
                                        ? document_find(document, key_marks[i].key)
                                        : NULL;

        if (entry && !node_is_null(entry->value))
            weight += key_marks[i].weight;
    }
    return weight;
}

/* Return whether the command is a script of TRL's repository, whose folder other
 * repositories have, too. */
static bool runs_example(const struct document *document)
{
    struct trainer_words words;
    const char *word;

    trainer_words_init(document, &words);
    while ((word = trainer_next_word(&words)))
        if (strstr(word, "examples/scripts/") &&
            program_in(profile_at(TRAINER_TRL)->table, word))
            return true;
    return false;
}

static bool has_command(const struct document *document)
{
    return document->script || block_value(document, "command");
}

/* Return whether the job has a key that only LLaMA-Factory has. */
static bool has_factory_keys(const struct document *document)
{
    return weigh(document, TRAINER_LLAMAFACTORY) > 1;
}

/* The package decides alone only without a command: a script may run next to it. */
static bool is_factory_by_package(const struct document *document,
                                  const struct versions *versions)
{
    return versions_know(versions, PACKAGE_LLAMAFACTORY) &&
           (!has_command(document) || has_factory_keys(document));
}

/*
 * A command that is not recognized is a script.  It may use TRL's classes if TRL is
 * installed and the file has their keys, except dataset_name, which Hugging Face's
 * examples have.
 */
static enum trainer find_by_keys(const struct document *document,
                                 const struct versions *versions)
{
    bool command = has_command(document), trl = versions_know(versions, PACKAGE_TRL);
    int most = weigh(document, TRAINER_TRL);

    if (trl && runs_example(document))
        return TRAINER_TRL;
    if (command && document_find(document, "dataset_name"))
        most -= 2;
    if (!command && has_factory_keys(document))
        return TRAINER_LLAMAFACTORY;
    return most >= (trl ? 1 : 2) && (trl || !command) ? TRAINER_TRL : TRAINER_EXTERNAL;
}

/* ---- Together ---- */

enum trainer trainer_of_target(const struct document *document, const char *target)
{
    const struct node *value =
        document->root && !target ? block_value(document, "target") : NULL;
    enum trainer trainer;

    if (value && value->kind == NODE_SCALAR)
        target = value->text;
    trainer = target ? profile_named(target) : TRAINER_NATIVE;
    return trainer == TRAINERS ? TRAINER_NATIVE : trainer;
}

void trainer_view(const struct document *document, const char *target,
                  const struct versions *versions, struct profile_view *out)
{
    enum trainer trainer = trainer_of_target(document, target);

    if (trainer == TRAINER_EXTERNAL)
        trainer = find_by_command(document);
    if (trainer == TRAINER_EXTERNAL && is_factory_by_package(document, versions))
        trainer = TRAINER_LLAMAFACTORY;
    if (trainer == TRAINER_EXTERNAL)
        trainer = find_by_keys(document, versions);
    profile_view(trainer, versions,
                 trainer > TRAINER_EXTERNAL ? find_program(document, trainer) : NULL,
                 out);
}
