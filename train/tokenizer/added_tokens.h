/*
 * train/tokenizer/added_tokens.h - the tokens that are looked for in a text before all else:
 * special ones like <|im_start|>, and others added to a vocabulary.
 */
#ifndef TRAIN_TOKENIZER_ADDED_TOKENS_H
#define TRAIN_TOKENIZER_ADDED_TOKENS_H

#include "train/tokenizer/normalizer.h"
#include "train/tokenizer/vocabulary.h"

struct added_token {
    char *content; /* as the file has it */
    size_t len;
    /* its normal form where that is what is looked for, else content itself */
    char *normal;
    size_t normal_len;
    uint32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
};

struct added_tokens;

/*
 * From the "added_tokens" of tokenizer.json.  A token that is in the model's vocabulary
 * has the id it has there, the others are numbered from its end on.  ERROR_DATA naming
 * `where` and the token.
 */
struct added_tokens *added_tokens_new(const json_t *list, const struct vocabulary *names,
                                      const struct normalizer *normalizer, size_t ids,
                                      const char *where, struct error *err);
void added_tokens_free(struct added_tokens *added); /* NULL is allowed */

const struct added_token *added_tokens_by_id(const struct added_tokens *added,
                                             uint32_t id);
const struct added_token *added_tokens_by_content(const struct added_tokens *added,
                                                  const char *content, size_t len);
size_t added_tokens_size(const struct added_tokens *added); /* one past the highest id */

/* A search for the tokens in a text: those that are not normalized in the text as given,
 * the others in its normal form. */
struct added_search {
    const struct added_tokens *added;
    bool normalized;
    const char *text;
    size_t len;
    size_t from; /* where to look on; 0 at first */
    size_t done; /* end of what has been given out; 0 at first */
    size_t start;
    const struct added_token *token;
};

/* The next token, the longest of the leftmost; what lies before it is done .. start as
 * they were on return, and search->done is then to be set to `end`, which may lie before
 * it. */
bool added_tokens_next(struct added_search *search, size_t *end);

#endif
