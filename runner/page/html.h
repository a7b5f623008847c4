/*
 * runner/page/html.h - converts text to HTML. Text from a job, a log or a model always
 * goes through html_text or html_attribute; all other text is ours.
 */
#ifndef RUNNER_PAGE_HTML_H
#define RUNNER_PAGE_HTML_H

#include "base/text.h"

/* Append `len` bytes as character data, also safe inside an attribute's double quotes: &
 * < > and quotes become references, newline and tab stay. Bytes that are not UTF-8, other
 * control characters, and characters that change the direction of a line (U+202A etc.)
 * are shown by number. */
bool html_text_len(struct text *out, const char *data, size_t len);
bool html_text(struct text *out, const char *string);
/* Append a formatted text the same way. */
bool html_textf(struct text *out, const char *fmt, ...) TS_PRINTF(2, 3);

/* Format with the fewest digits a reader needs: "3.142", "65,536", "2.0e-05", "12.3 M",
 * "NaN". */
enum html_number { HTML_PLAIN, HTML_WHOLE, HTML_SHORT };
void html_number(double value, enum html_number how, char out[32]);

/* Compute the SHA-256 of a text in the form of Content-Security-Policy: 'sha256-...' in
 * base64. */
void html_hash(const char *string, char out[64]);

#endif
