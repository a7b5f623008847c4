/* runner/options/options_argv.c - writes options as arguments of another program. */
#include "config.h"

#include "runner/options/options.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/text.h"

struct argv {
    char **list;
    size_t count;
};

static void args_add(struct argv *argv, const char *word)
{
    argv->list = memory_resize(argv->list, argv->count + 2, sizeof(*argv->list));
    argv->list[argv->count++] = memory_strdup(word);
    argv->list[argv->count] = NULL;
}

static void args_pair(struct argv *argv, const char *name, const char *value)
{
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "--%s=%s", name, value);
    args_add(argv, text.data);
    text_clear(&text);
}

static void args_option(struct argv *argv, const struct option_row *row,
                        const struct options *options)
{
    const void *field = (const char *)options + row->into;
    char number[32];

    switch (row->kind) {
    case OPTION_IS_SWITCH:
        if (*(const bool *)field) {
            snprintf(number, sizeof(number), "--%s", row->name);
            args_add(argv, number);
        }
        break;
    case OPTION_IS_TEXT:
        if (*(const char *const *)field)
            args_pair(argv, row->name, *(const char *const *)field);
        break;
    case OPTION_IS_NUMBER:
        snprintf(number, sizeof(number), "%" PRId64, *(const int64_t *)field);
        if (*(const int64_t *)field >= 0)
            args_pair(argv, row->name, number);
        break;
    case OPTION_IS_REAL:
        snprintf(number, sizeof(number), "%.17g", *(const double *)field);
        if (*(const double *)field >= 0)
            args_pair(argv, row->name, number);
        break;
    case OPTION_IS_LIST:
        for (const char *const *at = *(const char *const *const *)field; at && *at; at++)
            args_pair(argv, row->name, *at);
        break;
    }
}

char **options_argv(const struct options *options, const struct command *command,
                    const char *program, const char *first)
{
    struct argv args = { 0 };

    args_add(&args, program);
    if (first)
        args_add(&args, first);
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_is_accepted(command, (enum option_id)id))
            args_option(&args, option_row((enum option_id)id), options);
    args_add(&args, "--");
    for (size_t i = 0; i < options->operand_count; i++)
        args_add(&args, options->operands[i]);
    return args.list;
}
