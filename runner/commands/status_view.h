/* runner/commands/status_view.h - status --follow on a terminal: the whole screen, with
 * keys to sort, to filter and to scroll. */
#ifndef RUNNER_COMMANDS_STATUS_VIEW_H
#define RUNNER_COMMANDS_STATUS_VIEW_H

#include "runner/output/report.h"
#include "runner/spool/listing.h"

/* Reads the jobs. *err: what could not be read; the rest is in the listing. */
typedef void status_view_read(const struct options *options, struct listing *listing,
                              struct error *err);

/* Show the jobs until the user quits.  Return the exit status. */
int status_view_run(const struct options *options, const struct report *report,
                    status_view_read *read);

#endif
