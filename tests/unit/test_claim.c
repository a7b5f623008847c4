/* tests/unit/test_claim.c - a job is claimed only as the file that was complete. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/spool/claim.h"

struct claimed {
    char *dir, *path;
    struct machine machine;
    struct examine_how how;
};

static int set_up(void **state)
{
    struct claimed *claimed = memory_alloc(sizeof(*claimed));
    struct error err = { 0 };

    claimed->dir = unit_dir_new();
    claimed->path = path_join(claimed->dir, "a.yaml");
    assert_true(machine_open("cpu", &claimed->machine, &err));
    claimed->how = (struct examine_how) { .machine = &claimed->machine };
    *state = claimed;
    return 0;
}

static int tear_down(void **state)
{
    struct claimed *claimed = *state;

    unit_dir_free(claimed->dir);
    free(claimed->path);
    free(claimed);
    return 0;
}

static void write_job(const struct claimed *claimed, const char *text)
{
    struct error err = { 0 };

    assert_true(file_replace(claimed->path, text, strlen(text), 0644, &err));
}

static void read_record(const struct claimed *claimed, struct job_record *out)
{
    struct error err = { 0 };
    struct job job;

    job_init(&job, claimed->path);
    assert_true(job_read(&job, out, &err));
    job_clear(&job);
}

static struct examine_request request_of(const struct claimed *claimed)
{
    struct examine_request request = { .arrived = 1 };
    struct job_record record;
    struct stat st;

    snprintf(request.name, sizeof(request.name), "%s", claimed->path);
    assert_int_equal(lstat(claimed->path, &st), 0);
    job_source(&st, request.source);
    read_record(claimed, &record);
    record_stamp(&record, &request.seen);
    return request;
}

static void test_claim_refuses_a_text_that_changed_since(void **state)
{
    struct claimed *claimed = *state;
    struct examine_result result = { 0 };
    struct examine_request request;
    struct job_record record;
    struct error err = { 0 };
    struct job job;

    write_job(claimed, "stage: sft\n");
    request = request_of(claimed);
    write_job(claimed, "stage: sft\nlearning_rate: -1\n");
    claim_examine(&request, &claimed->how, &result);
    assert_int_equal(result.end, EXAMINE_CHANGED);
    job_init(&job, claimed->path);
    assert_true(job_read(&job, &record, &err));
    assert_int_equal(record.state, JOB_NEW);
    job_clear(&job);
}

static void test_claim_examines_the_text_of_the_request(void **state)
{
    struct claimed *claimed = *state;
    struct examine_result result = { 0 };
    struct examine_request request;

    write_job(claimed, "stage: sft\nlearning_rate: -1\n");
    request = request_of(claimed);
    claim_examine(&request, &claimed->how, &result);
    assert_int_equal(result.end, EXAMINE_DONE);
    assert_int_equal(result.record.state, JOB_REJECTED);
}

/* As when the watches of two machines find the same job. */
static void test_claim_refuses_a_job_that_was_handled_since(void **state)
{
    struct claimed *claimed = *state;
    struct examine_result result = { 0 }, later = { 0 };
    struct examine_request request;
    struct record_stamp before, after;
    struct job_record record;

    write_job(claimed, "stage: sft\nlearning_rate: -1\n");
    request = request_of(claimed);
    claim_examine(&request, &claimed->how, &result);
    assert_int_equal(result.end, EXAMINE_DONE);
    read_record(claimed, &record);
    record_stamp(&record, &before);
    claim_examine(&request, &claimed->how, &later);
    assert_int_equal(later.end, EXAMINE_CHANGED);
    read_record(claimed, &record);
    record_stamp(&record, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    request = request_of(claimed);
    claim_examine(&request, &claimed->how, &later);
    assert_int_equal(later.end, EXAMINE_DONE);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_claim_refuses_a_text_that_changed_since),
        IN_FOLDER(test_claim_examines_the_text_of_the_request),
        IN_FOLDER(test_claim_refuses_a_job_that_was_handled_since),
    };

    return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
