/* tests/unit/test_external.c - the precision of a job that another program runs. */
#include "config.h"

#include "patcher/patcher.h"

#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define HEAD      "model_name_or_path: model-fp16\ndataset: d\nfinetuning_type: "
#define BF16_HEAD "model_name_or_path: model-bf16\ndataset: d\nfinetuning_type: "
#define TARGET    "trainspool:\n  target: external\n  policy: report\n"

static void read_plan(const char *text, const char *device, struct patch *patch)
{
    struct error err = { 0 };
    struct device card;
    char *job = unit_source("tests/patch/job.yaml");
    struct patch_options options = { .job = job, .device = &card };

    assert_true(device_find(device, &card, &err));
    if (!patcher_check(text, strlen(text), &options, patch, &err))
        fail_msg("%s", err.text);
    assert_true(patch->has_plan);
    free(job);
}

static void test_external_precision_is_that_of_the_program(void **state)
{
    static const struct {
        const char *job, *device;
        enum mode mode;
        enum format compute, trainable;
        enum scaling scaling;
        const char *says;
    } cases[] = {
        /* autocast: the job, then the variable */
        { HEAD "full\nmodel_dtype: float32\nfp16: true\n" TARGET, "T4", MODE_FP16_MIXED,
          FORMAT_FP16, FORMAT_FP32, SCALING_DYNAMIC, "fp16: true" },
        { HEAD "full\nmodel_dtype: float32\n" TARGET
               "  env: {ACCELERATE_MIXED_PRECISION: bf16}\n",
          "A100", MODE_BF16_MIXED, FORMAT_BF16, FORMAT_FP32, SCALING_NONE,
          "the Accelerate setting" },
        { HEAD "full\nmodel_dtype: float32\n" TARGET, "A100", MODE_FP32, FORMAT_FP32,
          FORMAT_FP32, SCALING_NONE, "neither" },
        /* what is loaded: the version */
        { HEAD "full\nfp16: true\n" TARGET "  versions: {transformers: 4.51}\n", "T4",
          MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP32, SCALING_DYNAMIC, "transformers 4" },
        { HEAD "full\nfp16: true\n" TARGET "  versions: {transformers: 5.0.0rc1}\n", "T4",
          MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP16, SCALING_DYNAMIC,
          "the loss scaler cannot unscale" },
        { HEAD "full\n" TARGET "  versions: {transformers: 5.1}\n", "T4", MODE_FP16_PURE,
          FORMAT_FP16, FORMAT_FP16, SCALING_NONE, "transformers 5" },
        { HEAD "full\nmodel_dtype: bfloat16\nbf16: true\n" TARGET, "A100", MODE_BF16_PURE,
          FORMAT_BF16, FORMAT_BF16, SCALING_NONE, "model_dtype" },
        /* what is trained: adapters, launchers, LLaMA-Factory */
        { HEAD "lora\nmodel_dtype: float16\nfp16: true\n" TARGET
               "  versions: {peft: 0.12.0}\n",
          "T4", MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP32, SCALING_DYNAMIC, "PEFT" },
        { HEAD "lora\nmodel_dtype: float16\nfp16: true\n" TARGET
               "  versions: {peft: 0.11.1}\n",
          "T4", MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP16, SCALING_DYNAMIC,
          "the format of the base model" },
        { HEAD "full\nmodel_dtype: float16\nfp16: true\ndeepspeed: ds.json\n" TARGET,
          "T4", MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP32, SCALING_DYNAMIC, "DeepSpeed" },
        { HEAD "full\nfp16: true\n" TARGET "  versions: {llamafactory: 0.9.3}\n", "T4",
          MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP32, SCALING_DYNAMIC, "LLaMA-Factory" },
        { HEAD "full\nbf16: true\npure_bf16: true\n" TARGET
               "  versions: {llamafactory: 0.9.3}\n",
          "A100", MODE_BF16_PURE, FORMAT_BF16, FORMAT_BF16, SCALING_NONE, "pure_bf16" },
        /* no autocast: adapters add to what the base computes; LLaMA-Factory casts all
         * weights that it trains, and asks torch what the card can do */
        { HEAD "lora\n" TARGET "  versions: {llamafactory: 0.9.3, torch: 2.6.0}\n", "P40",
          MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP32, SCALING_NONE, "neither" },
        { BF16_HEAD "lora\n" TARGET "  versions: {llamafactory: 0.9.3, torch: 2.6.0}\n",
          "P40", MODE_BF16_MIXED, FORMAT_BF16, FORMAT_FP32, SCALING_NONE, "neither" },
        { BF16_HEAD "lora\n" TARGET "  versions: {llamafactory: 0.9.3, torch: 2.3.1}\n",
          "P40", MODE_FP16_MIXED, FORMAT_FP16, FORMAT_FP32, SCALING_NONE, "neither" },
        { BF16_HEAD "full\n" TARGET "  versions: {llamafactory: 0.9.3, torch: 2.6.0}\n",
          "P40", MODE_FP32, FORMAT_FP32, FORMAT_FP32, SCALING_NONE, "neither" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct patch patch;
        const struct precision *precision = &patch.plan.precision;

        read_plan(cases[i].job, cases[i].device, &patch);
        if (precision->mode != cases[i].mode || precision->compute != cases[i].compute ||
            precision->trainable != cases[i].trainable ||
            precision->scaling != cases[i].scaling ||
            !strstr(precision->message, cases[i].says))
            fail_msg("case %zu: %s: %s", i, mode_names[precision->mode],
                     precision->message);
        assert_non_null(patch.plan.program);
        patch_clear(&patch);
    }
}

static void test_external_checkpointing_is_off_unless_asked_for(void **state)
{
    struct patch patch;

    (void)state;
    read_plan(HEAD "full\n" TARGET, "T4", &patch);
    assert_false(patch.plan.gradient_checkpointing);
    patch_clear(&patch);
    read_plan(HEAD "full\n" TARGET "  versions: {llamafactory: 0.9.3}\n", "T4", &patch);
    assert_true(patch.plan.gradient_checkpointing);
    patch_clear(&patch);
    read_plan(HEAD "full\ngradient_checkpointing: true\n" TARGET, "T4", &patch);
    assert_true(patch.plan.gradient_checkpointing);
    patch_clear(&patch);
}

static size_t count_of(const struct patch *patch, const char *rule)
{
    size_t count = 0;

    for (size_t i = 0; i < patch->findings.count; i++)
        count += strcmp(patch->findings.list[i].rule, rule) == 0;
    return count;
}

/* Sets of versions that the releases require, and one package of each out of its
 * range. */
static void test_external_packages_are_compatible(void **state)
{
    static const struct {
        const char *versions;
        size_t odd;
    } cases[] = {
        { "llamafactory: 0.9.5, transformers: 5.6.0, accelerate: 1.15.0, peft: 0.20.0, "
          "trl: 0.24.0, torch: 2.14.0, cuda: 13.0",
          0 },
        { "llamafactory: 0.9.4, transformers: 4.51.0, accelerate: 1.3.0, peft: 0.14.0, "
          "trl: 0.18.0, torch: 2.4.0, cuda: 12.4",
          0 },
        { "llamafactory: 0.9.2, transformers: 4.49.0, accelerate: 1.2.1, peft: 0.12.0, "
          "trl: 0.9.6, torch: 2.5.1+cu121",
          0 },
        { "llamafactory: 0.7.1, transformers: 4.38.0, accelerate: 0.27.2, peft: 0.10.0",
          0 },
        { "transformers: 5.15.0, torch: 2.5.0, accelerate: 1.1.0, deepspeed: 0.9.3", 0 },
        { "transformers: 5.15.0, torch: 2.4.1, accelerate: 1.0.1, deepspeed: 0.9.2", 3 },
        { "llamafactory: 0.9.2, transformers: 4.49.1, accelerate: 1.2.0, peft: 0.13.0",
          2 },
        { "torch: 2.12.0+cu128", 1 },
        { "torch: 2.12.0.dev20260401+cpu", 0 },
        { "torch: 3.0, cuda: 14", 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char job[1024];
        struct patch patch;

        snprintf(job, sizeof(job), "%s  versions: {%s}\n", HEAD "full\n" TARGET,
                 cases[i].versions);
        read_plan(job, "A100", &patch);
        if (count_of(&patch, "TS808") != cases[i].odd)
            fail_msg("%s: %zu", cases[i].versions, count_of(&patch, "TS808"));
        patch_clear(&patch);
    }
}

/* Every bound in the tables is a version: otherwise an assertion fails. */
static void test_external_tables_hold_versions(void **state)
{
    static const char *const packages[] = { "transformers", "llamafactory", "accelerate",
                                            "peft" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(packages); i++)
        for (int major = 0; major < 7; major++)
            for (int minor = 0; minor < 60; minor += major == 4 ? 1 : 3) {
                char job[1024];
                struct patch patch;

                snprintf(
                    job, sizeof(job),
                    "%s  versions: {%s: %d.%d, torch: 1.0, trl: 0.1, deepspeed: 0.1}\n",
                    HEAD "full\n" TARGET, packages[i], major, minor);
                read_plan(job, "A100", &patch);
                patch_clear(&patch);
            }
}

/* run and watch reject such a job and leave its text unchanged. */
static void test_external_job_is_not_patched_by_a_run(void **state)
{
    static const char text[] = HEAD "full\nfp16: true\nmodel_dtype: float16\n"
                                    "trainspool: {target: external}\n";
    struct patch_options options = { .job = "x.yaml", .will_run = true };
    struct error err = { 0 };
    struct patch patch;

    (void)state;
    assert_true(patcher_check(text, strlen(text), &options, &patch, &err));
    assert_true(patch.rejected);
    assert_false(patch.changed);
    patch_clear(&patch);
    options.will_run = false;
    assert_true(patcher_check(text, strlen(text), &options, &patch, &err));
    assert_true(patch.changed);
    patch_clear(&patch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_external_precision_is_that_of_the_program),
        cmocka_unit_test(test_external_checkpointing_is_off_unless_asked_for),
        cmocka_unit_test(test_external_packages_are_compatible),
        cmocka_unit_test(test_external_tables_hold_versions),
        cmocka_unit_test(test_external_job_is_not_patched_by_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
