/*
 * patcher/schema/redact.h - a job's text as it may be shown: without the values of secret keys,
 * however they are misspelled, commented out or named by an alias.
 */
#ifndef PATCHER_SCHEMA_REDACT_H
#define PATCHER_SCHEMA_REDACT_H

#include "patcher/document/document.h"

/* What stands for a secret. */
#define REDACT_SHOWN "***"

/* Append the text with REDACT_SHOWN for each secret; line by line the same but for them.
 * False if *out is full. */
bool redact_text(const char *data, size_t len, struct text *out);
/* Say of each byte of a document whether it is part of a secret; `hidden` has room for
 * all. */
void redact_mask(const struct document *document, bool *hidden);

#endif
