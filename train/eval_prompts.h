/*
 * train/eval_prompts.h - questions to generate answers to: the records of data files with
 * what they expect, or texts of a person.
 */
#ifndef TRAIN_EVAL_PROMPTS_H
#define TRAIN_EVAL_PROMPTS_H

#include "base/arena.h"
#include "train/plan.h"
#include "train/chat/template.h"

struct question {
    struct message *messages; /* up to the user's last; of a plain text that one alone */
    size_t count;
    const char *expected; /* the answer of the record; NULL: none */
    size_t expected_len;
};

struct questions {
    struct question *list; /* malloc'ed */
    size_t count, room;
    struct arena *arena; /* of the texts */
};

void questions_init(struct questions *questions);
void questions_clear(struct questions *questions);

/* One user's message. */
void questions_add(struct questions *questions, const char *text, size_t len);
/* All records of `names`, which are as in a job's `dataset`, at most plan->max_samples of
 * each data set, in the order of the files (slices and draws are of no account); the last
 * answer of a conversation is what is expected.  ERROR_DATA with the place. */
bool questions_read(struct questions *questions, const struct plan *plan,
                    const char *names, struct error *err);

/* The text a person sees: the user's last message. */
const struct message *question_asked(const struct question *question);

/* The tokens of a question by the template, or without one (chat NULL) its last text as
 * it stands, with what the tokenizer puts before a text. */
bool question_encode(const struct question *question, const struct chat_template *chat,
                     const struct tokenizer *tokenizer,
                     const struct template_options *options, struct token_list *out,
                     struct error *err);

#endif
