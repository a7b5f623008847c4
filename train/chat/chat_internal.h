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
    bool divides; /* the template writes texts in lists of parts only (PaddleOCR-VL) */
};

/* State while a conversation is rendered. */
struct rendering {
    const struct chat *chat;
    const struct tokenizer *tokenizer;
    const struct jinja *jinja;
    json_t *messages, *tools; /* as the template sees them; tools NULL: none */
    json_t *variables;        /* enable_thinking of the job, and those of the record */
    const struct template_media *media; /* NULL: no token stands for a medium */
    struct jinja_output output;
    struct error *err;
};

/* Collect the messages; those about tools are not messages for a template. */
bool rendering_begin(struct rendering *rendering, const struct template_options *options,
                     const struct message *messages, size_t count);
void rendering_end(struct rendering *rendering);
/* Return whether the template writes the text of a message if it is a part of a list, but not if
 * it is a string. */
bool rendering_divides(const struct chat *chat);
/* Render the first `count` messages into rendering->output. */
bool rendering_text(struct rendering *rendering, size_t count, bool prompt,
                    bool *refused);
/* Render and tokenize them into *ids. */
bool rendering_tokens(struct rendering *rendering, size_t count, bool prompt,
                      struct token_list *ids);

/* Append advice for a model whose own template cannot be used: the named template that
 * writes its turns, if there is one. */
void chat_advise(const struct chat *chat, struct text *out);

/* chat_media.c: write the text of media where the template wrote their mark, in a rendered
 * text. */
void chat_media_write(const struct template_media *media, struct jinja_output *output);

/* chat_message.c: a message as transformers passes it to a template; NULL with *err. */
json_t *chat_message(const struct message *message, struct error *err);
/* Join the parts of all messages: their texts, and `medium` for each medium. */
void chat_messages_flatten(json_t *messages, const char *medium);
bool chat_messages_have_parts(const json_t *messages);
/* Make each content that is a string a list of one part. */
void chat_messages_divide(json_t *messages);

#endif
