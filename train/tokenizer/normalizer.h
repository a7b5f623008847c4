/* train/tokenizer/normalizer.h - what tokenizer.json's normalizer makes of a text before it is
 * split: a list of steps (NFC, Prepend, Replace, ...). */
#ifndef TRAIN_TOKENIZER_NORMALIZER_H
#define TRAIN_TOKENIZER_NORMALIZER_H

#include "train/text/pattern.h"

struct normalizer;

/* null gives one that changes nothing.  ERROR_DATA naming `where` and the part. */
struct normalizer *normalizer_new(const json_t *json, const char *where,
                                  struct error *err);
void normalizer_free(struct normalizer *normalizer); /* NULL is allowed */

bool normalizer_is_empty(const struct normalizer *normalizer);

/* Turn *text into its normal form; *spare is room to work in.  ERROR_DATA where an
 * expression takes too long or the text grows past its ceiling. */
bool normalizer_apply(const struct normalizer *normalizer, struct text *text,
                      struct text *spare, struct pattern_scratch *scratch,
                      struct error *err);

#endif
