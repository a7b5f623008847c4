/* train/eval_answers.c - generating answers to prompts and counting correct ones. */
#include "config.h"

#include "train/eval_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/answer_ends.h"
#include "train/generation/answer.h"
#include "train/evaluation.h"
#include "train/model/parallel.h"
#include "train/generation/generate.h"
#include "train/rollout.h"
#include "train/generation/prompt.h"

struct generating {
    struct run *run;
    struct eval_answers *out;
    struct arena *arena; /* of their media */
    struct prompt *prompts;
    size_t *indices; /* of the prompts in the data */
    size_t count;
    char *stop;                  /* the text of the template after an answer; or NULL */
    struct text asked, expected; /* scratch */
};

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
        t->prompts[t->count] = (struct prompt) { .ids = q.ids,
                                                 .count = q.question_len,
                                                 .sequence = (uint32_t)i };
        dataset_question_media(data, i, &q, t->arena, &t->prompts[t->count].media);
        t->indices[t->count++] = i;
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

static void add_reward(struct generating *t, const struct completion *completion)
{
    size_t tokens = completion->count + (completion->end_token >= 0);
    const struct reward_answer answer = { .text = completion->text,
                                          .len = completion->len,
                                          .expected = t->expected.data,
                                          .expected_len = t->expected.len,
                                          .tokens = tokens };
    const struct scored reward = reward_judge(t->run->rollout->rule, &answer);
    double *sums = t->out->rewards;

    sums[SAMPLED_REWARD] += reward.sum;
    sums[SAMPLED_REWARD_STD] += reward.sum * reward.sum;
    sums[SAMPLED_LENGTH] += (double)tokens;
    sums[SAMPLED_TRUNCATED] +=
        completion->end == END_LENGTH || completion->end == END_BROKEN;
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
    answer_ends_expected(run, &q, t->stop, &t->expected);
    verdict = answer_judge(&rule, completion->text, completion->len, t->expected.data,
                           t->expected.len);
    t->out->asked++;
    t->out->found += verdict.found;
    t->out->right += verdict.correct;
    if (run->rollout)
        add_reward(t, completion);
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
    bool ok = answer_ends_find(run, run_questions(run), &how.ends, &t->stop, err);

    stops[0] = t->stop;
    return ok && generate_run(&how, t->prompts, t->count, err);
}

bool eval_answers_generate(struct run *run, struct eval_answers *out, struct error *err)
{
    struct generating t = { .run = run, .out = out, .arena = arena_new() };
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
    arena_free(t.arena);
    free(t.prompts);
    free(t.indices);
    free(t.stop);
    text_clear(&t.asked);
    text_clear(&t.expected);
    return ok || out->cut;
}
