/* train/tokenizer/tokenizer.h - text to tokens and back, by tokenizer.json: byte-level
 * BPE, SentencePiece BPE with byte fallback, and Unigram. The ids are those of Hugging
 * Face's `tokenizers`. */
#ifndef TRAIN_TOKENIZER_TOKENIZER_H
#define TRAIN_TOKENIZER_TOKENIZER_H

#include "base/heartbeat.h"
#include "base/text.h"
#include "train/tokenizer/new_tokens.h"

struct tokenizer;

struct token_list {
    uint32_t *ids; /* malloc'ed, grows */
    size_t count, room;
};

/* Open a tokenizer. `path` is a tokenizer.json or its folder (then tokenizer_config.json,
 * special_tokens_map.json and the model's config.json in it are read, too). A folder
 * without it has tokenizer.model, tekken.json, qwen.tiktoken, or vocab.json and merges.txt,
 * which are read as transformers, or the code in the folder, does. ERROR_DATA names unsupported features. */
struct tokenizer *tokenizer_open(const char *path, struct error *err);
/* The same, with tokens that tokenizer.json may not have.  It must exist if the job adds
 * tokens; those of an adapter are left out otherwise. */
struct tokenizer *tokenizer_open_with(const char *path, const struct new_tokens *more,
                                      struct error *err);
/* Return the members of "added_tokens" for those that it did not have; NULL: none. */
const json_t *tokenizer_new_tokens(const struct tokenizer *tokenizer);
/* Return whether a folder has one of these files. */
bool tokenizer_exists(const char *dir);
void tokenizer_close(struct tokenizer *tokenizer);

/* Set what ticks while texts are encoded, borrowed; then the tokenizer is for one thread.
 * A stop ends an encoding with ERROR_STOPPED, "stopped while reading the data". */
void tokenizer_set_heartbeat(struct tokenizer *tokenizer, struct heartbeat *heartbeat);
struct heartbeat *tokenizer_heartbeat(const struct tokenizer *tokenizer);

/* Append the tokens of a text (UTF-8). special: run the post-processor (BOS, EOS);
 * special tokens in the text are recognized in any case. ERROR_DATA with the name of the
 * file if its normalizer or pre-tokenizer exceeds normalizer_limit. Thread-safe on one
 * tokenizer. */
bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
                      bool special, struct token_list *out, struct error *err);
/* Append the text of tokens; skip_special leaves special tokens out. False if the text is
 * cut off, because the tokens or the decoder make it absurdly long. */
bool tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                      size_t count, bool skip_special, struct text *out);

size_t tokenizer_size(const struct tokenizer *tokenizer); /* largest id + 1 */
/* -1: none */
int64_t tokenizer_find(const struct tokenizer *tokenizer, const char *token);
/* Tokens named in tokenizer_config.json or special_tokens_map.json. If these do not
 * mention the end, not even as null, it is eos_token_id of config.json, except for the
 * generic tokenizer classes, which have no default. -1: none. */
int64_t tokenizer_bos(const struct tokenizer *tokenizer);
int64_t tokenizer_eos(const struct tokenizer *tokenizer);
int64_t tokenizer_pad(const struct tokenizer *tokenizer);
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);

/* Attach a value of a higher layer; `release` frees it when the tokenizer is closed.
 * tokenizer_attached returns it, or NULL. At most one per tokenizer. */
void tokenizer_attach(struct tokenizer *tokenizer, void *value, void (*release)(void *));
void *tokenizer_attached(const struct tokenizer *tokenizer);

void token_list_add(struct token_list *list, uint32_t id);
void token_list_clear(struct token_list *list); /* frees */

#endif
