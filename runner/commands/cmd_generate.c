/*
 * runner/commands/cmd_generate.c - generate: replaces this process with trainspool-train,
 * which can open a backend.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spawn.h"
#include "runner/job/child_environment.h"
#include "runner/output/report.h"

extern char **environ;

static int cmd_generate(const struct options *options);

const struct command command_generate = {
    .name = "generate",
    .operands = "MODEL|JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTIONS_OF_GENERATE, OPTION_END },
    .help = "complete prompts with a model, a checkpoint or a job's result",
    .details =
        "MODEL is a folder: a model, a checkpoint, or an adapter, which is merged "
        "with its base model.  For a JOB, the model is the result of its last run, "
        "with the job's template and settings; without --prompt and --prompts, the "
        "prompts are the questions of its dataset.  The chat template is applied to "
        "prompts unless --raw is given.  A completion depends on its prompt, the "
        "settings, --seed and its number, not on the other prompts.",
    .run = cmd_generate,
};

static int cmd_generate(const struct options *options)
{
    char *program = spawn_sibling("trainspool-train");
    char **words = options_argv(options, options->command, program, "--generate");
    struct error err = { 0 };

    execve(program, words, options->no_sandbox ? environ : child_environment(NULL));
    error_errno(&err, "cannot start %s", program);
    report_error(options->program, &err);
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
    free(program);
    return report_exit(err.code);
}
