/* runner/options/options_help.c - usage and --help, generated from the table of options. */
#include "config.h"

#include "runner/options/options_help.h"

#include <ctype.h>
#include <string.h>

enum { HELP_COLUMN = 24, HELP_WIDTH = 80 };

void options_add_name(struct text *out, const char *program,
                      const struct command *command)
{
    text_adds(out, program);
    if (command && command->name[0])
        text_addf(out, " %s", command->name);
}

void options_usage(const char *program, const struct command *command, struct text *out)
{
    text_adds(out, "usage: ");
    options_add_name(out, program, command);
    text_adds(out, " [options]");
    if (command->operands[0])
        text_addf(out, " %s", command->operands);
    text_addc(out, '\n');
}

void options_wrap(const char *text, size_t indent, size_t width, struct text *out)
{
    size_t column = 0;

    while (*text) {
        size_t word = strcspn(text, " \n");

        if (column > 0 && column + 1 + word > width) {
            text_addc(out, '\n');
            column = 0;
        }
        if (word > 0) {
            text_addf(out, "%*s", column ? 1 : (int)indent, "");
            text_add(out, text, word);
            column += word + (column ? 1 : indent);
        }
        text += word;
        if (*text == '\n') {
            text_addc(out, '\n');
            column = 0;
        }
        text += *text != 0;
    }
    if (column > 0)
        text_addc(out, '\n');
}

static void help_row(const struct option_row *row, struct text *out)
{
    struct text wrapped;
    size_t start = out->len, used;

    text_addf(out, row->letter ? "  -%c, " : "      ", row->letter);
    text_addf(out, "--%s", row->name);
    if (row->argument)
        text_addf(out, " %s", row->argument);
    used = out->len - start;
    text_init(&wrapped, 0);
    options_wrap(row->help, HELP_COLUMN, HELP_WIDTH, &wrapped);
    if (used + 1 < HELP_COLUMN) /* the first line continues after the name */
        text_addf(out, "%*s%s", (int)(HELP_COLUMN - used), "",
                  wrapped.data + HELP_COLUMN);
    else
        text_addf(out, "\n%s", wrapped.data);
    text_clear(&wrapped);
}

void options_help(const char *program, const struct command *command, struct text *out)
{
    struct text first;

    options_usage(program, command, out);
    text_addc(out, '\n');
    text_init(&first, 0);
    text_addf(&first, "%c%s.", toupper((unsigned char)command->help[0]),
              command->help + 1);
    options_wrap(first.data, 0, HELP_WIDTH, out);
    text_clear(&first);
    if (command->details) {
        text_addc(out, '\n');
        options_wrap(command->details, 0, HELP_WIDTH, out);
    }
    text_adds(out, "\noptions:\n");
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_is_accepted(command, (enum option_id)id))
            help_row(option_row((enum option_id)id), out);
}
