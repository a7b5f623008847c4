/* runner/main.c - trainspool: the table of commands. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "runner/commands.h"
#include "runner/report.h"

static const char program[] = "trainspool";

/* In the order in which a person meets them. */
static const struct command commands[] = {
    { .name = "check",
      .operands = "JOB...",
      .least = 1,
      .most = -1,
      .takes = TAKES(OPTION_DEVICE) | TAKES(OPTION_JSON) | TAKES(OPTION_SARIF) |
               TAKES(OPTION_FAIL_ON),
      .help = "list all findings of a job, change nothing",
      .more = "The exit status is 1 if an error finding is left or trainspool patch "
              "would make "
              "an edit, 2 if the file is no job.",
      .run = cmd_check },
    { .name = "patch",
      .operands = "JOB...",
      .least = 1,
      .most = -1,
      .takes = TAKES(OPTION_DEVICE) | TAKES(OPTION_JSON) | TAKES(OPTION_DIFF) |
               TAKES(OPTION_UNSAFE) | TAKES(OPTION_FAIL_ON),
      .help = "make the safe edits in a job file, keeping a backup",
      .more =
          "Nothing but the values named is touched: comments, order and line ends stay.  "
          "The file as it was is kept in NAME.run/backups; trainspool undo puts it back.",
      .run = cmd_patch },
    { .name = "plan",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_DEVICE) | TAKES(OPTION_JSON) | TAKES(OPTION_FAIL_ON),
      .help = "show what would run: formats, scaling, clipping, steps, memory",
      .run = cmd_plan },
    { .name = "review",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_JSON),
      .help = "show what was changed in a job since it was dropped, and why",
      .run = cmd_review },
    { .name = "backups",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_JSON),
      .help = "list the backups of a job, newest first",
      .run = cmd_backups },
    { .name = "undo",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_TO) | TAKES(OPTION_FORCE),
      .help = "put back what the last patch replaced; a second undo redoes",
      .run = cmd_undo },
    { .name = "run",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_NO_PATCH) | TAKES(OPTION_RESUME) | TAKES(OPTION_SET) |
               TAKES(OPTION_NO_ONEDNN),
      .help = "patch a job, then train it here and now",
      .more = "SIGTERM and Ctrl-C finish the step, save a checkpoint and leave; --resume "
              "goes "
              "on from there.",
      .run = cmd_run },
    { .name = "watch",
      .operands = "DIR",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_ONCE),
      .help = "patch and train every job dropped into a folder",
      .more =
          "A job is taken when it is complete: at once if it was renamed into the "
          "folder, "
          "else when it has stood still.  SIGTERM lets the running job save a checkpoint "
          "and ends the watch; the next watch goes on with it.",
      .run = cmd_watch },
    { .name = "submit",
      .operands = "DIR JOB...",
      .least = 2,
      .most = -1,
      .takes = TAKES(OPTION_FORCE),
      .help = "copy jobs into a watched folder, each complete at once",
      .more = "A relative path in a job is relative to where the copy lies.",
      .run = cmd_submit },
    { .name = "status",
      .operands = "DIR|JOB...",
      .least = 1,
      .most = -1,
      .takes = TAKES(OPTION_JSON) | TAKES(OPTION_FOLLOW),
      .help = "show one line a job: state, step, loss, time left, reason",
      .run = cmd_status },
    { .name = "logs",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_FOLLOW) | TAKES(OPTION_LINES) | TAKES(OPTION_RAW),
      .help = "show the log of a job",
      .run = cmd_logs },
    { .name = "cancel",
      .operands = "JOB...",
      .least = 1,
      .most = -1,
      .help = "end a waiting job now, a running one after a checkpoint",
      .run = cmd_cancel },
    { .name = "retry",
      .operands = "JOB...",
      .least = 1,
      .most = -1,
      .help = "queue an ended job again",
      .more =
          "What was done is done anew; what was not goes on from its last checkpoint, if "
          "its text is the same.",
      .run = cmd_retry },
    { .name = "devices",
      .operands = "",
      .takes = TAKES(OPTION_JSON) | TAKES(OPTION_KNOWN),
      .help = "show what is in this machine and what it can do",
      .run = cmd_devices },
    { .name = "explain",
      .operands = "[RULE]",
      .most = 1,
      .takes = TAKES(OPTION_JSON),
      .help = "explain a rule of the findings; without RULE, list them",
      .run = cmd_explain },
    { .name = "schema",
      .operands = "",
      .help = "print the JSON Schema of a job, for editors",
      .more = "An editor that knows YAML completes keys, shows their help and marks "
              "mistakes with it.",
      .run = cmd_schema },
};

static void print(const struct text *text)
{
    fwrite(text->data, 1, text->len, stdout);
}

static int print_overview(void)
{
    const struct exit_row *exits;
    struct text out;
    size_t count;

    text_init(&out, 0);
    text_addf(&out, "usage: %s COMMAND [options] ...\n\ncommands:\n", program);
    for (size_t i = 0; i < TS_COUNT(commands); i++)
        text_addf(&out, "  %-9s %s\n", commands[i].name, commands[i].help);
    text_addf(&out, "\n%s COMMAND --help tells the options of a command.\n", program);
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

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
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
    if (fflush(stdout) != 0 && status == EXIT_FINE) {
        error_errno(&err, "cannot write to standard output");
        status = fail(&err);
    }
    return status;
}

/* `trainspool help check` is `trainspool check --help`. */
static int help(int argc, char **argv)
{
    const struct command *command = argc > 2 ? find(argv[2]) : NULL;

    return command ? print_help(command) : print_overview();
}

int main(int argc, char **argv)
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
    command = find(first);
    if (command)
        return run(command, argc - 1, argv + 1);
    if (first[0])
        error_set(&err, ERROR_USAGE, "there is no command %s; %s --help lists them",
                  first, program);
    else
        error_set(&err, ERROR_USAGE, "which command?  %s --help lists them", program);
    return fail(&err);
}
