/* tests/unit/test_evaluation.c - early stopping counts evaluations from the best one. */
#include "config.h"

#include "train/evaluation.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

/* Counts evaluations after the best one, but neither the one before the first step nor
 * training entries. */
static void test_evaluation_counts_from_the_best(void **state)
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
        assert_int_equal(evaluation_stops_early(&run), steps[i] == 40);
    }
    run.progress.best_step = 0; /* all metrics were NaN */
    assert_true(evaluation_stops_early(&run));
    plan.early_stopping_steps = 0;
    assert_false(evaluation_stops_early(&run));
    progress_history_clear(&run.history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluation_counts_from_the_best),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
