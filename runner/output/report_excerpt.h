/*
 * runner/output/report_excerpt.h - the line of a job that a finding is about, with its
 * number, and carets under the finding's span:
 *
 *       7 | model_dtype: float16   # half
 *         |              ^^^^^^^
 *
 * Columns are a terminal's: tabs, wide and combining characters count as displayed.
 * Control characters and those that change the direction of a text are made visible;
 * secret values are hidden; a long line is cut around the span.
 */
#ifndef RUNNER_OUTPUT_REPORT_EXCERPT_H
#define RUNNER_OUTPUT_REPORT_EXCERPT_H

#include "patcher/document/document.h"
#include "patcher/findings/finding.h"

struct excerpt;

/* Create excerpts for one job's findings; `width` columns in total, at least 40. The
 * document is borrowed. */
struct excerpt *excerpt_new(const struct document *document, size_t width, bool color);
void excerpt_free(struct excerpt *excerpt);
/* Append the excerpt of findings[at]. Other edits of its group on the same line are
 * underlined with `-`; for a line to be inserted, the line before it is shown without
 * carets. Return false and add nothing if the finding is about the whole file. */
bool excerpt_add(const struct excerpt *excerpt, const struct findings *findings,
                 size_t at, struct text *out);

#endif
