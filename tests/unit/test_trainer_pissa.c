/* tests/unit/test_trainer_pissa.c - runs whose adapters start as the principal part of the
 * weights: what they report, and resuming. */
#include "config.h"

#include "tests/unit/training.h"
#include "tests/unit/unit_tokenizer.h"

#define PISSA                                                             \
    "stage: sft\nfinetuning_type: lora\npissa_init: true\nlora_rank: 4\n" \
    "cutoff_len: 128\nmax_samples: 40\nmax_steps: 4\nper_device_train_batch_size: 2\n"

static void hear(void *context, enum log_level level, const char *message)
{
    struct text *heard = context;

    (void)level;
    text_addf(heard, "%s\n", message);
}

/* Run a job, or its rest, and return the lines of its log. */
static bool run_heard(struct training *training, struct text *heard)
{
    struct log *log = log_new(-1, LOG_INFO);
    struct error err = { 0 };
    bool ok;

    text_init(heard, 0);
    log_listen(log, LOG_INFO, hear, heard);
    training->log = log;
    ok = training_run(training, &err);
    if (!ok && err.code != ERROR_STOPPED)
        fail_msg("%s", err.text);
    log_free(log);
    return ok;
}

/* The model has 5 layers with 7 matrices each. */
static void test_pissa_reports_its_progress(void **state)
{
    char *dir = unit_dir_new(), *job = training_text(ALPACA, PISSA);
    struct training training = { .dir = dir, .job = job };
    struct text heard;

    (void)state;
    assert_true(run_heard(&training, &heard));
    assert_non_null(strstr(heard.data, "largest singular values of 35 matrices"));
    assert_non_null(strstr(heard.data, "pissa_init: 35 of 35 matrices, "));
    text_clear(&heard);
    free(job);
    unit_dir_free(dir);
}

/* A run that resumes, or is repeated, reads what was computed; not with another model or
 * scale, nor if the file is damaged. */
static void test_pissa_is_computed_once(void **state)
{
    static const char weights[] = "job.run/adapter_model.safetensors";
    char *one = unit_dir_new(), *two = unit_dir_new();
    char *job = training_text(ALPACA, PISSA);
    char *other = training_text(ALPACA, PISSA "lora_alpha: 32\n");
    struct training whole = { .dir = one, .job = job };
    struct training first = { .dir = two, .job = job, .stop_after = 2 };
    struct training second = { .dir = two, .job = job, .resume = true };
    struct training third = { .dir = two, .job = other };
    char a[DIGEST_TEXT], b[DIGEST_TEXT];
    struct text heard;

    (void)state;
    assert_true(run_heard(&whole, &heard));
    text_clear(&heard);
    assert_false(run_heard(&first, &heard));
    text_clear(&heard);
    assert_true(run_heard(&second, &heard));
    assert_null(strstr(heard.data, "singular values"));
    text_clear(&heard);
    training_digest(one, weights, a);
    training_digest(two, weights, b);
    assert_string_equal(a, b);
    assert_true(run_heard(&third, &heard));
    assert_non_null(strstr(heard.data, "pissa_init: 35 of 35 matrices, "));
    text_clear(&heard);
    unit_write_string(two, "job.run/pissa_start.safetensors", "damaged");
    assert_true(run_heard(&third, &heard));
    assert_non_null(strstr(heard.data, "pissa_init: 35 of 35 matrices, "));
    text_clear(&heard);
    free(job);
    free(other);
    unit_dir_free(one);
    unit_dir_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pissa_reports_its_progress),
        cmocka_unit_test(test_pissa_is_computed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
