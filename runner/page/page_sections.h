/*
 * runner/page/page_sections.h - the sections of a run's page, for page*.c only. Each
 * function adds nothing if it has no content.
 */
#ifndef RUNNER_PAGE_PAGE_SECTIONS_H
#define RUNNER_PAGE_PAGE_SECTIONS_H

#include "runner/page/html.h"
#include "runner/page/page_data.h"

typedef void page_part(const struct page_data *data, struct text *out);

page_part page_figures, page_trouble, page_curves, page_samples, page_changes, page_plan,
    page_environment, page_events, page_text;

extern const char page_style[], page_script[];

/* Return "failed" ..., or "crashed" for a run whose state is `running` while no process
 * holds its lock. */
const char *page_state(const struct page_data *data);
/* Add a row to a table of two columns; nothing if the value is empty. */
void page_row(struct text *out, const char *name, const char *value);
/* Return a member of an object as text for page_row; "" if it is missing. */
const char *page_string(const json_t *object, const char *key);
/* Return a member that is a number; NaN for any other. */
double page_number(const json_t *object, const char *key);
/* Add a row for such a member with its unit, "" for none; nothing if it is missing. */
void page_row_number(struct text *out, const char *name, const json_t *object,
                     const char *key, const char *unit);

#endif
