/* tests/unit/test_slurm.c - the batch script, and lines of squeue. */
#include "config.h"

#include "runner/cluster/slurm.h"

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

static void test_slurm_refuses_other_lines(void **state)
{
    static const char *const lines[] = {
        "",   "\n",  "|RUNNING||",           "x|RUNNING||", "0|RUNNING||", "-3|RUNNING||",
        "12", "12|", "slurm_load_jobs error"
    };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm_reads_lines_of_squeue),
        cmocka_unit_test(test_slurm_refuses_other_lines),
        cmocka_unit_test(test_slurm_cuts_long_fields),
        cmocka_unit_test(test_slurm_script_has_the_options_of_the_job),
        cmocka_unit_test(test_slurm_script_leaves_time_to_train),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
