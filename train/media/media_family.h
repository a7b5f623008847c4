/* train/media/media_family.h - how each type of model has images or sound in its
 * conversations: the token that feature rows replace, and the text around it. */
#ifndef TRAIN_MEDIA_MEDIA_FAMILY_H
#define TRAIN_MEDIA_MEDIA_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "train/media/media_kind.h"

struct media_family {
    const char *model_type; /* of config.json */
    const char *vision;     /* model_type of its vision_config; NULL: any */
    enum media_kind kind;
    const char *token;
    const char *before, *after; /* the text around the tokens of a medium */
    /* in an image, the token after each row of tokens, and the one in place of the last of
     * these; NULL: none */
    const char *row_end, *end;
    /* what the model's own chat template writes for a medium, if it is not the token: it
     * stands for before, token and after */
    const char *written;
    const char *own_before, *own_after; /* there, in place of before and after; or NULL */
    /* of an image in tiles, the token of a row of features, and in the text `token` stands before
     * the rows of the whole image; row_end and end are after each tile then; NULL: token */
    const char *patch;
    /* a medium is one token, which stays in the text: layers of cross-attention read its rows */
    bool beside;
    /* the key of tokenizer_config.json that has the token, which differs between files of
     * the model; NULL: there is none */
    const char *token_key;
    const char *template_token; /* the token that templates have; NULL: the same */
    /* "<|audio_": followed by 1, 2, ... and "|>", a placeholder, too; NULL: none */
    const char *numbered;
    int merge;     /* patches along each side that become one row of features */
    bool has_grid; /* the rows of a medium depend on its grid, which the model needs */
    /* LLaMA-Factory's templates that write this, for messages; NULL: none */
    const char *templates;
};

/* NULL: the model reads text alone, or is not supported.  vision may be NULL. */
const struct media_family *media_family_find(const char *model_type, const char *vision);
/* The same for the config.json of a model's folder. *model_type, unless NULL, is what that
 * file says, malloc'ed; NULL if there is no such file. */
const struct media_family *media_family_read(const char *model_dir, char **model_type);
/* The id of the token in config.json, which transformers looks for; -1: it does not say. */
int64_t media_family_token(const struct media_family *family, const char *model_dir);
/* Return the token that each row of features has. */
const char *media_family_row_token(const struct media_family *family);
/* Return how many rows a tile of an image has along each side, if its canvas has a grid of
 * `down` x `across` rows, and `rows` are those of all tiles and of the whole; 0: they do
 * not fit. */
uint32_t media_family_tile(uint32_t rows, uint32_t down, uint32_t across);
/* Return the row with this index, or NULL after the last. */
const struct media_family *media_family_at(size_t index);

/* "image" or "audio", as types of parts and columns have it; what stands for one in a record:
 * "<image>". */
const char *media_kind_name(enum media_kind kind);
const char *media_placeholder(enum media_kind kind);
/* Return how many of them a text has. */
size_t media_placeholders(enum media_kind kind, const char *text, size_t len);
/* For messages: "image" or "sound", "images" or "sounds". */
const char *media_noun(enum media_kind kind);
const char *media_nouns(enum media_kind kind);
/* The same with an article: "an image". */
const char *media_one(enum media_kind kind);

#endif
