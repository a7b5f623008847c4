/*
 * tests/unit/test_model_preference.c - training on pairs of answers satisfies these
 * identities: a model compared with itself has no reward, adapters are compared with the
 * model without them, windows add up, and gradients are those of the loss.
 */
#include "config.h"

#include "tests/unit/unit_trials.h"

#include "train/estimate.h"
#include "train/teacher/teacher_plan.h"

enum { ROWS = 64, SEQUENCES = 6, WORDS = 29, STEPS = 4, NUMBERS = 1 << 15 };

/* Two models with initial weights of different size: one is trained, and either is its
 * reference. */
#define CONFIG(range)                                                                   \
    "{\"model_type\": \"llama\", \"vocab_size\": 29, \"hidden_size\": 16,"              \
    " \"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4," \
    " \"num_key_value_heads\": 2, \"max_position_embeddings\": 64,"                     \
    " \"initializer_range\": " range ", \"tie_word_embeddings\": false}"
static const char config_text[] = CONFIG("0.4");
static char *base, *other; /* folders */
static const struct estimate_data data = { .rows = ROWS, .sequences = SEQUENCES };

/* A model and its reference, if there is one. */
struct model_pair {
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
    plan.label_smoothing = 0.3; /* must have no effect */
    return plan;
}

static void open_reference(struct model_pair *model_pair)
{
    struct unit_model *u = &model_pair->u;
    struct error err = { 0 };
    struct model_options options = { .plan = &model_pair->plan.plan,
                                     .config = &model_pair->plan.config,
                                     .backend = u->be,
                                     .rows_max = ROWS,
                                     .sequences_max = SEQUENCES };

    unit_must(teacher_plan_make(&u->plan, false, u->arena, &model_pair->plan, &err),
              &err);
    model_pair->reference = model_new(&options, &err);
    unit_must(model_pair->reference && model_load(model_pair->reference, &err), &err);
    model_set_reference(u->model, model_pair->reference);
}

/* same_weights: the reference starts with the weights of the model. */
static void models_open(struct model_pair *model_pair, const struct plan *plan,
                        bool same_weights, int threads)
{
    *model_pair = (struct model_pair) { .u = unit_model_text(config_text, *plan) };
    model_pair->u.device = plan->device.kind == DEVICE_CUDA ? &plan->device : NULL;
    if (!same_weights && plan->method == METHOD_FULL)
        model_pair->u.plan.preference.reference = other;
    unit_model_start(&model_pair->u, ROWS, SEQUENCES, threads);
    if (plan_has_second_model(&model_pair->u.plan))
        open_reference(model_pair);
}

static void models_close(struct model_pair *model_pair)
{
    model_free(model_pair->reference);
    unit_model_stop(&model_pair->u);
}

/* Adapters start with B = 0: set values in each, the same for every model. */
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

/* Append a pair: a prompt of `prompt_len` tokens, and answers of these lengths. */
static void add_pair(struct batch *b, size_t prompt_len, size_t chosen, size_t rejected,
                     uint32_t stream)
{
    const size_t answers[] = { chosen, rejected };
    int32_t ids[ROWS];

    for (uint32_t a = 0; a < 2; a++) {
        size_t at = b->rows;

        for (size_t i = 0; i < prompt_len + answers[a]; i++)
            ids[i] = (int32_t)(random_bits(7, RANDOM_ORDER,
                                           stream + (i < prompt_len ? 0 : 1 + a), i) %
                               WORDS);
        unit_batch_add(b, ids, prompt_len + answers[a]);
        for (size_t i = 0; i + 1 < prompt_len; i++) {
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

/* Compute the means over the pairs of a window and the norm of the mean's gradient,
 * without an update. */
static struct outcome run_window(struct unit_model *u, const struct batch *window,
                                 size_t count)
{
    struct outcome out = { 0 };
    struct step_scalars numbers;
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

/* A model compared with itself gives no reward: the losses are those of d = 0, to the
 * bit, in every compute format. */
static void test_preference_starts_without_reward(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16 };
    const double expected[] = { -log(0.5), 1, 1 / (4 * 0.3 * 0.3) };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(referred) * TS_COUNT(formats) * 2; i++) {
        size_t loss = i / 2 % TS_COUNT(referred);
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, referred[loss]);
        struct batch b = three_pairs();
        struct outcome is;
        struct model_pair model_pair;

        plan.precision.compute = formats[i / 2 / TS_COUNT(referred)];
        models_open(&model_pair, &plan, true, 2);
        is = run_window(&model_pair.u, &b, 1);
        unit_assert_near("loss", is.loss, expected[loss], 1e-6);
        for (int r = 0; r <= REWARD_MARGIN; r++)
            assert_true(is.rewards.values[r] == 0);
        assert_true(is.rewards.values[REWARD_LOGP_CHOSEN] < 0);
        assert_true(is.norm > 0);
        models_close(&model_pair);
        unit_batch_free(&b);
    }
}

/* Adapters are compared with the model without them: rewards are what they add to it. */
static void test_preference_of_adapters_uses_their_base(void **state)
{
    struct plan plan = plan_for(METHOD_LORA, PREFERENCE_SIGMOID);
    struct batch b = three_pairs();
    struct outcome before, after, learned;
    struct model_pair model_pair;

    (void)state;
    models_open(&model_pair, &plan, true, 2);
    before = evaluate(&model_pair.u, &b);
    fill_adapters(&model_pair.u);
    after = evaluate(&model_pair.u, &b);
    learned = run_window(&model_pair.u, &b, 1);
    for (int i = 0; i < 2; i++) {
        double added = after.rewards.values[REWARD_LOGP_CHOSEN + i] -
                       before.rewards.values[REWARD_LOGP_CHOSEN + i];

        assert_true(fabs(added) > 0.05);
        unit_assert_near("reward", after.rewards.values[REWARD_CHOSEN + i], 0.3 * added,
                         1e-4);
    }
    unit_assert_near("margin", after.rewards.values[REWARD_MARGIN],
                     after.rewards.values[REWARD_CHOSEN] -
                         after.rewards.values[REWARD_REJECTED],
                     1e-5);
    unit_assert_near("loss", learned.loss, after.loss,
                     1e-6); /* no dropout, so it is the same */
    for (int r = 0; r < REWARDS; r++)
        unit_assert_near("reward", learned.rewards.values[r], after.rewards.values[r],
                         1e-5);
    models_close(&model_pair);
    unit_batch_free(&b);
}

/* Label smoothing applies to single answers: likelihoods are not smoothed. */
static void test_preference_smooths_no_label(void **state)
{
    struct outcome found[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct plan plan = plan_for(METHOD_FULL, PREFERENCE_SIGMOID);
        struct batch b = three_pairs();
        struct model_pair model_pair;

        plan.label_smoothing = i == 0 ? 0 : 0.3;
        models_open(&model_pair, &plan, false, 1);
        found[i] = run_window(&model_pair.u, &b, 1);
        models_close(&model_pair);
        unit_batch_free(&b);
    }
    assert_true(found[0].loss == found[1].loss && found[0].norm == found[1].norm);
    assert_true(found[0].rewards.values[REWARD_LOGP_CHOSEN] ==
                found[1].rewards.values[REWARD_LOGP_CHOSEN]);
}

/* A window of three micro-batches equals one of all pairs. */
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
        struct model_pair model_pair;

        plan.preference.ftx = i == 0 ? 0.5 : 0;
        plan.preference.label_smoothing = i == 0 ? 0.1 : 0;
        add_pair(&parts[0], 3, 5, 4, 10);
        add_pair(&parts[1], 1, 7, 7, 20);
        add_pair(&parts[2], 6, 2, 9, 30);
        models_open(&model_pair, &plan, false, 2);
        fill_adapters(&model_pair.u);
        one = run_window(&model_pair.u, &whole, 1);
        three = run_window(&model_pair.u, parts, 3);
        unit_assert_near("loss", three.loss, one.loss, 1e-6);
        unit_assert_near("norm", three.norm, one.norm, 1e-5);
        for (int r = 0; r < REWARDS; r++)
            unit_assert_near(reward_names[r], three.rewards.values[r],
                             one.rewards.values[r], 1e-5);
        models_close(&model_pair);
        unit_batch_free(&whole);
        for (size_t k = 0; k < 3; k++)
            unit_batch_free(&parts[k]);
    }
}

/* A small step down the gradient lowers the loss by the square of its norm. */
static void test_preference_gradient_matches_the_loss(void **state)
{
    static const enum preference_loss losses[] = { PREFERENCE_SIGMOID, PREFERENCE_IPO,
                                                   PREFERENCE_ORPO, PREFERENCE_SIMPO };

    (void)state;
    for (size_t i = 0; i < 2 * TS_COUNT(losses); i++) {
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, losses[i / 2]);
        struct batch b = three_pairs();
        struct outcome at;
        struct model_pair model_pair;
        double step, before, after, gained;

        plan.optimizer = optimizer_find("sgd");
        plan.preference.ftx = 0.2;
        models_open(&model_pair, &plan, false, 2);
        fill_adapters(&model_pair.u);
        at = run_window(&model_pair.u, &b, 1);
        before = at.loss;
        step = 2e-3 / (at.norm * at.norm) * at.loss;
        model_pair.u.plan.learning_rate = step;
        unit_step(&model_pair.u, 1);
        after = evaluate(&model_pair.u, &b).loss;
        gained = (before - after) / (step * at.norm * at.norm);
        if (!(fabs(gained - 1) < 0.05))
            fail_msg("loss %zu: it falls by %g of the predicted change", i, gained);
        models_close(&model_pair);
        unit_batch_free(&b);
    }
}

/* ---- On a GPU ---- */

/* Steps of two micro-batches with different row counts, often enough that recordings are
 * replayed, and an evaluation after each. */
static void run_steps(const struct plan *plan, struct outcome *out, size_t steps)
{
    struct batch window[2] = { three_pairs() };
    struct model_pair model_pair;

    add_pair(&window[1], 4, 6, 3, 40);
    add_pair(&window[1], 9, 1, 5, 50);
    models_open(&model_pair, plan, false, 2);
    fill_adapters(&model_pair.u);
    for (size_t i = 0; i < steps; i++) {
        out[2 * i] = run_window(&model_pair.u, window, 2);
        unit_step(&model_pair.u, (int64_t)i + 1);
        out[2 * i + 1] = evaluate(&model_pair.u, &window[1]);
    }
    models_close(&model_pair);
    for (size_t i = 0; i < 2; i++)
        unit_batch_free(&window[i]);
}

static struct device need_gpu(void)
{
    struct device gpu;
    char note[256] = "";

    if (backend_devices("cuda:0", &gpu, 1, note, sizeof(note)) == 0 || !gpu.runnable) {
        print_message("# SKIP no GPU: %s\n", note);
        skip();
    }
    return gpu;
}

static void check_on(const struct device *gpu, size_t i)
{
    struct plan plan =
        plan_for(i % 2 ? METHOD_LORA : METHOD_FULL, (enum preference_loss)(i / 2));
    struct outcome cpu[2 * STEPS], other_way[2 * STEPS];

    plan.preference.ftx = i % 3 ? 0 : 0.5;
    run_steps(&plan, cpu, STEPS);
    plan.device = *gpu;
    run_steps(&plan, other_way, STEPS);
    for (size_t k = 0; k < 2 * STEPS; k++) {
        unit_assert_near("loss", other_way[k].loss, cpu[k].loss, 1e-4);
        unit_assert_near("norm", other_way[k].norm, cpu[k].norm, 1e-3);
        for (int r = 0; r < REWARDS; r++)
            assert_true(fabs(other_way[k].rewards.values[r] - cpu[k].rewards.values[r]) <
                        1e-4 * (1 + fabs(cpu[k].rewards.values[r])));
    }
}

static void test_preference_on_a_gpu_matches_the_cpu(void **state)
{
    struct device gpu = need_gpu();

    (void)state;
    for (size_t i = 0; i <= 2 * PREFERENCE_SIMPO + 1; i++)
        check_on(&gpu, i);
}

/* ---- Sampled answers ---- */

static struct plan plan_for_answers(enum method method, bool reuses)
{
    struct plan plan = plan_for(method, PREFERENCE_SIGMOID);

    plan.stage = STAGE_GRPO;
    plan.generation.temperature = 0.8;
    plan.grpo = (struct reinforcement) { .num_iterations = reuses ? 2 : 1,
                                         .beta = 0.2,
                                         .epsilon = 0.05,
                                         .epsilon_high = 0.1,
                                         .corrects_kl = true };
    return plan;
}

/* Train on six answers, twice if the first losses are kept. */
static void run_answers(const struct plan *plan, struct outcome *out)
{
    static const float advantages[] = { 1, -1, 0.5f, 0, -0.25f, 2 },
                       factors[] = { 1, 0.5f, 1, 1, 0.25f, 1 };
    struct batch b = three_pairs();
    float old[ROWS] = { 0 };
    struct error err = { 0 };
    struct model_pair model_pair;

    models_open(&model_pair, plan, false, 2);
    fill_adapters(&model_pair.u);
    unit_must(model_policy_losses(model_pair.u.model, &b, old, &err), &err);
    for (int i = 0; i < 2; i++) {
        struct step_scalars numbers = unit_numbers(&model_pair.u, 6, i + 1);

        numbers.learning_rate = 1e-2;
        model_begin(model_pair.u.model, &numbers);
        model_set_policy(model_pair.u.model, &b,
                         &(struct model_policy) { advantages, factors, old });
        unit_must(model_train(model_pair.u.model, &b, (uint64_t)i, &err), &err);
        unit_must(optimizer_step(model_pair.u.model, &model_pair.u.plan, &err), &err);
        unit_must(model_end(model_pair.u.model, &numbers, &out[i].loss, &err), &err);
        out[i].norm = numbers.norm;
        out[i].rewards = model_rewards(model_pair.u.model);
    }
    models_close(&model_pair);
    unit_batch_free(&b);
}

static void test_answers_on_a_gpu_match_the_cpu(void **state)
{
    struct device gpu = need_gpu();

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct plan plan = plan_for_answers(i % 2 ? METHOD_LORA : METHOD_FULL, i > 1);
        struct outcome cpu[2], other_way[2];

        run_answers(&plan, cpu);
        plan.device = gpu;
        run_answers(&plan, other_way);
        for (size_t k = 0; k < 2; k++) {
            unit_assert_near("loss", other_way[k].loss, cpu[k].loss, 1e-4);
            unit_assert_near("norm", other_way[k].norm, cpu[k].norm, 1e-3);
        }
    }
}

/* The estimate is the memory that is allocated, to the byte, with the cache of slots. */
static void test_answers_memory_matches_the_estimate(void **state)
{
    struct plan plan = plan_for_answers(METHOD_LORA, true);
    struct memory_use estimate;
    struct error err = { 0 };
    struct model_pair m;

    (void)state;
    plan.generation =
        (struct generation) { .on = true, .slots = 3, .max_new_tokens = 12 };
    models_open(&m, &plan, true, 2);
    unit_must(estimate_memory(&m.u.plan, &m.u.config, &data, &estimate, &err), &err);
    assert_int_equal(estimate.total, model_memory(m.u.model)->low);
    models_close(&m);
}

/* ---- The same bits ---- */

/* Return all gradients and their number. */
static size_t gradients_of(const struct plan *plan, int threads, float *out, size_t room)
{
    struct batch b = three_pairs();
    struct tensor gradients;
    struct model_pair model_pair;

    models_open(&model_pair, plan, false, threads);
    fill_adapters(&model_pair.u);
    run_window(&model_pair.u, &b, 1);
    gradients = model_gradients(model_pair.u.model);
    assert_in_range(gradients.cols, 1, room);
    memcpy(out, gradients.data, tensor_bytes(gradients));
    models_close(&model_pair);
    unit_batch_free(&b);
    return gradients.cols;
}

static void test_preference_is_deterministic(void **state)
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

/* If the data are unknown, batches are full: two answers of cutoff_len for each pair, in
 * the reference too. */
static void check_full_batches(struct unit_model *u, uint64_t less)
{
    size_t runs = 2 * (size_t)u->plan.per_device_train_batch_size;
    const struct estimate_data full = { .rows = runs * (size_t)u->plan.cutoff_len,
                                        .sequences = runs };
    struct memory_use estimated, computed;
    struct error err = { 0 };

    unit_must(estimate_memory(&u->plan, &u->config, &full, &estimated, &err), &err);
    unit_must(estimate_memory(&u->plan, &u->config, NULL, &computed, &err), &err);
    assert_int_equal(estimated.total, computed.total);
    assert_true(estimated.total > less);
}

/* The estimate is the memory that is allocated, to the byte. */
static void test_preference_memory_matches_the_estimate(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct plan plan = plan_for(i % 2 ? METHOD_LORA : METHOD_FULL,
                                    i < 2 ? PREFERENCE_SIGMOID : PREFERENCE_ORPO);
        struct memory_use estimate;
        struct error err = { 0 };
        struct model_pair model_pair;

        models_open(&model_pair, &plan, true, 2);
        assert_true((model_pair.reference != NULL) == (i == 0));
        model_pair.u.plan.kd.config =
            model_pair.reference ? &model_pair.plan.config : NULL;
        model_pair.u.plan.kd.format = FORMAT_FP32;
        unit_must(estimate_memory(&model_pair.u.plan, &model_pair.u.config, &data,
                                  &estimate, &err),
                  &err);
        assert_int_equal(
            estimate.total,
            model_memory(model_pair.u.model)->low +
                (model_pair.reference ? model_memory(model_pair.reference)->low : 0));
        check_full_batches(&model_pair.u, estimate.total);
        models_close(&model_pair);
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
        cmocka_unit_test(test_preference_starts_without_reward),
        cmocka_unit_test(test_preference_of_adapters_uses_their_base),
        cmocka_unit_test(test_preference_smooths_no_label),
        cmocka_unit_test(test_preference_windows_add_up),
        cmocka_unit_test(test_preference_gradient_matches_the_loss),
        cmocka_unit_test(test_preference_on_a_gpu_matches_the_cpu),
        cmocka_unit_test(test_answers_on_a_gpu_match_the_cpu),
        cmocka_unit_test(test_answers_memory_matches_the_estimate),
        cmocka_unit_test(test_preference_is_deterministic),
        cmocka_unit_test(test_preference_memory_matches_the_estimate),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
