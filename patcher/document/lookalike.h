/* patcher/document/lookalike.h - characters that look like YAML's own marks, and templates,
 * which look like YAML. */
#ifndef PATCHER_DOCUMENT_LOOKALIKE_H
#define PATCHER_DOCUMENT_LOOKALIKE_H

#include "patcher/document/document.h"

/* Return a hint about the first such character in a value: "U+2013 is an en dash: write - instead";
 * or NULL. */
const char *lookalike_in_value(const char *text, size_t len, struct arena *arena);
/* Return a hint about such a character where it takes the part of a mark in the line of the
 * byte, with its position in *at; or NULL. */
const char *lookalike_in_line(const struct document *document, size_t byte, size_t *at,
                              struct arena *arena);
/* Return whether the bytes contain the marks of a template: {{ }}, {% %}, {# #}. */
bool lookalike_is_template(const char *text, size_t len);

#endif
