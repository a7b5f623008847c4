/* train/chat/template_internal.h - private to the templates: the rows of named templates,
 * a model's own template, and the turns that both make of a conversation. */
#ifndef TRAIN_CHAT_TEMPLATE_INTERNAL_H
#define TRAIN_CHAT_TEMPLATE_INTERNAL_H

#include "train/chat/chat.h"
#include "train/chat/template.h"

/* In a slot: the message's text, and special tokens of the tokenizer, which split the
 * text around them. */
#define SLOT_CONTENT "\001"
#define SLOT_BOS     "\002"
#define SLOT_EOS     "\003"

enum { TEMPLATE_SPECIALS = 4, TEMPLATE_STOPS = 3 };

struct chat_template {
    const char *name;
    const char *prefix, *system, *user, *assistant;
    const char *function;    /* an answer that calls functions; NULL: same as assistant */
    const char *observation; /* the results of functions; NULL: same as user */
    const char *tools;       /* format of functions, in template_tools.c; NULL: default */
    bool trims_tools; /* they lose the newlines before them without a system message */
    const char *default_system;
    bool system_in_question; /* the system message is part of the first question */
    bool reasons;            /* answers start with their thoughts, which may be empty */
    /* around thoughts, and around a call in an answer with other words; NULL: <think> and
     * <tool_call> */
    const char *thoughts[2], *call_tags[2];
    const char *empty_thought; /* NULL: both tags of thoughts */
    bool ends_with_eos;        /* the end-of-text token follows the whole conversation */
    const char *specials[TEMPLATE_SPECIALS]; /* tokens that the tokenizer should have */
    const char *document_end;                /* NULL: the tokenizer's end-of-text token */
    const char *stops[TEMPLATE_STOPS];       /* tokens that end an answer, besides EOS */
    bool replaces_eos; /* the first stop becomes the tokenizer's end-of-text token */
    bool replaces_model_chat; /* a saved model gets this template in place of its own */
    const char *media[MEDIA_KINDS]; /* tokens of media; NULL: it is for text alone */
    const struct chat *model_chat;  /* a model's own template: only name is set */
};

/* The tables of named templates. */
extern const struct chat_template text_templates[], media_templates[];
extern const size_t text_template_count, media_template_count;

/* Return the tags around thoughts: the template's, or the default ones. */
const char *const *template_thought_tags(const struct chat_template *chat);

/* A question and its answer, encoded; the weight is that of the answer. */
struct turn {
    struct token_list source, target;
    size_t source_len, target_len; /* tokens that are kept */
    size_t answer;                 /* the answer that the target belongs to */
    float weight;
    size_t source_media, target_media; /* how many they have */
};

/* template_media.c: replace the token of each medium by those of its rows, and note their
 * spans in the source or the target. ERROR_DATA if there are not as many tokens as media. */
bool template_media_expand(struct template_media *media, struct turn *turns, size_t count,
                           struct error *err);
/* Move the spans of a source or a target of which `len` tokens are kept to token `at` of
 * the sample; *next is the first of them, and then of the next part. */
void template_media_place(struct template_media *media, size_t *next, size_t count,
                          size_t len, size_t at);

/* Append the description of tools, given as JSON, or the calls of an answer, in the format
 * that the row names.  A format is Jinja, over `tools` (a list of {"type": "function",
 * "function": {...}}), `given` (the tools as they are) and `calls` ({"name",
 * "arguments"}). */
bool template_tools_describe(const struct chat_template *chat, const struct message *json,
                             struct text *out, struct error *err);
bool template_tools_call(const struct chat_template *chat, const struct message *answer,
                         struct text *out, struct error *err);
/* Return the calls of an answer as JSON: [{"name", "arguments"}], a new reference; the
 * text before them, if any, goes to `thought`. NULL, and *err, if the answer has no
 * calls.  `chat` has the tags of thoughts and calls; NULL: the default ones. */
json_t *template_tools_calls(const struct chat_template *chat,
                             const struct message *answer, struct text *thought,
                             struct error *err);
/* Return the tools of a record as a list of {"type": "function", "function": ...}. */
json_t *template_tools_list(const struct message *tools, struct error *err);

/* The thoughts that a message has in a key of their own; NULL: none. */
const char *template_thoughts(const struct message *message, size_t *len);
bool template_is_thought_key(const char *key);
const char *template_thought_key(size_t index); /* NULL at the end */
/* Return whether a template that reasons writes these thoughts before the answer: unless
 * the answer already has some in its text. */
bool template_takes_thoughts(const struct chat_template *chat,
                             const struct message *message);

/* Count what a template does not write of the conversation; options->tally may be
 * NULL. */
void named_tally_keys(const struct template_request *request);
void chat_tally_keys(const struct chat *chat, const struct template_request *request);

/* Make the turns of a conversation with the model's own template; malloc'ed. */
bool chat_turns(const struct template_request *request, struct turn **turns,
                size_t *turn_count, struct error *err);

#endif
