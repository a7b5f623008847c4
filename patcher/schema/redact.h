/*
 * patcher/schema/redact.h - hides the values of secret keys in a job's text, including
 * keys that are misspelled or commented out and values that an alias refers to.
 */
#ifndef PATCHER_SCHEMA_REDACT_H
#define PATCHER_SCHEMA_REDACT_H

#include "patcher/document/document.h"

/* Shown instead of a secret. */
#define REDACT_SHOWN "***"

/* Append the text with each secret replaced with REDACT_SHOWN; line numbers stay the
 * same. Return false if *out is full. */
bool redact_text(const char *data, size_t len, struct text *out);
/* For each byte of the document, set hidden[byte] to whether it is part of a secret. */
void redact_mask(const struct document *document, bool *hidden);

#endif
