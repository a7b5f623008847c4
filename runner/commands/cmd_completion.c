/*
 * runner/commands/cmd_completion.c - completion: prints a script for bash or zsh,
 * generated from the tables.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules.h"
#include "patcher/schema/schema.h"
#include "precision/device.h"
#include "runner/output/report.h"
#include "train/chat/template.h"

static int cmd_completion(const struct options *options);

const struct command command_completion = {
    .name = "completion",
    .operands = "SHELL",
    .min_operands = 1,
    .max_operands = 1,
    .help = "print a completion script for bash or zsh",
    .details =
        "For the current shell: source <(trainspool completion bash).  For all shells: "
        "write it to ~/.local/share/bash-completion/completions/trainspool, or for zsh "
        "to a file _trainspool in a folder of fpath.",
    .run = cmd_completion,
};

/* ---- Files that an option takes ---- */

enum { ENDINGS_MAX = 12 };

static const struct {
    enum option_id id;
    const char *endings[ENDINGS_MAX]; /* of their names; NULL-ended */
} file_options[] = {
    { OPTION_IMAGE_FILE, { "jpg", "jpeg", "png", "webp" } },
    { OPTION_AUDIO_FILE,
      { "wav", "flac", "mp3", "ogg", "oga", "opus", "aiff", "au", "caf" } },
};

/* Return the endings of an option; NULL: it takes other files, or none. */
static const char *const *endings_of(const struct option_row *row)
{
    for (size_t i = 0; i < TS_COUNT(file_options); i++)
        if (option_row(file_options[i].id) == row)
            return file_options[i].endings;
    return NULL;
}

static void add_endings(struct text *out, const char *const *endings, const char *between)
{
    for (size_t i = 0; endings[i]; i++)
        text_addf(out, "%s%s", i ? between : "", endings[i]);
}

/* ---- Values for a placeholder of the usage ---- */

static void add_devices(struct text *out)
{
    const struct accelerator_row *others;
    const struct device_row *rows;
    size_t count = device_rows(&rows), other_count = device_accelerators(&others);

    text_adds(out, "auto\ncpu\n");
    for (size_t i = 0; i < count; i++)
        text_addf(out, "%s%s%s\n", rows[i].name, rows[i].size[0] ? " " : "",
                  rows[i].size);
    for (size_t i = 0; i < other_count; i++)
        text_addf(out, "%s%s%s\n", others[i].name, others[i].size[0] ? " " : "",
                  others[i].size);
}

static void add_rules(struct text *out)
{
    for (size_t i = 0; i < rules_count(); i++)
        text_addf(out, "%s\n", rules_at(i)->id);
}

static void add_settings(struct text *out)
{
    const struct key *key;

    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        if (key->use == KEY_USED)
            text_addf(out, "%s=\n", key->name);
}

/* Add the devices that a command can run on, not those that it can check for. */
static void add_run_devices(struct text *out)
{
    text_adds(out, "auto\ncpu\ncuda\n");
}

static void add_templates(struct text *out)
{
    for (size_t i = 0; template_name(i); i++)
        text_addf(out, "%s\n", template_name(i));
}

static void add_shells(struct text *out)
{
    text_adds(out, "bash\nzsh\n");
}

static void add_commands(struct text *out)
{
    const struct command *command;

    for (size_t i = 0; (command = commands_at(i)); i++)
        text_addf(out, "%s\n", command->name);
    text_adds(out, "help\n");
}

/* A placeholder for a value from a list. */
static const struct list {
    const char *word, *name;
    void (*add)(struct text *out); /* one per line */
} lists[] = {
    { "NAME", "devices", add_devices },      { "RULE", "rules", add_rules },
    { "RULES", "rules", add_rules },         { "KEY=VALUE", "settings", add_settings },
    { "SHELL", "shells", add_shells },       { "COMMAND", "commands", add_commands },
    { "DEVICE", "places", add_run_devices }, { "TEMPLATE", "templates", add_templates },
};

static const struct list *list_of(const char *word)
{
    for (size_t i = 0; i < TS_COUNT(lists); i++)
        if (strcmp(lists[i].word, word) == 0)
            return &lists[i];
    return NULL;
}

/* From "DIR JOB..." copy the first word, or the last one for later operands, without
 * brackets and dots. */
static void operand_word(const struct command *command, bool first, char out[32])
{
    const char *from = first ? NULL : strrchr(command->operands, ' ');
    size_t len;

    from = from ? from + 1 : command->operands;
    from += *from == '[';
    len = strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZ=|");
    if (len > 31)
        len = 31;
    memcpy(out, from, len);
    out[len] = 0;
}

/* 'it'\''s' */
static void add_quoted(struct text *out, const char *string)
{
    text_addc(out, '\'');
    for (; *string; string++)
        if (*string == '\'')
            text_adds(out, "'\\''");
        else
            text_addc(out, *string);
    text_addc(out, '\'');
}

static void add_list_function(struct text *out, const struct list *list, const char *form)
{
    struct text words;
    const char *hole = strstr(form, "%s");

    text_init(&words, 0);
    list->add(&words);
    if (words.len > 0)
        words.data[--words.len] = 0;
    text_addf(out, "_trainspool_%s() {\n%.*s", list->name, (int)(hole - form), form);
    add_quoted(out, words.data);
    text_addf(out, "%s\n}\n\n", hole + 2);
    text_clear(&words);
}

/* Lists of one name share one function. */
static void add_list_functions(struct text *out, const char *form)
{
    for (size_t i = 0; i < TS_COUNT(lists); i++)
        if (i == 0 || strcmp(lists[i].name, lists[i - 1].name) != 0)
            add_list_function(out, &lists[i], form);
}

/* ---- bash ---- */

static const char bash_head[] =
    "# bash completion for trainspool; made by: trainspool completion bash\n\n"
    "# Add the lines of $1 that begin with what is typed.\n"
    "_trainspool_words() {\n"
    "    local word typed=${cur//\\\\/}\n"
    "    while IFS= read -r word; do\n"
    "        [[ $word == \"$typed\"* ]] && COMPREPLY+=(\"$(printf '%q' \"$word\")\")\n"
    "    done <<<\"$1\"\n"
    "    [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null\n"
    "}\n\n"
    "# Add folders, and files whose names end in $1...\n"
    "_trainspool_files() {\n"
    "    local name ending\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    while IFS= read -r name; do COMPREPLY+=(\"$name\"); done < <(\n"
    "        compgen -d -- \"$cur\"\n"
    "        for ending; do compgen -f -X \"!*.$ending\" -- \"$cur\"; done\n"
    "    )\n"
    "}\n\n";

static const char bash_begin[] =
    "_trainspool() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    COMPREPLY=()\n"
    "    # --option=value comes as three words\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        _trainspool_commands\n"
    "        return\n"
    "    fi\n"
    "    case ${COMP_WORDS[1]}:$prev in\n";

/* "check:--device | plan:--device": an option of the same name may take other values
 * elsewhere. */
static void add_bash_pattern(struct text *out, enum option_id id)
{
    const struct command *command;
    const char *between = "    ";

    if (option_is_accepted(NULL, id)) {
        text_addf(out, "    *:--%s", option_row(id)->name);
        return;
    }
    for (size_t i = 0; (command = commands_at(i)); i++)
        if (option_is_accepted(command, id)) {
            text_addf(out, "%s%s:--%s", between, command->name, option_row(id)->name);
            between = " | ";
        }
}

static bool is_for_people(enum option_id id)
{
    const struct command *command;

    if (option_is_accepted(NULL, id))
        return true;
    for (size_t i = 0; (command = commands_at(i)); i++)
        if (option_is_accepted(command, id))
            return true;
    return false;
}

static void add_bash_values(struct text *out, enum option_id id)
{
    const struct option_row *row = option_row(id);
    const struct list *list = row->argument ? list_of(row->argument) : NULL;
    const char *const *endings = endings_of(row);

    if ((!row->choices && !list && !endings) || !is_for_people(id))
        return;
    add_bash_pattern(out, id);
    text_adds(out, ") ");
    if (endings) {
        text_adds(out, "_trainspool_files ");
        add_endings(out, endings, " ");
        text_adds(out, "; return ;;\n");
        return;
    }
    if (list) {
        text_addf(out, "_trainspool_%s; return ;;\n", list->name);
        return;
    }
    text_adds(out, "_trainspool_words $'");
    for (size_t i = 0; row->choices[i]; i++)
        text_addf(out, "%s%s", i ? "\\n" : "", row->choices[i]);
    text_adds(out, "'; return ;;\n");
}

static void add_bash_operand(struct text *out, const struct command *command)
{
    char word[32];
    const struct list *list;

    operand_word(command, false, word);
    list = list_of(word);
    if (list)
        text_addf(out, "_trainspool_%s ;;\n", list->name);
    else if (strstr(word, "JOB") || strcmp(word, "FILE") == 0)
        text_addf(out, "_trainspool_files yaml yml%s ;;\n",
                  command->scripts ? " py" : "");
    else if (strcmp(word, "DIR") == 0)
        text_adds(out, "_trainspool_files ;;\n");
    else
        text_adds(out, ";;\n");
}

static void add_bash_options(struct text *out, const struct command *command)
{
    bool first = true;

    text_addf(out, "    %s:-*) _trainspool_words $'", command->name);
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_is_accepted(command, (enum option_id)id)) {
            text_addf(out, "%s--%s", first ? "" : "\\n",
                      option_row((enum option_id)id)->name);
            first = false;
        }
    text_adds(out, "' ;;\n");
}

static void make_bash(struct text *out)
{
    const struct command *command;

    text_adds(out, bash_head);
    add_list_functions(out, "    _trainspool_words %s");
    text_adds(out, bash_begin);
    for (int id = 0; id < OPTION_IDS; id++)
        add_bash_values(out, (enum option_id)id);
    text_adds(out, "    esac\n    case ${COMP_WORDS[1]}:$cur in\n");
    for (size_t i = 0; (command = commands_at(i)); i++)
        add_bash_options(out, command);
    for (size_t i = 0; (command = commands_at(i)); i++) {
        text_addf(out, "    %s:*) ", command->name);
        add_bash_operand(out, command);
    }
    text_adds(out, "    help:*) _trainspool_commands ;;\n"
                   "    esac\n"
                   "}\n\n"
                   "complete -F _trainspool trainspool\n");
}

/* ---- zsh ---- */

/* Some characters are special inside [...] and before a colon. */
static void add_zsh_text(struct text *out, const char *string, const char *special)
{
    for (; *string; string++) {
        if (strchr(special, *string))
            text_addc(out, '\\');
        if (*string == '\'')
            text_adds(out, "'\\''");
        else
            text_addc(out, *string);
    }
}

/* scripts: Python scripts are operands, too. */
static void add_zsh_action(struct text *out, const char *word, const char *const *choices,
                           bool scripts)
{
    const struct list *list = list_of(word);

    if (choices) {
        text_adds(out, "(");
        for (size_t i = 0; choices[i]; i++)
            text_addf(out, "%s%s", i ? " " : "", choices[i]);
        text_adds(out, ")");
    } else if (list) {
        text_addf(out, "_trainspool_%s", list->name);
    } else if (strstr(word, "JOB") || strcmp(word, "FILE") == 0) {
        text_addf(out, "_files -g \"*.(yaml|yml%s)(-.)\"", scripts ? "|py" : "");
    } else if (strcmp(word, "DIR") == 0) {
        text_adds(out, "_files -/");
    }
}

static void add_zsh_option(struct text *out, const struct option_row *row)
{
    text_addf(out, " \\\n            '%s--%s%s[", row->kind == OPTION_IS_LIST ? "*" : "",
              row->name, row->argument ? "=" : "");
    add_zsh_text(out, row->help, "[]:\\");
    text_addc(out, ']');
    if (row->argument) {
        text_addf(out, ":%s:", row->argument);
        if (endings_of(row)) {
            text_adds(out, "_files -g \"*.(");
            add_endings(out, endings_of(row), "|");
            text_adds(out, ")(-.)\"");
        } else {
            add_zsh_action(out, row->argument, row->choices, false);
        }
    }
    text_addc(out, '\'');
}

static void add_zsh_operands(struct text *out, const struct command *command)
{
    char first[32], last[32];

    operand_word(command, true, first);
    operand_word(command, false, last);
    if (!first[0])
        return;
    text_addf(out, " \\\n            '1:%s:", first);
    add_zsh_action(out, first, NULL, command->scripts);
    text_addc(out, '\'');
    if (command->max_operands == 1)
        return;
    text_addf(out, " \\\n            '*:%s:", last);
    add_zsh_action(out, last, NULL, command->scripts);
    text_addc(out, '\'');
}

static void add_zsh_command(struct text *out, const struct command *command)
{
    text_addf(out, "    %s)\n        _arguments -S", command->name);
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_is_accepted(command, (enum option_id)id))
            add_zsh_option(out, option_row((enum option_id)id));
    add_zsh_operands(out, command);
    text_adds(out, "\n        ;;\n");
}

static void make_zsh(struct text *out)
{
    const struct command *command;

    text_adds(out, "#compdef trainspool\n"
                   "# made by: trainspool completion zsh\n\n");
    add_list_functions(out,
                       "    local -a words=(\"${(@f)$(<<<%s)}\")\n    compadd -a words");
    text_adds(out, "_trainspool() {\n    local -a commands=(\n");
    for (size_t i = 0; (command = commands_at(i)); i++) {
        text_addf(out, "        '%s:", command->name);
        add_zsh_text(out, command->help, ":\\");
        text_adds(out, "'\n");
    }
    text_adds(out, "        'help:show the help page of a command'\n"
                   "    )\n"
                   "    if ((CURRENT == 2)); then\n"
                   "        _describe -t commands command commands\n"
                   "        return\n"
                   "    fi\n"
                   "    shift words\n"
                   "    ((CURRENT--))\n"
                   "    case $words[1] in\n");
    for (size_t i = 0; (command = commands_at(i)); i++)
        add_zsh_command(out, command);
    text_adds(out, "    help) _describe -t commands command commands ;;\n"
                   "    esac\n"
                   "}\n\n"
                   "if [[ $funcstack[1] == _trainspool ]]; then\n"
                   "    _trainspool \"$@\"\n"
                   "else\n"
                   "    compdef _trainspool trainspool\n"
                   "fi\n");
}

/* ---- The command ---- */

static const struct shell {
    const char *name;
    void (*make)(struct text *out);
} shells[] = {
    { "bash", make_bash },
    { "zsh", make_zsh },
};

static int cmd_completion(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    struct text out;

    report_init(&report, options);
    for (size_t i = 0; i < TS_COUNT(shells); i++) {
        if (strcmp(shells[i].name, options->operands[0]) != 0)
            continue;
        text_init(&out, 0);
        shells[i].make(&out);
        report_write(&report, &out);
        text_clear(&out);
        return EXIT_FINE;
    }
    error_set(&err, ERROR_USAGE, "SHELL must be bash or zsh, not %s",
              options->operands[0]);
    report_error(options->program, &err);
    return report_exit(err.code);
}
