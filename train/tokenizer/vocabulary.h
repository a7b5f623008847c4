/* train/tokenizer/vocabulary.h - strings and their ids, both ways; any bytes, NULs too. */
#ifndef TRAIN_TOKENIZER_VOCABULARY_H
#define TRAIN_TOKENIZER_VOCABULARY_H

#include "base/error.h"

struct vocabulary;

/* For ids below `ids`, which costs nothing; `strings` is only how many are expected. */
struct vocabulary *vocabulary_new(size_t ids, size_t strings);
void vocabulary_free(struct vocabulary *vocabulary); /* NULL is allowed */

/* Copies the string.  False: the string or the id is there already; nothing is
 * changed. */
bool vocabulary_add(struct vocabulary *vocabulary, const char *data, size_t len,
                    uint32_t id);
int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *data,
                        size_t len); /* -1: none */
/* NULL: no such id.  Not ended by a NUL; valid until the next vocabulary_add. */
const char *vocabulary_string(const struct vocabulary *vocabulary, uint32_t id,
                              size_t *len);
size_t vocabulary_size(const struct vocabulary *vocabulary); /* one past the highest id */
size_t vocabulary_count(const struct vocabulary *vocabulary); /* of strings */

#endif
