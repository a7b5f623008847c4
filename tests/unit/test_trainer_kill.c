/*
 * tests/unit/test_trainer_kill.c - a run that is killed at arbitrary times and restarted
 * until it finishes ends with the same bits as an uninterrupted one.
 */
#include "config.h"

#include "tests/unit/training.h"

#include <signal.h>
#include <time.h>

#include "base/random.h"

#define KILLS 10

static char *job_text(const char *more)
{
    char *model = unit_shared("data/stories260K/hf");
    char *set = unit_shared("data/datasets/tinyshakespeare/input.txt");
    struct text text;

    if (model == NULL || set == NULL) {
        print_message("skipped: the shared models are absent\n");
        skip();
    }
    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: %s\ndataset: %s\nstage: pt\ncutoff_len: 64\n"
              "max_samples: 200\nper_device_train_batch_size: 4\nlearning_rate: 1.0e-3\n"
              "logging_steps: 1\nmax_steps: 60\nsave_steps: 5\nsave_total_limit: 2\n%s",
              model, set, more);
    free(model);
    free(set);
    return text_detach(&text, NULL);
}

/* Run the job in a child and kill it after some milliseconds (0: never).  Return whether
 * it succeeded. */
static bool run_child(struct training *training, unsigned milliseconds)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct error err = { 0 };
        bool ok = training_run(training, &err);

        if (!ok)
            fprintf(stderr, "# %s\n", err.text);
        _exit(ok ? 0 : 1);
    }
    if (milliseconds > 0) {
        nanosleep(&(struct timespec) { .tv_sec = milliseconds / 1000,
                                       .tv_nsec = milliseconds % 1000 * 1000000L },
                  NULL);
        kill(child, SIGKILL);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0
                                  : WTERMSIG(status) == SIGKILL);
    return WIFEXITED(status);
}

static void check_killed(const char *more, const char *weights, uint64_t seed)
{
    char *one = unit_dir_new(), *two = unit_dir_new(), *job = job_text(more);
    struct training whole = { .dir = one, .job = job };
    struct training killed = { .dir = two, .job = job, .resume = true };
    struct timespec from, to;
    char a[DIGEST_TEXT], b[DIGEST_TEXT];
    double whole_ms;

    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_true(run_child(&whole, 0));
    clock_gettime(CLOCK_MONOTONIC, &to);
    whole_ms = (double)(to.tv_sec - from.tv_sec) * 1e3 +
               (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    for (uint64_t i = 0; i < KILLS; i++) {
        double share = random_uniform(seed, RANDOM_ORDER, 0, i);

        if (run_child(&killed, 1 + (unsigned)(share * whole_ms)))
            break; /* it finished before the kill: publishing again must change nothing */
    }
    assert_true(run_child(&killed, 0));
    training_digest(one, weights, a);
    training_digest(two, weights, b);
    assert_string_equal(a, b);
    training_digest(one, "job.run/checkpoint-60/trainspool_optimizer.safetensors", a);
    training_digest(two, "job.run/checkpoint-60/trainspool_optimizer.safetensors", b);
    assert_string_equal(a, b);
    free(job);
    unit_dir_free(one);
    unit_dir_free(two);
}

static void test_trainer_killed_full_run_ends_the_same(void **state)
{
    (void)state;
    check_killed("finetuning_type: full\nbf16: true\n", "job.run/model.safetensors", 1);
}

static void test_trainer_killed_lora_run_ends_the_same(void **state)
{
    (void)state;
    check_killed("finetuning_type: lora\nlora_dropout: 0.1\nfp16: true\n"
                 "trainspool: {keep: [fp16]}\n",
                 "job.run/adapter_model.safetensors", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_killed_full_run_ends_the_same),
        cmocka_unit_test(test_trainer_killed_lora_run_ends_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
