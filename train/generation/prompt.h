/* train/generation/prompt.h - conversations up to the next answer as tokens, and the
 * tokens that end the answer. */
#ifndef TRAIN_GENERATION_PROMPT_H
#define TRAIN_GENERATION_PROMPT_H

#include "train/chat/template.h"
#include "train/model/model_config.h"

enum { PROMPT_ENDS_MAX = 24 };

/* The tokens that end an answer. */
struct prompt_ends {
    uint32_t ids[PROMPT_ENDS_MAX];
    size_t count;
};
/* Add a token once; a negative id adds nothing. */
void prompt_ends_add(struct prompt_ends *ends, int64_t id);

/* A model, and how it reads a conversation. */
struct prompt_model {
    const char *dir;
    const struct model_config *config;
    const struct chat_template *chat; /* NULL: no template */
    const struct tokenizer *tokenizer;
};

/* Append the tokens. The last message is a user's; a system message at the start is
 * optional, as in template_encode. options->cutoff_len 0: no cut. With options->media, *out
 * is empty. */
bool prompt_encode(const struct template_request *request, struct token_list *out,
                   struct error *err);

/* Find what ends an answer: the tokens that config.json, generation_config.json (both in
 * model->dir) and the tokenizer name, and the token that the template writes after an
 * answer. If the latter is not a special token of the tokenizer, *stop is its text,
 * malloc'ed. */
bool prompt_ends_find(const struct prompt_model *model, struct prompt_ends *ends,
                      char **stop, struct error *err);

/* Return whether the token decodes to no text. */
bool prompt_is_special(const struct tokenizer *tokenizer, uint32_t id);

#endif
