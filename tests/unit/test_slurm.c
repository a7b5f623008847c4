/* tests/unit/test_slurm.c - the batch script, lines of squeue, and the file of a
 * submission. */
#include "config.h"

#include "runner/cluster/slurm_submission.h"

#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_slurm_reads_lines_of_squeue(void **state)
{
    struct slurm_job job;

    (void)state;
    assert_true(slurm_read_line("12|PENDING|Resources|\n", &job));
    assert_int_equal(job.id, 12);
    assert_int_equal(job.state, SLURM_WAITS);
    assert_string_equal(job.reason, "Resources");
    assert_string_equal(job.nodes, "");
    assert_true(slurm_read_line("7|RUNNING|None|n[0-1]\n8|FAILED", &job));
    assert_int_equal(job.state, SLURM_RUNS);
    assert_string_equal(job.reason, "");
    assert_string_equal(job.nodes, "n[0-1]");
    assert_true(slurm_read_line("7|COMPLETING|None|n0", &job));
    assert_int_equal(job.state, SLURM_RUNS);
    assert_true(slurm_read_line("9|CANCELLED by 1000|0:15|n0", &job));
    assert_int_equal(job.state, SLURM_ENDED);
    assert_true(slurm_read_line("9|NODE_FAIL", &job));
    assert_int_equal(job.state, SLURM_ENDED);
    assert_true(slurm_read_line("9|REQUEUED|BeginTime|", &job));
    assert_int_equal(job.state, SLURM_WAITS);
}

static void test_slurm_finds_tasks_of_arrays(void **state)
{
    static const char lines[] = "8_[4-9%2]|PENDING|JobArrayTaskLimit|\n"
                                "8_0|RUNNING|None|n0\n"
                                "8_3|FAILED|NonZeroExitCode|n1\n"
                                "9_3|PENDING|Priority|\n"
                                "8_3x|RUNNING|None|n0\n"
                                "8_1|CANCELLED|None|\n"
                                "9_1|FAILED|None|\n";
    const struct slurm_target three = { .name = "a", .task = 3 },
                              five = { .name = "a", .task = 5 },
                              one = { .name = "a", .task = 1 },
                              whole = { .name = "a", .task = -1 };
    struct slurm_job job, any;

    (void)state;
    slurm_read_lines(lines, &three, &job, &any);
    assert_int_equal(job.state, SLURM_WAITS); /* submitted twice: one waits */
    assert_int_equal(job.id, 9);
    assert_int_equal(job.task, 3);
    assert_string_equal(job.reason, "Priority");
    slurm_read_lines(lines, &one, &job, &any);
    assert_int_equal(job.state, SLURM_ENDED); /* both have ended: the later one counts */
    assert_int_equal(job.id, 9);
    slurm_read_lines(lines, &five, &job, &any);
    assert_int_equal(job.state, SLURM_GONE);
    assert_int_not_equal(any.state, SLURM_GONE);
    slurm_read_lines(lines, &whole, &job, &any);
    assert_int_equal(job.id, 8);
    assert_int_equal(job.state, SLURM_WAITS);
    slurm_read_lines("", &three, &job, &any);
    assert_int_equal(job.state, SLURM_GONE);
    assert_int_equal(any.state, SLURM_GONE);
    slurm_read_lines("8|RUNNING|None|n0\n", &three, &job, &any);
    assert_int_equal(job.state, SLURM_GONE); /* a job is no task */
}

static void test_slurm_refuses_other_lines(void **state)
{
    static const char *const lines[] = { "",
                                         "\n",
                                         "|RUNNING||",
                                         "x|RUNNING||",
                                         "0|RUNNING||",
                                         "-3|RUNNING||",
                                         "12",
                                         "12|",
                                         "slurm_load_jobs error",
                                         "CLUSTER: one" };
    struct slurm_job job;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(lines); i++)
        if (slurm_read_line(lines[i], &job))
            fail_msg("line '%s' is a job", lines[i]);
}

/* Fields longer than their room are cut, and the next ones are still found. */
static void test_slurm_cuts_long_fields(void **state)
{
    struct slurm_job job;
    struct text line;

    (void)state;
    text_init(&line, 0);
    text_adds(&line, "5|PENDING|");
    for (int i = 0; i < 500; i++)
        text_addc(&line, 'r');
    text_adds(&line, "|n0");
    assert_true(slurm_read_line(line.data, &job));
    assert_int_equal(strlen(job.reason), sizeof(job.reason) - 1);
    assert_string_equal(job.nodes, "n0");
    text_clear(&line);
}

static struct text script_of(const struct plan *plan, const char *run_dir)
{
    static const char *const words[] = { "/bin/it's", "--x", "a b.yaml", NULL };
    const struct slurm_script script = {
        .plan = plan, .name = "job-12", .run_dir = run_dir, .dir = "/d", .words = words
    };
    struct text out;

    text_init(&out, 0);
    slurm_script_write(&script, &out);
    return out;
}

static void check_has(const struct text *text, const char *part)
{
    if (!strstr(text->data, part))
        fail_msg("the script lacks %s:\n%s", part, text->data);
}

static void test_slurm_script_has_the_options_of_the_job(void **state)
{
    const struct plan plan = { .ranks = 8,
                               .nodes = 2,
                               .slurm = { .partition = "gpu",
                                          .account = "lab",
                                          .gres = "gpu:a100:4",
                                          .time = "12:00:00",
                                          .cpus_per_task = 6 } };
    struct text out = script_of(&plan, "/r/job.run");

    (void)state;
    check_has(&out, "#SBATCH --job-name=job-12\n");
    check_has(&out,
              "#SBATCH --nodes=2\n#SBATCH --ntasks=8\n#SBATCH --ntasks-per-node=4\n");
    check_has(&out, "#SBATCH --partition=gpu\n");
    check_has(&out, "#SBATCH --account=lab\n");
    check_has(&out, "#SBATCH --gres=gpu:a100:4\n");
    check_has(&out, "#SBATCH --time=12:00:00\n");
    check_has(&out, "#SBATCH --signal=B:TERM@120\n");
    check_has(&out,
              "srun --kill-on-bad-exit=1 --cpus-per-task=6 \\\n    '/bin/it'\\''s'");
    check_has(&out, "'a b.yaml' &\n");
    assert_null(strstr(out.data, "--qos"));
    text_clear(&out);
}

static void test_slurm_script_of_an_array_has_a_case_for_each_task(void **state)
{
    static const char *const first[] = { "/bin/t", "it's", NULL };
    static const char *const second[] = { "/bin/t", "two", NULL };
    const struct slurm_script_task list[] = { { "a-1", "/r/a.run", first },
                                              { "b-2", "/r/b.run", second } };
    const struct slurm_script_tasks tasks = { "/r/s.run/arrays/s-3.id", list, 2 };
    const struct plan plan = { .ranks = 2 };
    const struct slurm_script script = {
        .plan = &plan, .name = "s-3", .dir = "/d", .tasks = &tasks
    };
    struct text out;

    (void)state;
    text_init(&out, 0);
    slurm_script_write(&script, &out);
    check_has(&out, "#SBATCH --job-name=s-3\n#SBATCH --array=0-1\n");
    check_has(&out, "id=$(cat '/r/s.run/arrays/s-3.id' 2>/dev/null)\n");
    check_has(&out, "0)\n    name='a-1'\n    run='/r/a.run'\n    set -- \\\n"
                    "        '/bin/t' \\\n        'it'\\''s'\n    ;;\n");
    check_has(&out, "1)\n    name='b-2'\n");
    check_has(&out, "srun --kill-on-bad-exit=1 \"$@\" &\n");
    /* SLURM_JOB_ID of one of the tasks is the number of all */
    check_has(&out, "self=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n");
    assert_null(strstr(out.data, "SLURM_JOB_ID\""));
    assert_null(strstr(out.data, "singleton"));
    text_clear(&out);
}

/* A limit of two minutes must leave time to train. */
static void test_slurm_script_leaves_time_to_train(void **state)
{
    struct plan plan = { .ranks = 1, .slurm.time = "2" };
    struct text out = script_of(&plan, "/r");

    (void)state;
    check_has(&out, "#SBATCH --signal=B:TERM@13\n");
    text_clear(&out);
    plan.slurm.time = NULL;
    out = script_of(&plan, "/r");
    check_has(&out, "#SBATCH --signal=B:TERM@120\n");
    text_clear(&out);
}

static void test_slurm_submissions_have_names_of_their_own(void **state)
{
    char a[SLURM_NAME], b[SLURM_NAME], job[301];
    struct error err = { 0 };

    (void)state;
    assert_true(slurm_submission_name("a b/\xc3\xa4", a, &err));
    assert_true(slurm_submission_name("a b/\xc3\xa4", b, &err));
    assert_memory_equal(a, "a_b___-", 7);
    assert_int_equal(strlen(a), 7 + 12);
    assert_string_not_equal(a, b);
    memset(job, 'x', 300);
    job[300] = '\0';
    assert_true(slurm_submission_name(job, a, &err));
    assert_int_equal(strlen(a), 50 + 1 + 12);
}

/* plan shows it: it has the form of a name, and is none. */
static void test_slurm_example_has_the_length_of_a_name(void **state)
{
    char name[SLURM_NAME], example[SLURM_NAME];
    struct error err = { 0 };

    (void)state;
    assert_true(slurm_submission_name("a b", name, &err));
    slurm_submission_example("a b", example);
    assert_int_equal(strlen(example), strlen(name));
    assert_string_equal(example, "a_b-XXXXXXXXXXXX");
}

static void test_slurm_submissions_are_read_as_written(void **state)
{
    const struct slurm_submission written = { .name = "job-1",
                                              .id = 42,
                                              .digest = "0123abcd" };
    static const char *const damaged[] = { "",
                                           "{",
                                           "[]",
                                           "{\"name\": \"x\"}",
                                           "{\"name\": 3, \"digest\": \"x\"}",
                                           "{\"name\": \"\", \"digest\": \"x\"}" };
    char *dir = unit_dir_new(), *file = path_join(dir, "slurm.json");
    struct slurm_submission read;
    struct error err = { 0 };

    (void)state;
    assert_true(slurm_submission_write(&written, file, &err));
    assert_true(slurm_submission_read(file, &read));
    assert_string_equal(read.name, written.name);
    assert_string_equal(read.digest, written.digest);
    assert_int_equal(read.id, written.id);
    for (size_t i = 0; i < TS_COUNT(damaged); i++) {
        assert_true(file_replace(file, damaged[i], strlen(damaged[i]), 0600, &err));
        if (slurm_submission_read(file, &read))
            fail_msg("read '%s'", damaged[i]);
    }
    unlink(file);
    assert_false(slurm_submission_read(file, &read));
    free(file);
    unit_dir_free(dir);
}

static void test_slurm_submissions_know_their_array(void **state)
{
    struct slurm_submission written = { .name = "job-1", .in_array = true }, read;
    char *dir = unit_dir_new(), *file = path_join(dir, "slurm.json");
    struct error err = { 0 };

    (void)state;
    assert_true(slurm_submission_write(&written, file, &err));
    assert_true(slurm_submission_read(file, &read));
    assert_true(read.in_array);
    assert_string_equal(read.array, "");
    written = (struct slurm_submission) {
        .name = "job-1", .id = 8, .in_array = true, .array = "sweep-2", .task = 3
    };
    assert_true(slurm_submission_write(&written, file, &err));
    assert_true(slurm_submission_read(file, &read));
    assert_string_equal(read.array, "sweep-2");
    assert_int_equal(read.task, 3);
    assert_int_equal(read.id, 8);
    free(file);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm_reads_lines_of_squeue),
        cmocka_unit_test(test_slurm_finds_tasks_of_arrays),
        cmocka_unit_test(test_slurm_refuses_other_lines),
        cmocka_unit_test(test_slurm_cuts_long_fields),
        cmocka_unit_test(test_slurm_script_has_the_options_of_the_job),
        cmocka_unit_test(test_slurm_script_of_an_array_has_a_case_for_each_task),
        cmocka_unit_test(test_slurm_script_leaves_time_to_train),
        cmocka_unit_test(test_slurm_submissions_have_names_of_their_own),
        cmocka_unit_test(test_slurm_example_has_the_length_of_a_name),
        cmocka_unit_test(test_slurm_submissions_are_read_as_written),
        cmocka_unit_test(test_slurm_submissions_know_their_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
