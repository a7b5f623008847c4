/* tests/unit/test_generation_target.c - the plan for generating with a job's result. */
#include "config.h"

#include "runner/generation/generation_target.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static void must(bool ok, const struct error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

static void write_file(const char *name, const char *text)
{
    struct error err = { 0 };

    must(file_replace(name, text, strlen(text), 0600, &err), &err);
}

/* Return the plan of a job with these lines whose run has left an adapter. */
static struct plan plan_of(const char *lines)
{
    struct machine machine = { 0 };
    struct generation_target target;
    struct error err = { 0 };
    struct plan plan;
    struct text job;

    text_init(&job, 0);
    text_addf(
        &job,
        "model_name_or_path: base\ndataset: x.jsonl\noutput_dir: out\nbf16: true\n%s",
        lines);
    write_file("job.yaml", job.data);
    text_clear(&job);
    must(machine_open("cpu", &machine, &err), &err);
    must(generation_target_open(&target, &machine, "job.yaml", &err), &err);
    assert_true(target.is_job);
    assert_string_equal(path_base(target.plan.adapter_name_or_path), "out");
    plan = target.plan;
    generation_target_close(&target);
    return plan;
}

/* 4-bit values are rounded as in training. */
static void test_generation_target_keeps_the_quantization_of_training(void **state)
{
    struct plan plan;

    (void)state;
    plan = plan_of("quantization_bit: 4\n");
    assert_int_equal(plan.quantization_bit, 4);
    assert_int_equal(plan.precision.frozen, FORMAT_BF16);
    plan = plan_of("");
    assert_int_equal(plan.quantization_bit, 0);
    assert_int_equal(plan.precision.frozen, FORMAT_FP32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_target_keeps_the_quantization_of_training),
    };
    char *dir = unit_dir_new();
    int failed;

    if (chdir(dir) != 0 || mkdir("out", 0700) != 0)
        return 99;
    write_file("out/adapter_config.json", "{}");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unit_dir_free(dir);
    return failed;
}
