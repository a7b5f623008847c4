/*
 * tests/unit/test_trainer_preference.c - whole jobs of stages dpo and kto: a real model learns to
 * prefer the chosen answers, resumes after an interruption, and has the same losses with
 * every memory layout.
 */
#include "config.h"

#include "tests/unit/training.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"

#define MODEL "data/stories260K/hf"

enum { PAIRS = 40, STATE_MAX = 1 << 20 };

/* Make a folder with pairs.jsonl: a prompt, a kind answer and an unkind one.  Skip the
 * test without the model. */
static char *folder_new(void)
{
    static const char *const names[] = { "Lily", "Tom", "Sue", "Ben", "Mia", "Max" };
    static const char *const things[] = { "ball", "cat", "boat", "tree",
                                          "dog",  "hat", "cake", "bird" };
    char *dir, *name;
    struct text text;

    unit_need_shared(MODEL);
    dir = unit_dir_new();
    name = path_join(dir, "pairs.jsonl");
    text_init(&text, 0);
    for (int i = 0; i < PAIRS; i++) {
        const char *who = names[i % 6], *what = things[i / 6];

        text_addf(&text,
                  "{\"prompt\": \"%s saw a %s. What did %s do?\", \"chosen\": \"%s was "
                  "happy and played with the %s.\", \"rejected\": \"%s was sad and ran "
                  "away from it.\"}\n",
                  who, what, who, who, what, who);
    }
    assert_true(file_replace(name, text.data, text.len, 0644, NULL));
    text_clear(&text);
    free(name);
    return dir;
}

/* Answers that are marked as good or bad, in place of the pairs. */
static char *feedback_folder_new(void)
{
    static const char *const things[] = { "ball", "cat", "boat", "tree",
                                          "dog",  "hat", "cake", "bird" };
    char *dir = folder_new(), *name = path_join(dir, "pairs.jsonl");
    struct text text;

    text_init(&text, 0);
    for (int i = 0; i < PAIRS; i++)
        text_addf(&text,
                  "{\"prompt\": \"Tom saw a %s. What did Tom do?\", \"completion\": "
                  "\"Tom was %s the %s.\", \"label\": %s}\n",
                  things[i % 8], i % 3 ? "happy and played with" : "sad and ran from",
                  things[i % 8], i % 3 ? "true" : "false");
    assert_true(file_replace(name, text.data, text.len, 0644, NULL));
    text_clear(&text);
    free(name);
    return dir;
}

/* Return a job on stories260K. */
static char *job_of(const char *more)
{
    char *model = unit_shared(MODEL);
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: %s\n"
              "stage: dpo\n"
              "dataset: pairs.jsonl\n"
              "template: alpaca\n"
              "lr_scheduler_type: constant\n"
              "logging_steps: 1\n"
              "seed: 7\n"
              "cutoff_len: 160\n"
              "per_device_train_batch_size: 4\n"
              "%s",
              model, more);
    free(model);
    return text_detach(&text, NULL);
}

static void learn(struct training *training, const char *dir, const char *more)
{
    char *job = job_of(more);

    training->dir = dir;
    training->job = job;
    training_must(training);
    free(job);
    training->job = NULL;
}

static double last(const struct training *training, const char *key)
{
    return training_value(training, key, (int)training->steps - 1);
}

/* ---- It learns ---- */

static void check_learns(const char *more)
{
    struct training training = { 0 };
    char *dir = folder_new();

    learn(&training, dir, more);
    assert_true(fabs(training_value(&training, "'loss'", 0) - 0.6931) < 1e-4);
    for (int r = 0; r < 2; r++) /* rewards are 0 while the model equals its reference */
        assert_true(training_value(&training,
                                   r ? "'rewards/rejected'" : "'rewards/chosen'",
                                   0) == 0);
    assert_true(training_value(&training, "'rewards/accuracies'", 0) == 0);
    assert_true(training_value(&training, "'logps/chosen'", 0) < -10);
    assert_true(last(&training, "'loss'") < 0.5);
    assert_true(last(&training, "'rewards/accuracies'") == 1);
    assert_true(last(&training, "'rewards/margins'") > 0.5);
    unit_dir_free(dir);
}

#define LORA "finetuning_type: lora\nlora_rank: 8\nlearning_rate: 4.0e-3\nmax_steps: 7\n"
#define FULL "finetuning_type: full\nlearning_rate: 6.0e-4\nmax_steps: 7\n"

static void test_trainer_preference_adapters_prefer(void **state)
{
    (void)state;
    check_learns(LORA "lora_dropout: 0.1\n");
    check_learns(LORA "fp16: true\n"
                      "gradient_accumulation_steps: 2\n"
                      "trainspool: {keep: [fp16]}\n");
    check_learns(LORA "quantization_bit: 4\n");
}

static void test_trainer_preference_all_weights_prefer(void **state)
{
    (void)state;
    check_learns(FULL);
    check_learns(FULL "bf16: true\n");
    check_learns("finetuning_type: freeze\nfreeze_trainable_layers: 2\n"
                 "learning_rate: 2.0e-3\nmax_steps: 8\n");
}

/* Each loss starts at its known value and ends below it. */
static void test_trainer_preference_every_loss_falls(void **state)
{
    static const struct {
        const char *keys;
        double first; /* NaN: depends on the model */
    } losses[] = {
        { "pref_loss: hinge\n", 1 },
        { "pref_loss: ipo\npref_beta: 0.5\n", 1 },
        { "pref_loss: orpo\n", NAN },
        { "pref_loss: simpo\npref_beta: 2.0\n", NAN },
        { "pref_loss: sigmoid\npref_ftx: 1.0\ndpo_label_smoothing: 0.1\n", NAN },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(losses); i++) {
        struct training training = { 0 };
        char *dir = folder_new(), keys[256];
        double first;

        snprintf(keys, sizeof(keys), "%s%s", i % 2 ? FULL : LORA, losses[i].keys);
        learn(&training, dir, keys);
        first = training_value(&training, "'loss'", 0);
        if (!isnan(losses[i].first))
            assert_true(fabs(first - losses[i].first) < 1e-4);
        if (!(last(&training, "'loss'") < 0.9 * first))
            fail_msg("%s: the loss went from %g to %g", losses[i].keys, first,
                     last(&training, "'loss'"));
        unit_dir_free(dir);
    }
}

/* ---- The reference ---- */

static void same(const struct training *a, const struct training *b, double near)
{
    static const char *const keys[] = { "'loss'", "'rewards/chosen'", "'rewards/margins'",
                                        "'logps/rejected'", "'grad_norm'" };

    assert_int_equal(a->steps, b->steps);
    for (size_t k = 0; k < TS_COUNT(keys); k++)
        for (int i = 0; i < (int)a->steps; i++) {
            double x = training_value(a, keys[k], i), y = training_value(b, keys[k], i);

            if (!(fabs(x - y) <= near * (1e-3 + fabs(x))))
                fail_msg("%s of step %d is %g and %g", keys[k], i + 1, x, y);
        }
}

/* Naming the model itself as the reference changes nothing; another model does. */
static void test_trainer_preference_uses_a_named_reference(void **state)
{
    struct training own = { 0 }, named = { 0 }, later = { 0 };
    char *dir = folder_new(), *model = unit_shared(MODEL);
    struct text more;

    (void)state;
    learn(&own, dir, LORA);
    text_init(&more, 0);
    text_addf(&more, LORA "ref_model: %s\n", model ? model : "");
    learn(&named, dir, more.data);
    same(&own, &named, 1e-3);
    learn(&later, dir, FULL "output_dir: learned\n");
    learn(&later, dir, LORA "ref_model: learned\n");
    assert_true(last(&later, "'rewards/margins'") < last(&own, "'rewards/margins'"));
    text_clear(&more);
    free(model);
    unit_dir_free(dir);
}

/* ---- Layouts, interruptions ---- */

#define SHORT "max_steps: 4\ndisable_shuffling: true\n"

static void test_trainer_preference_layouts_agree(void **state)
{
    static const char *const methods[] = {
        "finetuning_type: lora\nlearning_rate: 2.0e-3\npref_loss: sigmoid\n",
        "finetuning_type: full\nlearning_rate: 3.0e-4\npref_loss: orpo\n",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(methods); i++) {
        struct training one = { 0 }, other = { 0 };
        char *dir = folder_new(), keys[256];

        snprintf(keys, sizeof(keys), "%s" SHORT, methods[i]);
        learn(&one, dir, keys);
        snprintf(keys, sizeof(keys),
                 "%s" SHORT "gradient_accumulation_steps: 2\n"
                 "disable_gradient_checkpointing: true\n",
                 methods[i]);
        {
            char *job = job_of(keys), *size = strstr(job, "batch_size: 4");

            size[strlen("batch_size: ")] = '2';
            other = (struct training) { .dir = dir, .job = job, .threads = 2 };
            training_must(&other);
            free(job);
        }
        same(&one, &other, 2e-3); /* log lines have four digits */
        unit_dir_free(dir);
    }
}

/* The same job in stage kto, which is as long a word. */
static char *feedback_job_of(const char *more)
{
    char *job = job_of(more);

    memcpy(strstr(job, "stage: dpo"), "stage: kto", strlen("stage: kto"));
    return job;
}

static void check_resume(bool feedback, const char *more, const char *weights, int64_t at)
{
    char *one = feedback ? feedback_folder_new() : folder_new();
    char *two = feedback ? feedback_folder_new() : folder_new();
    char *job = feedback ? feedback_job_of(more) : job_of(more);
    char a[DIGEST_TEXT], b[DIGEST_TEXT];
    struct training whole = { .dir = one, .job = job };
    struct training first = { .dir = two, .job = job, .stop_after = at };
    struct training second = { .dir = two, .job = job, .resume = true };
    struct error err = { 0 };

    training_must(&whole);
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    training_must(&second);
    assert_int_equal(first.steps + second.steps, whole.steps);
    training_digest(one, weights, a);
    training_digest(two, weights, b);
    assert_string_equal(a, b);
    assert_true(training_value(&whole, "'rewards/margins'", (int)at / 2) ==
                training_value(&second, "'rewards/margins'", 0));
    free(job);
    unit_dir_free(one);
    unit_dir_free(two);
}

static void test_trainer_preference_resumed_is_uninterrupted(void **state)
{
    (void)state;
    check_resume(false,
                 "finetuning_type: full\nlearning_rate: 3.0e-4\nmax_steps: 7\n"
                 "logging_steps: 2\n",
                 "job.run/model.safetensors", 3);
    check_resume(false,
                 "finetuning_type: lora\nlora_dropout: 0.1\nlearning_rate: 2.0e-3\n"
                 "max_steps: 6\nlogging_steps: 2\n",
                 "job.run/adapter_model.safetensors", 3);
    check_resume(true,
                 "finetuning_type: lora\nlearning_rate: 2.0e-3\nmax_steps: 6\n"
                 "logging_steps: 2\npref_ftx: 0.1\nkto_rejected_weight: 1.5\n",
                 "job.run/adapter_model.safetensors", 3);
}

/* ---- Evaluations ---- */

static json_t *state_of(const char *dir)
{
    char *name = path_join(dir, "job.run/checkpoint-6/trainer_state.json");
    struct error err = { 0 };
    json_t *state = json_read_file(name, STATE_MAX, &err);

    if (!state)
        fail_msg("%s", err.text);
    free(name);
    return state;
}

/* An evaluation reports rewards, and the best model may be chosen by them. */
static void test_trainer_preference_is_evaluated(void **state)
{
    struct training training = { 0 };
    char *dir = folder_new();
    json_t *result;

    (void)state;
    learn(&training, dir,
          LORA "val_size: 12\neval_strategy: steps\neval_steps: 3\n"
               "save_strategy: steps\nsave_steps: 3\nload_best_model_at_end: true\n"
               "metric_for_best_model: rewards/accuracies\n");
    assert_true(training_value(&training, "'eval_rewards/accuracies'", 0) == 0);
    assert_true(fabs(training_value(&training, "'eval_loss'", 0) - 0.6931) < 1e-4);
    assert_true(training_value(&training, "'eval_rewards/accuracies'", 3) == 1);
    assert_true(training_value(&training, "'eval_rewards/margins'", 3) >
                training_value(&training, "'eval_rewards/margins'", 1));
    assert_null(strstr(training.logged, "perplexity"));
    result = state_of(dir);
    assert_true(json_number_value(json_object_get(result, "best_metric")) > 0.9);
    json_decref(result);
    unit_dir_free(dir);
}

/* Good answers become likelier than bad ones, as in evaluations. */
static void test_trainer_feedback_learns(void **state)
{
    static const char *const methods[] = { LORA, FULL };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(methods); i++) {
        char *dir = feedback_folder_new(), keys[256], *job;
        struct training training = { .dir = dir };

        snprintf(keys, sizeof(keys),
                 "%sval_size: 12\neval_strategy: steps\neval_steps: 7\n", methods[i]);
        training.job = job = feedback_job_of(keys);
        training_must(&training);
        assert_true(fabs(training_value(&training, "'loss'", 0) - 0.5) < 1e-6);
        assert_true(training_value(&training, "'kl'", 0) == 0);
        assert_true(training_value(&training, "'eval_rewards/margins'", 0) == 0);
        assert_true(training_value(&training, "'eval_rewards/margins'", 1) > 1);
        assert_true(training_value(&training, "'eval_loss'", 1) < 0.2);
        assert_null(strstr(training.logged, "accuracies"));
        free(job);
        unit_dir_free(dir);
    }
}

/* ---- Data without pairs ---- */

static void fails(const char *data, const char *text)
{
    char *dir = folder_new(), *name = path_join(dir, "pairs.jsonl"), *job = job_of(LORA);
    struct training training = { .dir = dir, .job = job };
    struct error err = { 0 };

    assert_true(file_replace(name, data, strlen(data), 0644, NULL));
    assert_false(training_run(&training, &err));
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
    free(name);
    free(job);
    unit_dir_free(dir);
}

static void test_trainer_preference_requires_pairs(void **state)
{
    (void)state;
    fails("{\"instruction\": \"a\", \"output\": \"b\"}\n", "rejected");
    fails("{\"prompt\": \"a\", \"chosen\": \"b\"}\n", "rejected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_preference_adapters_prefer),
        cmocka_unit_test(test_trainer_preference_all_weights_prefer),
        cmocka_unit_test(test_trainer_preference_every_loss_falls),
        cmocka_unit_test(test_trainer_preference_uses_a_named_reference),
        cmocka_unit_test(test_trainer_preference_layouts_agree),
        cmocka_unit_test(test_trainer_preference_resumed_is_uninterrupted),
        cmocka_unit_test(test_trainer_preference_is_evaluated),
        cmocka_unit_test(test_trainer_feedback_learns),
        cmocka_unit_test(test_trainer_preference_requires_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
