/*
 * train/tokenizer/tokenizer.h - text -> tokens -> text, as tokenizer.json says: byte-level BPE and
 * SentencePiece BPE with byte fallback.  The ids are those of Hugging Face's
 * `tokenizers`.
 */
#ifndef TRAIN_TOKENIZER_TOKENIZER_H
#define TRAIN_TOKENIZER_TOKENIZER_H

#include "base/text.h"

struct tokenizer;

struct token_list {
    uint32_t *ids; /* malloc'ed, grows */
    size_t count, room;
};

/* `path`: a tokenizer.json or the folder it lies in (then tokenizer_config.json and
 * special_tokens_map.json beside it are read, too, and the model's config.json).
 * ERROR_DATA names what is not supported. */
struct tokenizer *tokenizer_open(const char *path, struct error *err);
void tokenizer_close(struct tokenizer *tokenizer);

/* Append the tokens of a text (UTF-8).  special: run the post-processor (BOS, EOS);
 * special tokens written in the text are recognised either way.  Thread-safe on one
 * tokenizer. */
bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
                      bool special, struct token_list *out, struct error *err);
/* Append the text of tokens; skip_special leaves special tokens out. */
bool tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                      size_t count, bool skip_special, struct text *out);

size_t tokenizer_size(const struct tokenizer *tokenizer); /* one past the highest id */
/* -1: none */
int64_t tokenizer_find(const struct tokenizer *tokenizer, const char *token);
/* As tokenizer_config.json or special_tokens_map.json name them; an end of which
 * they say nothing, not even null, is eos_token_id of config.json, but for the general
 * classes of tokenizers, which have none of their own.  -1: none. */
int64_t tokenizer_bos(const struct tokenizer *tokenizer);
int64_t tokenizer_eos(const struct tokenizer *tokenizer);
int64_t tokenizer_pad(const struct tokenizer *tokenizer);
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);

/* Attach a value of a higher layer, which `release` frees when the tokenizer is closed;
 * and return it, NULL if there is none.  At most one per tokenizer. */
void tokenizer_attach(struct tokenizer *tokenizer, void *value, void (*release)(void *));
void *tokenizer_attached(const struct tokenizer *tokenizer);

void token_list_add(struct token_list *list, uint32_t id);
void token_list_clear(struct token_list *list); /* frees */

#endif
