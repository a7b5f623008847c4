/* runner/main.c - trainspool: dispatches to the command and prints the help pages. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "runner/commands/commands.h"
#include "runner/output/report.h"
#include "runner/options/options_help.h"

static const char program[] = "trainspool";

static void print(const struct text *text)
{
    fwrite(text->data, 1, text->len, stdout);
}

static int print_overview(void)
{
    const struct command *command;
    const struct exit_row *exits;
    struct text out;
    size_t count;

    text_init(&out, 0);
    text_addf(&out, "usage: %s COMMAND [options] ...\n\ncommands:\n", program);
    for (size_t i = 0; (command = commands_at(i)); i++)
        text_addf(&out, "  %-10s %s\n", command->name, command->help);
    text_addf(&out, "\n%s COMMAND --help lists the options of a command.\n", program);
    text_adds(&out, "\nexit status:\n");
    exits = report_exits(&count);
    for (size_t i = 0; i < count; i++)
        text_addf(&out, "  %3d  %s\n", exits[i].status, exits[i].meaning);
    print(&out);
    text_clear(&out);
    return EXIT_FINE;
}

static int print_version(void)
{
    printf("%s %s\n", program, PACKAGE_VERSION);
    return EXIT_FINE;
}

static int print_help(const struct command *command)
{
    struct text out;

    text_init(&out, 0);
    options_help(program, command, &out);
    print(&out);
    text_clear(&out);
    return EXIT_FINE;
}

static int fail(const struct error *err)
{
    report_error(program, err);
    return report_exit(err->code);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct options options;
    struct error err = { 0 };
    int status;

    if (!options_read(argc, argv, program, command, &options, &err))
        status = fail(&err);
    else if (options.help)
        status = print_help(command);
    else if (options.version)
        status = print_version();
    else
        status = command->run(&options);
    options_clear(&options);
    return status;
}

/* "there is no command chek; did you mean check?" */
static void refuse(const char *word, struct error *err)
{
    const char *names[64] = { NULL }, *near;

    for (size_t i = 0; i + 1 < TS_COUNT(names) && commands_at(i); i++)
        names[i] = commands_at(i)->name;
    near = options_nearest(word, names);
    error_set(err, ERROR_USAGE, "there is no command %s; %s%s%s", word,
              near ? "did you mean " : program, near ? near : " --help lists them",
              near ? "?" : "");
}

/* `trainspool help check` is `trainspool check --help`. */
static int help(int argc, char **argv)
{
    const struct command *command = argc > 2 ? commands_find(argv[2]) : NULL;
    struct error err = { 0 };

    if (argc > 2 && !command && argv[2][0] != '-') {
        refuse(argv[2], &err);
        return fail(&err);
    }
    return command ? print_help(command) : print_overview();
}

static int dispatch(int argc, char **argv)
{
    const struct command *command;
    struct error err = { 0 };
    const char *first = argc > 1 ? argv[1] : "";

    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0)
        return print_version();
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return print_overview();
    if (strcmp(first, "help") == 0)
        return help(argc, argv);
    command = commands_find(first);
    if (command)
        return run(command, argc - 1, argv + 1);
    if (first[0])
        refuse(first, &err);
    else
        error_set(&err, ERROR_USAGE, "no command given; %s --help lists them", program);
    return fail(&err);
}

int main(int argc, char **argv)
{
    return report_flush(program, dispatch(argc, argv));
}
