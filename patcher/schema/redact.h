/*
 * patcher/schema/redact.h - replace the values of secret keys in a job's text, even if a
 * key is misspelled, commented out or referenced by an alias.
 */
#ifndef PATCHER_SCHEMA_REDACT_H
#define PATCHER_SCHEMA_REDACT_H

#include "patcher/document/document.h"

/* The replacement of a secret. */
#define REDACT_SHOWN "***"

/* Append the text with REDACT_SHOWN in place of each secret; line numbers do not change.
 * False if *out is full. */
bool redact_text(const char *data, size_t len, struct text *out);
/* Set hidden[i] if byte i of the document is part of a secret; `hidden` has room for
 * every byte. */
void redact_mask(const struct document *document, bool *hidden);

#endif
