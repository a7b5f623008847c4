/* tests/unit/test_progress.c - the progress that a run resumes from is restored to the
 * bit. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "base/json.h"
#include "train/checkpoint/progress.h"

static const struct progress sample = {
    .step = 500,
    .updates = 497,
    .total = 1000,
    .epoch = 1.0 / 3,
    .tokens = 123456789012,
    .window_loss = 0.1 + 0.2,
    .window_steps = 7,
    .best_metric = 2.0 / 3,
    .best_step = 400,
    .attention = { "cuDNN 9.19.0", "cuDNN 9.19.0", "trainspool" },
    .scaler = { .scaling = SCALING_DYNAMIC,
                .scale = 1024,
                .growth = 2,
                .backoff = 0.5,
                .interval = 2000,
                .good = 77,
                .skipped = 3,
                .skipped_in_row = 0 },
};

static void test_progress_is_restored_exactly(void **state)
{
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct plan plan = { .eval_steps = 50, .save_steps = 500, .logging_steps = 10 };
    struct progress_history history = { 0 }, back_history = { 0 };
    struct progress back;

    (void)state;
    progress_history_add(&history, &(struct logged) { .step = 10,
                                                      .epoch = 0.1,
                                                      .loss = NAN,
                                                      .grad_norm = INFINITY,
                                                      .learning_rate = 1e-5 });
    progress_history_add(&history, &(struct logged) { .evaluation = true,
                                                      .step = 50,
                                                      .evaluated = { .loss = 1.5 } });
    assert_true(progress_write(dir, &plan, &sample, &history, &err));
    assert_true(progress_read(dir, &back, &back_history, &err));
    assert_int_equal(back.step, sample.step);
    assert_int_equal(back.updates, sample.updates);
    assert_int_equal(back.tokens, sample.tokens);
    assert_true(back.epoch == sample.epoch && back.window_loss == sample.window_loss);
    assert_true(back.best_metric == sample.best_metric);
    assert_memory_equal(&back.scaler, &sample.scaler, sizeof(sample.scaler));
    assert_memory_equal(back.attention, sample.attention, sizeof(sample.attention));
    assert_string_equal(back.optimizer, "adamw_torch");
    assert_int_equal(back_history.count, 2);
    assert_true(isnan(back_history.list[0].loss) &&
                isinf(back_history.list[0].grad_norm));
    assert_true(back_history.list[1].evaluation &&
                back_history.list[1].evaluated.loss == 1.5);
    progress_history_clear(&history);
    progress_history_clear(&back_history);
    unit_dir_free(dir);
}

/* Hugging Face tools read trainer_state.json, so it has the fields of TrainerState. */
static void test_progress_has_the_fields_of_trainer_state(void **state)
{
    static const char *const fields[] = {
        "best_global_step",
        "best_metric",
        "best_model_checkpoint",
        "epoch",
        "eval_steps",
        "global_step",
        "is_hyper_param_search",
        "is_local_process_zero",
        "is_world_process_zero",
        "log_history",
        "logging_steps",
        "max_steps",
        "num_input_tokens_seen",
        "num_train_epochs",
        "save_steps",
        "stateful_callbacks",
        "total_flos",
        "train_batch_size",
        "trial_name",
        "trial_params",
    };
    char *dir = unit_dir_new(), *name = path_join(dir, "trainer_state.json");
    struct error err = { 0 };
    struct plan plan = { 0 };
    struct progress_history history = { 0 };
    json_t *object;

    (void)state;
    assert_true(progress_write(dir, &plan, &sample, &history, &err));
    object = json_read_file(name, 1 << 20, &err);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (json_object_get(object, fields[i]) == NULL)
            fail_msg("no %s", fields[i]);
    assert_string_equal(
        json_string_value(json_object_get(object, "best_model_checkpoint")),
        "checkpoint-400");
    json_decref(object);
    free(name);
    unit_dir_free(dir);
}

static void test_progress_refuses_another_file(void **state)
{
    char *dir = unit_dir_new(), *own = path_join(dir, "trainspool_state.json");
    char *other = path_join(dir, "trainer_state.json");
    struct error err = { 0 };
    struct progress_history history = { 0 };
    struct progress back;

    (void)state;
    assert_false(progress_read(dir, &back, &history, &err));
    error_clear(&err);
    assert_true(file_create(own, "{\"step\": \"ten\"}", 15, 0644, &err));
    assert_true(file_create(other, "{}", 2, 0644, &err));
    assert_false(progress_read(dir, &back, &history, &err));
    assert_int_equal(err.code, ERROR_DATA);
    free(own);
    free(other);
    unit_dir_free(dir);
}

/* How ranks added gradients; nothing of a run of one process. */
static void test_progress_names_the_ranks(void **state)
{
    struct plan plan = { .ranks = 3, .zero_stage = 2, .reduce_dtype = REDUCE_BF16 };

    (void)state;
    for (int64_t ranks = 3; ranks > 0; ranks -= 2) {
        char *dir = unit_dir_new();
        struct progress_history history = { 0 };
        struct error err = { 0 };
        struct progress back;

        plan.ranks = ranks;
        assert_true(progress_write(dir, &plan, &sample, &history, &err));
        assert_true(progress_read(dir, &back, &history, &err));
        assert_int_equal(back.ranks.count, ranks > 1 ? ranks : 0);
        assert_int_equal(back.ranks.zero_stage, ranks > 1 ? 2 : 0);
        assert_int_equal(back.ranks.reduce_dtype, ranks > 1 ? REDUCE_BF16 : REDUCE_FP32);
        progress_history_clear(&history);
        unit_dir_free(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_is_restored_exactly),
        cmocka_unit_test(test_progress_names_the_ranks),
        cmocka_unit_test(test_progress_has_the_fields_of_trainer_state),
        cmocka_unit_test(test_progress_refuses_another_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
