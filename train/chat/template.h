/*
 * train/chat/template.h - how a conversation becomes tokens: LLaMA-Factory's named templates,
 * as a table.  Labels are the answers alone (and their end), unless train_on_prompt.
 */
#ifndef TRAIN_CHAT_TEMPLATE_H
#define TRAIN_CHAT_TEMPLATE_H

#include "train/tokenizer/tokenizer.h"

enum role {
    ROLE_SYSTEM,
    ROLE_TOOLS, /* no message: the functions there are, a list of JSON */
    ROLE_USER,
    ROLE_TOOL, /* what a function gave */
    ROLE_ASSISTANT,
    /* an answer that calls functions: JSON of {"name", "arguments"}, or a list of
     * them; thoughts may stand before */
    ROLE_FUNCTION
};

/* Whether answers are to begin with thoughts: enable_thinking of a job. */
enum chat_thinking { CHAT_THINKING_UNSAID, CHAT_THINKING_ON, CHAT_THINKING_OFF };

struct message {
    enum role role;
    const char *text;
    size_t len;
    float weight; /* of an answer in the loss, 1 as a rule; 0: it is only read */
};

/* a row of the table: default, alpaca, chatml, llama2, llama3, ... */
struct chat_template;

const struct chat_template *template_find(const char *name); /* NULL: there is none */
/* The model's own, of the tokenizer's folder; without one the row whose special tokens a
 * tokenizer has, "default" where it has none's. */
const struct chat_template *template_guess(const struct tokenizer *tokenizer);
/* The model's own template behind a row; NULL: it is a named one. */
const struct chat *template_own(const struct chat_template *chat);
/* The names, for a message; index from 0, NULL at the end. */
const char *template_name(size_t index);
const char *template_row_name(const struct chat_template *chat);
/* A special token of the template that the tokenizer does not have, so that it would
 * become plain text; NULL: it has all. */
const char *template_missing(const struct chat_template *chat,
                             const struct tokenizer *tokenizer);
/* Whether answers of a named one end with the tokenizer's end of a text. */
bool template_writes_end(const struct chat_template *chat);
/* The token that ends a document of plain text (stage pt); -1: none.  chat may be
 * NULL. */
int64_t template_document_end(const struct chat_template *chat,
                              const struct tokenizer *tokenizer);

struct template_options {
    const char *default_system; /* of the job; NULL: the template's own */
    bool train_on_prompt, mask_history;
    enum chat_thinking thinking;
    size_t cutoff_len; /* tokens kept, shared out between question and answer; 0: all */
};

/* The tools and a system message, or neither; then in turn what the model reads (user, or
 * one or more of tool) and what it answers (assistant, function), ending in an answer. */
bool template_turns_are_fine(const struct message *messages, size_t count);

/* Of the tokens of a question and its answer, how many are kept where there is room for
 * so many: the shorter part is kept whole if it is less than half of them, else both give
 * in proportion (LLaMA-Factory's infer_seqlen). */
void template_cut(size_t room, size_t *question, size_t *answer);

#define LABEL_NONE (-100) /* the target of a row that nothing is learnt from */

/* A conversation to encode, and how. */
struct template_request {
    const struct chat_template *chat;
    const struct tokenizer *tokenizer;
    const struct template_options *options;
    const struct message *messages;
    size_t count;
};

/*
 * Append the tokens of a conversation and, one for one, the weight of each in the loss: 0
 * where it is not to be learnt, 1 for a question with train_on_prompt; below 0 where the
 * tokenizer's end of a text is to be learnt in its place.  ERROR_DATA for a
 * conversation whose turns are not fine, and where the model's own template will not have
 * it.  *weights is malloc'ed and has the room of *ids.
 */
bool template_encode(const struct template_request *request, struct token_list *ids,
                     float **weights, struct error *err);

#endif
