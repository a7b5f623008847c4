/*
 * train/chat/template_parts.h - what the files behind train/chat/template.h share: the rows of
 * named templates, a model's own, and the turns that both make of a conversation.
 */
#ifndef TRAIN_CHAT_TEMPLATE_PARTS_H
#define TRAIN_CHAT_TEMPLATE_PARTS_H

#include "train/chat/chat.h"
#include "train/chat/template.h"

/* In a slot: what is said, and the tokenizer's own tokens, which part the text around
 * them. */
#define SLOT_SAID "\001"
#define SLOT_BOS  "\002"
#define SLOT_EOS  "\003"

enum { TEMPLATE_SPECIALS = 4 };

struct chat_template {
    const char *name;
    const char *prefix, *system, *user, *assistant;
    const char *function;    /* an answer that calls functions; NULL: as assistant */
    const char *observation; /* what they gave; NULL: as user */
    const char *tools; /* how functions are written, of template_tools.c; NULL: default */
    const char *default_system;
    bool fused;   /* the system message is a part of the first question */
    bool reasons; /* answers begin with their thoughts, which may be empty */
    bool ends;    /* the tokenizer's end of text stands behind the whole conversation */
    const char *specials[TEMPLATE_SPECIALS]; /* tokens that a tokenizer should have */
    const char *document_end;                /* NULL: the tokenizer's end of text */
    const struct chat *own; /* a model's own: none of the above but name */
};

/* A question and its answer, encoded; the weight is that of the answer. */
struct turn {
    struct token_list source, target;
    size_t source_len, target_len; /* what is kept of them */
    float weight;
};

/* How functions are described to the model, and how it calls them: Jinja, over `tools` (a
 * list of {"type": "function", "function": {...}}) and `calls` ({"name",
 * "arguments"}). */
struct template_tools {
    const char *name, *describe, *call;
};

const struct template_tools *template_tools_find(const char *name); /* NULL: none */
/* Append the description of tools, given as JSON; or the calls of an answer. */
bool template_tools_describe(const struct template_tools *tools,
                             const struct message *json, struct text *out,
                             struct error *err);
bool template_tools_call(const struct template_tools *tools, const struct message *answer,
                         struct text *out, struct error *err);
/* The calls of an answer as JSON: [{"name", "arguments"}], a new reference; the text
 * before them, if any, is *thought_len bytes long.  NULL, and *err, where they are
 * none. */
json_t *template_tools_calls(const struct message *answer, struct text *thought,
                             struct error *err);
/* Tools of a record as a list of {"type": "function", "function": ...}. */
json_t *template_tools_list(const struct message *tools, struct error *err);

/* Turns of a conversation that the model's own template writes; malloc'ed. */
bool chat_turns(const struct template_request *request, struct turn **turns,
                size_t *turn_count, struct error *err);

#endif
