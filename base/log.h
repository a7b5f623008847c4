/* base/log.h - leveled log, one event per line: "2026-11-20T14:08:48Z info job qwen: step
 * 12". */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log; /* a destination for lines; NULL is allowed everywhere and drops them */

/* The caller keeps fd open and closes it.  Control characters in a line are shown as
 * \xNN. */
struct log *log_new(int fd, enum log_level level);
/* From now on, write lines for a journal that keeps time and level itself: "<6>job qwen:
 * step 12", as sd-daemon(3) says. Call it before log_detach. */
void log_for_journal(struct log *log);
/* Wait a moment for lines that are not written yet (log_detach). */
void log_free(struct log *log);
/* From now on, write by a thread, so that no reader of the log ever stops its writer.
 * Lines that the reader does not take are dropped; a later line reports their number. */
void log_detach(struct log *log);
/* Write later lines to another descriptor, and close the previous one if so asked. */
void log_redirect(struct log *log, int fd, bool close_previous);
/* Call `hear` with each later message of `level` or more severe, NULL: with none.  One
 * listener per log. */
typedef void log_listener(void *context, enum log_level level, const char *message);
void log_listen(struct log *log, enum log_level level, log_listener *hear, void *context);
void log_line(struct log *log, enum log_level level, const char *fmt, ...)
    TS_PRINTF(3, 4);

#endif
