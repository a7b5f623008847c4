/* patcher/document/lookalike.h - characters that look like YAML's syntax, and templates, which
 * look like YAML. */
#ifndef PATCHER_DOCUMENT_LOOKALIKE_H
#define PATCHER_DOCUMENT_LOOKALIKE_H

#include "patcher/document/document.h"

/* Return a hint about the first such character in a text, "U+2013 is an en dash: write -
 * instead", or NULL. */
const char *lookalike_in_text(const char *text, size_t len, struct arena *arena);
/* The same for a value, which has none if it is a list or a map. */
const char *lookalike_in_node(const struct node *node, struct arena *arena);
/* Return a hint about such a character that replaces YAML syntax in the line of the byte, or
 * NULL.  *at is its position. */
const char *lookalike_in_line(const struct document *document, size_t byte, size_t *at,
                              struct arena *arena);
/* Return whether the bytes contain the marks of a template: {{ }}, {% %}, {# #}. */
bool lookalike_is_template(const char *text, size_t len);

#endif
