/* train/tokenizer/new_tokens.h - tokens that a job, or an adapter's tokenizer, adds to a
 * model's tokenizer. */
#ifndef TRAIN_TOKENIZER_NEW_TOKENS_H
#define TRAIN_TOKENIZER_NEW_TOKENS_H

#include "base/json.h"

/* Names separated by commas, as LLaMA-Factory splits them; NULL: none. */
struct new_tokens {
    const char *normal, *special;
    /* folder of an adapter: the added tokens of its tokenizer.json come first; NULL: none */
    const char *adapter;
};

struct tokenizer;

/* Append those that `json`, a tokenizer.json, does not have to its added_tokens, as
 * `tokenizers` does; their ids are not yet right.  *count is set to how many.  ERROR_DATA if
 * the adapter's tokenizer.json cannot be read. */
bool new_tokens_append(const struct new_tokens *tokens, json_t *json, size_t *count,
                       struct error *err);
/* Compare the added tokens of the tokenizer.json in `dir`, if there is one, with those of a
 * tokenizer: ERROR_DATA if one is missing or has another id. */
bool new_tokens_agree(const struct tokenizer *tokenizer, const char *dir,
                      struct error *err);

#endif
