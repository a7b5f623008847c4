/* train/jinja/jinja_print.h - values as text: str, repr, JSON. */
#ifndef TRAIN_JINJA_JINJA_PRINT_H
#define TRAIN_JINJA_JINJA_PRINT_H

#include "train/jinja/jinja_value.h"

/* Append str(value); "" for an undefined value. */
void jinja_add(struct jinja_run *run, struct text *out, const struct jinja_value *value);
void jinja_add_repr(struct jinja_run *run, struct text *out,
                    const struct jinja_value *value);
/* str(value); a string is returned unchanged. */
struct jinja_value jinja_str(struct jinja_run *run, const struct jinja_value *value);

/* json.dumps; indent NULL: on one line. */
struct jinja_json_style {
    bool ascii, sorted;
    const struct jinja_value *indent;     /* spaces per level, or a string */
    const struct jinja_value *separators; /* a pair, or NULL */
};
struct jinja_value jinja_to_json(struct jinja_run *run, const struct jinja_value *value,
                                 const struct jinja_json_style *style);

#endif
