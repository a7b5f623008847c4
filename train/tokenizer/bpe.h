/* train/tokenizer/bpe.h - byte pair encoding: a word becomes tokens by repeatedly merging
 * the adjacent pair that is first in the list of merges (Sennrich et al., "Neural Machine
 * Translation of Rare Words with Subword Units", 2016). The "model" of tokenizer.json. */
#ifndef TRAIN_TOKENIZER_BPE_H
#define TRAIN_TOKENIZER_BPE_H

#include "base/json.h"
#include "train/tokenizer/tokenizer.h"
#include "train/tokenizer/vocabulary.h"

struct bpe;

/* Build the model from the "model" of tokenizer.json. byte_level: words are bytes, and
 * the strings of the model encode bytes as in GPT-2 (bpe_byte_point). Ids of `ids` or
 * more are refused, so that a small file cannot request large tables. ERROR_DATA names
 * `where` and the part. */
struct bpe *bpe_new(const json_t *model, bool byte_level, size_t ids, const char *where,
                    struct error *err);
void bpe_free(struct bpe *bpe); /* NULL is allowed */

/* The strings of the model as in the file. */
const struct vocabulary *bpe_names(const struct bpe *bpe);

/* Memory that is reused from word to word; starts zeroed except for the heartbeat, one
 * per thread. */
struct bpe_scratch {
    struct heartbeat *heartbeat; /* borrowed; or NULL */
    size_t work;                 /* since its last tick, about in bytes */
    uint32_t *ids;
    struct bpe_link *links;
    uint64_t *heap;
    size_t room, heap_room;
};

void bpe_scratch_clear(struct bpe_scratch *scratch);

/* Append the tokens of a word. Characters without a token are dropped if there is no
 * unknown token, as in Hugging Face's library. Returns false if the heartbeat was
 * stopped; the tokens are then incomplete. */
bool bpe_encode(const struct bpe *bpe, const char *word, size_t len,
                struct bpe_scratch *scratch, struct token_list *out);

/* GPT-2's printable code point for a byte (encoder.py, bytes_to_unicode), and the
 * inverse: -1 if the code point is not that of a byte. */
int32_t bpe_byte_point(unsigned char byte);
int bpe_point_byte(int32_t point);
/* Append the characters of bytes. */
void bpe_add_bytes(struct text *out, const char *bytes, size_t len);

#endif
