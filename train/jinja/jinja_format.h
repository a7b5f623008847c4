/* train/jinja/jinja_format.h - operators on numbers and strings; "%s" and "{}"
 * formatting. */
#ifndef TRAIN_JINJA_JINJA_FORMAT_H
#define TRAIN_JINJA_JINJA_FORMAT_H

#include "train/jinja/jinja_call.h"

/* OP_ADD ... OP_POWER, with Python's types and its rounding of // and %. */
struct jinja_value jinja_arithmetic(struct jinja_run *run, enum jinja_op op,
                                    const struct jinja_value *a,
                                    const struct jinja_value *b);
/* "..." % values: a tuple, or a single value; by name from a dict. */
struct jinja_value jinja_format_percent(struct jinja_run *run,
                                        const struct jinja_value *format,
                                        const struct jinja_value *values);
/* "...".format(...), with names and positions but without attributes. */
struct jinja_value jinja_format_braces(struct jinja_run *run,
                                       const struct jinja_value *format,
                                       const struct jinja_arguments *given);

#endif
