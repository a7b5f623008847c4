/*
 * tests/unit/test_trainer.c - small real models learn in every precision and method, and
 * an interrupted run ends with the same bits as an uninterrupted one.
 */
#include "config.h"

#include "base/size.h"
#include "tests/unit/training.h"

#include <fcntl.h>
#include <math.h>

#include "train/checkpoint/checkpoint.h"
#include "train/files/manifest.h"

static void check_learns(const char *data, const char *more)
{
    char *dir = unit_dir_new(), *job = training_text(data, more);
    struct training training = { .dir = dir, .job = job };
    double first = 0, last = 0;

    training_must(&training);
    for (int i = 0; i < 5; i++) {
        double loss = training_value(&training, "'loss'", i);
        double norm = training_value(&training, "'grad_norm'", i);

        assert_true(isfinite(loss) && isfinite(norm));
        first += loss / 5;
    }
    for (int i = (int)training.steps - 5; i < (int)training.steps; i++)
        last += training_value(&training, "'loss'", i) / 5;
    if (!(last < first - 0.1))
        fail_msg("the loss went from %g to %g", first, last);
    free(job);
    unit_dir_free(dir);
}

static void test_trainer_full_learns_in_fp32(void **state)
{
    (void)state;
    check_learns(SHAKESPEARE, FULL_PT "max_steps: 40\n");
}

static void test_trainer_full_learns_in_bf16(void **state)
{
    (void)state;
    check_learns(SHAKESPEARE, FULL_PT "max_steps: 40\nbf16: true\n");
}

static void test_trainer_full_learns_in_fp16(void **state)
{
    (void)state;
    check_learns(SHAKESPEARE,
                 FULL_PT "max_steps: 40\nfp16: true\ntrainspool: {keep: [fp16]}\n");
}

static void test_trainer_lora_learns_in_fp32(void **state)
{
    (void)state;
    check_learns(ALPACA, LORA_SFT "max_steps: 40\n");
}

static void test_trainer_lora_learns_in_bf16(void **state)
{
    (void)state;
    check_learns(ALPACA, LORA_SFT "max_steps: 40\nbf16: true\n");
}

static void test_trainer_lora_learns_in_fp16(void **state)
{
    (void)state;
    check_learns(ALPACA,
                 LORA_SFT "max_steps: 40\nfp16: true\ntrainspool: {keep: [fp16]}\n");
}

/* Run a job to its end at once, and again with a stop after `at` steps and a resume. */
static void check_stop_and_resume_of(char *job, const char *weights, int64_t at)
{
    char *one = unit_dir_new(), *two = unit_dir_new();
    struct training whole = { .dir = one, .job = job };
    struct training first = { .dir = two, .job = job, .stop_after = at };
    struct training second = { .dir = two, .job = job, .resume = true };
    char a[DIGEST_TEXT], b[DIGEST_TEXT];
    struct error err = { 0 };

    training_must(&whole);
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    training_must(&second);
    assert_int_equal(first.steps + second.steps, whole.steps);
    training_digest(one, weights, a);
    training_digest(two, weights, b);
    assert_string_equal(a, b);
    free(job);
    unit_dir_free(one);
    unit_dir_free(two);
}

static void check_stop_and_resume(const char *data, const char *more, const char *weights,
                                  int64_t at)
{
    check_stop_and_resume_of(training_text(data, more), weights, at);
}

/* Stop wherever a run ticks: while it reads data, a checkpoint or the model, in the middle
 * of a step and of an evaluation. */
static void test_trainer_stopped_at_any_tick_is_uninterrupted(void **state)
{
    static const char weights[] = "job.run/model.safetensors";
    char *job =
        training_text(SHAKESPEARE, FULL_PT
                      "max_steps: 9\ngradient_accumulation_steps: 3\nval_size: 0.1\n"
                      "eval_strategy: steps\neval_steps: 2\n"
                      "load_best_model_at_end: true\n");
    char *one = unit_dir_new(), *two = unit_dir_new();
    struct training whole = { .dir = one, .job = job };
    char a[DIGEST_TEXT], b[DIGEST_TEXT];
    bool done = false;

    (void)state;
    training_must(&whole);
    for (int64_t tick = 1, stops = 0; !done; tick += tick / 3 + 1, stops++) {
        struct training part = {
            .dir = two, .job = job, .resume = stops > 0, .stop_at_tick = tick
        };
        struct error err = { 0 };

        done = training_run(&part, &err);
        if (!done && err.code != ERROR_STOPPED)
            fail_msg("tick %d: %s", (int)tick, err.text);
        assert_true(!done || stops > 8);
    }
    training_digest(one, weights, a);
    training_digest(two, weights, b);
    assert_string_equal(a, b);
    free(job);
    unit_dir_free(one);
    unit_dir_free(two);
}

static void test_trainer_resumed_full_is_uninterrupted(void **state)
{
    (void)state;
    check_stop_and_resume(
        SHAKESPEARE, FULL_PT "max_steps: 9\nbf16: true\ngradient_accumulation_steps: 2\n",
        "job.run/model.safetensors", 4);
}

/* Every optimizer's state is in the checkpoint. */
static void test_trainer_resumed_optimizers_are_uninterrupted(void **state)
{
    static const char *const settings[] = {
        "optim: adamw_8bit\n",
        "optim: lion_32bit\n",
        "optim: lion_8bit\npure_bf16: true\n",
        "optim: adafactor\nbf16: true\n",
        "use_muon: true\nbf16: true\n",
        "use_adam_mini: true\n",
        "optim: schedule_free_adamw\nbf16: true\nwarmup_steps: 2\n",
        "use_galore: true\ngalore_rank: 3\ngalore_update_interval: 3\nbf16: true\n",
        "use_apollo: true\napollo_rank: 2\napollo_update_interval: 3\n"
        "pure_bf16: true\n",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(settings); i++) {
        struct text more;

        text_init(&more, 0);
        text_addf(&more, FULL_PT "max_steps: 4\nweight_decay: 0.1\n%s", settings[i]);
        check_stop_and_resume(SHAKESPEARE, more.data, "job.run/model.safetensors", 2);
        text_clear(&more);
    }
}

static void test_trainer_resumed_lora_is_uninterrupted(void **state)
{
    (void)state;
    check_stop_and_resume(ALPACA,
                          LORA_SFT
                          "num_train_epochs: 0.4\nlora_dropout: 0.1\nfp16: true\n"
                          "trainspool: {keep: [fp16]}\n",
                          "job.run/adapter_model.safetensors", 3);
}

/* Files of these architectures store matrices transposed, or head by head. */
static void test_trainer_resumed_other_architectures_are_uninterrupted(void **state)
{
    static const char *const models[] = { "data/slm4096/hf", "data/made-here/gpt_neo",
                                          "data/made-here/gpt_neox" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(models); i++) {
        check_stop_and_resume_of(
            training_text_of(models[i], SHAKESPEARE, FULL_PT "max_steps: 5\n"),
            "job.run/model.safetensors", 2);
        check_stop_and_resume_of(
            training_text_of(models[i], SHAKESPEARE,
                             "stage: pt\nfinetuning_type: lora\nlora_dropout: 0.1\n"
                             "cutoff_len: 64\nmax_samples: 400\nmax_steps: 5\n"),
            "job.run/adapter_model.safetensors", 2);
    }
}

/* The error comes before the first step, not when the sample is read. */
static void test_trainer_refuses_positions_without_an_embedding(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text_of("data/slm4096/hf", SHAKESPEARE,
                                 "stage: pt\nfinetuning_type: full\ncutoff_len: 129\n"
                                 "max_samples: 400\nmax_steps: 5\n");
    struct training training = { .dir = dir, .job = job };
    struct error err = { 0 };

    (void)state;
    assert_false(training_run(&training, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "lower cutoff_len to 128"));
    assert_int_equal(training.steps, 0);
    free(job);
    unit_dir_free(dir);
}

static void test_trainer_threads_give_the_same_bits(void **state)
{
    char digest[2][DIGEST_TEXT];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *dir = unit_dir_new();
        char *job =
            training_text(ALPACA, "stage: sft\nfinetuning_type: full\nmax_samples: 40\n"
                                  "cutoff_len: 256\nmax_steps: 5\nbf16: true\n");
        struct training training = { .dir = dir, .job = job, .threads = i + 1 };

        training_must(&training);
        training_digest(dir, "job.run/model.safetensors", digest[i]);
        free(job);
        unit_dir_free(dir);
    }
    assert_string_equal(digest[0], digest[1]);
}

static void test_trainer_checkpointing_gives_the_same_bits(void **state)
{
    static const char *const words[] = { "gradient_checkpointing: true\n",
                                         "gradient_checkpointing: false\n"
                                         "disable_gradient_checkpointing: true\n" };
    char digest[2][DIGEST_TEXT];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *dir = unit_dir_new(), more[512];

        snprintf(more, sizeof(more), FULL_PT "max_steps: 5\n%s", words[i]);
        char *job = training_text(SHAKESPEARE, more);
        struct training training = { .dir = dir, .job = job };

        training_must(&training);
        training_digest(dir, "job.run/model.safetensors", digest[i]);
        free(job);
        unit_dir_free(dir);
    }
    assert_string_equal(digest[0], digest[1]);
}

/* 4 x 2 = 1 x 8: the loss is divided by the trained tokens of the whole window. */
static void test_trainer_accumulation_is_a_larger_batch(void **state)
{
    static const char *const words[] = {
        "per_device_train_batch_size: 8\ngradient_accumulation_steps: 1\n",
        "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n",
    };
    struct training training[2] = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *dir = unit_dir_new(), more[512];

        snprintf(more, sizeof(more),
                 "stage: sft\nfinetuning_type: full\nmax_samples: 64\ncutoff_len: 256\n"
                 "max_steps: 6\n%s",
                 words[i]);
        char *job = training_text(ALPACA, more);

        training[i] = (struct training) { .dir = dir, .job = job };
        training_must(&training[i]);
        free(job);
        unit_dir_free(dir);
    }
    for (int i = 0; i < 6; i++) {
        double a = training_value(&training[0], "'loss'", i);
        double b = training_value(&training[1], "'loss'", i);
        double norm = training_value(&training[0], "'grad_norm'", i);

        if (!(fabs(a - b) <= 1e-3 * a))
            fail_msg("step %d: %g and %g", i + 1, a, b);
        assert_true(fabs(norm - training_value(&training[1], "'grad_norm'", i)) <=
                    2e-3 * norm);
    }
}

static void test_trainer_keeps_the_newest_checkpoints(void **state)
{
    char *dir = unit_dir_new(), *run_dir = path_join(dir, "job.run");
    char *job = training_text(SHAKESPEARE, FULL_PT
                              "max_steps: 9\nsave_steps: 2\nsave_total_limit: 2\n");
    struct training training = { .dir = dir, .job = job };
    struct error err = { 0 };

    (void)state;
    training_must(&training);
    for (int64_t step = 2; step <= 9; step++) {
        char *name = checkpoint_name(run_dir, step);

        assert_int_equal(file_exists(name), step == 8 || step == 9);
        if (file_exists(name))
            assert_true(manifest_check(name, true, NULL, &err));
        free(name);
    }
    free(job);
    free(run_dir);
    unit_dir_free(dir);
}

/* If the newest checkpoint is damaged, the run resumes from the previous one and ends
 * with the same result. */
static void test_trainer_skips_a_damaged_checkpoint(void **state)
{
    char *one = unit_dir_new(), *two = unit_dir_new(), a[DIGEST_TEXT], b[DIGEST_TEXT];
    char *job = training_text(SHAKESPEARE, FULL_PT "max_steps: 8\nsave_steps: 2\n");
    char *name = path_join(two, "job.run/checkpoint-6/model.safetensors");
    struct training whole = { .dir = one, .job = job };
    struct training first = { .dir = two, .job = job, .stop_after = 6 };
    struct training second = { .dir = two, .job = job, .resume = true };
    struct error err = { 0 };
    struct stat st;

    (void)state;
    training_must(&whole);
    assert_false(training_run(&first, &err));
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(truncate(name, st.st_size / 2), 0);
    training_must(&second);
    assert_int_equal(second.steps, 4);
    training_digest(one, "job.run/model.safetensors", a);
    training_digest(two, "job.run/model.safetensors", b);
    assert_string_equal(a, b);
    free(name);
    free(job);
    unit_dir_free(one);
    unit_dir_free(two);
}

/* A changed job starts from scratch, and the output of the first run remains. */
static void test_trainer_changed_job_overwrites_nothing(void **state)
{
    char *dir = unit_dir_new(), before[DIGEST_TEXT], after[DIGEST_TEXT];
    char *job = training_text(SHAKESPEARE, FULL_PT "max_steps: 3\n");
    char *other = training_text(SHAKESPEARE, FULL_PT "max_steps: 3\nweight_decay: 0.1\n");
    struct training first = { .dir = dir, .job = job };
    struct training second = { .dir = dir, .job = other, .resume = true };

    (void)state;
    training_must(&first);
    training_digest(dir, "job.run/checkpoint-3/model.safetensors", before);
    training_must(&second);
    assert_int_equal(second.steps, 3);
    training_digest(dir, "job.run/checkpoint-3.old-1/model.safetensors", after);
    assert_string_equal(before, after);
    training_digest(dir, "job.run/model.safetensors.old-1", after);
    assert_string_equal(before, after);
    free(job);
    free(other);
    unit_dir_free(dir);
}

static void test_trainer_evaluates_from_step_zero(void **state)
{
    char *dir = unit_dir_new();
    char *job = training_text(ALPACA, LORA_SFT
                              "max_steps: 4\nval_size: 0.2\neval_strategy: steps\n"
                              "eval_steps: 2\n");
    struct training training = { .dir = dir, .job = job };

    (void)state;
    training_must(&training);
    for (int i = 0; i < 3; i++) {
        double loss = training_value(&training, "'eval_loss'", i);
        double perplexity = training_value(&training, "'eval_perplexity'", i);

        assert_true(isfinite(loss) && fabs(perplexity / exp(loss) - 1) < 0.01);
    }
    assert_true(isnan(training_value(&training, "'eval_loss'", 3)));
    free(job);
    unit_dir_free(dir);
}

/* Return the log line with the size of the model, malloc'ed. */
static char *size_line(const char *job)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "log"), *line, *start;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct training training = { .dir = dir, .job = job, .log = log_new(fd, LOG_INFO) };
    struct error err = { 0 };
    struct text text;

    training_must(&training);
    text_init(&text, 1 << 20);
    assert_true(file_read(name, 1 << 20, &text, NULL, &err));
    start = strstr(text.data, " model: ");
    assert_non_null(start);
    line = strndup(start, strcspn(start, "\n"));
    text_clear(&text);
    log_free(training.log);
    close(fd);
    free(name);
    unit_dir_free(dir);
    return line;
}

static void test_trainer_evaluation_takes_no_more_memory_than_training(void **state)
{
    char *wide[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *job = training_text(
            ALPACA, i == 0 ? LORA_SFT "max_steps: 1\neval_strategy: steps\n"
                                      "val_size: 0.5\nper_device_eval_batch_size: 1\n"
                           : LORA_SFT "max_steps: 1\neval_strategy: steps\n"
                                      "val_size: 0.5\nper_device_eval_batch_size: 64\n");

        wide[i] = size_line(job);
        free(job);
    }
    assert_string_equal(wide[0], wide[1]);
    free(wide[0]);
    free(wide[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_full_learns_in_fp32),
        cmocka_unit_test(test_trainer_full_learns_in_bf16),
        cmocka_unit_test(test_trainer_full_learns_in_fp16),
        cmocka_unit_test(test_trainer_lora_learns_in_fp32),
        cmocka_unit_test(test_trainer_lora_learns_in_bf16),
        cmocka_unit_test(test_trainer_lora_learns_in_fp16),
        cmocka_unit_test(test_trainer_stopped_at_any_tick_is_uninterrupted),
        cmocka_unit_test(test_trainer_resumed_full_is_uninterrupted),
        cmocka_unit_test(test_trainer_resumed_optimizers_are_uninterrupted),
        cmocka_unit_test(test_trainer_resumed_lora_is_uninterrupted),
        cmocka_unit_test(test_trainer_resumed_other_architectures_are_uninterrupted),
        cmocka_unit_test(test_trainer_refuses_positions_without_an_embedding),
        cmocka_unit_test(test_trainer_threads_give_the_same_bits),
        cmocka_unit_test(test_trainer_checkpointing_gives_the_same_bits),
        cmocka_unit_test(test_trainer_accumulation_is_a_larger_batch),
        cmocka_unit_test(test_trainer_keeps_the_newest_checkpoints),
        cmocka_unit_test(test_trainer_skips_a_damaged_checkpoint),
        cmocka_unit_test(test_trainer_changed_job_overwrites_nothing),
        cmocka_unit_test(test_trainer_evaluates_from_step_zero),
        cmocka_unit_test(test_trainer_evaluation_takes_no_more_memory_than_training),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
