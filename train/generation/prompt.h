/*
 * train/generation/prompt.h - a conversation up to the place of its next answer as tokens, and what
 * ends that answer.
 */
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
/* Add a token once; an id below 0 adds nothing. */
void prompt_ends_add(struct prompt_ends *ends, int64_t id);

/* A model, and how it reads a conversation. */
struct prompt_model {
    const char *dir;
    const struct model_config *config;
    const struct chat_template *chat; /* NULL: there is no template */
    const struct tokenizer *tokenizer;
};

/* Append the tokens.  The messages end in a user's; system or none before, as in
 * template_encode.  options->cutoff_len 0: all is kept. */
bool prompt_encode(const struct template_request *request, struct token_list *out,
                   struct error *err);

/*
 * What ends an answer: the tokens that config.json, generation_config.json (both in
 * model->dir) and the tokenizer name, and the token that the template writes behind an answer.
 * Where that one is no special token of this tokenizer, *stop becomes its text,
 * malloc'ed.
 */
bool prompt_ends_find(const struct prompt_model *model, struct prompt_ends *ends,
                 char **stop, struct error *err);

/* Does the token stand for no text? */
bool prompt_is_special(const struct tokenizer *tokenizer, uint32_t id);

#endif
