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
};

struct chat_template; /* a row of the table: default, alpaca, chatml, llama2, llama3 */

const struct chat_template *template_find(const char *name); /* NULL: there is none */
/* The names, for a message; index from 0, NULL at the end. */
const char *template_name(size_t index);

struct template_options {
    const char *default_system; /* of the job; NULL: the template's own */
    bool train_on_prompt, mask_history;
};

#define LABEL_NONE (-100)

/*
 * Append the tokens of a conversation and, one for one, the label of each: the token itself
 * where it is to be learnt, else LABEL_NONE.  (The shift by one is the batch's work.)
 */
bool template_encode(const struct chat_template *chat, const struct tokenizer *tokenizer,
                     const struct template_options *options, const struct message *messages,
                     size_t count, struct token_list *ids, int32_t **labels,
                     struct error *err);

#endif
