/* train/eval_answers.c - generating answers to prompts and counting correct ones. */
#include "config.h"

#include "train/eval_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/generation/answer.h"
#include "train/evaluation.h"
#include "train/model/parallel.h"
#include "train/generation/generate.h"
#include "train/generation/prompt.h"

/* Search range for the token that ends an answer: last tokens of the first samples. */
enum { END_DEPTH = 4, END_SAMPLES = 64 };

struct generating {
    struct run *run;
    struct eval_answers *out;
    struct prompt *prompts;
    size_t *indices; /* of the prompts in the data */
    size_t count;
    char *stop;                  /* the text of the template after an answer; or NULL */
    struct text asked, expected; /* scratch */
};

/* Add the special tokens at the end of answers, which the template puts there. */
static void collect_ends(const struct run *run, struct prompt_ends *ends)
{
    const struct dataset *data = run_questions(run);
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

/* Find the end of an answer.  If the job names a template, it may be plain text. */
static bool find_ends(const struct run *run, struct prompt_ends *ends, char **stop,
                      struct error *err)
{
    const char *name = run->plan->template_name;
    const struct chat_template *chat = name ? template_find(name) : NULL;
    const struct prompt_model model = { run->plan->model_name_or_path, &run->config, chat,
                                        run->tokenizer };

    collect_ends(run, ends);
    return prompt_ends_find(&model, ends, stop, err);
}

/* Collect this rank's contiguous share of the prompts. */
static void collect_prompts(struct generating *t)
{
    const struct run *run = t->run;
    const struct dataset *data = run_questions(run);
    size_t all = dataset_questions(data), limit = (size_t)run->plan->eval_questions;
    size_t rank = parallel_rank(run->options->group),
           ranks = parallel_ranks(run->options->group);
    struct dataset_question q;

    if (limit > 0 && limit < all)
        all = limit;
    t->prompts = memory_resize(NULL, all + 1, sizeof(*t->prompts));
    t->indices = memory_resize(NULL, all + 1, sizeof(*t->indices));
    for (size_t i = all * rank / ranks; i < all * (rank + 1) / ranks; i++) {
        if (!dataset_question(data, i, &q) ||
            q.question_len > (size_t)run->plan->cutoff_len)
            continue;
        t->prompts[t->count] = (struct prompt) { q.ids, q.question_len, (uint32_t)i };
        t->indices[t->count++] = i;
    }
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

/* Keep the answer of an evaluation without training.  Its label is complete, as in
 * LLaMA-Factory: with what the template puts after an answer. */
static void keep_prediction(struct generating *t, const struct completion *completion,
                            const struct dataset_question *q)
{
    const struct tokenizer *tokenizer = t->run->tokenizer;

    text_reset(&t->asked);
    text_reset(&t->expected);
    tokenizer_decode(tokenizer, q->ids, q->question_len, false, &t->asked);
    tokenizer_decode(tokenizer, q->ids + q->question_len, q->count - q->question_len,
                     true, &t->expected);
    predictions_put(t->run->predictions, t->indices[completion->index],
                    &(struct prediction) { .prompt = &t->asked,
                                           .label = &t->expected,
                                           .text = completion->text,
                                           .len = completion->len });
}

static void keep_sample(struct generating *t, const struct completion *completion,
                        const struct dataset_question *q, bool correct)
{
    text_reset(&t->asked);
    tokenizer_decode(t->run->tokenizer, q->ids, q->question_len, true, &t->asked);
    samples_put(t->run->samples, t->indices[completion->index],
                &(struct sample_answer) { .prompt = &t->asked,
                                          .expected = &t->expected,
                                          .text = completion->text,
                                          .len = completion->len,
                                          .correct = correct });
}

static bool on_done(void *context, const struct completion *completion, struct error *err)
{
    struct generating *t = context;
    struct run *run = t->run;
    const struct plan *plan = run->plan;
    const struct answer_rule rule = { plan->answer_tag, plan->answer_marker,
                                      plan->answer_tolerance };
    struct dataset_question q;
    struct verdict verdict;

    dataset_question(run_questions(run), t->indices[completion->index], &q);
    if (run->predictions)
        keep_prediction(t, completion, &q);
    text_reset(&t->expected);
    tokenizer_decode(run->tokenizer, q.ids + q.question_len, q.count - q.question_len,
                     true, &t->expected);
    remove_end(&t->expected, t->stop);
    verdict = answer_judge(&rule, completion->text, completion->len, t->expected.data,
                           t->expected.len);
    t->out->asked++;
    t->out->found += verdict.found;
    t->out->right += verdict.correct;
    if (run->samples && t->indices[completion->index] < (size_t)plan->samples)
        keep_sample(t, completion, &q, verdict.correct);
    (void)err;
    if (!run->train)
        run_evaluated_one(run);
    return true;
}

static bool generate(struct generating *t, struct error *err)
{
    struct run *run = t->run;
    const char *stops[2] = { NULL, NULL };
    struct generate_options how = { .model = run->model,
                                    .tokenizer = run->tokenizer,
                                    .settings = &run->plan->generation,
                                    .seed = (uint64_t)run->plan->seed,
                                    .separate_answer = true,
                                    .stop_strings = stops,
                                    .heartbeat = evaluation_heartbeat(run),
                                    .on_completion = on_done,
                                    .context = t };
    bool ok = find_ends(run, &how.ends, &t->stop, err);

    stops[0] = t->stop;
    return ok && generate_run(&how, t->prompts, t->count, err);
}

bool eval_answers_generate(struct run *run, struct eval_answers *out, struct error *err)
{
    struct generating t = { .run = run, .out = out };
    struct error why = { 0 }, lost = { 0 };
    bool ok;

    *out = (struct eval_answers) { 0 };
    text_init(&t.asked, 0);
    text_init(&t.expected, 0);
    collect_prompts(&t);
    ok = generate(&t, &why);
    out->cut = !ok && why.code == ERROR_STOPPED;
    if (!ok && !out->cut)
        error_set(err, why.code, "%s", why.text);
    if (ok && run->samples && !samples_write(run->samples, run->progress.step, &lost))
        log_line(run->options->log, LOG_WARN, "samples: %s; continuing without",
                 lost.text);
    free(t.prompts);
    free(t.indices);
    free(t.stop);
    text_clear(&t.asked);
    text_clear(&t.expected);
    return ok || out->cut;
}
