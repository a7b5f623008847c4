/*
 * train/tokenizer/pretokenizer.h - how a text is cut into words before the model sees it, as
 * tokenizer.json's pre_tokenizer says: a list of steps, each cutting the pieces of the
 * last.
 */
#ifndef TRAIN_TOKENIZER_PRETOKENIZER_H
#define TRAIN_TOKENIZER_PRETOKENIZER_H

#include "train/text/pattern.h"

struct pretokenizer;

/* null gives one that cuts nothing.  ERROR_DATA naming `where` and the part. */
struct pretokenizer *pretokenizer_new(const json_t *json, const char *where,
                                      struct error *err);
void pretokenizer_free(struct pretokenizer *pretokenizer); /* NULL is allowed */

/* Does it end in ByteLevel, so that the model's strings spell bytes? */
bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer);

/* Where the words go, in order, none empty. */
struct word_sink {
    void (*take)(void *context, const char *word, size_t len);
    void *context;
};

/* first: the text begins what was to be encoded.  ERROR_DATA where an expression takes
 * too long. */
bool pretokenizer_run(const struct pretokenizer *pretokenizer, const char *text,
                      size_t len, bool first, struct pattern_scratch *scratch,
                      const struct word_sink *sink, struct error *err);

#endif
