/* runner/commands/cmd_unpause.c - unpause: a paused folder starts jobs again. */
#include "config.h"

#include "runner/commands/commands.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "runner/output/report.h"
#include "runner/spool/pause.h"
#include "runner/spool/spool.h"
#include "runner/spool/watch.h"

static int cmd_unpause(const struct options *options);

const struct command command_unpause = {
    .name = "unpause",
    .operands = "DIR",
    .min_operands = 1,
    .max_operands = 1,
    .help = "let a paused folder start jobs again",
    .run = cmd_unpause,
};

static bool unpause(const struct options *options, const char *inner,
                    struct report *report, struct error *err)
{
    const char *dir = options->operands[0];
    struct pause pause;

    if (!file_is_dir(dir))
        return error_set(err, ERROR_USAGE, "%s is not a folder", dir);
    if (!pause_read(AT_FDCWD, inner, &pause, err) || (pause.on && !pause_end(inner, err)))
        return false;
    if (pause.on && spool_is_watched(dir))
        watch_wake(inner);
    if (!options->quiet)
        report_line(report, "%s: %s", dir,
                    pause.on ? "jobs start again" : "is not paused");
    return true;
}

static int cmd_unpause(const struct options *options)
{
    char *inner = path_join(options->operands[0], SPOOL_INNER);
    struct report report;
    struct error err = { 0 };

    report_init(&report, options);
    if (!unpause(options, inner, &report, &err))
        report_error(options->program, &err);
    free(inner);
    return report_exit(err.code);
}
