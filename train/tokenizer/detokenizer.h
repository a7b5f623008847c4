/* train/tokenizer/detokenizer.h - token strings to text, by the "decoder" of
 * tokenizer.json. */
#ifndef TRAIN_TOKENIZER_DETOKENIZER_H
#define TRAIN_TOKENIZER_DETOKENIZER_H

#include "train/text/pattern.h"

struct detokenizer;

/* A list of strings: string i ends at ends[i] and starts at the end of the previous
 * one. */
struct pieces {
    struct text text;
    size_t *ends;
    size_t count, room;
};

void pieces_init(struct pieces *pieces);
void pieces_clear(struct pieces *pieces);
/* End a string: it is the text added to pieces->text since the last one ended. */
void pieces_end(struct pieces *pieces);

/* null joins the strings with blanks, as the library does. ERROR_DATA names the part. */
struct detokenizer *detokenizer_new(const json_t *json, const char *where,
                                    struct error *err);
void detokenizer_free(struct detokenizer *detokenizer); /* NULL is allowed */

/* Append the text of the strings; *pieces is consumed. False: too long. */
bool detokenizer_run(const struct detokenizer *detokenizer, struct pieces *pieces,
                     struct text *out);

#endif
