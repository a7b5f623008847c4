/* runner/commands/cmd_generate.c - generate: trainspool-train in this process's place, as a model
 * wants a backend. */
#include "config.h"

#include "runner/commands/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spawn.h"
#include "runner/output/report.h"

static int cmd_generate(const struct options *options);

const struct command command_generate = {
    .name = "generate",
    .operands = "MODEL|JOB",
    .least = 1,
    .most = 1,
    .options = (const enum option_id[]) { OPTIONS_OF_GENERATE, OPTION_END },
    .help = "complete prompts by a model, a checkpoint or a job's result",
    .more = "MODEL is a folder: a model, a checkpoint, or an adapter, whose base is "
            "merged with it.  Of a JOB it is what the last run made, with the job's "
            "template and settings, and without --prompt and --prompts the questions of "
            "its dataset.  Prompts go into the chat template unless --raw.  A completion "
            "depends on its prompt, the settings, --seed and its own number, not on what "
            "else is asked.",
    .run = cmd_generate,
};

static int cmd_generate(const struct options *options)
{
    char *program = spawn_sibling("trainspool-train");
    char **words = options_words(options, options->command, program, "--generate");
    struct error err = { 0 };

    execv(program, words);
    error_errno(&err, "cannot start %s", program);
    report_error(options->program, &err);
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
    free(program);
    return report_exit(err.code);
}
