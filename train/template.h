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
    bool unlearnt; /* an answer that is only read, never learnt */
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

#define LABEL_NONE (-100)

/*
 * Append the tokens of a conversation and, one for one, the label of each: the token itself
 * where it is to be learnt, else LABEL_NONE.  (The shift by one is the batch's work.)  The
 * conversation is a system message or none, then user and assistant in turn, ending in an
 * answer; anything else is ERROR_DATA.  *labels is malloc'ed and has the room of *ids.
 */
bool template_encode(const struct chat_template *chat, const struct tokenizer *tokenizer,
                     const struct template_options *options, const struct message *messages,
                     size_t count, struct token_list *ids, int32_t **labels,
                     struct error *err);

#endif
