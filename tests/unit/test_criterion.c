/* tests/unit/test_criterion.c - the best model by each metric. */
#include "config.h"

#include "train/criterion.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_criterion_better_depends_on_the_metric(void **state)
{
    static const struct {
        const char *metric;
        enum choice greater;
        double is, best;
        bool better;
    } cases[] = {
        { NULL, CHOICE_AUTO, 1, 2, true },
        { "loss", CHOICE_AUTO, 2, 1, false },
        { "eval_loss", CHOICE_AUTO, 1, 1, false },
        { "loss", CHOICE_YES, 2, 1, true },
        { "accuracy", CHOICE_AUTO, 0.5, 0.4, true },
        { "eval_accuracy", CHOICE_AUTO, 0.4, 0.5, false },
        { "answer_rate", CHOICE_AUTO, 0.5, 0.4, true },
        { "answer_rate", CHOICE_NO, 0.5, 0.4, false },
        { "loss", CHOICE_AUTO, 3, NAN, true },
        { "loss", CHOICE_AUTO, NAN, 3, false },
        { "accuracy", CHOICE_AUTO, NAN, NAN, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct plan plan = { .metric_for_best_model = cases[i].metric,
                                   .greater_is_better = cases[i].greater };

        if (criterion_is_better(&plan, cases[i].is, cases[i].best) != cases[i].better)
            fail_msg("case %zu", i);
    }
}

static void test_criterion_knows_its_metrics(void **state)
{
    struct plan plan = { .metric_for_best_model = "eval_rouge-l",
                         .do_train = CHOICE_YES };
    const char *key;
    struct error err = { 0 };

    (void)state;
    assert_true(criterion_check(&plan, &key, &err)); /* the run does not use it */
    plan.load_best_model_at_end = true;
    assert_false(criterion_check(&plan, &key, &err));
    assert_string_equal(key, "metric_for_best_model");
    assert_int_equal(err.code, ERROR_JOB);
    assert_non_null(strstr(err.text, "eval_rouge-l"));
    error_clear(&err);
    plan = (struct plan) { .early_stopping_steps = 2, .do_train = CHOICE_YES };
    assert_false(criterion_check(&plan, &key, &err));
    assert_non_null(strstr(err.text, "eval_strategy"));
    assert_string_equal(key, "early_stopping_steps");
    plan.eval_strategy = WHEN_STEPS;
    assert_true(criterion_check(&plan, NULL, NULL));
    assert_string_equal(criterion_name(&plan), "eval_loss");
    plan.metric_for_best_model = "answer_rate";
    error_clear(&err);
    assert_false(criterion_check(&plan, &key, &err));
    assert_non_null(strstr(err.text, "predict_with_generate"));
    plan.generation.on = true;
    assert_true(criterion_check(&plan, &key, NULL));
    plan =
        (struct plan) { .schedule = SCHEDULE_REDUCE_ON_PLATEAU, .do_train = CHOICE_YES };
    error_clear(&err);
    assert_false(criterion_check(&plan, &key, &err));
    assert_string_equal(key, "lr_scheduler_type");
    plan.eval_strategy = WHEN_EPOCH;
    assert_true(criterion_check(&plan, &key, NULL));
    plan.metric_for_best_model = "rouge";
    assert_false(criterion_check(&plan, &key, NULL));
    plan = (struct plan) { .metric_for_best_model = "eval_accuracy",
                           .load_best_model_at_end = true,
                           .compute_accuracy = true };
    assert_true(criterion_check(&plan, &key, NULL));
    plan.metric_for_best_model = "answer_rate";
    assert_string_equal(criterion_name(&plan), "eval_answer_rate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_criterion_better_depends_on_the_metric),
        cmocka_unit_test(test_criterion_knows_its_metrics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
