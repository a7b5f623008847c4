/* runner/commands/watch_log.c - opens the file of --log without following links. */
#include "config.h"

#include "runner/commands/watch_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "base/walk.h"
#include "runner/spool/supervisor.h"

/* Return a descriptor, or -1. */
static int open_file(const char *path, struct error *err)
{
    int fd = walk_open(path, O_WRONLY | O_APPEND | O_CREAT, 0640);

    if (fd < 0 && (errno == ENXIO || errno == ELOOP))
        error_set(err, ERROR_USAGE, "cannot log to %s: it is not a regular file", path);
    else if (fd < 0)
        error_errno(err, "cannot log to %s", path);
    return fd;
}

bool watch_log_open(const struct options *options, struct watch_log *out,
                    struct error *err)
{
    enum log_level level = options->quiet     ? LOG_WARN
                           : options->verbose ? LOG_DEBUG
                                              : LOG_INFO;
    int fd = STDOUT_FILENO;

    if (options->log) {
        out->path = path_absolute(options->log);
        fd = open_file(out->path, err);
        if (fd < 0)
            return false;
    }
    out->log = log_new(fd, level);
    if (!out->path && supervisor_reads(fd))
        log_for_journal(out->log);
    log_detach(out->log);
    return true;
}

void watch_log_reopen(struct watch_log *out)
{
    struct error err = { 0 };
    int fd;

    if (!out->path)
        return;
    fd = open_file(out->path, &err);
    if (fd >= 0)
        log_redirect(out->log, fd, true);
    else
        log_line(out->log, LOG_ERROR, "watch: %s", err.text);
}

void watch_log_close(struct watch_log *out)
{
    log_free(out->log);
    free(out->path);
}
