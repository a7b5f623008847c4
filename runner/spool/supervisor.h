/*
 * runner/spool/supervisor.h - the service manager that started the watch, such as
 * systemd: what it hears of the watch, by the protocol of sd_notify(3), and whether its
 * journal reads what the watch prints.
 *
 * No thread sends anything: a watch whose loop does not come round sends no sign of life,
 * and is restarted.
 */
#ifndef RUNNER_SPOOL_SUPERVISOR_H
#define RUNNER_SPOOL_SUPERVISOR_H

#include <stdbool.h>

/* Functions accept NULL, which is no supervisor. */
struct supervisor;

/* Return the manager that NOTIFY_SOCKET names; NULL: none. Removes the variables, so that
 * no child process answers for the watch. */
struct supervisor *supervisor_open(void);
void supervisor_close(struct supervisor *supervisor);

/* The watch serves its folder, also once it has reloaded. */
void supervisor_ready(struct supervisor *supervisor);
void supervisor_reloading(struct supervisor *supervisor);
void supervisor_stopping(struct supervisor *supervisor);
/* Describe the watch in one line; only a change is sent, at most once a second. */
void supervisor_describe(struct supervisor *supervisor, const char *status);

/* Send what is due. `waits`: the end of the watch waits for a job that saves, so ask for
 * more time, but not for ever. */
void supervisor_poll(struct supervisor *supervisor, bool waits);
/* Return when to call supervisor_poll again, by clock_seconds. */
double supervisor_due(const struct supervisor *supervisor);

/* Return whether the journal reads this descriptor: it then takes the severity of a line
 * from the line (sd-daemon(3)). */
bool supervisor_reads(int fd);

#endif
