/* runner/page/spool_page.h - one page of a spool: what runs, what waits, what ended. */
#ifndef RUNNER_PAGE_SPOOL_PAGE_H
#define RUNNER_PAGE_SPOOL_PAGE_H

#include "runner/spool/overview.h"

/* Append the page. `title` names the spool; `base` is the URL of the spool relative to the
 * page, with a final slash, or "".  The working directory is the spool. */
bool spool_page_make(const struct overview *overview, const char *title, const char *base,
                     struct text *out);

/* Replace the file with the page of this spool unless only the time would change. */
bool spool_page_write(const struct overview *overview, const char *spool,
                      const char *file, struct error *err);

/* Return the URL of the folder `to` relative to the folder of the file `from`, both
 * absolute; malloc'ed, with a final slash. */
char *spool_page_base(const char *from, const char *to);

#endif
