/* base/log.c - each line is a single write, so lines of two processes do not
 * interleave. */
#include "config.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/outlet.h"
#include "base/text.h"

enum { BUFFER = 256 << 10 };

/* Seconds that a log waits at its end for a reader that takes nothing. */
static const double last_patience = 1;

struct log {
    int fd;
    struct outlet *outlet; /* NULL: lines are written at once */
    enum log_level level;
    bool journal;       /* it reads what is written */
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

/* Those of syslog(3). */
static const int priorities[] = {
    [LOG_ERROR] = 3,
    [LOG_WARN] = 4,
    [LOG_INFO] = 6,
    [LOG_DEBUG] = 7,
};

struct log *log_new(int fd, enum log_level level)
{
    struct log *log = memory_alloc(sizeof(*log));

    *log = (struct log) { .fd = fd, .level = level };
    return log;
}

void log_for_journal(struct log *log)
{
    log->journal = true;
}

/* Begin a line. */
static void add_prefix(bool journal, enum log_level level, struct text *out)
{
    char when[32];

    clock_iso(when);
    if (journal)
        text_addf(out, "<%d>", priorities[level]);
    else
        text_addf(out, "%s %s ", when, level_names[level]);
}

static void write_dropped(bool journal, size_t lines, char *out, size_t room)
{
    struct text prefix;

    text_init(&prefix, 0);
    add_prefix(journal, LOG_WARN, &prefix);
    snprintf(out, room, "%slog: %zu line%s dropped here: they could not be written\n",
             prefix.data, lines, lines == 1 ? " was" : "s were");
    text_clear(&prefix);
}

static void report_dropped(int fd, size_t lines, char *out, size_t room)
{
    (void)fd;
    write_dropped(false, lines, out, room);
}

static void report_dropped_to_journal(int fd, size_t lines, char *out, size_t room)
{
    (void)fd;
    write_dropped(true, lines, out, room);
}

void log_detach(struct log *log)
{
    log->outlet = outlet_new(log->fd, BUFFER,
                             log->journal ? report_dropped_to_journal : report_dropped);
}

void log_redirect(struct log *log, int fd, bool close_previous)
{
    if (log->outlet)
        outlet_redirect(log->outlet, fd, close_previous);
    else if (close_previous)
        close(log->fd);
    log->fd = fd;
}

void log_free(struct log *log)
{
    if (!log)
        return;
    outlet_free(log->outlet, last_patience);
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
    char *said = NULL;
    struct text line;
    int len;

    if (!log || level > log->level)
        return;
    va_start(args, fmt);
    len = vasprintf(&said, fmt, args);
    va_end(args);
    if (len < 0)
        return;
    text_init(&line, 0);
    add_prefix(log->journal, level, &line);
    text_add_visible(&line, said, (size_t)len);
    text_addc(&line, '\n');
    if (log->outlet)
        outlet_add(log->outlet, line.data, line.len);
    else /* a failure to write the log cannot be reported anywhere */
        file_write_all(log->fd, line.data, line.len, NULL);
    text_clear(&line);
    if (log->hear && level <= log->heard)
        log->hear(log->context, level, said);
    free(said);
}
