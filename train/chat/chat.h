/* train/chat/chat.h - a model's own chat template, a Jinja file next to its tokenizer: it
 * decides how a conversation is written, and which part of the text is the answer. */
#ifndef TRAIN_CHAT_CHAT_H
#define TRAIN_CHAT_CHAT_H

#include "base/json.h"
#include "train/chat/template.h"

struct chat;

/* Open the template of a tokenizer's folder: chat_template of tokenizer_config.json (one,
 * or a list of named ones: "tool_use" is for conversations with tools, "default" for all
 * others), or chat_template.jinja, which takes precedence, or else that of a processor,
 * chat_template.json. *out is NULL if there is none.
 * A template that cannot be parsed is reported by chat_check, or by the first function
 * that renders it. */
bool chat_open(const char *dir, struct chat **out, struct error *err);
void chat_close(struct chat *chat); /* NULL is allowed */

/* Open the tokenizer of `dir` together with its chat template, which template_guess then
 * finds; tokenizer_close closes both. NULL and ERROR_DATA as tokenizer_open, or if a file
 * of the template cannot be read. */
struct tokenizer *chat_tokenizer_open(const char *dir, struct error *err);
/* The same with new tokens: tokenizer_open_with. */
struct tokenizer *chat_tokenizer_open_with(const char *dir, const struct new_tokens *more,
                                           struct error *err);

/* Check that the template can be parsed. ERROR_DATA with its file, line and remedy. */
bool chat_check(const struct chat *chat, struct error *err);
/* Check that the template writes a simple question and its answer, and that the answer
 * can be located. A template that refuses them (raise_exception) may require another kind
 * of conversation, and passes. The tokenizer in `dir` is opened only if the texts alone
 * do not decide. */
bool chat_try(const struct chat *chat, const char *dir, struct error *err);

/* The chat as a template like the named ones; lives as long as the chat. */
const struct chat_template *chat_as_template(const struct chat *chat);

/* Append the text of the conversation; with `prompt`, of the start of an answer, too. */
bool chat_render(const struct template_request *request, bool prompt, struct text *out,
                 struct error *err);

/* Append the conversation as the template writes it before an answer
 * (add_generation_prompt), then what it writes after an empty answer; *answer is the
 * position where that part starts. */
bool chat_prompt(const struct template_request *request, struct token_list *ids,
                 size_t *answer, struct error *err);

#endif
