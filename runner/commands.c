/* runner/commands.c - the table of commands. */
#include "config.h"

#include "runner/commands.h"

#include <string.h>

#include "base/size.h"

/* In the order in which a person meets them. */
static const struct command commands[] = {
    { .name = "check",
      .operands = "JOB...",
      .least = 1,
      .most = -1,
      .takes = TAKES(OPTION_DEVICE) | TAKES(OPTION_JSON) | TAKES(OPTION_SARIF) |
               TAKES(OPTION_SELECT) | TAKES(OPTION_IGNORE) | TAKES(OPTION_FAIL_ON) |
               TAKES(OPTION_EXIT_ZERO),
      .help = "list all findings of a job, change nothing",
      .more = "The exit status is 1 if an error finding is left or trainspool patch "
              "would make an edit, 2 if the file is no job.",
      .run = cmd_check },
    { .name = "patch",
      .operands = "JOB...",
      .least = 1,
      .most = -1,
      .takes = TAKES(OPTION_DEVICE) | TAKES(OPTION_JSON) | TAKES(OPTION_DIFF) |
               TAKES(OPTION_UNSAFE) | TAKES(OPTION_SELECT) | TAKES(OPTION_IGNORE) |
               TAKES(OPTION_FAIL_ON) | TAKES(OPTION_EXIT_ZERO),
      .help = "make the safe edits in a job file, keeping a backup",
      .more =
          "Nothing but the values named is touched: comments, order and line ends stay. "
          " The file as it was is kept in NAME.run/backups; trainspool undo puts it "
          "back.",
      .run = cmd_patch },
    { .name = "plan",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_DEVICE) | TAKES(OPTION_JSON) | TAKES(OPTION_FAIL_ON) |
               TAKES(OPTION_EXIT_ZERO),
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
      .more = "SIGTERM and Ctrl-C finish the step, save a checkpoint and leave; "
              "--resume goes on from there.",
      .run = cmd_run },
    { .name = "generate",
      .operands = "MODEL|JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES_GENERATE,
      .help = "complete prompts by a model, a checkpoint or a job's result",
      .more =
          "MODEL is a folder: a model, a checkpoint, or an adapter, whose base is "
          "merged with it.  Of a JOB it is what the last run made, with the job's "
          "template and settings, and without --prompt and --prompts the questions of "
          "its dataset.  Prompts go into the chat template unless --raw.  A completion "
          "depends on its prompt, the settings, --seed and its own number, not on what "
          "else is asked.",
      .run = cmd_generate },
    { .name = "watch",
      .operands = "DIR",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_ONCE),
      .help = "patch and train every job dropped into a folder",
      .more =
          "A job is taken when it is complete: at once if it was renamed into the "
          "folder, else when it has stood still.  SIGTERM lets the running job save a "
          "checkpoint and ends the watch; the next watch goes on with it.",
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
          "What was done is done anew; what was not goes on from its last checkpoint, "
          "if its text is the same.",
      .run = cmd_retry },
    { .name = "report",
      .operands = "JOB",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_OUTPUT),
      .help = "write the page of a run: curves, changes, plan, environment",
      .more = "It is NAME.run/report.html, which a run writes at each evaluation and "
              "checkpoint and at its end anyway: one file that loads nothing and needs "
              "no script.  With --output it is written there, over what is there.",
      .run = cmd_report },
    { .name = "devices",
      .operands = "",
      .takes = TAKES(OPTION_JSON) | TAKES(OPTION_KNOWN) | TAKES(OPTION_CALIBRATE),
      .help = "show what is in this machine and what it can do",
      .run = cmd_devices },
    { .name = "explain",
      .operands = "[RULE]",
      .most = 1,
      .takes = TAKES(OPTION_JSON),
      .help = "explain a rule of the findings; without RULE, list them",
      .run = cmd_explain },
    { .name = "import",
      .operands = "FILE",
      .least = 1,
      .most = 1,
      .takes = TAKES(OPTION_JSON) | TAKES(OPTION_OUTPUT),
      .help = "print a file of Axolotl or torchtune as a job",
      .more = "What cannot be carried over is a comment at the end of the job, with its "
              "reason.  Comments behind values go along, others do not.  The file "
              "itself is left alone.  The exit status is 1 if it trains in a way not "
              "done here, 2 if it is no file of these tools.",
      .run = cmd_import },
    { .name = "schema",
      .operands = "",
      .help = "print the JSON Schema of a job, for editors",
      .more = "An editor that knows YAML completes keys, shows their help and marks "
              "mistakes with it.",
      .run = cmd_schema },
    { .name = "completion",
      .operands = "SHELL",
      .least = 1,
      .most = 1,
      .help = "print a completion script for bash or zsh",
      .more =
          "For this shell: source <(trainspool completion bash).  For good: write it to "
          "~/.local/share/bash-completion/completions/trainspool, or for zsh to a file "
          "_trainspool in a folder of fpath.",
      .run = cmd_completion },
};

const struct command *commands_at(size_t at)
{
    return at < TS_COUNT(commands) ? &commands[at] : NULL;
}

const struct command *commands_find(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}
