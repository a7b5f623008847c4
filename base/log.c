/* base/log.c - each line is a single write, so lines of two processes do not
 * interleave. */
#include "config.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

struct log {
    int fd;
    enum log_level level;
    log_listener *hear; /* NULL: no listener */
    enum log_level heard;
    void *context;
};

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

struct log *log_new(int fd, enum log_level level)
{
    struct log *log = memory_alloc(sizeof(*log));

    *log = (struct log) { .fd = fd, .level = level };
    return log;
}

void log_free(struct log *log)
{
    free(log);
}

void log_listen(struct log *log, enum log_level level, log_listener *hear, void *context)
{
    if (!log)
        return;
    log->hear = hear;
    log->heard = level;
    log->context = context;
}

void log_line(struct log *log, enum log_level level, const char *fmt, ...)
{
    va_list args;
    char when[32], *said = NULL;
    struct text line;
    int len;

    if (!log || level > log->level)
        return;
    va_start(args, fmt);
    len = vasprintf(&said, fmt, args);
    va_end(args);
    if (len < 0)
        return;
    clock_iso(when);
    text_init(&line, 0);
    text_addf(&line, "%s %s ", when, level_names[level]);
    text_add_visible(&line, said, (size_t)len);
    text_addc(&line, '\n');
    /* a failure to write the log cannot be reported anywhere */
    file_write_all(log->fd, line.data, line.len, NULL);
    if (log->hear && level <= log->heard)
        log->hear(log->context, level, said);
    text_clear(&line);
    free(said);
}
