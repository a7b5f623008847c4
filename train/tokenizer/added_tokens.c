/* train/tokenizer/added_tokens.c - two tries over the tokens' bytes, walked from each
 * position of a text. */
#include "config.h"

#include "train/tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/text/unicode.h"

#define NO_TOKEN UINT32_MAX

/* A node of a trie; children are a list. Node 0 means "none". */
struct node {
    uint32_t child, sibling, token;
    unsigned char byte;
};

struct trie {
    uint32_t roots[256];
    struct node *nodes;
    size_t count, room;
};

struct added_tokens {
    struct added_token *tokens;
    size_t count, size;
    struct vocabulary *contents; /* content -> index of the token */
    struct vocabulary *by_id;    /* the id, as 4 bytes -> index of the token */
    struct trie tries[2];        /* [normalized] */
};

static uint32_t trie_node(struct trie *trie, unsigned char byte, uint32_t sibling)
{
    if (trie->count == trie->room) {
        trie->room = trie->room ? 2 * trie->room : 64;
        trie->nodes = memory_resize(trie->nodes, trie->room, sizeof(struct node));
    }
    if (trie->count == 0)
        trie->nodes[trie->count++] = (struct node) { .token = NO_TOKEN };
    trie->nodes[trie->count] =
        (struct node) { .sibling = sibling, .token = NO_TOKEN, .byte = byte };
    return (uint32_t)trie->count++;
}

/* *visited counts the nodes. */
static uint32_t find_child(const struct trie *trie, uint32_t node, unsigned char byte,
                           size_t *visited)
{
    uint32_t child = trie->nodes[node].child;

    for (; child && trie->nodes[child].byte != byte; child = trie->nodes[child].sibling)
        ++*visited;
    ++*visited;
    return child;
}

/* False: another token has the same spelling. */
static bool trie_add(struct trie *trie, const char *data, size_t len, uint32_t token)
{
    uint32_t *root = &trie->roots[(unsigned char)data[0]];
    uint32_t node;
    size_t visited = 0;

    if (!*root)
        *root = trie_node(trie, (unsigned char)data[0], 0);
    node = *root;
    for (size_t i = 1; i < len; i++) {
        unsigned char byte = (unsigned char)data[i];
        uint32_t child = find_child(trie, node, byte, &visited);

        if (!child) {
            child = trie_node(trie, byte, trie->nodes[node].child);
            trie->nodes[node].child = child;
        }
        node = child;
    }
    if (trie->nodes[node].token != NO_TOKEN)
        return false;
    trie->nodes[node].token = token;
    return true;
}

/* The longest token at the start of data. */
static uint32_t trie_match(const struct trie *trie, const char *data, size_t len,
                           size_t *visited)
{
    uint32_t found = NO_TOKEN, node = trie->roots[(unsigned char)data[0]];

    for (size_t i = 1; node; i++) {
        if (trie->nodes[node].token != NO_TOKEN)
            found = trie->nodes[node].token;
        node = i < len ? find_child(trie, node, (unsigned char)data[i], visited) : 0;
    }
    return found;
}

static bool word_at_end(const char *data, size_t len)
{
    int32_t point;

    if (len == 0)
        return false;
    unicode_last(data, len, &point);
    return unicode_is_word(point);
}

static bool word_at_start(const char *data, size_t len)
{
    int32_t point;

    if (len == 0)
        return false;
    unicode_first(data, len, &point);
    return unicode_is_word(point);
}

/* Extend a match by the blanks around it that the token takes. */
static void strip_around(struct added_search *search, const struct added_token *token,
                         size_t start, size_t *end)
{
    int32_t point;

    while (token->lstrip && start > search->done) {
        size_t bytes = unicode_last(search->text, start, &point);

        if (!unicode_is_space(point))
            break;
        start -= bytes;
    }
    while (token->rstrip && *end < search->len) {
        size_t bytes = unicode_first(search->text + *end, search->len - *end, &point);

        if (!unicode_is_space(point))
            break;
        *end += bytes;
    }
    search->start = start > search->done ? start : search->done;
}

bool added_tokens_next(struct added_search *search, size_t *end)
{
    const struct trie *trie = &search->added->tries[search->normalized];

    while (trie->count > 0 && search->from < search->len) {
        const struct added_token *token;
        size_t start = search->from, visited = 1;
        uint32_t found =
            trie_match(trie, search->text + start, search->len - start, &visited);

        if (!pattern_spend(search->scratch, visited))
            return false;
        if (found == NO_TOKEN) {
            search->from++;
            continue;
        }
        token = &search->added->tokens[found];
        *end = start + token->normal_len;
        search->from = *end;
        if (token->single_word &&
            (word_at_end(search->text, start) ||
             word_at_start(search->text + *end, search->len - *end)))
            continue;
        strip_around(search, token, start, end);
        /* The previous token has stripped the blanks that this token consists of. The
         * token counts nevertheless, unless it strips blanks itself. */
        if (token->lstrip && search->start >= *end)
            continue;
        search->token = token;
        return true;
    }
    return false;
}

const struct added_token *added_tokens_by_id(const struct added_tokens *added,
                                             uint32_t id)
{
    int64_t index = vocabulary_find(added->by_id, (const char *)&id, sizeof(id));

    return index < 0 ? NULL : &added->tokens[index];
}

const struct added_token *added_tokens_by_content(const struct added_tokens *added,
                                                  const char *content, size_t len)
{
    int64_t index = vocabulary_find(added->contents, content, len);

    return index < 0 ? NULL : &added->tokens[index];
}

size_t added_tokens_size(const struct added_tokens *added)
{
    return added->size;
}

void added_tokens_free(struct added_tokens *added)
{
    if (!added)
        return;
    for (size_t i = 0; i < added->count; i++) {
        if (added->tokens[i].normal != added->tokens[i].content)
            free(added->tokens[i].normal);
        free(added->tokens[i].content);
    }
    free(added->tokens);
    vocabulary_free(added->contents);
    vocabulary_free(added->by_id);
    free(added->tries[0].nodes);
    free(added->tries[1].nodes);
    free(added);
}

/* State while the list is read. */
struct reading {
    struct added_tokens *added;
    const struct vocabulary *names;
    const struct normalizer *normalizer;
    size_t ids;
    size_t next; /* id of the next token that is not in the vocabulary */
    const char *where;
};

static bool normalize_token(struct added_token *token, const struct reading *reading,
                            struct error *err)
{
    const struct normalizer *normalizer = reading->normalizer;
    struct error cause = { 0 };
    struct pattern_scratch *scratch;
    struct normal_form form;
    bool ok;

    token->normal = token->content;
    token->normal_len = token->len;
    if (!token->normalized || normalizer_is_empty(normalizer))
        return true;
    scratch = pattern_scratch_new();
    normalizer_limit(scratch, token->len);
    normal_form_init(&form, 0);
    text_add(&form.text, token->content, token->len);
    ok = normalizer_apply(normalizer, &form, scratch, &cause) ||
         error_set(err, cause.code, "%s: added token \"%.40s\": %s", reading->where,
                   token->content, cause.text);
    if (ok)
        token->normal = text_detach(&form.text, &token->normal_len);
    normal_form_clear(&form);
    pattern_scratch_free(scratch);
    return ok;
}

/* A token of the vocabulary has its id there. The others are numbered from the end of the
 * vocabulary, whatever the list says, as in Hugging Face's add_tokens
 * (tokenizers/src/tokenizer/added_vocabulary.rs): a list may be incomplete. */
static bool read_id(struct reading *reading, const json_t *item,
                    struct added_token *token, struct error *err)
{
    int64_t known = vocabulary_find(reading->names, token->content, token->len);
    int64_t id = json_get_int(item, "id", -1, reading->where, err);
    size_t len;

    if (known >= 0)
        id = known;
    else if (id >= 0 && (uint64_t)id < reading->ids)
        id = (int64_t)reading->next++;
    if (id < 0 || (uint64_t)id >= reading->ids)
        return error_set(err, ERROR_DATA,
                         "%s: added token \"%s\": its id is out of range", reading->where,
                         token->content);
    token->id = (uint32_t)id;
    if (known < 0 && vocabulary_string(reading->names, token->id, &len))
        return error_set(err, ERROR_DATA,
                         "%s: added token \"%s\": id %lld belongs to another token",
                         reading->where, token->content, (long long)id);
    return true;
}

static bool read_flags(const struct reading *reading, const json_t *item,
                       struct added_token *token, struct error *err)
{
    const char *where = reading->where;
    struct error cause = { 0 };

    token->special = json_get_bool(item, "special", false, where, &cause);
    token->single_word = json_get_bool(item, "single_word", false, where, &cause);
    token->lstrip = json_get_bool(item, "lstrip", false, where, &cause);
    token->rstrip = json_get_bool(item, "rstrip", false, where, &cause);
    token->normalized = json_get_bool(item, "normalized", !token->special, where, &cause);
    return cause.code == ERROR_NONE || error_set(err, cause.code, "%s", cause.text);
}

/* Add to the tables; an existing token is an error. */
static bool index_token(struct added_tokens *added, const char *where, struct error *err)
{
    uint32_t index = (uint32_t)added->count;
    struct added_token *token = &added->tokens[index];

    if (!vocabulary_add(added->contents, token->content, token->len, index) ||
        !vocabulary_add(added->by_id, (const char *)&token->id, sizeof(token->id),
                        index) ||
        (token->normal_len > 0 && !trie_add(&added->tries[token->normalized],
                                            token->normal, token->normal_len, index)))
        return error_set(err, ERROR_DATA, "%s: added token \"%s\" occurs twice", where,
                         token->content);
    if (token->id >= added->size)
        added->size = (size_t)token->id + 1;
    added->count++;
    return true;
}

static bool read_token(struct reading *reading, const json_t *item, struct error *err)
{
    struct added_tokens *added = reading->added;
    struct added_token *token = &added->tokens[added->count];
    const json_t *content = json_object_get(item, "content");

    if (!json_is_string(content))
        return error_set(err, ERROR_DATA, "%s: an added token has no content",
                         reading->where);
    if (json_string_length(content) == 0)
        return true;
    *token = (struct added_token) { .len = json_string_length(content) };
    token->content = memory_resize(NULL, token->len + 1, 1);
    memcpy(token->content, json_string_value(content), token->len + 1);
    if (read_id(reading, item, token, err) && read_flags(reading, item, token, err) &&
        normalize_token(token, reading, err)) {
        if (index_token(added, reading->where, err))
            return true;
        if (token->normal != token->content)
            free(token->normal);
    }
    free(token->content);
    return false;
}

struct added_tokens *added_tokens_new(const json_t *list, const struct vocabulary *names,
                                      const struct normalizer *normalizer, size_t ids,
                                      const char *where, struct error *err)
{
    struct added_tokens *added = memory_alloc(sizeof(*added));
    size_t count = json_array_size(list);
    struct reading reading = { added, names, normalizer, ids, vocabulary_count(names),
                               where };

    added->tokens = memory_alloc((count + 1) * sizeof(struct added_token));
    added->contents = vocabulary_new(count, count);
    added->by_id = vocabulary_new(count, count);
    for (size_t i = 0; i < count; i++) {
        if (read_token(&reading, json_array_get(list, i), err))
            continue;
        added_tokens_free(added);
        return NULL;
    }
    return added;
}
