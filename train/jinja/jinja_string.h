/* train/jinja/jinja_string.h - string methods and filters, with Python's behavior. */
#ifndef TRAIN_JINJA_JINJA_STRING_H
#define TRAIN_JINJA_JINJA_STRING_H

#include "train/jinja/jinja_value.h"

enum jinja_case {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,      /* str.title: each sequence of letters */
    CASE_CAPITALIZE, /* the first character */
    CASE_SWAP,
    CASE_WORDS /* the filter `title`: after blanks, hyphens and opening brackets */
};
struct jinja_value jinja_case(struct jinja_run *run, const struct jinja_value *string,
                              enum jinja_case how);

enum jinja_side { SIDE_LEFT = 1, SIDE_RIGHT = 2, SIDE_BOTH = 3 };
/* chars NULL: white space. */
struct jinja_value jinja_strip(struct jinja_run *run, const struct jinja_value *string,
                               const struct jinja_value *chars, enum jinja_side side);
/* limit < 0: all. */
struct jinja_value jinja_replace(struct jinja_run *run, const struct jinja_value *string,
                                 const struct jinja_value *old,
                                 const struct jinja_value *new, int64_t limit);
/* separator NULL: at white space, without empty parts. */
struct jinja_value jinja_split(struct jinja_run *run, const struct jinja_value *string,
                               const struct jinja_value *separator, int64_t limit,
                               bool from_right);
struct jinja_value jinja_lines(struct jinja_run *run, const struct jinja_value *string,
                               bool keep_ends);
/* The byte offset, or -1. */
int64_t jinja_find(struct jinja_run *run, const struct jinja_value *string,
                   const struct jinja_value *part, bool last);
/* Concatenate strings; `convert` applies str() to items that are not strings. */
struct jinja_value jinja_join(struct jinja_run *run, const struct jinja_value *separator,
                              const struct jinja_list *items, bool convert);
struct jinja_value jinja_pad(struct jinja_run *run, const struct jinja_value *string,
                             int64_t width, const struct jinja_value *fill,
                             enum jinja_side side); /* BOTH: centered */

enum jinja_class {
    CLASS_ALPHA,
    CLASS_DIGIT,
    CLASS_ALNUM,
    CLASS_SPACE,
    CLASS_UPPER,
    CLASS_LOWER
};
bool jinja_is_class(struct jinja_run *run, const struct jinja_value *string,
                    enum jinja_class class);

#endif
