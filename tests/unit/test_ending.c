/* tests/unit/test_ending.c - what the end of an attempt means. */
#include "config.h"

#include "tests/unit/unit.h"

#include <signal.h>

#include "runner/ending.h"
#include "runner/output/report.h"

static const struct error stopped = { .code = ERROR_STOPPED,
                                      .text = "stopped at step 12" };

static void expect_end(const struct ending_facts *facts, const struct error *err,
                       enum job_event event, const char *reason)
{
    struct ending ending;

    ending_find(facts, err, &ending);
    assert_int_equal(ending.event, event);
    assert_string_equal(ending.reason, reason);
}

static void test_ending_prefers_a_cancel_to_the_timeout(void **state)
{
    struct ending_facts facts = {
        .spooled = true, .timed_out = true, .signal = SIGTERM, .request = REQUEST_CANCEL
    };

    (void)state;
    expect_end(&facts, &stopped, EVENT_CANCELLED, "canceled at step 12");
    facts.request = REQUEST_PAUSE;
    expect_end(&facts, &stopped, EVENT_EXIT_BAD,
               "timeout reached at step 12; raise trainspool.timeout");
}

static void test_ending_names_the_remedy_for_a_timeout(void **state)
{
    struct ending_facts facts = { .timed_out = true,
                                  .advanced = true,
                                  .signal = SIGTERM };

    (void)state;
    expect_end(&facts, &stopped, EVENT_EXIT_BAD,
               "timeout reached at step 12; trainspool run --resume continues for as "
               "long again");
    facts.spooled = true;
    expect_end(&facts, &stopped, EVENT_EXIT_BAD,
               "timeout reached at step 12; trainspool retry continues for as long "
               "again");
}

static void test_ending_pauses_only_jobs_of_a_spool(void **state)
{
    struct ending_facts facts = { .spooled = true, .signal = SIGINT };

    (void)state;
    expect_end(&facts, &stopped, EVENT_PAUSED, "stopped by SIGINT at step 12");
    facts.spooled = false;
    expect_end(&facts, &stopped, EVENT_CANCELLED, "stopped by SIGINT at step 12");
}

static void test_ending_retries_after_the_loss_of_a_device(void **state)
{
    struct ending_facts facts = { .spooled = true, .retries = true };
    const struct error lost = { .code = ERROR_CARD, .text = "cuda:0 hangs" };
    const struct error context = { .code = ERROR_CONTEXT, .text = "contained" };
    const struct error failed = { .code = ERROR_DEVICE, .text = "illegal address" };

    (void)state;
    expect_end(&facts, &lost, EVENT_CRASHED, "cuda:0 hangs");
    expect_end(&facts, &context, EVENT_CRASHED, "contained");
    expect_end(&facts, &failed, EVENT_EXIT_BAD, "illegal address");
    facts.retries = false;
    expect_end(&facts, &lost, EVENT_EXIT_BAD, "cuda:0 hangs");
    expect_end(&facts, &context, EVENT_EXIT_BAD, "contained");
    facts = (struct ending_facts) { .retries = true };
    expect_end(&facts, &lost, EVENT_EXIT_BAD, "cuda:0 hangs");
    assert_int_equal(ending_status(true, ERROR_CARD), 78);
    assert_int_equal(ending_status(false, ERROR_CARD), 1);
    /* the watch counts no loss of the device */
    assert_int_equal(ending_status(true, ERROR_CONTEXT), 1);
}

static void test_ending_keeps_errors_after_a_signal(void **state)
{
    const struct ending_facts facts = { .spooled = true, .signal = SIGTERM };
    const struct error bad = { .code = ERROR_DATA, .text = "x.jsonl is empty" };

    (void)state;
    expect_end(&facts, &bad, EVENT_EXIT_BAD, "x.jsonl is empty");
    expect_end(&facts, NULL, EVENT_EXIT_OK, "");
}

/* A cluster that starts failed ranks again does so for a device, not for the job itself. */
static void test_ending_of_launched_ranks_names_a_lost_device(void **state)
{
    struct ending_facts facts = { .launched = true };
    struct error err = { 0 };
    struct ending ending;

    (void)state;
    error_set(&err, ERROR_CARD, "GPU 1 is lost");
    ending_find(&facts, &err, &ending);
    assert_int_equal(ending.status, EXIT_CARD);
    facts.launched = false;
    ending_find(&facts, &err, &ending);
    assert_int_equal(ending.status, EXIT_FINDINGS);
    error_clear(&err);
    error_set(&err, ERROR_DIVERGED, "the loss is NaN");
    facts.launched = true;
    ending_find(&facts, &err, &ending);
    assert_int_equal(ending.status, EXIT_FINDINGS);
}

static void test_ending_heals_only_problems_that_a_patch_remedies(void **state)
{
    struct ending_facts facts = { .spooled = true, .heals = true };
    const struct error diverged = { .code = ERROR_DIVERGED, .text = "NaN" },
                       memory = { .code = ERROR_MEMORY, .text = "no memory" },
                       data = { .code = ERROR_DATA, .text = "x.jsonl is empty" };

    (void)state;
    expect_end(&facts, &diverged, EVENT_AILED, "NaN");
    expect_end(&facts, &memory, EVENT_AILED, "no memory");
    expect_end(&facts, &data, EVENT_EXIT_BAD, "x.jsonl is empty");
    facts.request = REQUEST_CANCEL;
    expect_end(&facts, &diverged, EVENT_EXIT_BAD, "NaN");
    facts.request = REQUEST_NONE;
    facts.heals = false;
    expect_end(&facts, &diverged, EVENT_EXIT_BAD, "NaN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ending_prefers_a_cancel_to_the_timeout),
        cmocka_unit_test(test_ending_names_the_remedy_for_a_timeout),
        cmocka_unit_test(test_ending_pauses_only_jobs_of_a_spool),
        cmocka_unit_test(test_ending_retries_after_the_loss_of_a_device),
        cmocka_unit_test(test_ending_keeps_errors_after_a_signal),
        cmocka_unit_test(test_ending_of_launched_ranks_names_a_lost_device),
        cmocka_unit_test(test_ending_heals_only_problems_that_a_patch_remedies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
