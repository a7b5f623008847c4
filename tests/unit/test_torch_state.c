/* tests/unit/test_torch_state.c - the files of a checkpoint that transformers' Trainer
 * reads hold the state of the run, as torch.optim would save it. */
#include "config.h"

#include "train/checkpoint/torch_state.h"

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_torch.h"

/* One trained matrix, 2 x 2, and one vector: with freeze_trainable_modules. */
static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 4, \"hidden_size\": 2, "
    "\"intermediate_size\": 2, \"num_hidden_layers\": 1, \"num_attention_heads\": 1}";

#define UPDATES 3

static struct progress progress_of(int64_t updates)
{
    return (struct progress) { .step = 5,
                               .updates = updates,
                               .total = 10,
                               .next_rate = 0.25,
                               .scaler = { .scaling = SCALING_DYNAMIC,
                                           .scale = 1024,
                                           .growth = 2,
                                           .backoff = 0.5,
                                           .interval = 2000,
                                           .good = 7 } };
}

/* Start a model whose input norm and MLP are trained.  The model points into *u. */
static void start_model(struct unit_model *u, const char *optim)
{
    struct plan plan = unit_plan(NULL);

    plan.train_from_scratch = true;
    plan.optim = plan.optimizer = optimizer_find(optim);
    plan.method = METHOD_FREEZE;
    plan.freeze_trainable_layers = 1;
    plan.freeze_trainable_modules = "input_layernorm,mlp";
    plan.weight_decay = 0.5;
    plan.learning_rate = 0.5;
    plan.adam_beta2 = 0.75;
    plan.adam_epsilon = 0.125;
    *u = unit_model_text(llama, plan);
    unit_model_start(u, 8, 1, 1);
}

/* The moments of parameter i are i + 1, 10 (i + 1), .. per element. */
static void fill_moments(struct unit_model *u)
{
    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        const struct parameter *p = model_trained(u->model, i);
        float values[8];

        for (enum moment moment = 0; moment < (enum moment)model_moments(u->model);
             moment++) {
            for (size_t j = 0; j < p->rows * p->cols; j++)
                values[j] = (float)(j + 1) * (moment == MOMENT_2 ? 10 : 1);
            model_write_moment(u->model, moment, p, values);
        }
    }
}

static void check_file(const char *dir, const char *base, const char *expected)
{
    char *name = path_join(dir, base);
    struct text text;

    unit_torch_print(name, &text);
    assert_string_equal(text.data, expected);
    text_clear(&text);
    free(name);
}

#define STEP(n) "{'step': T(FloatStorage, (), (), [" n "]), "
#define MATRIX  "(2, 2), (2, 1), "
#define VECTOR  "(2,), (1,), "
#define STATE(i, shape, first, second)                                          \
#i ": " STEP("3.0") "'exp_avg': T(FloatStorage, " shape first "), 'exp_avg" \
                        "_sq': T(FloatStorage, " shape second ")}"
#define STATE_MATRIX(i) \
    STATE(i, MATRIX, "[1.0, 2.0, 3.0, 4.0]", "[10.0, 20.0, 30.0, 40.0]")
#define STATE_VECTOR(i) STATE(i, VECTOR, "[1.0, 2.0]", "[10.0, 20.0]")
#define GROUP(decay, more, params)                                        \
    "{'weight_decay': " decay ", 'lr': 0.25, " more "'initial_lr': 0.5, " \
    "'params': [" params "]}"
#define ADAMW(fused)                                                                   \
    "'betas': (0.9, 0.75), 'eps': 0.125, 'amsgrad': False, 'foreach': None, "          \
    "'maximize': False, 'capturable': False, 'differentiable': False, 'fused': " fused \
    ", "
#define SGD                                                                 \
    "'momentum': 0, 'dampening': 0, 'nesterov': False, 'maximize': False, " \
    "'foreach': None, 'differentiable': False, 'fused': None, "
#define GROUPS(more) \
    "'param_groups': [" GROUP("0.5", more, "0, 1, 2") ", " GROUP("0.0", more, "3") "]}\n"

/* Matrices decay and come first, then the vector. */
static void test_torch_state_is_that_of_the_run(void **state)
{
    struct unit_model u;
    struct progress progress = progress_of(UPDATES);
    char *dir = unit_dir_new();
    struct error err = { 0 };

    (void)state;
    start_model(&u, "adamw_torch");
    fill_moments(&u);
    unit_must(torch_state_write(u.model, dir, &u.plan, &progress, &err), &err);
    check_file(dir, "optimizer.pt",
               "{'state': {" STATE_MATRIX(0) ", " STATE_MATRIX(1) ", " STATE_MATRIX(
                   2) ", " STATE_VECTOR(3) "}, " GROUPS(ADAMW("None")));
    check_file(dir, "scheduler.pt",
               "{'base_lrs': [0.5, 0.5], 'last_epoch': 3, '_step_count': 4, "
               "'_last_lr': [0.25, 0.25], 'lr_lambdas': [None, None]}\n");
    check_file(dir, "scaler.pt",
               "{'scale': 1024.0, 'growth_factor': 2.0, 'backoff_factor': 0.5, "
               "'growth_interval': 2000, '_growth_tracker': 7}\n");
    unit_dir_free(dir);
    unit_model_stop(&u);
}

/* All steps were skipped: torch.optim has no state yet. */
static void test_torch_state_is_empty_before_an_update(void **state)
{
    struct unit_model u;
    struct progress progress = progress_of(0);
    char *dir = unit_dir_new(), *scaler = path_join(dir, "scaler.pt");
    struct error err = { 0 };

    (void)state;
    start_model(&u, "adamw_torch_fused");
    progress.scaler.scaling = SCALING_NONE;
    unit_must(torch_state_write(u.model, dir, &u.plan, &progress, &err), &err);
    check_file(dir, "optimizer.pt", "{'state': {}, " GROUPS(ADAMW("True")));
    assert_false(file_exists(scaler));
    free(scaler);
    unit_dir_free(dir);
    unit_model_stop(&u);
}

static void test_torch_state_of_sgd_has_no_moments(void **state)
{
    struct unit_model u;
    struct progress progress = progress_of(UPDATES);
    char *dir = unit_dir_new();
    struct error err = { 0 };

    (void)state;
    start_model(&u, "sgd");
    unit_must(torch_state_write(u.model, dir, &u.plan, &progress, &err), &err);
    check_file(dir, "optimizer.pt", "{'state': {}, " GROUPS(SGD));
    unit_dir_free(dir);
    unit_model_stop(&u);
}

/* Of each optimizer, the default name is one that the Trainer resumes. */
static void test_torch_state_checks_the_optimizer(void **state)
{
    size_t refused = 0;

    (void)state;
    for (int i = 0; optimizer_names[i]; i++) {
        struct plan plan = { .optim = i, .optimizer = optimizer_first_name(i) };
        struct error err = { 0 };

        if (torch_state_check(&plan, &err))
            continue;
        refused++;
        assert_int_equal(err.code, ERROR_JOB);
        assert_non_null(strstr(err.text, optimizer_names[i]));
    }
    assert_true(refused > 0);
}

static void test_torch_state_refuses_other_states(void **state)
{
    struct plan plan = { .method = METHOD_LORA, .loraplus_lr_ratio = 16 };
    struct error err = { 0 };

    (void)state;
    assert_false(torch_state_check(&plan, &err));
    assert_int_equal(err.code, ERROR_JOB);
    plan.method = METHOD_FULL;
    err = (struct error) { 0 };
    assert_true(torch_state_check(&plan, &err));
    plan.schedule = SCHEDULE_REDUCE_ON_PLATEAU; /* its state is not a LambdaLR's */
    assert_false(torch_state_check(&plan, &err));
    assert_non_null(strstr(err.text, "reduce_lr_on_plateau"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_state_is_that_of_the_run),
        cmocka_unit_test(test_torch_state_is_empty_before_an_update),
        cmocka_unit_test(test_torch_state_of_sgd_has_no_moments),
        cmocka_unit_test(test_torch_state_checks_the_optimizer),
        cmocka_unit_test(test_torch_state_refuses_other_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
