/* tests/unit/test_evaluation.c - which model is the best, and when a run has had enough.
 */
#include "config.h"

#include "train/evaluation.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_better_goes_by_the_metric(void **state)
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

        if (evaluation_is_better(&plan, cases[i].is, cases[i].best) != cases[i].better)
            fail_msg("case %zu", i);
    }
}

static void test_metrics_are_known(void **state)
{
    struct plan plan = { .metric_for_best_model = "eval_rouge-l" };
    struct error err = { 0 };

    (void)state;
    assert_false(evaluation_check(&plan, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_non_null(strstr(err.text, "eval_rouge-l"));
    error_clear(&err);
    plan = (struct plan) { .early_stopping_steps = 2 };
    assert_false(evaluation_check(&plan, &err));
    assert_non_null(strstr(err.text, "eval_strategy"));
    plan.eval_strategy = WHEN_STEPS;
    assert_true(evaluation_check(&plan, NULL));
    assert_string_equal(evaluation_metric_name(&plan), "eval_loss");
    plan.metric_for_best_model = "answer_rate";
    assert_string_equal(evaluation_metric_name(&plan), "eval_answer_rate");
}

/* Evaluations are counted from the best on; that before the first step is none, and
 * training entries are none either. */
static void test_enough_is_counted_from_the_best(void **state)
{
    static const int64_t steps[] = { 0, 10, 20, 30, 40 };
    struct plan plan = { .early_stopping_steps = 2 };
    struct run run = { .plan = &plan };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(steps); i++) {
        progress_history_add(&run.history,
                             &(struct logged) { .evaluation = true, .step = steps[i] });
        progress_history_add(&run.history, &(struct logged) { .step = steps[i] + 5 });
        run.progress.best_step = steps[i] < 20 ? steps[i] : 20;
        assert_int_equal(evaluation_ends(&run), steps[i] == 40);
    }
    run.progress.best_step = 0; /* none of them was a number */
    assert_true(evaluation_ends(&run));
    plan.early_stopping_steps = 0;
    assert_false(evaluation_ends(&run));
    progress_history_clear(&run.history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_better_goes_by_the_metric),
        cmocka_unit_test(test_metrics_are_known),
        cmocka_unit_test(test_enough_is_counted_from_the_best),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
