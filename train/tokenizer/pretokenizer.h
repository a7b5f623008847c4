/* train/tokenizer/pretokenizer.h - splitting of a text into words for the model, by
 * tokenizer.json's pre_tokenizer: a list of steps, each of which splits the pieces of the
 * previous one. */
#ifndef TRAIN_TOKENIZER_PRETOKENIZER_H
#define TRAIN_TOKENIZER_PRETOKENIZER_H

#include "train/text/pattern.h"

struct pretokenizer;

/* null does not split. ERROR_DATA names `where` and the part. */
struct pretokenizer *pretokenizer_new(const json_t *json, const char *where,
                                      struct error *err);
void pretokenizer_free(struct pretokenizer *pretokenizer); /* NULL is allowed */

/* Return whether it ends in ByteLevel, so that the model's strings encode bytes. */
bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer);

/* The consumer of the words, which come in order and are not empty. It returns
 * false to end them. */
struct word_sink {
    bool (*take)(void *context, const char *word, size_t len);
    void *context;
};

/* first: the text is the start of the complete input. ERROR_DATA if an expression takes
 * too long, or the pieces exceed the limit of *scratch. Returns true if the sink ends
 * it. */
bool pretokenizer_run(const struct pretokenizer *pretokenizer, const char *text,
                      size_t len, bool first, struct pattern_scratch *scratch,
                      const struct word_sink *sink, struct error *err);

#endif
