/* tests/unit/test_trainer_average.c - with schedule-free AdamW a run trains weights, and
 * evaluates and saves their average. */
#include "config.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/training.h"

#define AVERAGED                                                                         \
    "stage: pt\nfinetuning_type: full\ncutoff_len: 64\nmax_samples: 400\nmax_steps: 6\n" \
    "optim: schedule_free_adamw\nlr_scheduler_type: constant\nwarmup_steps: 2\n"         \
    "learning_rate: 1.0e-3\nweight_decay: 0.1\nval_size: 0.05\nsave_steps: 2\n"

static void run_job(struct training *training, const char *more)
{
    struct text text;

    *training = (struct training) { .dir = unit_dir_new() };
    text_init(&text, 0);
    text_addf(&text, AVERAGED "%sexport_dir: %s/exported\n", more, training->dir);
    training->job = training_text(SHAKESPEARE, text.data);
    training_must(training);
    text_clear(&text);
}

static void end_job(struct training *training)
{
    free((char *)training->job);
    unit_dir_free((char *)training->dir);
}

static void assert_same_files(const struct training *a, const char *name,
                              const struct training *b, const char *other)
{
    char digests[2][DIGEST_TEXT];

    training_digest(a->dir, name, digests[0]);
    training_digest(b->dir, other, digests[1]);
    assert_string_equal(digests[0], digests[1]);
}

static void test_average_is_exchanged_to_the_bit(void **state)
{
    static const char *const precisions[] = { "bf16: true\n", "bf16: false\n" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(precisions); i++) {
        struct training quiet, evaluated;
        char more[256];

        run_job(&quiet, precisions[i]);
        snprintf(more, sizeof(more), "%seval_strategy: steps\neval_steps: 1\n",
                 precisions[i]);
        run_job(&evaluated, more);
        assert_same_files(&quiet, "job.run/model.safetensors", &evaluated,
                          "job.run/model.safetensors");
        assert_same_files(&quiet, "job.run/checkpoint-4/trainspool_optimizer.safetensors",
                          &evaluated,
                          "job.run/checkpoint-4/trainspool_optimizer.safetensors");
        end_job(&quiet);
        end_job(&evaluated);
    }
}

/* Each evaluation is that of a run that starts with what the checkpoint has. */
static void test_average_is_evaluated_and_saved(void **state)
{
    struct training run, again;
    char more[1024];

    (void)state;
    run_job(&run, "eval_strategy: steps\neval_steps: 2\n");
    assert_same_files(&run, "job.run/model.safetensors", &run,
                      "job.run/checkpoint-6/model.safetensors");
    assert_same_files(&run, "job.run/model.safetensors", &run,
                      "exported/model.safetensors");
    snprintf(
        more, sizeof(more),
        "do_train: false\ndo_eval: true\nmodel_name_or_path: %s/job.run/checkpoint-4\n",
        run.dir);
    again = (struct training) { .dir = unit_dir_new() };
    again.job = training_text(SHAKESPEARE, AVERAGED);
    {
        char *rest = strchr(again.job, '\n'); /* after the line of the model */
        struct text text;

        assert_true(strncmp(again.job, "model_name_or_path", 18) == 0);
        text_init(&text, 0);
        text_addf(&text, "%s%s", more, rest + 1);
        free((char *)again.job);
        again.job = text_detach(&text, NULL);
    }
    training_must(&again);
    assert_true(fabs(training_value(&again, "'eval_loss'", 0) -
                     training_value(&run, "'eval_loss'", 2)) < 1e-6);
    end_job(&run);
    end_job(&again);
}

/* The best model's weights are an average already. */
static void test_average_of_the_best_step_is_the_result(void **state)
{
    struct training run;

    (void)state;
    run_job(&run, "eval_strategy: steps\neval_steps: 2\nload_best_model_at_end: true\n"
                  "greater_is_better: true\n");
    assert_same_files(&run, "job.run/model.safetensors", &run,
                      "job.run/checkpoint-2/model.safetensors");
    assert_same_files(&run, "job.run/model.safetensors", &run,
                      "exported/model.safetensors");
    end_job(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_average_is_exchanged_to_the_bit),
        cmocka_unit_test(test_average_is_evaluated_and_saved),
        cmocka_unit_test(test_average_of_the_best_step_is_the_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
