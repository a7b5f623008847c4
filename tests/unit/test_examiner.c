/* tests/unit/test_examiner.c - hostile jobs end their examiner, and nothing else. */
#include "config.h"

#include "runner/spool/examiner.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/group.h"
#include "base/size.h"
#include "tests/unit/unit.h"

/* The test machine may be slow; a test that fails waits so long. */
static const double patience = 20;

static struct machine machine;

static void use_memory(void)
{
    for (size_t i = 0; i < 64; i++)
        memset(memory_alloc((size_t)1 << 20), 1, (size_t)1 << 20);
}

static void use_time(void)
{
    for (volatile unsigned i = 0;; i++)
        ;
}

/* Do what the name of the job says. */
static void examine(const struct examine_request *request, const struct examine_how *how,
                    struct examine_result *out)
{
    if (request->refused[0]) {
        out->record.state = JOB_REJECTED;
        snprintf(out->record.reason, sizeof(out->record.reason), "%s", request->refused);
    } else if (text_starts(request->name, "hang")) {
        for (;;)
            pause();
    } else if (strcmp(request->name, "memory") == 0) {
        use_memory();
    } else if (strcmp(request->name, "time") == 0) {
        use_time();
    } else if (strcmp(request->name, "crash") == 0) {
        signal(SIGABRT, SIG_DFL);
        abort();
    } else if (strcmp(request->name, "killed") == 0) {
        raise(SIGKILL);
    } else {
        out->record.state = JOB_READY;
    }
    out->record.attempt = (int64_t)how->machine->probe.count;
    out->record.step = getpid();
    out->end = EXAMINE_DONE;
}

static const struct examine_limits
    patient = { .seconds = 20, .cpu_seconds = 1, .bytes = (size_t)32 << 20 },
    /* jobs that hang must not take long, and others need a part of that */
    brief = { .seconds = 2, .cpu_seconds = 1, .bytes = (size_t)32 << 20 };
static const struct examine_how patiently = {
    .examine = examine, .machine = &machine, .limits = &patient, .group = GROUP_NONE
};
static const struct examine_how briefly = {
    .examine = examine, .machine = &machine, .limits = &brief, .group = GROUP_NONE
};

static enum examine_answer ask(struct examiners *examiners, const char *name,
                               double seconds, struct examine_result *out)
{
    struct examine_request request = { .waits = false };

    snprintf(request.name, sizeof(request.name), "%s", name);
    return examiners_ask(examiners, &request, clock_seconds() + seconds, out);
}

static int set_up(void **state)
{
    machine = (struct machine) { .probe.count = 1 };
    *state = examiners_new(&patiently);
    return 0;
}

/* For tests of jobs that reach the deadline. */
static int set_up_brief(void **state)
{
    machine = (struct machine) { .probe.count = 1 };
    *state = examiners_new(&briefly);
    return 0;
}

static int tear_down(void **state)
{
    examiners_free(*state);
    return 0;
}

static void test_examiner_answers_in_one_other_process(void **state)
{
    struct examine_result one, two;

    assert_int_equal(ask(*state, "a", patience, &one), EXAMINERS_ANSWERED);
    assert_int_equal(one.end, EXAMINE_DONE);
    assert_int_equal(one.record.state, JOB_READY);
    assert_int_not_equal(one.record.step, getpid());
    assert_int_equal(ask(*state, "b", patience, &two), EXAMINERS_ANSWERED);
    assert_int_equal(one.record.step, two.record.step);
}

static void test_examiner_that_exceeds_a_limit_rejects_the_job(void **state)
{
    static const struct {
        const char *name, *reason;
    } cases[] = {
#ifndef __SANITIZE_ADDRESS__ /* which ends the process itself */
        { "memory", "32 MiB of memory" },
#endif
        { "time", "1 s of CPU time" },
        { "crash", "signal 6" },
    };

    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct examine_result result;

        assert_int_equal(ask(*state, cases[i].name, patience, &result),
                         EXAMINERS_ANSWERED);
        assert_int_equal(result.end, EXAMINE_DONE);
        assert_int_equal(result.record.state, JOB_REJECTED);
        assert_non_null(strstr(result.record.reason, cases[i].reason));
        assert_int_equal(ask(*state, "a", patience, &result), EXAMINERS_ANSWERED);
        assert_int_equal(result.record.state, JOB_READY);
    }
}

static void test_examiner_that_was_killed_is_a_fault_of_the_machine(void **state)
{
    struct examine_result result;

    assert_int_equal(ask(*state, "killed", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.end, EXAMINE_FAULT);
    assert_int_equal(result.err.code, ERROR_FAULT);
    assert_false(result.late);
}

static void test_examiner_that_hangs_holds_up_no_other_job(void **state)
{
    struct examine_result result;
    double started = clock_seconds();

    assert_int_equal(ask(*state, "hang", 0, &result), EXAMINERS_WORK);
    assert_int_equal(ask(*state, "a", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.record.state, JOB_READY);
    assert_int_equal(ask(*state, "hang", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.end, EXAMINE_FAULT);
    assert_true(result.late);
    assert_true(clock_seconds() - started >= brief.seconds);
    assert_int_equal(ask(*state, "a", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.record.state, JOB_READY);
}

static void test_examiners_are_few(void **state)
{
    struct examine_request again = { .name = "hang", .suspect = true };
    struct examine_result result;
    size_t hung = 1;

    /* jobs that hung before leave the others to new ones */
    assert_int_equal(examiners_ask(*state, &again, 0, &result), EXAMINERS_WORK);
    snprintf(again.name, sizeof(again.name), "hang again");
    assert_int_equal(examiners_ask(*state, &again, 0, &result), EXAMINERS_FULL);
    for (; hung < 10; hung++) {
        char name[16];

        snprintf(name, sizeof(name), "hang %zu", hung);
        if (ask(*state, name, 0, &result) == EXAMINERS_FULL)
            break;
    }
    assert_int_equal(hung, 4);
    assert_int_equal(ask(*state, "hang 1", patience, &result), EXAMINERS_ANSWERED);
    assert_true(result.late);
}

/* A GPU that appears later is known to later examiners. */
static void test_examiner_knows_the_machine_of_now(void **state)
{
    struct examine_result result;

    assert_int_equal(ask(*state, "a", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.record.attempt, 1);
    machine.probe.count = 2;
    assert_int_equal(ask(*state, "a", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.record.attempt, 2);
}

static void test_examiners_end_with_the_pool(void **state)
{
    struct examine_result result;
    struct examiners *examiners = examiners_new(&patiently);
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(ask(examiners, "a", patience, &result), EXAMINERS_ANSWERED);
    assert_int_equal(result.end, EXAMINE_DONE);
    pid = (pid_t)result.record.step;
    examiners_free(examiners);
    /* killed; it is ours to reap, unless the pool did */
    if (waitpid(pid, &status, 0) == pid)
        assert_true(WIFSIGNALED(status));
    assert_int_equal(kill(pid, 0), -1);
}

int main(void)
{
#define TEST(name)       cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_BRIEF(name) cmocka_unit_test_setup_teardown(name, set_up_brief, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_examiner_answers_in_one_other_process),
        TEST(test_examiner_that_exceeds_a_limit_rejects_the_job),
        TEST(test_examiner_that_was_killed_is_a_fault_of_the_machine),
        TEST_BRIEF(test_examiner_that_hangs_holds_up_no_other_job),
        TEST_BRIEF(test_examiners_are_few),
        TEST(test_examiner_knows_the_machine_of_now),
        TEST(test_examiners_end_with_the_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
