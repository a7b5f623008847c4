/* patcher/document/document_parts.h - what the files of document.h share. */
#ifndef PATCHER_DOCUMENT_DOCUMENT_PARTS_H
#define PATCHER_DOCUMENT_DOCUMENT_PARTS_H

#include "patcher/document/document.h"

/* Add a remark; those past the room for them are dropped. */
void document_tell(struct document *document, enum document_fault fault, size_t byte,
                   size_t bytes, const char *fmt, ...) TS_PRINTF(5, 6);
/* A remark for each key given twice, in any map. */
void document_check_duplicates(struct document *document, struct arena *arena,
                               const struct node *node);
/* Put the entries that come by `<<` behind those written. */
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
