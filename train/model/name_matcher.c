/* train/model/name_matcher.c - names of modules that a list or an expression matches. */
#include "config.h"

#include "train/model/name_matcher.h"

#include <string.h>

#include "base/text.h"

void name_matcher_clear(struct name_matcher *matcher)
{
    pattern_free(matcher->pattern);
    *matcher = (struct name_matcher) { .names = NULL };
}

bool name_matcher_open(const json_t *value, const char *file, const char *key,
                       struct name_matcher *out, struct error *err)
{
    struct text where;

    *out = (struct name_matcher) { .names = NULL };
    if (!value || json_is_null(value))
        return true;
    if (json_is_string(value)) {
        text_init(&where, 0);
        text_addf(&where, "%s: %s", file, key);
        out->pattern = pattern_compile_whole(json_string_value(value), where.data, err);
        text_clear(&where);
        return out->pattern != NULL;
    }
    out->names = value;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            out->names = NULL;
    return (out->names && json_is_array(value)) ||
           error_set(err, ERROR_DATA,
                     "%s: %s must be a list of names or a regular "
                     "expression",
                     file, key);
}

bool name_matcher_has(const struct name_matcher *matcher, const char *name)
{
    if (matcher->pattern)
        return pattern_matches(matcher->pattern, name, NULL);
    for (size_t i = 0; i < json_array_size(matcher->names); i++) {
        const char *target = json_string_value(json_array_get(matcher->names, i));
        size_t all = strlen(name), len = strlen(target);

        if (len > 0 && len <= all && strcmp(name + all - len, target) == 0 &&
            (len == all || name[all - len - 1] == '.'))
            return true;
    }
    return false;
}
