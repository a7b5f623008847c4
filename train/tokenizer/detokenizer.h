/* train/tokenizer/detokenizer.h - how the strings of tokens become text again, as the "decoder" of
 * tokenizer.json says. */
#ifndef TRAIN_TOKENIZER_DETOKENIZER_H
#define TRAIN_TOKENIZER_DETOKENIZER_H

#include "train/text/pattern.h"

struct detokenizer;

/* A list of strings: the i-th ends at ends[i] and begins where the last one ends. */
struct pieces {
    struct text text;
    size_t *ends;
    size_t count, room;
};

void pieces_init(struct pieces *pieces);
void pieces_clear(struct pieces *pieces);
/* The string is what was added to pieces->text since the last one ended. */
void pieces_end(struct pieces *pieces);

/* null joins the strings with blanks, as the library does.  ERROR_DATA naming the
 * part. */
struct detokenizer *detokenizer_new(const json_t *json, const char *where,
                                    struct error *err);
void detokenizer_free(struct detokenizer *detokenizer); /* NULL is allowed */

/* Append the text of the strings; *pieces is used up.  False: too long. */
bool detokenizer_run(const struct detokenizer *detokenizer, struct pieces *pieces,
                     struct text *out);

#endif
