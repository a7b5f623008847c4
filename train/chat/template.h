/* train/chat/template.h - conversations to tokens: LLaMA-Factory's named templates, as a
 * table. Only the answers (and their end tokens) are labels, unless train_on_prompt. */
#ifndef TRAIN_CHAT_TEMPLATE_H
#define TRAIN_CHAT_TEMPLATE_H

#include "base/json.h"
#include "train/media/media_family.h"
#include "train/tokenizer/tokenizer.h"

enum role {
    ROLE_SYSTEM,
    ROLE_TOOLS, /* not a message: the available functions, a list of JSON */
    ROLE_USER,
    ROLE_TOOL, /* the result of a function */
    ROLE_ASSISTANT,
    /* an answer that calls functions: JSON of {"name", "arguments"}, or a list of them,
     * optionally after thoughts */
    ROLE_FUNCTION
};

/* enable_thinking of a job: whether answers start with thoughts. */
enum chat_thinking { CHAT_THINKING_DEFAULT, CHAT_THINKING_ON, CHAT_THINKING_OFF };

struct message {
    enum role role;
    const char *text;
    size_t len;
    float weight; /* of an answer in the loss, usually 1; 0: the answer is only context */
    /* the message of the record with all its keys, as role, content, tool_calls, ...;
     * NULL: it has no others than role and text. Without a content, the text is it. */
    const json_t *own;
};

/* a row of the table: default, alpaca, chatml, llama2, llama3, ... */
struct chat_template;

const struct chat_template *template_find(const char *name); /* NULL: none */
/* The model's own template in the tokenizer's folder, or else the row whose special
 * tokens the tokenizer has, or else "default". */
const struct chat_template *template_guess(const struct tokenizer *tokenizer);
/* The model's own template of a row; NULL for a named one. */
const struct chat *template_model_chat(const struct chat_template *chat);
/* The names, for a message; index from 0, NULL at the end. */
const char *template_name(size_t index);
const char *template_row_name(const struct chat_template *chat);
/* A special token of the template that the tokenizer does not have, which would become
 * plain text; NULL: it has all. */
const char *template_missing(const struct chat_template *chat,
                             const struct tokenizer *tokenizer);
/* Return whether answers of a named template end with the tokenizer's end-of-text
 * token. */
bool template_writes_end(const struct chat_template *chat);
/* The token that ends a document of plain text (stage pt); -1: none.  chat may be
 * NULL. */
int64_t template_document_end(const struct chat_template *chat,
                              const struct tokenizer *tokenizer);

/* The token that a named template writes for a medium; NULL: it is for other media, or for
 * text alone. A model's own template has none here: it writes what the family says. */
const char *template_media_token(const struct chat_template *chat, enum media_kind kind);

/* What templates leave out, counted over all conversations that are encoded. */
struct template_left {
    char key[48];
    size_t count; /* messages */
};
enum { TEMPLATE_LEFT_MAX = 12 };
struct template_tally {
    size_t answers; /* to be trained */
    /* those among them that the model's own template writes differently once other
     * messages follow, so that they are only context */
    size_t unlearned;
    struct template_left left[TEMPLATE_LEFT_MAX]; /* keys that are not written */
    size_t left_count;
};

/* Append a list of the keys and their counts, and return whether one of them holds text
 * that the model should learn. */
bool template_tally_describe(const struct template_tally *tally, struct text *out);
/* The named template that writes a conversation like the model's own; NULL: none, or
 * chat is NULL. *other, unless NULL: the one that writes it with thoughts if the first
 * does not, or without. */
const char *template_match(const struct chat *chat, const char **other);

/* The feature rows of a medium, which its tokens stand for. */
struct template_medium {
    uint32_t rows;
    uint32_t columns; /* rows after which a token ends a line of an image; 0: none does */
    /* rows of a tile, after which one ends it, and tiles of a line; the last tile is the whole
     * image; 0: it has none */
    uint32_t tile, across;
};

/* The media of a conversation. Its messages have one token for each, in this order, which
 * template_encode replaces by as many as there are rows. */
struct template_media {
    const struct media_family *family;
    int64_t token, row_end, end; /* ids of the family's tokens; -1: it has none */
    int64_t row;                 /* that of each row of features */
    const struct template_medium *list;
    size_t count;
    /* out, with room for `count`: those that cutoff_len keeps, by tokens of the sample */
    struct media_span *spans;
    size_t span_count;
    bool lost; /* out: a turn that is kept loses a medium, or a part of one, to the cut */
};

/* What stands for a medium in a text that the template writes: as named templates have it,
 * or as the model's own template does. chat may be NULL. */
void template_media_write(const struct media_family *family,
                          const struct chat_template *chat, struct text *out);

/* Replace the tokens of media in a text that is no conversation; its spans are those of
 * tokens. ERROR_DATA as template_encode. */
bool template_media_fill(struct template_media *media, struct token_list *ids,
                         struct error *err);

struct template_options {
    const char *default_system; /* from the job; NULL: the template's default */
    bool train_on_prompt, mask_history;
    enum chat_thinking thinking;
    size_t cutoff_len; /* tokens kept, divided between question and answer; 0: all */
    /* chat_template_kwargs of the record: variables of the model's own template */
    const json_t *variables;
    struct template_tally *tally; /* NULL: nothing is counted */
    struct template_media *media; /* NULL: no token stands for a medium */
};

/* Return whether the turns are valid: an optional tools message and system message, then
 * alternately input (user, or one or more of tool) and output (assistant, function),
 * ending in an output. */
bool template_turns_are_valid(const struct message *messages, size_t count);

/* Divide `room` tokens between a question and its answer: the shorter one is kept whole
 * if it has less than half of `room`, otherwise both are cut in proportion
 * (LLaMA-Factory's infer_seqlen). */
void template_cut(size_t room, size_t *question, size_t *answer);

#define LABEL_NONE (-100) /* the target of a row that is not trained on */

/* A conversation to encode, and how. */
struct template_request {
    const struct chat_template *chat;
    const struct tokenizer *tokenizer;
    const struct template_options *options;
    const struct message *messages;
    size_t count;
};

/* Append the tokens of a conversation and, for each, its weight in the loss: 0 if it is
 * not trained on, 1 for a question with train_on_prompt; negative if the label is the
 * tokenizer's end-of-text token instead. ERROR_DATA for a conversation with invalid
 * turns, or one that the model's own template refuses. *weights is malloc'ed and has the
 * room of *ids. */
bool template_encode(const struct template_request *request, struct token_list *ids,
                     float **weights, struct error *err);

#endif
