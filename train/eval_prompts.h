/*
 * train/eval_prompts.h - questions to generate answers to: the records of data files with
 * what they expect, or texts of a person.
 */
#ifndef TRAIN_EVAL_PROMPTS_H
#define TRAIN_EVAL_PROMPTS_H

#include "base/arena.h"
#include "train/plan.h"
#include "train/chat/template.h"

struct eval_prompt {
    struct message *messages; /* up to the user's last; of a plain text that one alone */
    size_t count;
    const char *expected; /* the answer of the record; NULL: none */
    size_t expected_len;
};

struct eval_prompts {
    struct eval_prompt *list; /* malloc'ed */
    size_t count, room;
    struct arena *arena; /* of the texts */
};

void eval_prompts_init(struct eval_prompts *questions);
void eval_prompts_clear(struct eval_prompts *questions);

/* One user's message. */
void eval_prompts_add(struct eval_prompts *questions, const char *text, size_t len);
/* All records of `names`, which are as in a job's `dataset`, at most plan->max_samples of
 * each data set, in the order of the files (slices and draws are of no account); the last
 * answer of a conversation is what is expected.  ERROR_DATA with the place. */
bool eval_prompts_read(struct eval_prompts *questions, const struct plan *plan,
                       const char *names, struct error *err);

/* The text a person sees: the user's last message. */
const struct message *eval_prompt_text(const struct eval_prompt *question);

/* Encode a question with the template; without one (how->chat NULL) encode its last text
 * verbatim, with what the tokenizer puts before a text.  The messages of `how` are not
 * read. */
bool eval_prompt_encode(const struct eval_prompt *question,
                        const struct template_request *how, struct token_list *out,
                        struct error *err);

#endif
