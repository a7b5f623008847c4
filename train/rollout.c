/* train/rollout.c - generating answers, their rewards, and their micro-batches. */
#include "config.h"

#include "train/rollout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/answer_ends.h"
#include "train/chat/template.h"
#include "train/reinforcement.h"

/* Sequences of training draw other numbers than those of evaluations. */
static const uint64_t seed_of_training = (uint64_t)1 << 32;

/* ---- Opening ---- */

/* The loss divides the inputs of the head by the temperature, so logits must be
 * proportional to them. */
static bool check_temperature(const struct run *run, struct error *err)
{
    if (run->plan->generation.temperature == 1 ||
        (run->config.logit_softcap == 0 && !run->config.head_bias))
        return true;
    return error_set(
        err, ERROR_JOB,
        "this model limits its logits or adds a bias to them, so stage: grpo "
        "requires temperature: 1.0");
}

bool rollout_open(struct run *run, struct error *err)
{
    struct rollout *r = memory_alloc(sizeof(*r));

    run->rollout = r;
    r->plan = run->plan;
    r->data = run->train;
    r->generation = -1;
    r->count = (size_t)plan_generation_answers(run->plan);
    if (!reinforcement_check(run->plan, NULL, err) || !check_temperature(run, err))
        return false;
    r->rule = reward_rule_new(run->plan, NULL, err);
    r->answers = memory_alloc(r->count * sizeof(*r->answers));
    r->advantages = memory_alloc(r->count * sizeof(*r->advantages));
    r->longest = dataset_question_max(r->data, SIZE_MAX, NULL);
    return r->rule != NULL;
}

void rollout_forget(struct rollout *rollout)
{
    if (!rollout)
        return;
    for (size_t i = 0; i < rollout->count; i++) {
        free(rollout->answers[i].ids);
        free(rollout->answers[i].old);
        rollout->answers[i] = (struct rollout_answer) { 0 };
    }
    rollout->generation = -1;
}

void rollout_close(struct rollout *rollout)
{
    if (!rollout)
        return;
    if (rollout->answers)
        rollout_forget(rollout);
    reward_rule_free(rollout->rule);
    batch_clear(&rollout->batch);
    for (size_t i = 0; i < TS_COUNT(rollout->rows); i++)
        free(rollout->rows[i]);
    free(rollout->answers);
    free(rollout->advantages);
    free(rollout);
}

/* ---- Micro-batches ---- */

static bool is_masked(const struct rollout *r, const struct rollout_answer *answer)
{
    return r->plan->grpo.masks_truncated &&
           (answer->end == END_LENGTH || answer->end == END_BROKEN);
}

/* Return the tokens of an answer that are trained. */
static size_t trained_of(const struct rollout *r, const struct rollout_answer *answer)
{
    return is_masked(r, answer) ? 0 : answer->count;
}

/* Return the first answer of a micro-batch of a step. */
static size_t first_of(const struct rollout *r, int64_t step, size_t index)
{
    int64_t part = step % plan_generation_steps(r->plan);
    size_t before = (size_t)(part * r->plan->gradient_accumulation_steps) + index;

    return before * (size_t)r->plan->per_device_train_batch_size;
}

static size_t trained_in(const struct rollout *r, size_t first, size_t count)
{
    size_t sum = 0;

    for (size_t i = first; i < first + count; i++)
        sum += trained_of(r, &r->answers[i]);
    return sum;
}

/* As in TRL's _compute_loss: the sum of the losses of a window is divided by this ... */
double rollout_weight(const struct rollout *r, int64_t step)
{
    const struct plan *plan = r->plan;
    double windows = (double)plan->gradient_accumulation_steps;
    double answers = windows * (double)plan->per_device_train_batch_size, tokens;

    if (r->generation != step / plan_generation_uses(plan))
        return 0;
    switch (plan->grpo.loss) {
    case POLICY_GRPO:
        return answers;
    case POLICY_BNPO:
        return windows;
    case POLICY_DR_GRPO:
        return answers * (double)plan->grpo.max_completion_length;
    case POLICY_DAPO:
    case POLICY_LOSSES:
        break;
    }
    tokens = (double)trained_in(r, 0, r->count);
    return (tokens > 1 ? tokens : 1) / (double)plan_generation_steps(plan);
}

/* ... after each was multiplied by this; tokens: of the micro-batch. */
static double factor_of(const struct rollout *r, const struct rollout_answer *answer,
                        size_t tokens)
{
    size_t own = trained_of(r, answer);

    if (r->plan->grpo.loss == POLICY_GRPO)
        return 1 / (double)(own > 1 ? own : 1);
    if (r->plan->grpo.loss == POLICY_BNPO)
        return 1 / (double)(tokens > 1 ? tokens : 1);
    return 1;
}

static void make_room(struct rollout *r)
{
    const struct plan *plan = r->plan;
    size_t size = (size_t)plan->per_device_train_batch_size;
    size_t rows = size * (r->longest + (size_t)plan->grpo.max_completion_length);

    if (r->batch.tokens)
        return;
    r->batch.tokens = memory_resize(NULL, rows, sizeof(int32_t));
    r->batch.positions = memory_resize(NULL, rows, sizeof(int32_t));
    r->batch.targets = memory_resize(NULL, rows, sizeof(int32_t));
    r->batch.offsets = memory_resize(NULL, size + 1, sizeof(int32_t));
    r->rows[0] = memory_resize(NULL, size, sizeof(float));
    r->rows[1] = memory_resize(NULL, size, sizeof(float));
    r->rows[2] = memory_resize(NULL, rows, sizeof(float));
}

/* Append a prompt and its answer, whose last token predicts nothing. */
static void add_answer(struct rollout *r, const struct rollout_answer *answer)
{
    struct batch *b = &r->batch;
    struct dataset_question q;
    size_t asked, rows;

    dataset_question(r->data, answer->question, &q);
    asked = q.question_len;
    rows = asked + answer->count - (answer->count > 0);
    for (size_t i = 0; i < rows; i++) {
        size_t n = b->rows + i;
        bool trained = i + 1 >= asked && i + 1 - asked < trained_of(r, answer);

        b->tokens[n] = i < asked ? (int32_t)q.ids[i] : answer->ids[i - asked];
        b->positions[n] = (int32_t)i;
        b->targets[n] = trained ? answer->ids[i + 1 - asked] : LABEL_NONE;
        r->rows[2][n] = trained && answer->old ? answer->old[i + 1 - asked] : 0;
        b->trained += trained;
    }
    b->rows += rows;
    b->longest = rows > b->longest ? rows : b->longest;
    b->offsets[++b->sequences] = (int32_t)b->rows;
}

void rollout_make_batch(struct rollout *r, int64_t step, size_t index,
                        struct model_policy *policy)
{
    size_t first = first_of(r, step, index);
    size_t size = (size_t)r->plan->per_device_train_batch_size;
    size_t tokens = trained_in(r, first, size);

    make_room(r);
    r->batch.rows = r->batch.sequences = r->batch.trained = r->batch.longest = 0;
    r->batch.offsets[0] = 0;
    for (size_t i = 0; i < size; i++) {
        const struct rollout_answer *answer = &r->answers[first + i];

        add_answer(r, answer);
        r->rows[0][i] = (float)r->advantages[first + i];
        r->rows[1][i] = (float)factor_of(r, answer, tokens);
    }
    r->batch.seen = r->batch.rows;
    r->batch.weight = (double)size;
    *policy = (struct model_policy) { r->rows[0], r->rows[1], r->rows[2] };
}

const struct batch *rollout_batch(struct run *run, const struct run_step *step,
                                  size_t index)
{
    struct model_policy policy;

    rollout_make_batch(run->rollout, step->index, index, &policy);
    model_set_policy(run->model, &run->rollout->batch, &policy);
    return &run->rollout->batch;
}

/* ---- Generating ---- */

struct sampling {
    struct run *run;
    struct rollout *rollout;
    char *stop;
    struct text expected;
};

static bool on_answer(void *context, const struct completion *completion,
                      struct error *err)
{
    struct sampling *s = context;
    struct rollout_answer *answer = &s->rollout->answers[completion->index];
    struct dataset_question q;

    (void)err;
    dataset_question(s->rollout->data, answer->question, &q);
    answer_ends_expected(s->run, &q, s->stop, &s->expected);
    answer->count = completion->count;
    answer->ids = memory_resize(NULL, completion->count + 1, sizeof(*answer->ids));
    memcpy(answer->ids, completion->ids, completion->count * sizeof(*answer->ids));
    if (completion->end_token >= 0)
        answer->ids[answer->count++] = (int32_t)completion->end_token;
    answer->end = completion->end;
    answer->reward = reward_judge(
        s->rollout->rule, &(struct reward_answer) { .text = completion->text,
                                                    .len = completion->len,
                                                    .expected = s->expected.data,
                                                    .expected_len = s->expected.len,
                                                    .tokens = answer->count });
    return true;
}

/* Choose the prompts of a generation, each num_generations times in a row. */
static void choose_prompts(struct run *run, int64_t generation, struct prompt *prompts)
{
    struct rollout *r = run->rollout;
    const struct plan *plan = run->plan;
    int64_t each = run->steps.per_epoch / plan_generation_uses(plan);
    size_t asked = (size_t)plan_generation_prompts(plan);
    size_t *questions = memory_resize(NULL, asked, sizeof(*questions));
    struct dataset_question q;

    dataset_batch_questions(r->data, (uint64_t)(generation / each),
                            (uint64_t)(generation % each), asked, questions, asked);
    for (size_t i = 0; i < r->count; i++) {
        size_t question = questions[i / (size_t)plan->grpo.num_generations];

        r->answers[i].question = question;
        dataset_question(r->data, question, &q);
        prompts[i] =
            (struct prompt) { .ids = q.ids,
                              .count = q.question_len,
                              .sequence =
                                  (uint32_t)((uint64_t)generation * r->count + i) };
    }
    free(questions);
}

static bool sample(struct sampling *s, int64_t generation, struct error *err)
{
    struct run *run = s->run;
    struct rollout *r = s->rollout;
    struct prompt *prompts = memory_resize(NULL, r->count, sizeof(*prompts));
    const char *stops[2] = { NULL, NULL };
    struct generate_options how = { .model = run->model,
                                    .tokenizer = run->tokenizer,
                                    .settings = &run->plan->generation,
                                    .seed = (uint64_t)run->plan->seed + seed_of_training,
                                    .separate_answer = true,
                                    .stop_strings = stops,
                                    .heartbeat = run->options->heartbeat,
                                    .on_completion = on_answer,
                                    .context = s };
    bool ok = answer_ends_find(run, r->data, &how.ends, &s->stop, err);

    stops[0] = s->stop;
    choose_prompts(run, generation, prompts);
    ok = ok && generate_run(&how, prompts, r->count, err);
    free(prompts);
    return ok;
}

void rollout_reward(struct rollout *r)
{
    struct scored *rewards = memory_resize(NULL, r->count, sizeof(*rewards));

    for (size_t i = 0; i < r->count; i++)
        rewards[i] = r->answers[i].reward;
    reward_advantages(r->rule, rewards, r->count, r->advantages);
    free(rewards);
}

/* Keep the losses of a micro-batch of the first steps. */
static void keep_losses(struct rollout *r, size_t first, const float *losses)
{
    size_t size = (size_t)r->plan->per_device_train_batch_size;

    for (size_t i = 0; i < size; i++) {
        struct rollout_answer *answer = &r->answers[first + i];
        size_t count = trained_of(r, answer);
        int32_t end = r->batch.offsets[i + 1];

        answer->old = memory_alloc((answer->count + 1) * sizeof(*answer->old));
        for (size_t k = 0; k < count; k++)
            answer->old[k] = losses[(size_t)end - count + k];
    }
}

bool rollout_keep_losses(struct run *run, struct error *err)
{
    struct rollout *r = run->rollout;
    const struct plan *plan = run->plan;
    bool ok = true;

    if (plan_generation_uses(plan) == 1)
        return true;
    for (int64_t part = 0; ok && part < plan_generation_steps(plan); part++)
        for (size_t i = 0; ok && i < (size_t)plan->gradient_accumulation_steps; i++) {
            struct model_policy policy;
            float *losses;

            rollout_make_batch(r, part, i, &policy);
            losses = memory_resize(NULL, r->batch.rows, sizeof(*losses));
            ok = model_policy_losses(run->model, &r->batch, losses, err);
            if (ok)
                keep_losses(r, first_of(r, part, i), losses);
            free(losses);
        }
    return ok;
}

bool rollout_prepare(struct run *run, struct run_step *step, struct error *err)
{
    struct rollout *r = run->rollout;
    struct sampling s = { .run = run, .rollout = r };
    int64_t generation = step->index / plan_generation_uses(run->plan);
    bool ok = true;

    if (r->generation != generation) {
        rollout_forget(r);
        text_init(&s.expected, 0);
        ok = sample(&s, generation, err);
        text_clear(&s.expected);
        free(s.stop);
        if (ok)
            rollout_reward(r);
        ok = ok && rollout_keep_losses(run, err);
        if (!ok)
            rollout_forget(r);
        else
            r->generation = generation;
    }
    step->place.weight = rollout_weight(r, step->index);
    return ok;
}

const char *rollout_idle(const struct rollout *r)
{
    bool differs = false;

    if (!r || r->generation < 0)
        return NULL;
    if (trained_in(r, 0, r->count) == 0)
        return "all answers were left out, because they did not end "
               "(mask_truncated_completions): raise max_completion_length";
    for (size_t i = 0; i < r->count; i++)
        differs |= r->advantages[i] != 0;
    return differs ? NULL
                   : "all answers to a prompt had the same reward: if that continues, "
                     "check reward_funcs and the answers, or raise temperature";
}

/* ---- Metrics ---- */

struct rewards rollout_metrics(const struct rollout *r, const struct rewards *sums)
{
    struct scored *rewards = memory_resize(NULL, r->count, sizeof(*rewards));
    double windows = (double)r->plan->gradient_accumulation_steps;
    double count = (double)r->count;
    struct rewards out = { .names = sampled_names };
    struct reward_moments moments;

    for (size_t i = 0; i < r->count; i++) {
        const struct rollout_answer *answer = &r->answers[i];

        rewards[i] = answer->reward;
        out.values[SAMPLED_LENGTH] += (double)answer->count / count;
        out.values[SAMPLED_TRUNCATED] +=
            (answer->end == END_LENGTH || answer->end == END_BROKEN) / count;
    }
    moments = reward_summary(rewards, r->count);
    free(rewards);
    out.values[SAMPLED_REWARD] = moments.mean;
    out.values[SAMPLED_REWARD_STD] = moments.deviation;
    out.values[SAMPLED_KL] = sums->values[SAMPLED_KL] / windows;
    out.values[SAMPLED_CLIPPED] = sums->values[SAMPLED_CLIPPED] / windows;
    return out;
}
