/* train/tokenizer/postprocessor.c - tokens before and after the text; in a sequence, each
 * processor puts its tokens around those of the previous one. */
#include "config.h"

#include "train/tokenizer/postprocessor.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"

/* Around each text; published tokenizers add at most 2 on a side. */
enum { MAX_TOKENS = 64 };

struct postprocessor {
    struct token_list before, after;
    size_t ids;
};

static void add_all(struct token_list *list, const struct token_list *from)
{
    for (size_t i = 0; i < from->count; i++)
        token_list_add(list, from->ids[i]);
}

void postprocessor_begin(const struct postprocessor *postprocessor,
                         struct token_list *out)
{
    add_all(out, &postprocessor->before);
}

void postprocessor_end(const struct postprocessor *postprocessor, struct token_list *out)
{
    add_all(out, &postprocessor->after);
}

void postprocessor_free(struct postprocessor *postprocessor)
{
    if (!postprocessor)
        return;
    token_list_clear(&postprocessor->before);
    token_list_clear(&postprocessor->after);
    free(postprocessor);
}

static bool add_id(const json_t *id, size_t ids, struct token_list *out,
                   const char *where, struct error *err)
{
    json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;

    if (value < 0 || (uint64_t)value >= ids)
        return error_set(err, ERROR_DATA,
                         "%s: post_processor: the id of a special token is out of range",
                         where);
    token_list_add(out, (uint32_t)value);
    return true;
}

/* The ids of a special token, from the processor's own table. */
static bool add_special(const json_t *json, const char *name, size_t ids,
                        struct token_list *out, const char *where, struct error *err)
{
    const json_t *token = json_object_get(json_object_get(json, "special_tokens"), name);
    const json_t *list = json_object_get(token, "ids");

    if (!json_is_array(list))
        return error_set(err, ERROR_DATA,
                         "%s: post_processor: special token \"%s\" has no ids", where,
                         name);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!add_id(json_array_get(list, i), ids, out, where, err))
            return false;
    return true;
}

/* Put tokens around those of the earlier processors of a sequence. */
static void wrap_around(struct postprocessor *postprocessor, struct token_list *before,
                        const struct token_list *after)
{
    add_all(before, &postprocessor->before);
    token_list_clear(&postprocessor->before);
    postprocessor->before = *before;
    add_all(&postprocessor->after, after);
}

static bool check_count(const struct postprocessor *postprocessor, const char *where,
                        struct error *err)
{
    return postprocessor->before.count + postprocessor->after.count <= MAX_TOKENS ||
           error_set(err, ERROR_DATA,
                     "%s: post_processor: more than %d special tokens around a text",
                     where, MAX_TOKENS);
}

/* TemplateProcessing: the tokens before and after the text in its `single`. */
static bool read_template(struct postprocessor *postprocessor, const json_t *json,
                          const char *where, struct error *err)
{
    const json_t *single = json_object_get(json, "single");
    struct token_list before = { 0 }, after = { 0 };
    size_t texts = 0;
    bool ok = true;

    for (size_t i = 0; i < json_array_size(single) && ok; i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        const char *name = json_get_string(special, "id", "", where, err);

        if (json_object_get(item, "Sequence"))
            texts++;
        else
            ok = add_special(json, name, postprocessor->ids, texts ? &after : &before,
                             where, err);
    }
    if (ok && texts != 1)
        ok = error_set(err, ERROR_DATA,
                       "%s: post_processor: the template must contain the text once",
                       where);
    if (ok)
        wrap_around(postprocessor, &before, &after);
    else
        token_list_clear(&before);
    token_list_clear(&after);
    return ok;
}

/* BertProcessing and RobertaProcessing: ["<s>", 0] before, ["</s>", 2] after. */
static bool read_pair(struct postprocessor *postprocessor, const json_t *json,
                      const char *where, struct error *err)
{
    const json_t *first = json_array_get(json_object_get(json, "cls"), 1);
    const json_t *last = json_array_get(json_object_get(json, "sep"), 1);
    struct token_list before = { 0 }, after = { 0 };
    bool ok = add_id(first, postprocessor->ids, &before, where, err) &&
              add_id(last, postprocessor->ids, &after, where, err);

    if (ok)
        wrap_around(postprocessor, &before, &after);
    else
        token_list_clear(&before);
    token_list_clear(&after);
    return ok;
}

/* ByteLevel only changes offsets. */
static bool read_ignored(struct postprocessor *postprocessor, const json_t *json,
                         const char *where, struct error *err)
{
    (void)postprocessor;
    (void)json;
    (void)where;
    (void)err;
    return true;
}

static const struct {
    const char *name;
    bool (*read)(struct postprocessor *postprocessor, const json_t *json,
                 const char *where, struct error *err);
} kinds[] = {
    { "BertProcessing", read_pair },
    { "ByteLevel", read_ignored },
    { "RobertaProcessing", read_pair },
    { "TemplateProcessing", read_template },
};

static bool read_processor(struct postprocessor *postprocessor, const json_t *json,
                           const char *where, int depth, struct error *err)
{
    const char *type = json_get_string(json, "type", "", where, err);
    const json_t *list = json_object_get(json, "processors");

    if (strcmp(type, "Sequence") == 0 && depth < 8 && json_is_array(list)) {
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_processor(postprocessor, json_array_get(list, i), where, depth + 1,
                                err))
                return false;
        return true;
    }
    for (size_t i = 0; i < TS_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, type) == 0)
            return kinds[i].read(postprocessor, json, where, err) &&
                   check_count(postprocessor, where, err);
    return error_set(err, ERROR_DATA,
                     "%s: a post_processor of type \"%s\" is not supported", where, type);
}

struct postprocessor *postprocessor_new(const json_t *json, size_t ids, const char *where,
                                        struct error *err)
{
    struct postprocessor *postprocessor = memory_alloc(sizeof(*postprocessor));

    postprocessor->ids = ids;
    if (!json || json_is_null(json) || read_processor(postprocessor, json, where, 0, err))
        return postprocessor;
    postprocessor_free(postprocessor);
    return NULL;
}
