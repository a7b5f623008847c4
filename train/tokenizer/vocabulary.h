/* train/tokenizer/vocabulary.h - strings and their ids, in both directions; any bytes,
 * including NUL. */
#ifndef TRAIN_TOKENIZER_VOCABULARY_H
#define TRAIN_TOKENIZER_VOCABULARY_H

#include "base/error.h"

struct vocabulary;

/* Ids must be below `ids`, which is only a limit; `strings` is the expected number of
 * strings. */
struct vocabulary *vocabulary_new(size_t ids, size_t strings);
void vocabulary_free(struct vocabulary *vocabulary); /* NULL is allowed */

/* Copy the string. Return false, without a change, if the string or the id exists. */
bool vocabulary_add(struct vocabulary *vocabulary, const char *data, size_t len,
                    uint32_t id);
int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *data,
                        size_t len); /* -1: none */
/* NULL: no such id. Not NUL-terminated; valid until the next vocabulary_add. */
const char *vocabulary_string(const struct vocabulary *vocabulary, uint32_t id,
                              size_t *len);
size_t vocabulary_size(const struct vocabulary *vocabulary);  /* largest id + 1 */
size_t vocabulary_count(const struct vocabulary *vocabulary); /* of strings */

#endif
