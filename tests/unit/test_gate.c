/* tests/unit/test_gate.c - what keeps a job that waits from starting. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>

#include "base/clock.h"
#include "runner/job/gate.h"

struct spot {
    char *dir;
    struct job job; /* a.yaml */
};

static char *path_in(const struct spot *spot, const char *name)
{
    return path_join(spot->dir, name);
}

static void write_file(const struct spot *spot, const char *name, const char *text)
{
    char *path = path_in(spot, name), *dir = path_dir(path);
    struct error err = { 0 };

    assert_true(file_make_dirs(dir, 0700, &err));
    assert_true(file_replace(path, text, strlen(text), 0644, &err));
    free(dir);
    free(path);
}

static int set_up(void **state)
{
    struct spot *spot = memory_alloc(sizeof(*spot));
    char *path;

    spot->dir = unit_dir_new();
    path = path_in(spot, "a.yaml");
    job_init(&spot->job, path);
    free(path);
    write_file(spot, "a.yaml", "stage: sft\n");
    write_file(spot, "a.run/state.json", "{\"state\":\"ready\"}\n");
    *state = spot;
    return 0;
}

static int tear_down(void **state)
{
    struct spot *spot = *state;

    job_clear(&spot->job);
    unit_dir_free(spot->dir);
    free(spot);
    return 0;
}

static struct gate read_gate(const struct spot *spot)
{
    struct error err = { 0 };
    struct gate gate;

    assert_true(gate_read(AT_FDCWD, spot->job.run_dir, &gate, &err));
    return gate;
}

static void set_waits(const struct spot *spot, const char *after, const char *begin,
                      double arrived)
{
    const struct gate_waits waits = { .after = after,
                                      .begin = begin,
                                      .arrived = arrived };
    struct error err = { 0 };

    assert_true(gate_set_waits(&spot->job, &waits, &err));
}

static void test_gate_is_closed_by_a_hold(void **state)
{
    const struct spot *spot = *state;
    struct error err = { 0 };

    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
    assert_true(gate_hold(&spot->job, "a reason", &err));
    assert_true(gate_is_held(&spot->job));
    assert_int_equal(read_gate(spot).kind, GATE_HELD);
    assert_non_null(strstr(read_gate(spot).reason, "held by "));
    assert_non_null(strstr(read_gate(spot).reason, ": a reason"));
    assert_true(gate_release(&spot->job, &err));
    assert_true(gate_release(&spot->job, &err));
    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
}

/* Whatever is there, it is a hold. */
static void test_gate_is_closed_by_any_hold(void **state)
{
    const struct spot *spot = *state;

    write_file(spot, "a.run/hold/x", "");
    assert_string_equal(read_gate(spot).reason, "held");
}

static void test_gate_opens_when_all_jobs_are_done(void **state)
{
    const struct spot *spot = *state;

    set_waits(spot, "b, c.yaml,d.yml", NULL, NAN);
    write_file(spot, "b.run/state.json", "{\"state\":\"done\"}\n");
    write_file(spot, "c.run/state.json", "{\"state\":\"running\"}\n");
    write_file(spot, "d.yml", "");
    assert_int_equal(read_gate(spot).kind, GATE_AFTER);
    assert_string_equal(read_gate(spot).waits_for, "c");
    assert_false(read_gate(spot).broken);
    write_file(spot, "d.run/state.json", "{\"state\":\"failed\"}\n");
    assert_string_equal(read_gate(spot).waits_for, "d");
    assert_true(read_gate(spot).broken);
    write_file(spot, "c.run/state.json", "{\"state\":\"done\"}\n");
    write_file(spot, "d.run/state.json", "{\"state\":\"done\"}\n");
    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
}

static void test_gate_reports_a_job_that_is_gone(void **state)
{
    const struct spot *spot = *state;

    set_waits(spot, "b", NULL, NAN);
    assert_string_equal(
        read_gate(spot).reason,
        "waits for job b, which is gone: drop that job, or cancel this one");
    write_file(spot, "b.yaml", "");
    assert_string_equal(read_gate(spot).reason, "waits for job b");
}

static void test_gate_opens_when_the_time_has_come(void **state)
{
    const struct spot *spot = *state;
    struct error err = { 0 };

    set_waits(spot, NULL, "2000-01-01T00:00Z", NAN);
    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
    set_waits(spot, NULL, "2100-01-01T00:00Z", NAN);
    assert_int_equal(read_gate(spot).kind, GATE_BEGIN);
    assert_string_equal(read_gate(spot).reason, "begins at 2100-01-01T00:00:00Z");
    set_waits(spot, NULL, "+2h", clock_wall() - 3600);
    assert_int_equal(read_gate(spot).kind, GATE_BEGIN);
    assert_true(fabs(read_gate(spot).seconds - clock_wall() - 3600) < 10);
    set_waits(spot, NULL, "+2h", clock_wall() - 7201);
    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
    assert_false(
        gate_set_waits(&spot->job, &(struct gate_waits) { .begin = "soon" }, &err));
    assert_int_equal(err.code, ERROR_JOB);
    set_waits(spot, NULL, NULL, NAN); /* forgets what an earlier text said */
    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
}

static bool count_name(void *context, const char *name)
{
    (void)name;
    ++*(size_t *)context;
    return true;
}

static void test_gate_counts_the_jobs_of_a_sweep(void **state)
{
    static const char *const jobs[] = { "a-1", "a-2", "a-3", NULL };
    const struct spot *spot = *state;
    struct error err = { 0 };
    size_t count = 0;

    assert_true(gate_set_waits(&spot->job, &(struct gate_waits) { .jobs = jobs }, &err));
    assert_true(gate_each_of_sweep(spot->job.run_dir, count_name, &count));
    assert_true(gate_each_job(spot->job.run_dir, count_name, &count));
    assert_int_equal(count, 3);
    write_file(spot, "a-1.run/state.json", "{\"state\":\"done\"}\n");
    write_file(spot, "a-2.run/state.json", "{\"state\":\"failed\"}\n");
    write_file(spot, "a-3.yaml", "");
    assert_int_equal(read_gate(spot).kind, GATE_SWEEP);
    assert_string_equal(read_gate(spot).waits_for, "a-3");
    assert_string_equal(read_gate(spot).reason, "2 of 3 jobs have ended, 1 not done");
    write_file(spot, "a-3.run/state.json", "{\"state\":\"stopped\"}\n");
    assert_int_equal(read_gate(spot).kind, GATE_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gate_is_closed_by_a_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gate_is_closed_by_any_hold, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_gate_opens_when_all_jobs_are_done, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_gate_reports_a_job_that_is_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_gate_opens_when_the_time_has_come, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_gate_counts_the_jobs_of_a_sweep, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
