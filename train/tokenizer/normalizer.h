/* train/tokenizer/normalizer.h - normalization of a text before it is split, by
 * tokenizer.json's normalizer: a list of steps (NFC, Prepend, Replace, ...). */
#ifndef TRAIN_TOKENIZER_NORMALIZER_H
#define TRAIN_TOKENIZER_NORMALIZER_H

#include "train/text/pattern.h"

struct normalizer;

/* null changes nothing. ERROR_DATA names `where` and the part. */
struct normalizer *normalizer_new(const json_t *json, const char *where,
                                  struct error *err);
void normalizer_free(struct normalizer *normalizer); /* NULL is allowed */

bool normalizer_is_empty(const struct normalizer *normalizer);

/*
 * Limit what the normalizer and the pre-tokenizer do with a text of this length. Each step
 * takes the bytes of its output. Published tokenizers have at most 5 steps, and no form of
 * Unicode makes a text more than 11 times as long. A dozen microseconds for each byte are
 * a hundred times what their expressions take.
 */
void normalizer_limit(struct pattern_scratch *scratch, size_t len);

/* A text on the way to its normal form. */
struct normal_form {
    struct text text, spare;
    bool cut; /* characters at its start have been removed */
};

void normal_form_init(struct normal_form *form, size_t max); /* as text_init */
void normal_form_clear(struct normal_form *form);

/* Convert form->text to its normal form. ERROR_DATA if an expression takes too long, or
 * the steps exceed the limit of *scratch. */
bool normalizer_apply(const struct normalizer *normalizer, struct normal_form *form,
                      struct pattern_scratch *scratch, struct error *err);

#endif
