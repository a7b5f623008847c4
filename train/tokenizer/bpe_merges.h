/* train/tokenizer/bpe_merges.h - the list of merges: result and rank of each pair of
 * tokens. */
#ifndef TRAIN_TOKENIZER_BPE_MERGES_H
#define TRAIN_TOKENIZER_BPE_MERGES_H

#include "base/json.h"
#include "train/tokenizer/vocabulary.h"

struct bpe_merges;

#define BPE_NO_MERGE UINT32_MAX

/* Lower ranks are merged first. */
struct bpe_merge {
    uint32_t rank, result;
};

/* Parse "a b" strings or ["a", "b"] pairs; each part, and their concatenation, must be in
 * the vocabulary. ERROR_DATA names `where` and the merge. */
struct bpe_merges *bpe_merges_read(const json_t *list, const struct vocabulary *names,
                                   const char *where, struct error *err);
void bpe_merges_free(struct bpe_merges *merges); /* NULL is allowed */

/* rank BPE_NO_MERGE: the pair does not merge. */
struct bpe_merge bpe_merges_find(const struct bpe_merges *merges, uint32_t left,
                                 uint32_t right);
size_t bpe_merges_count(const struct bpe_merges *merges);
uint32_t bpe_merges_result(const struct bpe_merges *merges, uint32_t rank);

#endif
