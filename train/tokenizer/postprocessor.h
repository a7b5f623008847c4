/* train/tokenizer/postprocessor.h - special tokens before and after a text, by the
 * "post_processor" of tokenizer.json. */
#ifndef TRAIN_TOKENIZER_POSTPROCESSOR_H
#define TRAIN_TOKENIZER_POSTPROCESSOR_H

#include "base/json.h"
#include "train/tokenizer/tokenizer.h"

struct postprocessor;

/* null adds nothing. ERROR_DATA names `where` and the part; ids must be below `ids`. */
struct postprocessor *postprocessor_new(const json_t *json, size_t ids, const char *where,
                                        struct error *err);
void postprocessor_free(struct postprocessor *postprocessor); /* NULL is allowed */

/* Append the tokens before and after a text. */
void postprocessor_begin(const struct postprocessor *postprocessor,
                         struct token_list *out);
void postprocessor_end(const struct postprocessor *postprocessor, struct token_list *out);

#endif
