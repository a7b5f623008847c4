/* tests/unit/test_trainer_ranks.c - a run of several processes matches one process with
 * all micro-batches, has the same checkpoints, and ends when one process does. */
#include "config.h"

#include "tests/unit/training.h"

#include <math.h>
#include <time.h>

#include "tests/unit/unit_ranks.h"

/*
 * The log has losses and norms with 4 digits, so equal within rounding means equal except
 * for the last digit.
 */
#define DIGITS 2e-3
#define PAIRS  "data/datasets/llamafactory/dpo_en_demo.json"

static void write_job(const struct training *training)
{
    char *name = path_join(training->dir, "job.yaml");
    struct error err = { 0 };

    if (!file_replace(name, training->job, strlen(training->job), 0644, &err))
        fail_msg("%s", err.text);
    free(name);
}

/* Run a job with `count` ranks; ranks other than 0 exit here. */
static bool run_ranks(struct training *training, int count, struct error *err)
{
    struct unit_ranks ranks;
    bool ok;

    write_job(training);
    unit_ranks_fork(&ranks, count);
    training->group = &ranks.group;
    training->threads = count;
    ok = training_run(training, err);
    if (ranks.group.rank > 0)
        _exit(ok ? 0 : 1);
    for (int r = 1; r < count; r++)
        close(ranks.links[r - 1]);
    for (int r = 1; r < count; r++)
        assert_true(WIFEXITED(unit_ranks_wait(&ranks, r)));
    return ok;
}

static void ranks_must(struct training *training, int count)
{
    struct error err = { 0 };

    if (!run_ranks(training, count, &err))
        fail_msg("%s", err.text);
}

static void same_course(const struct training *a, const struct training *b,
                        const char *key)
{
    int n = 0;

    for (; !isnan(training_value(b, key, n)); n++) {
        double x = training_value(a, key, n), y = training_value(b, key, n);

        if (!(fabs(x - y) <= DIGITS * fabs(y)))
            fail_msg("%s of step %d is %g, alone %g", key, n + 1, x, y);
    }
    assert_true(n > 0);
    assert_true(isnan(training_value(a, key, n)));
}

static char *job_of(const char *data, const char *more, const char *window)
{
    struct text text;
    char *job;

    text_init(&text, 0);
    text_addf(&text, "%sgradient_accumulation_steps: %s\n", more, window);
    job = training_text(data, text.data);
    text_clear(&text);
    return job;
}

/* Compare `count` ranks of `window` micro-batches with one rank of `all`. */
static void check_like_one(const char *data, const char *more, int count,
                           const char *window, const char *all)
{
    char *one = unit_dir_new(), *many = unit_dir_new();
    struct training alone = { .dir = one, .job = job_of(data, more, all) };
    struct training several = { .dir = many, .job = job_of(data, more, window) };

    ranks_must(&several, count);
    training_must(&alone);
    assert_int_equal(several.steps, alone.steps);
    same_course(&several, &alone, "'loss'");
    same_course(&several, &alone, "'grad_norm'");
    same_course(&several, &alone, "'epoch'");
    if (strstr(alone.logged, "kd_loss"))
        same_course(&several, &alone, "'kd_loss'");
    if (strstr(alone.logged, "eval_loss"))
        same_course(&several, &alone, "'eval_loss'");
    if (strstr(alone.logged, "logps/rejected")) {
        same_course(&several, &alone, "'logps/rejected'");
        same_course(&several, &alone, "'eval_logps/rejected'");
        same_course(&several, &alone, "'rewards/accuracies'");
    }
    free((char *)alone.job);
    free((char *)several.job);
    unit_dir_free(one);
    unit_dir_free(many);
}

static void test_trainer_ranks_full_matches_one_rank(void **state)
{
    (void)state;
    check_like_one(SHAKESPEARE,
                   FULL_PT "max_steps: 12\neval_strategy: steps\neval_steps: 4\n"
                           "val_size: 0.1\n",
                   2, "1", "2");
}

/* Only rank 0 has the evaluations that the rate depends on. */
static void test_trainer_ranks_on_a_plateau_match_one_rank(void **state)
{
    (void)state;
    check_like_one(SHAKESPEARE,
                   FULL_PT "max_steps: 5\neval_strategy: steps\neval_steps: 1\n"
                           "val_size: 0.1\nlr_scheduler_type: reduce_lr_on_plateau\n"
                           "lr_scheduler_kwargs: {factor: 0.3, patience: 0, "
                           "threshold: 9, threshold_mode: abs}\n",
                   2, "1", "2");
}

/* With an epoch of 25 micro-batches the last window has one, and two ranks have none. */
static void test_trainer_ranks_lora_with_dropout_and_short_windows(void **state)
{
    (void)state;
    check_like_one(ALPACA,
                   LORA_SFT "num_train_epochs: 2\nlora_dropout: 0.1\n"
                            "max_grad_norm: 0.5\n",
                   3, "2", "6");
}

/* Each rank runs the teacher, or rank 0 writes the file for all. */
static void test_trainer_ranks_distill_matches_one_rank(void **state)
{
#define TAUGHT                                                                    \
    "stage: distill\nfinetuning_type: lora\nlora_rank: 4\ncutoff_len: 128\n"      \
    "max_samples: 41\nper_device_train_batch_size: 4\nmax_steps: 6\nkd_topk: 9\n" \
    "teacher_model_name_or_path: %s\n"
    char *teacher = unit_shared("data/stories260K/hf-qwen2");
    struct text text;

    (void)state;
    for (int i = 0; teacher && i < 2; i++) {
        text_init(&text, 0);
        text_addf(&text, TAUGHT, teacher);
        if (i == 1)
            text_adds(&text, "trainspool: {teacher_logits: kept.safetensors}\n");
        check_like_one(ALPACA, text.data, 2, "1", "2");
        text_clear(&text);
    }
    free(teacher);
#undef TAUGHT
}

/* Adapters with their base as reference, all weights with a copy; with 13 pairs a last
 * window has fewer micro-batches than ranks. */
static void test_trainer_ranks_preference_matches_one_rank(void **state)
{
#define PREFER                                                                       \
    "stage: dpo\ncutoff_len: 128\nmax_samples: 13\nper_device_train_batch_size: 2\n" \
    "max_steps: 6\nval_size: 3\neval_strategy: steps\neval_steps: 3\n"
    (void)state;
    check_like_one(PAIRS, PREFER "finetuning_type: lora\nlora_rank: 4\n", 2, "1", "2");
    check_like_one(PAIRS, PREFER "finetuning_type: full\npref_ftx: 0.5\n", 3, "1", "3");
#undef PREFER
}

/* All ranks have the same loss scale and skip the same steps. */
static void test_trainer_ranks_share_a_loss_scale(void **state)
{
    (void)state;
    check_like_one(SHAKESPEARE,
                   FULL_PT "max_steps: 6\nfp16: true\ntrainspool: {keep: [fp16]}\n", 2,
                   "1", "2");
}

/* A run stopped with two ranks and resumed with one, then with three, matches an
 * uninterrupted run. */
static void test_trainer_ranks_resume_with_another_rank_count(void **state)
{
    static const char more[] = FULL_PT "max_steps: 9\n";
    char *one = unit_dir_new(), *two = unit_dir_new();
    struct training whole = { .dir = one, .job = job_of(SHAKESPEARE, more, "6") };
    struct training parts[3] = {
        { .dir = two, .job = job_of(SHAKESPEARE, more, "3"), .stop_after = 3 },
        { .dir = two,
          .job = job_of(SHAKESPEARE,
                        FULL_PT "max_steps: 9\nresume_from_checkpoint: true\n", "6"),
          .stop_after = 6 },
        { .dir = two,
          .job = job_of(SHAKESPEARE,
                        FULL_PT "max_steps: 9\nresume_from_checkpoint: true\n", "2") },
    };
    struct training all = { 0 };
    struct error err = { 0 };
    size_t len = 0;

    (void)state;
    training_must(&whole);
    assert_false(run_ranks(&parts[0], 2, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    error_clear(&err);
    assert_false(training_run(&parts[1], &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    ranks_must(&parts[2], 3);
    for (int i = 0; i < 3; i++)
        len += (size_t)snprintf(all.logged + len, sizeof(all.logged) - len, "%s",
                                parts[i].logged);
    same_course(&all, &whole, "'loss'");
    same_course(&all, &whole, "'grad_norm'");
    free((char *)whole.job);
    for (int i = 0; i < 3; i++)
        free((char *)parts[i].job);
    unit_dir_free(one);
    unit_dir_free(two);
}

/* The same job with the same ranks gives the same bits twice. */
static void test_trainer_ranks_are_reproducible(void **state)
{
    char digest[2][DIGEST_TEXT];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *dir = unit_dir_new();
        struct training training = {
            .dir = dir,
            .job = job_of(SHAKESPEARE, FULL_PT "max_steps: 5\nbf16: true\n", "1")
        };

        ranks_must(&training, 3);
        training_digest(dir, "job.run/model.safetensors", digest[i]);
        free((char *)training.job);
        unit_dir_free(dir);
    }
    assert_string_equal(digest[0], digest[1]);
}

/* If a rank is killed, rank 0 ends and reports which one. */
static void test_trainer_ranks_end_if_one_is_killed(void **state)
{
    char *dir = unit_dir_new();
    struct training training = {
        .dir = dir, .job = job_of(SHAKESPEARE, FULL_PT "max_steps: 100000\n", "1")
    };
    struct unit_ranks ranks;
    struct error err = { 0 };

    (void)state;
    write_job(&training);
    unit_ranks_fork(&ranks, 3);
    training.group = &ranks.group;
    training.threads = 3;
    if (ranks.group.rank == 0 && fork() == 0) {
        struct timespec moment = { .tv_nsec = 300000000 };

        nanosleep(&moment, NULL);
        kill(ranks.children[2], SIGKILL);
        _exit(0);
    }
    if (ranks.group.rank > 0)
        _exit(training_run(&training, NULL) ? 0 : 1);
    assert_false(training_run(&training, &err));
    assert_non_null(strstr(err.text, "rank 2 ended"));
    assert_true(WIFSIGNALED(unit_ranks_wait(&ranks, 2)));
    for (int i = 0; i < 2; i++)
        close(ranks.links[i]);
    assert_true(WIFEXITED(unit_ranks_wait(&ranks, 1)));
    waitpid(-1, NULL, 0);
    free((char *)training.job);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_ranks_full_matches_one_rank),
        cmocka_unit_test(test_trainer_ranks_on_a_plateau_match_one_rank),
        cmocka_unit_test(test_trainer_ranks_lora_with_dropout_and_short_windows),
        cmocka_unit_test(test_trainer_ranks_distill_matches_one_rank),
        cmocka_unit_test(test_trainer_ranks_preference_matches_one_rank),
        cmocka_unit_test(test_trainer_ranks_share_a_loss_scale),
        cmocka_unit_test(test_trainer_ranks_resume_with_another_rank_count),
        cmocka_unit_test(test_trainer_ranks_are_reproducible),
        cmocka_unit_test(test_trainer_ranks_end_if_one_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
