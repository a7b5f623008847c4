/* runner/commands/commands.c - the order of the commands in --help and in completions. */
#include "config.h"

#include "runner/commands/commands.h"

#include <string.h>

#include "base/size.h"

/* Each row is at the top of the command's own file, cmd_NAME.c. */
#define COMMANDS(X) \
    X(check)        \
    X(patch)        \
    X(plan)         \
    X(review)       \
    X(backups)      \
    X(undo)         \
    X(run)          \
    X(generate)     \
    X(watch)        \
    X(submit)       \
    X(status)       \
    X(logs)         \
    X(cancel)       \
    X(retry)        \
    X(requeue)      \
    X(hold)         \
    X(release)      \
    X(pause)        \
    X(unpause)      \
    X(clean)        \
    X(report)       \
    X(devices)      \
    X(explain)      \
    X(import)       \
    X(schema)       \
    X(completion)

#define DECLARE(name) extern const struct command command_##name;
#define ADDRESS(name) &command_##name,

COMMANDS(DECLARE)

static const struct command *const commands[] = { COMMANDS(ADDRESS) };

const struct command *commands_at(size_t at)
{
    return at < TS_COUNT(commands) ? commands[at] : NULL;
}

const struct command *commands_find(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}
