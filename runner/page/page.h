/*
 * runner/page/page.h - NAME.run/report.html: one self-contained page about a run. It
 * needs no script, and its Content-Security-Policy forbids loading anything.
 */
#ifndef RUNNER_PAGE_PAGE_H
#define RUNNER_PAGE_PAGE_H

#include "runner/page/page_data.h"

/* Append the page for the data. */
bool page_make(const struct page_data *data, struct text *out);
/* Read the run's folder and replace `name` (NULL: its report.html) with its page.
 * ERROR_DATA if the job never ran. */
bool page_write(const struct job *job, const char *name, struct error *err);

#endif
