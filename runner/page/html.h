/*
 * runner/page/html.h - text into HTML.  Whatever comes from a job, a log or a model goes
 * through html_text or html_attribute; what is added otherwise is our own.
 */
#ifndef RUNNER_PAGE_HTML_H
#define RUNNER_PAGE_HTML_H

#include "base/text.h"

/* Append `len` bytes as character data, good inside an attribute's double quotes too: & <
 * > and quotes as references, newline and tab as they are.  What is no UTF-8, other
 * control characters, and those that turn the direction of a line (U+202A and its like)
 * are shown by number. */
bool html_text_len(struct text *out, const char *data, size_t len);
bool html_text(struct text *out, const char *string);
/* The same of a formatted text. */
bool html_textf(struct text *out, const char *fmt, ...) TS_PRINTF(2, 3);

/* The fewest digits that a person wants: "3.142", "65,536", "2.0e-05", "12.3 M",
 * "NaN". */
enum html_number { HTML_PLAIN, HTML_WHOLE, HTML_SHORT };
void html_number(double value, enum html_number how, char out[32]);

/* The SHA-256 of a text as Content-Security-Policy has it: 'sha256-...' in base64. */
void html_hash(const char *string, char out[64]);

#endif
