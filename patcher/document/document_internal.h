/* patcher/document/document_internal.h - shared by the files of document.h. */
#ifndef PATCHER_DOCUMENT_DOCUMENT_INTERNAL_H
#define PATCHER_DOCUMENT_DOCUMENT_INTERNAL_H

#include "patcher/document/document.h"

/* Add a remark.  Remarks beyond the limit are dropped. */
void document_report(struct document *document, enum document_fault fault, size_t byte,
                     size_t bytes, const char *fmt, ...) TS_PRINTF(5, 6);
/* Add a remark for each duplicate key, in any map. */
void document_check_duplicates(struct document *document, struct arena *arena,
                               const struct node *node);
/* Copy the text and check its size and encoding, without reading what it says.  Return
 * whether it can be read; otherwise a remark says why. */
bool document_open(const char *data, size_t len, struct arena *arena,
                   struct document *out);
/* Append the entries that `<<` adds to the written ones. */
void document_expand_merges(struct arena *arena, struct node *root);

static inline size_t document_node_end(const struct node *node)
{
    return node->at.byte + node->bytes;
}

static inline bool document_is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

#endif
