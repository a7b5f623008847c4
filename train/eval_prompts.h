/*
 * train/eval_prompts.h - prompts to generate answers to: records of data files with their
 * expected answers, or texts from the command line.
 */
#ifndef TRAIN_EVAL_PROMPTS_H
#define TRAIN_EVAL_PROMPTS_H

#include "base/arena.h"
#include "base/json.h"
#include "train/dataset/dataset_prompted.h"
#include "train/plan.h"
#include "train/chat/template.h"

struct eval_prompt {
    struct message *messages; /* up to the last user message; one for a plain text */
    size_t count;
    const char *expected; /* the answer in the record; NULL: none */
    size_t expected_len;
    const json_t *variables;     /* of the model's own template; NULL: none */
    const char *file;            /* of the record; NULL: a text */
    struct mark at;              /* where the record is there */
    struct record_medium *media; /* files, in the order of their placeholders */
    size_t media_count;
};

struct eval_prompts {
    struct eval_prompt *list; /* malloc'ed */
    size_t count, room;
    struct arena *arena; /* owns the texts */
    json_t *own;         /* a list: owns the messages of records */
    /* a folder for images and sounds that records contain, by digest, borrowed; NULL: such a
     * medium keeps its name alone */
    const char *contents;
};

void eval_prompts_init(struct eval_prompts *questions);
void eval_prompts_clear(struct eval_prompts *questions);

/* Add one user message. */
void eval_prompts_add(struct eval_prompts *questions, const char *text, size_t len);
/* Add the records of `names`, which have the form of `dataset` in a job: at most
 * plan->max_samples of each dataset, in the order of the files, ignoring slices and
 * sampling.  The last answer of a conversation is the expected one.  Fails with
 * ERROR_DATA and the position. */
bool eval_prompts_read(struct eval_prompts *questions, const struct plan *plan,
                       const char *names, struct error *err);

/* Return the last user message, as displayed. */
const struct message *eval_prompt_text(const struct eval_prompt *question);

/* Tokenize a prompt with the template; without one (how->chat NULL) encode its last
 * text unchanged, after the tokens that the tokenizer puts before a text.  The messages
 * of `how` are not read.  The prompt is added to `prompted`, which may be NULL: placeholders
 * are text then. */
bool eval_prompt_encode(const struct eval_prompt *question,
                        const struct template_request *how,
                        struct dataset_prompted *prompted, struct token_list *out,
                        struct error *err);

#endif
