/* train/tokenizer/new_tokens.h - tokens that a job adds to a tokenizer. */
#ifndef TRAIN_TOKENIZER_NEW_TOKENS_H
#define TRAIN_TOKENIZER_NEW_TOKENS_H

#include "base/json.h"

/* Names separated by commas, as LLaMA-Factory splits them; NULL: none. */
struct new_tokens {
    const char *normal, *special;
};

/* Append those that `json`, a tokenizer.json, does not have to its added_tokens, as
 * `tokenizers` does; their ids are not yet right.  Return how many. */
size_t new_tokens_append(const struct new_tokens *tokens, json_t *json);

#endif
