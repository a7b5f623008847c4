/*
 * train/chat/prompt.h - a conversation up to the place of its next answer as tokens, and what
 * ends that answer.
 */
#ifndef TRAIN_CHAT_PROMPT_H
#define TRAIN_CHAT_PROMPT_H

#include "train/generation/generate.h"
#include "train/chat/template.h"

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
bool prompt_ends(const struct prompt_model *model, struct generate_ends *ends,
                 char **stop, struct error *err);

/* Does the token stand for no text? */
bool prompt_is_special(const struct tokenizer *tokenizer, uint32_t id);

#endif
