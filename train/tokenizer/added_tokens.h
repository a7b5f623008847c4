/* train/tokenizer/added_tokens.h - tokens that are matched in a text before everything
 * else: special ones like <|im_start|>, and others added to a vocabulary. */
#ifndef TRAIN_TOKENIZER_ADDED_TOKENS_H
#define TRAIN_TOKENIZER_ADDED_TOKENS_H

#include "train/tokenizer/normalizer.h"
#include "train/tokenizer/vocabulary.h"

struct added_token {
    char *content; /* as in the file */
    size_t len;
    /* its normal form if that is matched, otherwise content itself */
    char *normal;
    size_t normal_len;
    uint32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
};

struct added_tokens;

/* Parse the "added_tokens" of tokenizer.json. A token of the model's vocabulary keeps its
 * id there; the others are numbered from the end of the vocabulary. ERROR_DATA names
 * `where` and the token. */
struct added_tokens *added_tokens_new(const json_t *list, const struct vocabulary *names,
                                      const struct normalizer *normalizer, size_t ids,
                                      const char *where, struct error *err);
void added_tokens_free(struct added_tokens *added); /* NULL is allowed */

const struct added_token *added_tokens_by_id(const struct added_tokens *added,
                                             uint32_t id);
const struct added_token *added_tokens_by_content(const struct added_tokens *added,
                                                  const char *content, size_t len);
size_t added_tokens_size(const struct added_tokens *added); /* largest id + 1 */

/* A search for added tokens: those that are not normalized in the original text, the
 * others in its normal form. */
struct added_search {
    const struct added_tokens *added;
    struct pattern_scratch *scratch; /* whose limit the search takes from, or NULL */
    bool normalized;
    const char *text;
    size_t len;
    size_t from; /* where to continue; 0 at first */
    size_t done; /* end of the text already returned; 0 at first */
    size_t start;
    const struct added_token *token;
};

/* Find the next token, the longest of the leftmost. On return, the text from search->done
 * to search->start precedes the token; the caller then sets search->done to *end, which
 * may be before it.  False also if the limit is exceeded (pattern_is_spent). */
bool added_tokens_next(struct added_search *search, size_t *end);

#endif
