/* train/tokenizer/conversion.h - makes the contents of tokenizer.json from other files of a
 * tokenizer, as transformers 5 does: a reader of a format makes the parts, and what all
 * formats share is added here from tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json and config.json. */
#ifndef TRAIN_TOKENIZER_CONVERSION_H
#define TRAIN_TOKENIZER_CONVERSION_H

#include "base/json.h"
#include "train/tokenizer/vocabulary.h"

/* The tokens that transformers names, in its order. */
enum conversion_name {
    NAME_BOS,
    NAME_EOS,
    NAME_UNK,
    NAME_SEP,
    NAME_PAD,
    NAME_CLS,
    NAME_MASK,
    CONVERSION_NAMES
};

struct conversion {
    const char *dir; /* borrowed */
    json_t *config;  /* tokenizer_config.json, or an empty object */
    json_t *map;     /* special_tokens_map.json, if it counts, or an empty object */
    json_t *added;   /* added_tokens.json, if it counts, or an empty object */
    json_t *model;   /* config.json, or an empty object */
    size_t bytes;    /* of the files that the tokens came from */
};

/* What a reader makes.  Values are taken; a NULL is a part that is null. */
struct conversion_parts {
    json_t *normalizer, *pre_tokenizer, *decoder;
    json_t *tokens; /* the "model", with its vocabulary */
    json_t *own;    /* list of added tokens of the format */
    bool own_first; /* they come before those of the files */
    bool original;  /* added tokens are found in the original text */
    const char *defaults[CONVERSION_NAMES]; /* names in the absence of others, or NULL */
};

bool conversion_open(struct conversion *conversion, const char *dir, struct error *err);
void conversion_clear(struct conversion *conversion);

/* The tokenizer's class without "Fast", and the model's type; "" if missing. */
const char *conversion_class(const struct conversion *conversion);
const char *conversion_model_type(const struct conversion *conversion);
/* A setting of tokenizer_config.json. */
bool conversion_bool(const struct conversion *conversion, const char *key,
                     bool default_value);

/* Read a file of the folder as text; its size counts as conversion->bytes. */
bool conversion_read(struct conversion *conversion, const char *base, struct text *out,
                     struct error *err);
/* The entry of a token in added_tokens. */
json_t *conversion_token(const char *content, bool special, bool normalized);

/* Return the contents of tokenizer.json, and as "settings" those that transformers derives
 * from the other files: bos_token, eos_token, pad_token and add_bos_token. */
json_t *conversion_finish(const struct conversion *conversion,
                          struct conversion_parts *parts);

/* Return the list of merges that a vocabulary implies: for each token of `order`, its cuts
 * into two tokens; by the ids of the two, or from the first cut on.  NULL with ERROR_DATA
 * if that takes too long. */
json_t *conversion_merges(const struct vocabulary *names, const uint32_t *order,
                          size_t count, bool by_ids, const char *where,
                          struct error *err);

/* The readers.  ERROR_DATA names the file. */
json_t *merges_file_convert(struct conversion *conversion, struct error *err);
json_t *tiktoken_convert(struct conversion *conversion, struct error *err);
json_t *tekken_convert(struct conversion *conversion, struct error *err);
json_t *sentencepiece_convert(struct conversion *conversion, struct error *err);

#endif
