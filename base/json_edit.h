/* base/json_edit.h - one member of a JSON object, replaced in its text: every other byte
 * stays, so the numbers, order and layout of files of other programs survive. */
#ifndef BASE_JSON_EDIT_H
#define BASE_JSON_EDIT_H

#include "base/json.h"

/* Set the top-level member `key` of the object in *text to `value`; a new member goes
 * last, indented like the one before it.  `key` must need no escapes.  ERROR_DATA, naming
 * `where`, if the text is not an object. */
bool json_edit_set(struct text *text, const char *key, const json_t *value,
                   const char *where, struct error *err);

#endif
