/* train/tokenizer/new_tokens.c - tokens that a job adds to a tokenizer. */
#include "config.h"

#include "train/tokenizer/new_tokens.h"

#include <string.h>

static bool has_token(const json_t *list, const char *name, size_t len)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *content = json_object_get(json_array_get(list, i), "content");

        if (json_is_string(content) && json_string_length(content) == len &&
            memcmp(json_string_value(content), name, len) == 0)
            return true;
    }
    return false;
}

static size_t append(json_t *list, const char *names, bool special)
{
    size_t added = 0;

    while (names && *names) {
        size_t whole = strcspn(names, ","), skip = strspn(names, " \t\n");
        size_t len = whole;

        while (len > skip && strchr(" \t\n", names[len - 1]))
            len--;
        if (skip < len && !has_token(list, names + skip, len - skip)) {
            json_array_append_new(list,
                                  json_pack("{s:i, s:s%, s:b, s:b, s:b, s:b, s:b}", "id",
                                            0, "content", names + skip, len - skip,
                                            "single_word", 0, "lstrip", 0, "rstrip", 0,
                                            "normalized", !special, "special", special));
            added++;
        }
        names += whole + (names[whole] == ',');
    }
    return added;
}

size_t new_tokens_append(const struct new_tokens *tokens, json_t *json)
{
    json_t *list = json_object_get(json, "added_tokens");

    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(json, "added_tokens", list);
    }
    return append(list, tokens->normal, false) + append(list, tokens->special, true);
}
