/* runner/cmd_generate.c - generate: trainspool-train in this process's place, as a model
 * wants a backend. */
#include "config.h"

#include "runner/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spawn.h"
#include "runner/output/report.h"

int cmd_generate(const struct options *options)
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
