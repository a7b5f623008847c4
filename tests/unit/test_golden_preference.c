/*
 * tests/unit/test_golden_preference.c - losses of pairs of answers, their rewards, and
 * gradients match PyTorch's (tests/golden/preference.py): all weights with another model
 * as the reference, and an adapter with the model without it.
 */
#include "config.h"

#include "tests/unit/unit_formula_adapter.h"
#include "tests/unit/unit_model.h"

#include "train/teacher/teacher_plan.h"

enum { GOLDEN_MAX = 1 << 20 };

static int read_golden(void **state)
{
    char *name = unit_source("tests/golden/preference.json");
    struct error err = { 0 };

    *state = json_read_file(name, GOLDEN_MAX, &err);
    unit_must(*state != NULL, &err);
    free(name);
    return 0;
}

static int drop_golden(void **state)
{
    json_decref(*state);
    return 0;
}

static double member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_number(value))
        fail_msg("the number %s is missing", name);
    return json_number_value(value);
}

/* ---- The same run ---- */

static const char *const losses[] = {
    [PREFERENCE_SIGMOID] = "sigmoid", [PREFERENCE_HINGE] = "hinge",
    [PREFERENCE_IPO] = "ipo",         [PREFERENCE_ORPO] = "orpo",
    [PREFERENCE_SIMPO] = "simpo",
};

static void take_settings(struct plan *plan, const json_t *run)
{
    const char *word = json_string_value(json_object_get(run, "pref_loss"));
    size_t loss = 0;

    while (loss < TS_COUNT(losses) && strcmp(losses[loss], word) != 0)
        loss++;
    assert_true(loss < TS_COUNT(losses));
    plan->stage = STAGE_DPO;
    plan->preference.loss = (enum preference_loss)loss;
    plan->preference.beta = member(run, "pref_beta");
    plan->preference.ftx = member(run, "pref_ftx");
    plan->preference.label_smoothing = member(run, "dpo_label_smoothing");
    plan->preference.simpo_gamma = member(run, "simpo_gamma");
}

/* Rows are chosen, rejected, chosen, ..; nothing of a prompt is learned. */
static struct batch batch_of(const json_t *part)
{
    const json_t *rows = json_object_get(part, "rows");
    const json_t *prompts = json_object_get(part, "prompts"), *row;
    struct batch batch = { 0 };
    size_t i;

    json_array_foreach((json_t *)rows, i, row)
    {
        size_t at = batch.rows;
        size_t prompt = (size_t)json_integer_value(json_array_get(prompts, i / 2));

        unit_batch_json(&batch, row);
        for (size_t k = 0; k + 1 < prompt; k++)
            batch.targets[at + k] = LABEL_NONE;
    }
    return batch;
}

/* The model is open: create a reference if its plan has one; put: its weights, or
 * NULL. */
static struct model *refer(struct unit_model *u, const struct batch *batch,
                           struct teacher_plan *plan, const json_t *put)
{
    struct error err = { 0 };
    struct model_options options = { .plan = &plan->plan,
                                     .config = &plan->config,
                                     .backend = u->be,
                                     .rows_max = batch->rows,
                                     .sequences_max = batch->sequences };
    struct model *reference;

    if (!plan_has_second_model(&u->plan))
        return NULL;
    if (put) {
        u->plan.kd.config = &u->config;
        u->plan.kd.format = FORMAT_FP32;
    }
    unit_must(teacher_plan_make(&u->plan, false, u->arena, plan, &err), &err);
    reference = model_new(&options, &err);
    unit_must(reference != NULL, &err);
    if (put)
        unit_put_weights(reference, put);
    else
        unit_must(model_load(reference, &err), &err);
    model_set_reference(u->model, reference);
    return reference;
}

/* ---- Comparisons ---- */

static void assert_near(const char *what, double is, double wanted, double room)
{
    if (!(fabs(is - wanted) <= room))
        fail_msg("%s is %.9g, but PyTorch has %.9g", what, is, wanted);
}

static double mean_of(const json_t *list)
{
    double sum = 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum / (double)json_array_size(list);
}

static void check_rewards(const struct rewards *sums, const json_t *run, double pairs)
{
    static const char *const lists[REWARDS] = {
        [REWARD_CHOSEN] = "rewards_chosen",
        [REWARD_REJECTED] = "rewards_rejected",
        [REWARD_LOGP_CHOSEN] = "logps_chosen",
        [REWARD_LOGP_REJECTED] = "logps_rejected",
    };
    const json_t *chosen = json_object_get(run, lists[REWARD_CHOSEN]);
    const json_t *rejected = json_object_get(run, lists[REWARD_REJECTED]);
    double right = 0;

    for (int r = 0; r < REWARDS; r++)
        if (lists[r]) {
            double wanted = mean_of(json_object_get(run, lists[r]));

            assert_near(lists[r], sums->values[r] / pairs, wanted,
                        2e-5 * (1 + fabs(wanted)));
        }
    for (size_t i = 0; i < json_array_size(chosen); i++)
        right += json_number_value(json_array_get(chosen, i)) >
                 json_number_value(json_array_get(rejected, i));
    assert_true(sums->values[REWARD_ACCURACY] == right);
    assert_near("margin", sums->values[REWARD_MARGIN] / pairs,
                mean_of(chosen) - mean_of(rejected), 2e-5 * (1 + fabs(mean_of(chosen))));
}

/* A gradient, or for a large one its norm and first elements. */
static void check_gradient(const struct parameter *p, const json_t *wanted, bool some)
{
    size_t count = p->rows * p->cols, kept = json_array_size(wanted);
    const float *g = p->grad.data;
    double norm = 0, room;

    assert_true(p->grad.stride == p->grad.cols);
    for (size_t i = 0; i < count; i++)
        norm += (double)g[i] * g[i];
    norm = sqrt(norm);
    if (some)
        unit_assert_near(p->name, norm, json_number_value(json_array_get(wanted, 0)),
                         2e-4);
    else
        assert_int_equal(kept, count);
    room = 2e-4 * norm / sqrt((double)count) + 2e-6 * norm;
    for (size_t i = 0; i + some < kept; i++)
        assert_near(p->name, g[i], json_number_value(json_array_get(wanted, i + some)),
                    room);
}

static void check_gradients(struct unit_model *u, const json_t *gradients, bool some)
{
    const char *name;
    json_t *wanted;

    assert_true(json_object_size(gradients) >= 8);
    json_object_foreach((json_t *)gradients, name, wanted)
    {
        const struct parameter *p = unit_parameter(u, name);

        if (p == NULL)
            fail_msg("%s is missing", name);
        check_gradient(p, wanted, some);
    }
}

static void check_run(struct unit_model *u, const struct batch *batch, const json_t *run,
                      bool some)
{
    double pairs = (double)batch->sequences / 2, sum = 0;
    struct step_scalars numbers = unit_numbers(u, batch->sequences / 2, 1);
    struct error err = { 0 };
    struct rewards rewards;

    unit_must(model_evaluate(u->model, batch, &sum, &err), &err);
    rewards = model_rewards(u->model);
    unit_assert_near("evaluated", sum / pairs, member(run, "loss"), 2e-5);
    check_rewards(&rewards, run, pairs);
    model_begin(u->model, &numbers);
    unit_must(model_train(u->model, batch, 0, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    rewards = model_rewards(u->model);
    unit_assert_near("loss", sum / pairs, member(run, "loss"), 2e-5);
    check_rewards(&rewards, run, pairs);
    unit_assert_near("norm", unit_norm(u), member(run, "grad_norm"), 1e-4);
    check_gradients(u, json_object_get(run, "gradients"), some);
}

/* ---- The operation ---- */

static float *numbers_of(const json_t *list, size_t count)
{
    float *out = memory_alloc(count * sizeof(*out));

    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
    return out;
}

static int32_t *whole_numbers_of(const json_t *list, size_t count)
{
    int32_t *out = memory_alloc(count * sizeof(*out));

    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return out;
}

static void check_operation(struct backend *be, const json_t *given)
{
    const json_t *wanted = json_object_get(given, "pairs");
    const json_t *weights = json_object_get(given, "weights");
    size_t rows = json_array_size(weights), pairs = json_array_size(wanted);
    float *lost = numbers_of(json_object_get(given, "losses"), rows);
    float *reference = numbers_of(json_object_get(given, "reference"), rows);
    int32_t *targets = whole_numbers_of(json_object_get(given, "targets"), rows);
    int32_t *offsets = whole_numbers_of(json_object_get(given, "offsets"), 2 * pairs + 1);
    float *told = memory_alloc(pairs * PREFERENCE_VALUES * sizeof(*told));
    float *slopes = memory_alloc(rows * sizeof(*slopes));
    struct plan plan = { 0 };
    struct error err = { 0 };

    take_settings(&plan, given);
    be->ops->preference(
        be, &(struct op_preference) {
                .pairs = tensor_of(told, FORMAT_FP32, pairs, PREFERENCE_VALUES),
                .losses = tensor_of(lost, FORMAT_FP32, 1, rows),
                .reference = plan_has_reference(&plan)
                                 ? tensor_of(reference, FORMAT_FP32, 1, rows)
                                 : (struct tensor) { 0 },
                .weights = slopes,
                .targets = targets,
                .offsets = offsets,
                .kind = plan.preference.loss,
                .beta = (float)plan.preference.beta,
                .ftx = (float)plan.preference.ftx,
                .smoothing = (float)plan.preference.label_smoothing,
                .margin = (float)plan.preference.simpo_gamma,
            });
    unit_must(be->ops->sync(be, &err), &err);
    for (size_t i = 0; i < pairs * PREFERENCE_VALUES; i++) {
        double is = json_number_value(json_array_get(
            json_array_get(wanted, i / PREFERENCE_VALUES), i % PREFERENCE_VALUES));

        assert_near("a number of a pair", told[i], is, 1e-6 * (1e-6 + fabs(is)) + 1e-7);
    }
    for (size_t i = 0; i < rows; i++) {
        double is = json_number_value(json_array_get(weights, i));

        assert_near("a weight", slopes[i], is, 1e-6 * fabs(is) + 1e-9);
    }
    free(lost);
    free(reference);
    free(targets);
    free(offsets);
    free(told);
    free(slopes);
}

static void test_preference_of_given_losses_matches_pytorch(void **state)
{
    const json_t *all = json_object_get(*state, "operator");
    struct unit_model u = { 0 };

    unit_model_open_backend(&u, 2);
    assert_true(json_array_size(all) >= 18);
    for (size_t i = 0; i < json_array_size(all); i++)
        check_operation(u.be, json_array_get(all, i));
    backend_close(u.be);
}

/* ---- The parts ---- */

static void test_preference_of_given_weights_matches_pytorch(void **state)
{
    const json_t *part = json_object_get(*state, "tiny");
    struct batch batch = batch_of(part);
    const char *name;
    json_t *run;

    json_object_foreach(json_object_get(part, "runs"), name, run)
    {
        struct plan plan = unit_plan("tiny");
        struct teacher_plan other;
        struct model *reference;
        struct unit_model u;

        plan.train_from_scratch = true;
        take_settings(&plan, run);
        u = unit_model_text(json_string_value(json_object_get(part, "config")), plan);
        unit_model_start(&u, batch.rows, batch.sequences, 2);
        unit_put_weights(u.model, json_object_get(part, "policy"));
        reference = refer(&u, &batch, &other, json_object_get(part, "reference"));
        check_run(&u, &batch, run, false);
        model_free(reference);
        unit_model_stop(&u);
    }
    unit_batch_free(&batch);
}

static void scale_weights(struct model *model, double factor)
{
    for (size_t i = 0; i < model_parameters(model); i++) {
        struct tensor w = model_parameter(model, i)->weight;

        for (size_t k = 0; k < w.rows * w.cols; k++)
            ((float *)w.data)[k] *= (float)factor;
    }
}

/* Skip if the model is absent. */
static struct unit_model open_model(const json_t *part)
{
    char name[64];

    snprintf(name, sizeof(name), "data/%s",
             json_string_value(json_object_get(part, "model")));
    return unit_model_shared(name);
}

static void test_preference_of_all_weights_matches_pytorch(void **state)
{
    const json_t *part = json_object_get(*state, "full");
    const char *name;
    json_t *run;

    json_object_foreach(json_object_get(part, "runs"), name, run)
    {
        struct unit_model u = open_model(part);
        struct batch batch = batch_of(part);
        struct teacher_plan other;
        struct model *reference;

        take_settings(&u.plan, run);
        unit_model_start(&u, batch.rows, batch.sequences, 2);
        scale_weights(u.model, member(part, "factor"));
        reference = refer(&u, &batch, &other, NULL);
        check_run(&u, &batch, run, true);
        model_free(reference);
        unit_model_stop(&u);
        unit_batch_free(&batch);
    }
}

static void test_preference_of_an_adapter_matches_peft(void **state)
{
    const json_t *part = json_object_get(*state, "lora");
    const char *name;
    json_t *run;

    json_object_foreach(json_object_get(part, "runs"), name, run)
    {
        struct unit_model u = open_model(part);
        struct batch batch = batch_of(part);
        char *adapter = unit_adapter_new(part, member(part, "scale"));

        take_settings(&u.plan, run);
        u.plan.method = METHOD_LORA;
        u.plan.adapter_name_or_path = adapter;
        assert_false(plan_has_second_model(&u.plan));
        unit_model_start(&u, batch.rows, batch.sequences, 2);
        check_run(&u, &batch, run, true);
        unit_model_stop(&u);
        unit_batch_free(&batch);
        unit_dir_free(adapter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preference_of_given_losses_matches_pytorch),
        cmocka_unit_test(test_preference_of_given_weights_matches_pytorch),
        cmocka_unit_test(test_preference_of_all_weights_matches_pytorch),
        cmocka_unit_test(test_preference_of_an_adapter_matches_peft),
    };

    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
