/* runner/commands/commands.h - the table of trainspool's commands. */
#ifndef RUNNER_COMMANDS_COMMANDS_H
#define RUNNER_COMMANDS_COMMANDS_H

#include "runner/options/options.h"

/* Return the command at this position, in the order of --help; NULL past the end. */
const struct command *commands_at(size_t at);
/* Return the command with this name; NULL if there is none. */
const struct command *commands_find(const char *name);

#endif
