/*
 * train/template.h - how a conversation becomes tokens: LLaMA-Factory's named templates, as a
 * table.  Labels are the answers alone (and their end), unless train_on_prompt.
 */
#ifndef TRAIN_TEMPLATE_H
#define TRAIN_TEMPLATE_H

#include "train/tokenizer.h"

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };

struct message {
    enum role role;
    const char *text;
    size_t len;
    float weight; /* of an answer in the loss, 1 as a rule; 0: it is only read */
};

struct chat_template; /* a row of the table: default, alpaca, chatml, llama2, llama3, ... */

const struct chat_template *template_find(const char *name); /* NULL: there is none */
/* The row whose special tokens a tokenizer has, "default" where it has none's. */
const struct chat_template *template_guess(const struct tokenizer *tokenizer);
/* The names, for a message; index from 0, NULL at the end. */
const char *template_name(size_t index);
const char *template_row_name(const struct chat_template *chat);
/* A special token of the template that the tokenizer does not have, so that it would become
 * plain text; NULL: it has all. */
const char *template_missing(const struct chat_template *chat,
                             const struct tokenizer *tokenizer);
/* The token that ends a document of plain text (stage pt); -1: none.  chat may be NULL. */
int64_t template_document_end(const struct chat_template *chat,
                              const struct tokenizer *tokenizer);

struct template_options {
    const char *default_system; /* of the job; NULL: the template's own */
    bool train_on_prompt, mask_history;
    size_t cutoff_len; /* tokens kept, shared out between question and answer; 0: all */
};

#define LABEL_NONE (-100) /* the target of a row that nothing is learnt from */

/*
 * Append the tokens of a conversation and, one for one, the weight of each in the loss: 0 where
 * it is not to be learnt, 1 for a question with train_on_prompt.  The conversation is a system
 * message or none, then user and assistant in turn, ending in an answer; anything else is
 * ERROR_DATA.  *weights is malloc'ed and has the room of *ids.
 */
bool template_encode(const struct chat_template *chat, const struct tokenizer *tokenizer,
                     const struct template_options *options, const struct message *messages,
                     size_t count, struct token_list *ids, float **weights,
                     struct error *err);

#endif
