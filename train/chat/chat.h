/*
 * train/chat/chat.h - a model's own chat template, out of the files beside its tokenizer: the
 * Jinja decides how a conversation is written, and which part of it is the answer.
 */
#ifndef TRAIN_CHAT_CHAT_H
#define TRAIN_CHAT_CHAT_H

#include "base/json.h"
#include "train/chat/template.h"

struct chat;

/*
 * The template of a tokenizer's folder: chat_template of tokenizer_config.json (one, or a
 * list of named ones, of which "tool_use" is for conversations with tools and "default"
 * for all others), or chat_template.jinja, which wins; *out is NULL where there is none.
 * A template that cannot be read is told by chat_check, or by the first who wants to
 * write with it.
 */
bool chat_open(const char *dir, struct chat **out, struct error *err);
void chat_close(struct chat *chat); /* NULL is allowed */

/* Open the tokenizer of `dir` together with its chat template, which template_guess then
 * finds; tokenizer_close closes both.  NULL and ERROR_DATA as tokenizer_open, or if a file
 * of the template cannot be read. */
struct tokenizer *chat_tokenizer_open(const char *dir, struct error *err);

/* Is there a template that can be read?  ERROR_DATA with its file, its line and what to
 * do. */
bool chat_check(const struct chat *chat, struct error *err);
/* Does it write a plain question and its answer, so that the answer can be told?  One
 * that refuses them (raise_exception) may want another kind of conversation, and passes.
 * The tokenizer in `dir` is opened only where the texts alone leave it open. */
bool chat_try(const struct chat *chat, const char *dir, struct error *err);

/* As a template like the named ones; lives as long as the chat. */
const struct chat_template *chat_as_template(const struct chat *chat);

/* Append the conversation as far as the template writes it before an answer
 * (add_generation_prompt), then what it would write behind an empty one; *answer: where
 * that begins. */
bool chat_prompt(const struct template_request *request, struct token_list *ids,
                 size_t *answer, struct error *err);

#endif
