/* train/model/name_matcher.h - names of modules that a list or an expression matches, as
 * PEFT compares them with target_modules and exclude_modules. */
#ifndef TRAIN_MODEL_NAME_MATCHER_H
#define TRAIN_MODEL_NAME_MATCHER_H

#include <jansson.h>

#include "base/error.h"
#include "train/text/pattern.h"

/* A list of names, or one regular expression. */
struct name_matcher {
    const json_t *names; /* borrowed; NULL: no list */
    struct pattern *pattern;
};

/* Read the value of a key of a file; null or missing matches nothing.  ERROR_DATA unless it
 * is a list of strings, or a string that can be compiled. */
bool name_matcher_open(const json_t *value, const char *file, const char *key,
                       struct name_matcher *out, struct error *err);
void name_matcher_clear(struct name_matcher *matcher);
/* Return whether it has a name: whole, or, in a list, its end after a dot. */
bool name_matcher_has(const struct name_matcher *matcher, const char *name);

#endif
