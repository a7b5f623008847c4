/* train/tokenizer/unigram.h - the tokens with the highest sum of scores (Kudo, "Subword
 * Regularization", 2018).  The "model" of tokenizer.json with the type Unigram. */
#ifndef TRAIN_TOKENIZER_UNIGRAM_H
#define TRAIN_TOKENIZER_UNIGRAM_H

#include "base/json.h"
#include "train/tokenizer/tokenizer.h"
#include "train/tokenizer/vocabulary.h"

struct unigram;

/* ERROR_DATA names `where` and the part. */
struct unigram *unigram_new(const json_t *model, const char *where, struct error *err);
void unigram_free(struct unigram *unigram); /* NULL is allowed */
const struct vocabulary *unigram_names(const struct unigram *unigram);

/* Memory that is reused from word to word; starts zeroed except for the heartbeat. */
struct unigram_scratch {
    struct heartbeat *heartbeat; /* borrowed; or NULL */
    size_t work;
    struct unigram_end *ends;
    size_t room;
};

void unigram_scratch_clear(struct unigram_scratch *scratch);

/* Append the tokens of a word.  Returns false if the heartbeat was stopped; the tokens are
 * then incomplete. */
bool unigram_encode(const struct unigram *unigram, const char *word, size_t len,
                    struct unigram_scratch *scratch, struct token_list *out);

#endif
