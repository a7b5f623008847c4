/*
 * train/tokenizer/bpe.h - byte pair encoding: a word becomes tokens by merging the pair of
 * neighbours that comes first in the list of merges, again and again (Sennrich et al.,
 * "Neural Machine Translation of Rare Words with Subword Units", 2016).  The "model" of
 * tokenizer.json.
 */
#ifndef TRAIN_TOKENIZER_BPE_H
#define TRAIN_TOKENIZER_BPE_H

#include "base/json.h"
#include "train/tokenizer/tokenizer.h"
#include "train/tokenizer/vocabulary.h"

struct bpe;

/*
 * From the "model" of tokenizer.json.  byte_level: words are given as bytes and the
 * strings of the model spell bytes as GPT-2 does (bpe_byte_point).  Ids from `ids` on are
 * refused, so that a small file cannot ask for large tables.  ERROR_DATA naming `where`
 * and the part.
 */
struct bpe *bpe_new(const json_t *model, bool byte_level, size_t ids, const char *where,
                    struct error *err);
void bpe_free(struct bpe *bpe); /* NULL is allowed */

/* The strings of the model as the file has them. */
const struct vocabulary *bpe_names(const struct bpe *bpe);

/* Memory that is used again from word to word; begins zeroed, one for each thread. */
struct bpe_scratch {
    uint32_t *ids;
    struct bpe_link *links;
    uint64_t *heap;
    size_t room, heap_room;
};

void bpe_scratch_clear(struct bpe_scratch *scratch);

/* Append the tokens of a word.  What the vocabulary does not have, and no unknown token
 * stands for, is dropped, as Hugging Face's library does. */
void bpe_encode(const struct bpe *bpe, const char *word, size_t len,
                struct bpe_scratch *scratch, struct token_list *out);

/* GPT-2's printable code point for a byte (encoder.py, bytes_to_unicode), and back: -1
 * where the code point stands for no byte. */
int32_t bpe_byte_point(unsigned char byte);
int bpe_point_byte(int32_t point);

#endif
