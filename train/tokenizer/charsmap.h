/* train/tokenizer/charsmap.h - normalization of SentencePiece by a table that the tokenizer
 * has, "precompiled_charsmap": such as nmt_nfkc. */
#ifndef TRAIN_TOKENIZER_CHARSMAP_H
#define TRAIN_TOKENIZER_CHARSMAP_H

#include "base/text.h"

struct charsmap;

/* Read a table, which is copied.  NULL with ERROR_DATA if it is damaged. */
struct charsmap *charsmap_new(const void *data, size_t len, const char *where,
                              struct error *err);
void charsmap_free(struct charsmap *charsmap); /* NULL is allowed */
/* Append the normal form of a text, UTF-8. */
void charsmap_apply(const struct charsmap *charsmap, const char *text, size_t len,
                    struct text *out);

#endif
