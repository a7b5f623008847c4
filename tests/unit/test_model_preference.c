/*
 * tests/unit/test_model_preference.c - a model learns of two answers the one that was
 * chosen, as it has to by identities: beside itself nothing is preferred, adapters are
 * held against the model without them, windows add up, and gradients are those of the
 * loss.
 */
#include "config.h"

#include "tests/unit/unit_trials.h"

#include "train/estimate.h"
#include "train/teacher/teacher_plan.h"

enum { ROWS = 64, SEQUENCES = 6, WORDS = 29 };

/* Models of two sizes of the first weights: one is trained, and held against either. */
#define CONFIG(range)                                                                   \
    "{\"model_type\": \"llama\", \"vocab_size\": 29, \"hidden_size\": 16,"              \
    " \"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4," \
    " \"num_key_value_heads\": 2, \"max_position_embeddings\": 64,"                     \
    " \"initializer_range\": " range ", \"tie_word_embeddings\": false}"
static const char config_text[] = CONFIG("0.4");
static char *base, *other; /* folders */

/* A model and, where there is one, the model that it is held against. */
struct held {
    struct unit_model u;
    struct teacher_plan plan;
    struct model *reference;
};

static struct plan plan_for(enum method method, enum preference_loss loss)
{
    struct plan plan = unit_plan(base);

    plan.stage = STAGE_DPO;
    plan.method = method;
    plan.preference =
        (struct preference) { .loss = loss, .beta = 0.3, .simpo_gamma = 0.5 };
    plan.label_smoothing = 0.3; /* has no part in it */
    return plan;
}

static void open_reference(struct held *held)
{
    struct unit_model *u = &held->u;
    struct error err = { 0 };
    struct model_options options = { .plan = &held->plan.plan,
                                     .config = &held->plan.config,
                                     .backend = u->be,
                                     .rows_max = ROWS,
                                     .sequences_max = SEQUENCES };

    unit_must(teacher_plan_make(&u->plan, false, u->arena, &held->plan, &err), &err);
    held->reference = model_new(&options, &err);
    unit_must(held->reference && model_load(held->reference, &err), &err);
    model_set_reference(u->model, held->reference);
}

/* alike: a reference begins as the model does */
static void open_held(struct held *held, const struct plan *plan, bool alike, int threads)
{
    *held = (struct held) { .u = unit_model_text(config_text, *plan) };
    held->u.device = plan->device.kind == DEVICE_CUDA ? &plan->device : NULL;
    if (!alike && plan->method == METHOD_FULL)
        held->u.plan.preference.reference = other;
    unit_model_start(&held->u, ROWS, SEQUENCES, threads);
    if (plan_has_second_model(&held->u.plan))
        open_reference(held);
}

static void close_held(struct held *held)
{
    model_free(held->reference);
    unit_model_stop(&held->u);
}

/* Adapters begin with B = 0: numbers into each, the same for each model. */
static void fill_adapters(struct unit_model *u)
{
    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        struct parameter *p = model_trained(u->model, i);
        size_t count = p->rows * p->cols;
        float *values = memory_alloc(count * sizeof(*values));
        void *packed = memory_alloc(count * sizeof(float));

        for (size_t k = 0; strstr(p->name, "lora_B") && k < count; k++)
            values[k] = (float)random_uniform(3, RANDOM_ORDER, (uint32_t)i, k) - 0.5f;
        if (strstr(p->name, "lora_B")) {
            u->be->ops->upload(u->be, p->weight.data, values, count * sizeof(float));
            format_convert(packed, p->copy.data ? p->copy.format : FORMAT_FP32, values,
                           FORMAT_FP32, count);
            if (p->copy.data)
                u->be->ops->upload(u->be, p->copy.data, packed, tensor_bytes(p->copy));
        }
        free(packed);
        free(values);
    }
}

/* A pair: a question of `asked` tokens, and answers of so many. */
static void add_pair(struct batch *b, size_t asked, size_t chosen, size_t rejected,
                     uint32_t stream)
{
    const size_t answers[] = { chosen, rejected };
    int32_t ids[ROWS];

    for (uint32_t a = 0; a < 2; a++) {
        size_t at = b->rows;

        for (size_t i = 0; i < asked + answers[a]; i++)
            ids[i] = (int32_t)(random_bits(7, RANDOM_ORDER,
                                           stream + (i < asked ? 0 : 1 + a), i) %
                               WORDS);
        unit_batch_add(b, ids, asked + answers[a]);
        for (size_t i = 0; i + 1 < asked; i++) {
            b->targets[at + i] = LABEL_NONE;
            b->trained--;
        }
    }
    b->weight = (double)b->sequences / 2;
}

static struct batch three_pairs(void)
{
    struct batch b = { 0 };

    add_pair(&b, 3, 5, 4, 10);
    add_pair(&b, 1, 7, 7, 20);
    add_pair(&b, 6, 2, 9, 30);
    return b;
}

struct outcome {
    double loss, norm;
    struct rewards rewards;
};

/* Means over the pairs of a window, and the norm of the mean's gradient; nothing is
 * updated. */
static struct outcome learn(struct unit_model *u, const struct batch *window,
                            size_t count)
{
    struct outcome out = { 0 };
    struct step_numbers numbers;
    struct error err = { 0 };
    size_t pairs = 0;

    for (size_t i = 0; i < count; i++)
        pairs += window[i].sequences / 2;
    numbers = unit_numbers(u, pairs, 1);
    model_begin(u->model, &numbers);
    for (size_t i = 0; i < count; i++)
        unit_must(model_train(u->model, &window[i], i, &err), &err);
    unit_must(model_end(u->model, &numbers, &out.loss, &err), &err);
    out.loss /= (double)pairs;
    out.rewards = (struct rewards) { 0 };
    {
        const struct rewards sums = model_rewards(u->model);

        rewards_add(&out.rewards, &sums, 1 / (double)pairs);
    }
    out.norm = unit_norm(u);
    return out;
}

static struct outcome evaluate(struct unit_model *u, const struct batch *batch)
{
    struct outcome out = { 0 };
    struct error err = { 0 };
    struct rewards sums;

    unit_must(model_evaluate(u->model, batch, &out.loss, &err), &err);
    sums = model_rewards(u->model);
    out.loss /= (double)batch->sequences / 2;
    rewards_add(&out.rewards, &sums, 2 / (double)batch->sequences);
    return out;
}

static const enum preference_loss referred[] = { PREFERENCE_SIGMOID, PREFERENCE_HINGE,
                                                 PREFERENCE_IPO };

/* Beside itself a model gives no reward: the losses are those of d = 0, to the bit, in
 * every format that it may be computed in. */
static void test_preference_begins_with_no_reward(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16 };
    const double wanted[] = { -log(0.5), 1, 1 / (4 * 0.3 * 0.3) };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(referred) * TS_COUNT(formats) * 2; i++) {
        size_t loss = i / 2 % TS_COUNT(referred);
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, referred[loss]);
        struct batch b = three_pairs();
        struct outcome is;
        struct held held;

        plan.precision.compute = formats[i / 2 / TS_COUNT(referred)];
        open_held(&held, &plan, true, 2);
        is = learn(&held.u, &b, 1);
        unit_near("loss", is.loss, wanted[loss], 1e-6);
        for (int r = 0; r <= REWARD_MARGIN; r++)
            assert_true(is.rewards.of[r] == 0);
        assert_true(is.rewards.of[REWARD_LOGP_CHOSEN] < 0);
        assert_true(is.norm > 0);
        close_held(&held);
        unit_batch_free(&b);
    }
}

/* Adapters are held against the model without them: the rewards are what they add to
 * it. */
static void test_preference_of_adapters_is_beyond_their_base(void **state)
{
    struct plan plan = plan_for(METHOD_LORA, PREFERENCE_SIGMOID);
    struct batch b = three_pairs();
    struct outcome before, after, learnt;
    struct held held;

    (void)state;
    open_held(&held, &plan, true, 2);
    before = evaluate(&held.u, &b);
    fill_adapters(&held.u);
    after = evaluate(&held.u, &b);
    learnt = learn(&held.u, &b, 1);
    for (int i = 0; i < 2; i++) {
        double added = after.rewards.of[REWARD_LOGP_CHOSEN + i] -
                       before.rewards.of[REWARD_LOGP_CHOSEN + i];

        assert_true(fabs(added) > 0.05);
        unit_near("reward", after.rewards.of[REWARD_CHOSEN + i], 0.3 * added, 1e-4);
    }
    unit_near("margin", after.rewards.of[REWARD_MARGIN],
              after.rewards.of[REWARD_CHOSEN] - after.rewards.of[REWARD_REJECTED], 1e-5);
    unit_near("loss", learnt.loss, after.loss, 1e-6); /* no dropout, so the same */
    for (int r = 0; r < REWARDS; r++)
        unit_near("reward", learnt.rewards.of[r], after.rewards.of[r], 1e-5);
    close_held(&held);
    unit_batch_free(&b);
}

/* Smoothed labels are for learning single answers: likelihoods are not smoothed. */
static void test_preference_smooths_no_label(void **state)
{
    struct outcome found[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct plan plan = plan_for(METHOD_FULL, PREFERENCE_SIGMOID);
        struct batch b = three_pairs();
        struct held held;

        plan.label_smoothing = i == 0 ? 0 : 0.3;
        open_held(&held, &plan, false, 1);
        found[i] = learn(&held.u, &b, 1);
        close_held(&held);
        unit_batch_free(&b);
    }
    assert_true(found[0].loss == found[1].loss && found[0].norm == found[1].norm);
    assert_true(found[0].rewards.of[REWARD_LOGP_CHOSEN] ==
                found[1].rewards.of[REWARD_LOGP_CHOSEN]);
}

/* A window of three micro-batches is one of all pairs. */
static void test_preference_windows_add_up(void **state)
{
    static const enum preference_loss losses[] = { PREFERENCE_SIGMOID, PREFERENCE_HINGE,
                                                   PREFERENCE_IPO, PREFERENCE_ORPO,
                                                   PREFERENCE_SIMPO };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(losses); i++) {
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, losses[i]);
        struct batch whole = three_pairs(), parts[3] = { 0 };
        struct outcome one, three;
        struct held held;

        plan.preference.ftx = i == 0 ? 0.5 : 0;
        plan.preference.label_smoothing = i == 0 ? 0.1 : 0;
        add_pair(&parts[0], 3, 5, 4, 10);
        add_pair(&parts[1], 1, 7, 7, 20);
        add_pair(&parts[2], 6, 2, 9, 30);
        open_held(&held, &plan, false, 2);
        fill_adapters(&held.u);
        one = learn(&held.u, &whole, 1);
        three = learn(&held.u, parts, 3);
        unit_near("loss", three.loss, one.loss, 1e-6);
        unit_near("norm", three.norm, one.norm, 1e-5);
        for (int r = 0; r < REWARDS; r++)
            unit_near(reward_names[r], three.rewards.of[r], one.rewards.of[r], 1e-5);
        close_held(&held);
        unit_batch_free(&whole);
        for (size_t k = 0; k < 3; k++)
            unit_batch_free(&parts[k]);
    }
}

/* What a small step down the gradient gains is the square of its norm. */
static void test_preference_gradient_is_that_of_the_loss(void **state)
{
    static const enum preference_loss losses[] = { PREFERENCE_SIGMOID, PREFERENCE_IPO,
                                                   PREFERENCE_ORPO, PREFERENCE_SIMPO };

    (void)state;
    for (size_t i = 0; i < 2 * TS_COUNT(losses); i++) {
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, losses[i / 2]);
        struct batch b = three_pairs();
        struct outcome at;
        struct held held;
        double step, before, after, gained;

        plan.optimizer = optimizer_find("sgd");
        plan.preference.ftx = 0.2;
        open_held(&held, &plan, false, 2);
        fill_adapters(&held.u);
        at = learn(&held.u, &b, 1);
        before = at.loss;
        step = 2e-3 / (at.norm * at.norm) * at.loss;
        held.u.plan.learning_rate = step;
        unit_step(&held.u, 1);
        after = evaluate(&held.u, &b).loss;
        gained = (before - after) / (step * at.norm * at.norm);
        if (!(fabs(gained - 1) < 0.05))
            fail_msg("loss %zu: %g of what the gradient says is gained", i, gained);
        close_held(&held);
        unit_batch_free(&b);
    }
}

/* ---- On a GPU ---- */

/* Steps of two micro-batches of unlike numbers of rows, so often that recordings are
 * played, and an evaluation behind each. */
static void follow(const struct plan *plan, struct outcome *out, size_t steps)
{
    struct batch window[2] = { three_pairs() };
    struct held held;

    add_pair(&window[1], 4, 6, 3, 40);
    add_pair(&window[1], 9, 1, 5, 50);
    open_held(&held, plan, false, 2);
    fill_adapters(&held.u);
    for (size_t i = 0; i < steps; i++) {
        out[2 * i] = learn(&held.u, window, 2);
        unit_step(&held.u, (int64_t)i + 1);
        out[2 * i + 1] = evaluate(&held.u, &window[1]);
    }
    close_held(&held);
    for (size_t i = 0; i < 2; i++)
        unit_batch_free(&window[i]);
}

enum { STEPS = 4 };

static void check_on(const struct device *gpu, size_t i)
{
    struct plan plan =
        plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, (enum preference_loss)(i / 2));
    struct outcome cpu[2 * STEPS], other_way[2 * STEPS];

    plan.preference.ftx = i % 3 ? 0 : 0.5;
    follow(&plan, cpu, STEPS);
    plan.device = *gpu;
    follow(&plan, other_way, STEPS);
    for (size_t k = 0; k < 2 * STEPS; k++) {
        unit_near("loss", other_way[k].loss, cpu[k].loss, 1e-4);
        unit_near("norm", other_way[k].norm, cpu[k].norm, 1e-3);
        for (int r = 0; r < REWARDS; r++)
            assert_true(fabs(other_way[k].rewards.of[r] - cpu[k].rewards.of[r]) <
                        1e-4 * (1 + fabs(cpu[k].rewards.of[r])));
    }
}

static void test_preference_on_a_gpu_is_that_of_the_cpu(void **state)
{
    struct device gpu;
    char note[256] = "";

    (void)state;
    if (backend_devices("cuda:0", &gpu, 1, note, sizeof(note)) == 0 || !gpu.runnable) {
        print_message("# SKIP no GPU to try: %s\n", note);
        skip();
    }
    for (size_t i = 0; i <= 2 * PREFERENCE_SIMPO + 1; i++)
        check_on(&gpu, i);
}

/* ---- The same bits ---- */

/* All gradients; how many. */
static size_t gradients_of(const struct plan *plan, int threads, float *out, size_t room)
{
    struct batch b = three_pairs();
    struct tensor gradients;
    struct held held;

    open_held(&held, plan, false, threads);
    fill_adapters(&held.u);
    learn(&held.u, &b, 1);
    gradients = model_gradients(held.u.model);
    assert_in_range(gradients.cols, 1, room);
    memcpy(out, gradients.data, tensor_bytes(gradients));
    close_held(&held);
    unit_batch_free(&b);
    return gradients.cols;
}

enum { NUMBERS = 1 << 15 };

static void test_preference_has_the_same_bits(void **state)
{
    float *one = memory_alloc(NUMBERS * sizeof(*one)),
          *again = memory_alloc(NUMBERS * sizeof(*again));
    size_t count;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct plan plan =
            plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, PREFERENCE_SIGMOID);

        plan.precision.compute = i < 2 ? FORMAT_FP32 : FORMAT_BF16;
        count = gradients_of(&plan, 1, one, NUMBERS);
        plan.gradient_checkpointing = true;
        assert_int_equal(gradients_of(&plan, 3, again, NUMBERS), count);
        assert_memory_equal(one, again, count * sizeof(*one));
    }
    free(one);
    free(again);
}

/* Where the data are not known, batches are full: two answers of cutoff_len for each
 * pair, for a reference too. */
static void check_full_batches(struct unit_model *u, uint64_t less)
{
    size_t runs = 2 * (size_t)u->plan.per_device_train_batch_size;
    const struct estimate_data full = { .rows = runs * (size_t)u->plan.cutoff_len,
                                        .sequences = runs };
    struct memory_use told, reckoned;
    struct error err = { 0 };

    unit_must(estimate_memory(&u->plan, &u->config, &full, &told, &err), &err);
    unit_must(estimate_memory(&u->plan, &u->config, NULL, &reckoned, &err), &err);
    assert_int_equal(told.total, reckoned.total);
    assert_true(told.total > less);
}

/* The estimate is what is taken, to the byte. */
static void test_preference_takes_what_was_estimated(void **state)
{
    static const struct estimate_data data = { .rows = ROWS, .sequences = SEQUENCES };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL,
                                    i < 2 ? PREFERENCE_SIGMOID : PREFERENCE_ORPO);
        struct memory_use estimate;
        struct error err = { 0 };
        struct held held;

        open_held(&held, &plan, true, 2);
        assert_true((held.reference != NULL) == (i == 0));
        held.u.plan.kd.config = held.reference ? &held.plan.config : NULL;
        held.u.plan.kd.format = FORMAT_FP32;
        unit_must(estimate_memory(&held.u.plan, &held.u.config, &data, &estimate, &err),
                  &err);
        assert_int_equal(estimate.total,
                         model_memory(held.u.model)->low +
                             (held.reference ? model_memory(held.reference)->low : 0));
        check_full_batches(&held.u, estimate.total);
        close_held(&held);
    }
}

static int start(void **state)
{
    (void)state;
    base = base_new(config_text);
    other = base_new(CONFIG("0.3"));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    unit_dir_free(base);
    unit_dir_free(other);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preference_begins_with_no_reward),
        cmocka_unit_test(test_preference_of_adapters_is_beyond_their_base),
        cmocka_unit_test(test_preference_smooths_no_label),
        cmocka_unit_test(test_preference_windows_add_up),
        cmocka_unit_test(test_preference_gradient_is_that_of_the_loss),
        cmocka_unit_test(test_preference_on_a_gpu_is_that_of_the_cpu),
        cmocka_unit_test(test_preference_has_the_same_bits),
        cmocka_unit_test(test_preference_takes_what_was_estimated),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
