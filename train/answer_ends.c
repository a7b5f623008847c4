/* train/answer_ends.c - the tokens and the text after an answer. */
#include "config.h"

#include "train/answer_ends.h"

#include <string.h>

/* Search range for the token that ends an answer: last tokens of the first samples. */
enum { END_DEPTH = 4, END_SAMPLES = 64 };

/* Add the special tokens at the end of answers, which the template puts there. */
static void collect_ends(const struct run *run, const struct dataset *data,
                         struct prompt_ends *ends)
{
    size_t count = dataset_questions(data);
    struct dataset_question q;

    for (size_t i = 0; i < count && i < END_SAMPLES; i++) {
        if (!dataset_question(data, i, &q))
            continue;
        for (size_t n = 1; n <= END_DEPTH && n <= q.count - q.question_len; n++)
            if (prompt_is_special(run->tokenizer, q.ids[q.count - n]))
                prompt_ends_add(ends, q.ids[q.count - n]);
    }
}

/* If the job names a template, the end may be plain text. */
bool answer_ends_find(const struct run *run, const struct dataset *data,
                      struct prompt_ends *ends, char **stop, struct error *err)
{
    const char *name = run->plan->template_name;
    const struct chat_template *chat = name ? template_find(name) : NULL;
    const struct prompt_model model = { run->plan->model_name_or_path, &run->config, chat,
                                        run->tokenizer };

    collect_ends(run, data, ends);
    return prompt_ends_find(&model, ends, stop, err);
}

static void trim_end(struct text *text)
{
    while (text->len > 0 && strchr(" \n", text->data[text->len - 1]))
        text->data[--text->len] = 0;
}

/* Remove what the template puts after an answer: blanks, and text that is not a special
 * token. */
static void remove_end(struct text *text, const char *stop)
{
    size_t len = stop ? strlen(stop) : 0;

    trim_end(text);
    if (len > 0 && text->len >= len &&
        memcmp(text->data + text->len - len, stop, len) == 0) {
        text->data[text->len -= len] = 0;
        trim_end(text);
    }
}

void answer_ends_expected(const struct run *run, const struct dataset_question *q,
                          const char *stop, struct text *out)
{
    text_reset(out);
    tokenizer_decode(run->tokenizer, q->ids + q->question_len, q->count - q->question_len,
                     true, out);
    remove_end(out, stop);
}
