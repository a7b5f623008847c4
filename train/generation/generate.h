/* train/generation/generate.h - prompts to completions: as many sequences in parallel as
 * the model has slots; a slot that becomes free takes the next prompt.
 *
 * A completion is a function of the weights, its prompt, the settings, the seed and its
 * number, and independent of the other sequences: prompts go through the model one by
 * one, and every step has the shape of all slots (train/model/model.h). */
#ifndef TRAIN_GENERATION_GENERATE_H
#define TRAIN_GENERATION_GENERATE_H

#include "base/heartbeat.h"
#include "train/generation/prompt.h"
#include "train/model/model.h"
#include "train/tokenizer/tokenizer.h"

struct prompt {
    const uint32_t *ids;
    size_t count;
    uint32_t sequence; /* number of the sequence, for random draws */
    struct question_media media;
};

/* END_BROKEN: no logit was finite, so there is no next token. */
enum completion_end { END_TOKEN, END_STOP, END_LENGTH, END_BROKEN, COMPLETION_ENDS };
/* "eos", "stop", "length", "broken" */
extern const char *const completion_end_names[COMPLETION_ENDS];

struct completion {
    size_t index;        /* of its prompt */
    const uint32_t *ids; /* without the token that ended it */
    size_t count;
    /* without special tokens and without the stop string; may contain NULs */
    const char *text;
    size_t len;
    enum completion_end end;
    int64_t end_token; /* of END_TOKEN; -1: another end */
};

struct generate_options {
    struct model *model;
    const struct tokenizer *tokenizer;
    const struct generation *settings;
    uint64_t seed;
    struct prompt_ends ends;
    /* an answer is a separate text, as templates write it; otherwise it continues the
     * text of the prompt */
    bool separate_answer;
    const char *const *stop_strings; /* end an answer; NULL-terminated; NULL: none */
    struct heartbeat *heartbeat;     /* ticks with every token; or NULL */
    /* Called for each completion when it is finished, in no particular order; false stops
     * the generation. */
    bool (*on_completion)(void *context, const struct completion *completion,
                          struct error *err);
    void *context;
};

/* ERROR_DATA for a prompt that is empty or longer than the model's context;
 * ERROR_STOPPED. */
bool generate_run(const struct generate_options *options, const struct prompt *prompts,
                  size_t count, struct error *err);

#endif
