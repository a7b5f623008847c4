/* train/tokenizer/new_tokens.c - tokens that a job, or an adapter's tokenizer, adds to a
 * model's tokenizer. */
#include "config.h"

#include "train/tokenizer/new_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "train/tokenizer/tokenizer.h"

#define FILE_BYTES_MAX ((size_t)256 << 20)

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

/* Read the added tokens of the tokenizer.json in a folder; *out is NULL if there is none. */
static bool read_added(const char *dir, json_t **out, struct error *err)
{
    char *path = path_join(dir, "tokenizer.json");
    bool ok = true;

    *out = NULL;
    if (file_exists(path)) {
        json_t *root = json_read_file(path, FILE_BYTES_MAX, err);

        ok = root != NULL;
        *out = json_incref(json_object_get(root, "added_tokens"));
        json_decref(root);
    }
    free(path);
    return ok;
}

/* Append the tokens of an adapter's tokenizer. */
static bool append_adapter(json_t *list, const char *dir, size_t *count,
                           struct error *err)
{
    json_t *theirs, *token;
    size_t i;

    if (!read_added(dir, &theirs, err))
        return false;
    json_array_foreach(theirs, i, token)
    {
        const json_t *content = json_object_get(token, "content");

        if (!json_is_string(content) ||
            has_token(list, json_string_value(content), json_string_length(content)))
            continue;
        json_array_append_new(list, json_deep_copy(token));
        ++*count;
    }
    json_decref(theirs);
    return true;
}

bool new_tokens_append(const struct new_tokens *tokens, json_t *json, size_t *count,
                       struct error *err)
{
    json_t *list = json_object_get(json, "added_tokens");

    *count = 0;
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(json, "added_tokens", list);
    }
    if (tokens->adapter && !append_adapter(list, tokens->adapter, count, err))
        return false;
    *count += append(list, tokens->normal, false);
    *count += append(list, tokens->special, true);
    return true;
}

bool new_tokens_agree(const struct tokenizer *tokenizer, const char *dir,
                      struct error *err)
{
    json_t *theirs, *token;
    bool ok = read_added(dir, &theirs, err);
    size_t i;

    json_array_foreach(theirs, i, token)
    {
        const char *name = json_string_value(json_object_get(token, "content"));
        int64_t ours = name && *name ? tokenizer_find(tokenizer, name) : -1;
        json_int_t id = json_integer_value(json_object_get(token, "id"));

        if (!ok || !name || !*name || ours == id)
            continue;
        if (ours < 0)
            ok =
                error_set(err, ERROR_DATA,
                          "%s: its tokenizer has the token %s, which neither the model's "
                          "tokenizer nor add_tokens has",
                          dir, name);
        else
            ok =
                error_set(err, ERROR_DATA,
                          "%s: its tokenizer gives the token %s the id %lld, but here it "
                          "has the id %lld; the order of add_tokens and "
                          "add_special_tokens, or the model, is another one",
                          dir, name, (long long)id, (long long)ours);
    }
    json_decref(theirs);
    return ok;
}
