/* train/jinja/jinja_format.h - what operators do with numbers and strings; "%s" and "{}". */
#ifndef TRAIN_JINJA_JINJA_FORMAT_H
#define TRAIN_JINJA_JINJA_FORMAT_H

#include "train/jinja/jinja_call.h"

/* OP_ADD ... OP_POWER, with Python's types and its rounding of // and %. */
struct jinja_value jinja_arithmetic(struct jinja_run *run, enum jinja_op op,
                                    const struct jinja_value *a,
                                    const struct jinja_value *b);
/* "..." % values: a tuple of them, or one; by name out of a dict. */
struct jinja_value jinja_format_percent(struct jinja_run *run,
                                        const struct jinja_value *format,
                                        const struct jinja_value *values);
/* "...".format(...), with names and places but without attributes. */
struct jinja_value jinja_format_braces(struct jinja_run *run,
                                       const struct jinja_value *format,
                                       const struct jinja_given *given);

#endif
