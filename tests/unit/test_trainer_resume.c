/*
 * tests/unit/test_trainer_resume.c - a second run of a job that resumes continues the
 * first one, and one that starts from scratch uses nothing of it; and the best checkpoint
 * is kept.
 */
#include "config.h"

#include "tests/unit/training.h"
#include "tests/unit/unit_torch.h"

#include <fcntl.h>
#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/safetensors.h"

#define EVALUATED \
    "val_size: 0.2\neval_strategy: steps\neval_steps: 2\nload_best_model_at_end: true\n"

/* A run that started from scratch and was stopped resumes from its own checkpoint, not
 * from a later one of an earlier run, which may have used other data. */
static void test_trainer_from_scratch_ignores_earlier_checkpoints(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text(SHAKESPEARE, FULL_PT "max_steps: 8\nsave_steps: 2\n");
    struct training whole = { .dir = dir, .job = job };
    struct training restarted = { .dir = dir, .job = job, .stop_after = 3 };
    struct training on = { .dir = dir, .job = job, .resume = true };
    char *old = path_join(dir, "job.run/checkpoint-8.old-1");
    struct error err = { 0 };

    (void)state;
    training_must(&whole);
    assert_false(training_run(&restarted, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    assert_true(file_is_dir(old));
    training_must(&on);
    assert_int_equal(on.steps, 5);
    free(old);
    free(job);
    unit_dir_free(dir);
}

/* Checkpoints have the state for transformers' Trainer on request, at the learning rate of
 * the next step, and the run itself resumes from them.  Of the two schedules in the text
 * the last one counts. */
static void test_trainer_saves_torch_state(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text(SHAKESPEARE,
                              FULL_PT "max_steps: 4\nsave_steps: 2\nwarmup_steps: 4\n"
                                      "lr_scheduler_type: constant_with_warmup\n"
                                      "trainspool: {save_torch_state: true}\n");
    struct training first = { .dir = dir, .job = job, .stop_after = 2 };
    struct training second = { .dir = dir, .job = job, .resume = true };
    char *optimizer = path_join(dir, "job.run/checkpoint-2/optimizer.pt");
    char *scheduler = path_join(dir, "job.run/checkpoint-2/scheduler.pt");
    struct error err = { 0 };
    struct text text;

    (void)state;
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    assert_true(file_exists(optimizer));
    training_must(&second);
    assert_int_equal(second.steps, 2);
    unit_torch_print(scheduler, &text);
    assert_string_equal(text.data,
                        "{'base_lrs': [0.001, 0.001], 'last_epoch': 2, '_step_count': 3, "
                        "'_last_lr': [0.0005, 0.0005], 'lr_lambdas': [None, None]}\n");
    text_clear(&text);
    free(optimizer);
    free(scheduler);
    free(job);
    unit_dir_free(dir);
}

/* Codes of AdamW have the names and sizes of Lion's. */
static void test_trainer_refuses_the_state_of_another_optimizer(void **state)
{
    char *dir = unit_dir_new();
    char *adam = training_text(SHAKESPEARE, FULL_PT
                               "max_steps: 4\nsave_steps: 2\noptim: adamw_8bit\n");
    char *lion = training_text(SHAKESPEARE,
                               FULL_PT "max_steps: 4\noptim: lion_8bit\n"
                                       "resume_from_checkpoint: job.run/checkpoint-2\n");
    struct training first = { .dir = dir, .job = adam, .stop_after = 2 };
    struct training second = { .dir = dir, .job = lion };
    struct error err = { 0 };

    (void)state;
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    err = (struct error) { 0 };
    assert_false(training_run(&second, &err));
    assert_non_null(strstr(err.text, "saved with optim: adamw_8bit"));
    free(adam);
    free(lion);
    unit_dir_free(dir);
}

/* Adding the key changes the digest of the job; the run resumes from the checkpoint of
 * the text without it. */
static void test_trainer_resume_true_uses_the_previous_text(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text(SHAKESPEARE, FULL_PT "max_steps: 6\n");
    char *asks = training_text(SHAKESPEARE,
                               FULL_PT "max_steps: 6\nresume_from_checkpoint: true\n");
    struct training first = { .dir = dir, .job = job, .stop_after = 4 };
    struct training second = { .dir = dir, .job = asks };
    struct error err = { 0 };

    (void)state;
    assert_false(training_run(&first, &err));
    training_must(&second);
    assert_int_equal(second.steps, 2);
    free(job);
    free(asks);
    unit_dir_free(dir);
}

/* A job that names a checkpoint resumes after an interruption from its own last one. */
static void test_trainer_prefers_its_own_checkpoint(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text(SHAKESPEARE, FULL_PT "max_steps: 8\n");
    char *named =
        training_text(SHAKESPEARE, FULL_PT
                      "max_steps: 8\nresume_from_checkpoint: job.run/checkpoint-2\n");
    struct training first = { .dir = dir, .job = job, .stop_after = 2 };
    struct training second = { .dir = dir, .job = named, .stop_after = 5 };
    struct training third = { .dir = dir, .job = named, .resume = true };
    struct error err = { 0 };

    (void)state;
    assert_false(training_run(&first, &err));
    err = (struct error) { 0 };
    if (training_run(&second, &err) || err.code != ERROR_STOPPED)
        fail_msg("%s", err.text);
    assert_int_equal(second.steps, 3);
    training_must(&third);
    assert_int_equal(third.steps, 3);
    free(job);
    free(named);
    unit_dir_free(dir);
}

/* Return the best step according to trainer_state.json of a checkpoint, or -1. */
static int64_t best_of(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };
    json_t *root = json_read_file(path, 1 << 20, &err);
    json_t *best = json_object_get(root, "best_global_step");
    int64_t step = json_is_integer(best) ? (int64_t)json_integer_value(best) : -1;

    if (root == NULL)
        fail_msg("%s", err.text);
    json_decref(root);
    free(path);
    return step;
}

/* With a learning rate that ruins the model, the first evaluation after a step is the
 * best.  Its checkpoint is saved although no save is due, and becomes the final model;
 * the untrained model is no candidate. */
static void test_trainer_ends_with_the_best_checkpoint(void **state)
{
    char *dir = unit_dir_new(), best[DIGEST_TEXT], final[DIGEST_TEXT];
    char *job = training_text(SHAKESPEARE, FULL_PT EVALUATED
                              "max_steps: 6\nsave_steps: 5\nlearning_rate: 1.0\n"
                              "save_total_limit: 1\n");
    char *rate = strstr(job, "learning_rate: 1.0e-3\n");
    struct training training = { .dir = dir, .job = job };

    (void)state;
    memset(rate, '#', strlen("learning_rate: 1.0e-3")); /* replace the key by a comment */
    training_must(&training);
    assert_true(training_value(&training, "'eval_loss'", 0) <
                training_value(&training, "'eval_loss'", 1));
    assert_true(training_value(&training, "'eval_loss'", 1) <
                training_value(&training, "'eval_loss'", 3));
    assert_int_equal(best_of(dir, "job.run/checkpoint-2/trainer_state.json"), 2);
    training_digest(dir, "job.run/checkpoint-2/model.safetensors", best);
    training_digest(dir, "job.run/model.safetensors", final);
    assert_string_equal(best, final);
    free(job);
    unit_dir_free(dir);
}

/* Only steps that are better than all before are saved, the last one too if it is. */
static void test_trainer_saves_the_best(void **state)
{
    static const struct {
        const char *rate;
        bool saved[3]; /* after 2, 4 and 6 steps */
    } cases[] = { { "1.0", { true, false, false } }, { "1.0e-3", { true, true, true } } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *dir = unit_dir_new(), more[256];
        struct training training = { .dir = dir };
        char *job;

        snprintf(more, sizeof(more),
                 FULL_PT "val_size: 0.2\neval_strategy: steps\neval_steps: 2\n"
                         "save_strategy: best\nmax_steps: 6\nlearning_rate: %s\n",
                 cases[i].rate);
        job = training_text(SHAKESPEARE, more);
        memset(strstr(job, "learning_rate: 1.0e-3\n"), '#',
               strlen("learning_rate: 1.0e-3"));
        training.job = job;
        training_must(&training);
        for (int step = 2; step <= 6; step += 2) {
            char name[64], *path;

            snprintf(name, sizeof(name), "job.run/checkpoint-%d", step);
            path = path_join(dir, name);
            assert_int_equal(file_is_dir(path), cases[i].saved[step / 2 - 1]);
            free(path);
        }
        free(job);
        unit_dir_free(dir);
    }
}

/* With this threshold no metric is better than the first.  The evaluation before step 1 is
 * none of them, as in transformers. */
static void test_trainer_resumes_on_a_plateau(void **state)
{
    static const double rates[] = { 1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4 };
    char *dir = unit_dir_new(), *other = unit_dir_new();
    char one[DIGEST_TEXT], two[DIGEST_TEXT];
    char *job = training_text(SHAKESPEARE, FULL_PT
                              "val_size: 0.1\neval_strategy: steps\neval_steps: 1\n"
                              "max_steps: 5\nlr_scheduler_type: reduce_lr_on_plateau\n"
                              "lr_scheduler_kwargs: {factor: 0.5, patience: 0, "
                              "threshold: 9, threshold_mode: abs}\n");
    struct training whole = { .dir = dir, .job = job };
    struct training first = { .dir = other, .job = job, .stop_after = 3 };
    struct training second = { .dir = other, .job = job, .resume = true };
    struct error err = { 0 };

    (void)state;
    training_must(&whole);
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    training_must(&second);
    assert_int_equal(second.steps, 2);
    for (int i = 0; i < 5; i++) {
        assert_true(fabs(training_value(&whole, "'learning_rate'", i) / rates[i] - 1) <
                    1e-3);
        if (i >= 3)
            assert_true(
                fabs(training_value(&second, "'learning_rate'", i - 3) / rates[i] - 1) <
                1e-3);
    }
    training_digest(dir, "job.run/model.safetensors", one);
    training_digest(other, "job.run/model.safetensors", two);
    assert_string_equal(one, two);
    free(job);
    unit_dir_free(dir);
    unit_dir_free(other);
}

/* As in transformers, eval_delay has the unit of eval_strategy.  Of four steps the third
 * and the fourth are evaluated; eval_on_start controls the evaluation before step 1. */
static void test_trainer_eval_delay_counts_steps(void **state)
{
    static const struct {
        const char *keys;
        size_t evaluations;
    } rows[] = {
        { "eval_delay: 3\n", 2 },
        { "eval_delay: 3\neval_on_start: true\n", 3 },
        { "eval_delay: 3\neval_on_start: false\n", 2 },
        { "eval_on_start: false\n", 4 },
        { "eval_on_start: true\n", 5 },
        { "", 5 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        char *dir = unit_dir_new(), keys[256], *job;
        struct training training = { .dir = dir };

        snprintf(keys, sizeof(keys),
                 FULL_PT "val_size: 0.1\neval_strategy: steps\neval_steps: 1\n"
                         "max_steps: 4\n%s",
                 rows[i].keys);
        training.job = job = training_text(SHAKESPEARE, keys);
        training_must(&training);
        assert_false(
            isnan(training_value(&training, "'eval_loss'", rows[i].evaluations - 1)));
        assert_true(isnan(training_value(&training, "'eval_loss'", rows[i].evaluations)));
        free(job);
        unit_dir_free(dir);
    }
}

/* Write a copy of the model with one NaN weight to DIR/model. */
static void copy_with_nan(const char *dir)
{
    static const char *const names[] = { "config.json", "tokenizer.json",
                                         "tokenizer_config.json", "model.safetensors" };
    char *model = unit_shared("data/stories260K/hf"), *copy = path_join(dir, "model");
    struct error err = { 0 };

    assert_true(file_make_dir(copy, 0700, &err));
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        char *from = path_join(model, names[i]), *to = path_join(copy, names[i]);
        struct text text;

        text_init(&text, 1 << 24);
        assert_true(file_read(from, 1 << 24, &text, NULL, &err));
        if (i == 3) /* fp32, little-endian */
            memcpy(text.data + text.len - 4, "\0\0\xc0\x7f", 4);
        assert_true(file_replace(to, text.data, text.len, 0600, &err));
        text_clear(&text);
        free(from);
        free(to);
    }
    free(model);
    free(copy);
}

/* All steps are skipped, but there are fewer than the scaler waits for. */
static void test_trainer_fails_if_all_steps_are_skipped(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text(SHAKESPEARE, FULL_PT "max_steps: 2\n");
    char *model = strstr(job, "\ndataset"), *broken;
    struct text text;
    struct training training = { .dir = dir };
    struct error err = { 0 };

    (void)state;
    copy_with_nan(dir);
    text_init(&text, 1 << 20);
    text_addf(&text, "model_name_or_path: model%s", model);
    broken = text_detach(&text, NULL);
    training.job = broken;
    assert_false(training_run(&training, &err));
    assert_int_equal(err.code, ERROR_DIVERGED);
    free(broken);
    free(job);
    unit_dir_free(dir);
}

/* Without a checkpoint a resumed run starts from scratch and logs that. */
static void test_trainer_logs_a_resume_without_checkpoint(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "log");
    char *job =
        training_text(SHAKESPEARE, FULL_PT "max_steps: 4\nsave_only_model: true\n");
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct training first = { .dir = dir, .job = job, .stop_after = 2 };
    struct training second = {
        .dir = dir, .job = job, .resume = true, .log = log_new(fd, LOG_INFO)
    };
    struct error err = { 0 }, none = { 0 };
    struct text text;

    (void)state;
    assert_false(training_run(&first, &err));
    training_must(&second);
    assert_int_equal(second.steps, 4);
    text_init(&text, 1 << 20);
    assert_true(file_read(name, 1 << 20, &text, NULL, &none));
    assert_non_null(strstr(text.data, "starting from scratch"));
    text_clear(&text);
    log_free(second.log);
    close(fd);
    free(name);
    free(job);
    unit_dir_free(dir);
}

/* Return the loss scale of a logged step in metrics.jsonl. */
static double scale_of_line(const char *dir, size_t line)
{
    char *name = path_join(dir, "job.run/metrics.jsonl"), *at;
    struct error err = { 0 };
    struct text text;
    double scale;

    text_init(&text, 1 << 20);
    assert_true(file_read(name, 1 << 20, &text, NULL, &err));
    at = text.data;
    for (; line > 0; line--)
        assert_non_null(at = strchr(at, '\n') + 1);
    assert_non_null(at = strstr(at, "\"loss_scale\":"));
    scale = strtod(at + strlen("\"loss_scale\":"), NULL);
    text_clear(&text);
    free(name);
    return scale;
}

/* An fp16 run that resumes from fp32 gets a loss scale; the reverse gets none. */
static void test_trainer_resumed_in_another_format_uses_its_own_scaling(void **state)
{
    char *dir = unit_dir_new();
    char *single = training_text(SHAKESPEARE, FULL_PT "max_steps: 6\n");
    char *fp16_job = training_text(SHAKESPEARE, FULL_PT "max_steps: 6\nfp16: true\n"
                                                        "resume_from_checkpoint: true\n");
    char *again = training_text(SHAKESPEARE,
                                FULL_PT "max_steps: 6\nresume_from_checkpoint: true\n");
    struct training first = { .dir = dir, .job = single, .stop_after = 2 };
    struct training second = { .dir = dir, .job = fp16_job, .stop_after = 4 };
    struct training third = { .dir = dir, .job = again };
    struct error err = { 0 };

    (void)state;
    assert_false(training_run(&first, &err));
    err = (struct error) { 0 };
    if (training_run(&second, &err) || err.code != ERROR_STOPPED)
        fail_msg("%s", err.text);
    training_must(&third);
    assert_true(scale_of_line(dir, 1) == 1);
    assert_true(scale_of_line(dir, 2) > 1);
    assert_true(scale_of_line(dir, 5) == 1);
    free(single);
    free(fp16_job);
    free(again);
    unit_dir_free(dir);
}

/* Return the values of a tensor of a model as float32, malloc'ed. */
static float *read_values(const char *dir, const char *name, size_t *count)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(path, "model", false, &err);
    const struct stored_tensor *tensor =
        set ? safetensors_find(set, "model.layers.0.mlp.up_proj.weight") : NULL;
    float *values;

    if (!tensor)
        fail_msg("%s: %s", path, err.text);
    *count = tensor->bytes / format_info(tensor->format)->bytes;
    values = memory_resize(NULL, *count, sizeof(float));
    format_convert(values, FORMAT_FP32, tensor->data, tensor->format, *count);
    safetensors_close(set);
    free(path);
    return values;
}

/* Weights and moments of 16 bits are widened exactly. */
static void test_trainer_resumes_16_bit_weights_in_float32(void **state)
{
    char *dir = unit_dir_new();
    char *pure = training_text(SHAKESPEARE,
                               FULL_PT "max_steps: 3\nsave_steps: 2\npure_bf16: true\n");
    char *wide =
        training_text(SHAKESPEARE, FULL_PT "max_steps: 3\nresume_from_checkpoint: true\n"
                                           "learning_rate: 1.0e-30\n");
    struct training first = { .dir = dir, .job = pure, .stop_after = 2 };
    struct training second = { .dir = dir, .job = wide };
    struct error err = { 0 };
    float *before, *after;
    size_t count, same;

    (void)state;
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    training_must(&second);
    assert_int_equal(second.steps, 1);
    before = read_values(dir, "job.run/checkpoint-2", &count);
    after = read_values(dir, "job.run", &same);
    assert_int_equal(count, same);
    assert_memory_equal(before, after, count * sizeof(float));
    free(before);
    free(after);
    free(pure);
    free(wide);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_saves_torch_state),
        cmocka_unit_test(test_trainer_refuses_the_state_of_another_optimizer),
        cmocka_unit_test(test_trainer_from_scratch_ignores_earlier_checkpoints),
        cmocka_unit_test(test_trainer_resume_true_uses_the_previous_text),
        cmocka_unit_test(test_trainer_prefers_its_own_checkpoint),
        cmocka_unit_test(test_trainer_ends_with_the_best_checkpoint),
        cmocka_unit_test(test_trainer_saves_the_best),
        cmocka_unit_test(test_trainer_resumes_on_a_plateau),
        cmocka_unit_test(test_trainer_eval_delay_counts_steps),
        cmocka_unit_test(test_trainer_fails_if_all_steps_are_skipped),
        cmocka_unit_test(test_trainer_logs_a_resume_without_checkpoint),
        cmocka_unit_test(test_trainer_resumed_in_another_format_uses_its_own_scaling),
        cmocka_unit_test(test_trainer_resumes_16_bit_weights_in_float32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
