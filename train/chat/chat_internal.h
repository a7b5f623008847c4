/* train/chat/chat_internal.h - private to a model's own template: its files, and one
 * conversation that it renders. */
#ifndef TRAIN_CHAT_CHAT_INTERNAL_H
#define TRAIN_CHAT_CHAT_INTERNAL_H

#include "train/chat/template_internal.h"
#include "train/jinja/jinja.h"

struct chat {
    struct chat_template row;
    struct jinja *default_template, *tool_template; /* tool_template may be NULL */
    struct text source;       /* of all templates, to search for names */
    json_t *tokens;           /* bos_token and others, as templates see them */
    struct error parse_error; /* error of a template that cannot be parsed */
};

/* State while a conversation is rendered. */
struct rendering {
    const struct chat *chat;
    const struct tokenizer *tokenizer;
    const struct jinja *jinja;
    json_t *messages, *tools; /* as the template sees them; tools NULL: none */
    json_t *variables;        /* enable_thinking of the job, and those of the record */
    struct jinja_output output;
    struct error *err;
};

/* Collect the messages; those about tools are not messages for a template. */
bool rendering_begin(struct rendering *rendering, const struct template_options *options,
                     const struct message *messages, size_t count);
void rendering_end(struct rendering *rendering);
/* Render the first `count` messages into rendering->output. */
bool rendering_text(struct rendering *rendering, size_t count, bool prompt,
                    bool *refused);
/* Render and tokenize them into *ids. */
bool rendering_tokens(struct rendering *rendering, size_t count, bool prompt,
                      struct token_list *ids);

/* Append advice for a model whose own template cannot be used: the named template that
 * writes its turns, if there is one. */
void chat_advise(const struct chat *chat, struct text *out);

/* chat_message.c: a message as transformers passes it to a template; NULL with *err. */
json_t *chat_message(const struct message *message, struct error *err);
/* Join the parts of texts of all messages. */
void chat_messages_flatten(json_t *messages);
bool chat_messages_have_parts(const json_t *messages);

#endif
