/* runner/commands/watch_log.h - where the watch logs: to standard output, which may be
 * the journal, or to a file, which can be opened again after it was rotated. */
#ifndef RUNNER_COMMANDS_WATCH_LOG_H
#define RUNNER_COMMANDS_WATCH_LOG_H

#include "base/log.h"
#include "runner/options/options.h"

struct watch_log {
    struct log *log; /* NULL before watch_log_open */
    char *path;      /* of --log, absolute, malloc'ed; NULL: standard output */
};

/* Call it while the working directory is still that of the user. Call watch_log_close in
 * any case. */
bool watch_log_open(const struct options *options, struct watch_log *out,
                    struct error *err);
/* Write later lines to what the path means now; if that fails, to the same file as
 * before. */
void watch_log_reopen(struct watch_log *out);
void watch_log_close(struct watch_log *out);

#endif
