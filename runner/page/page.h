/*
 * runner/page/page.h - NAME.run/report.html: one page on a run, with everything in it.  It
 * loads nothing, needs no script, and says by its Content-Security-Policy that it may
 * not.
 */
#ifndef RUNNER_PAGE_PAGE_H
#define RUNNER_PAGE_PAGE_H

#include "runner/page/page_data.h"

/* The page of what was read. */
bool page_make(const struct page_data *data, struct text *out);
/* Read the run's folder and replace `name` (NULL: its report.html) by its page.
 * ERROR_DATA where the job was never run. */
bool page_write(const struct job *job, const char *name, struct error *err);

#endif
