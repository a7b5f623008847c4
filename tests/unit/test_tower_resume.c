/* tests/unit/test_tower_resume.c - the bits of trained encoders do not depend on threads or
 * interruptions, and a resume does not lose what was trained. */
#include "config.h"

#include "tests/unit/unit_tower_jobs.h"

#define SHORT                                                                        \
    "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nmax_steps: 4\n" \
    "save_steps: 2\n"

static void test_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        char *digests[2] = { 0 };

        if (!curve_supported(names[i]))
            continue;
        for (int k = 0; k < 2; k++) {
            struct curve curve;

            curve_open(&curve, names[i], "full", SHORT FULL);
            curve_run(&curve, (struct training) { .threads = k + 1 });
            digests[k] = curve_digest(&curve, "out/model.safetensors");
            curve_close(&curve);
        }
        assert_string_equal(digests[0], digests[1]);
        free(digests[0]);
        free(digests[1]);
    }
}

static void test_stopped_jobs_resume_with_the_same_bits(void **state)
{
    static const char adapter[] = "out/adapter_model.safetensors";
    static const struct {
        const char *name, *part, *keys, *file;
        int64_t ticks;
    } cases[] = {
        { "qwen3_vl", "full", SHORT FULL, "out/model.safetensors", 37 },
        { "mllama", "fusion", SHORT FUSION, "out/model.safetensors", 97 },
        { "qwen2_5_vl", "lora", SHORT ALL, adapter, 53 },
        { "gemma3", "lora", SHORT ALL "bf16: true\n", adapter, 53 },
    };

    (void)state;
    if (!curve_supported("qwen3_vl"))
        skip();
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct curve curve;
        char *whole, *resumed;

        curve_open(&curve, cases[i].name, cases[i].part, cases[i].keys);
        curve_run(&curve, (struct training) { 0 });
        whole = curve_digest(&curve, cases[i].file);
        curve_close(&curve);
        curve_open(&curve, cases[i].name, cases[i].part, cases[i].keys);
        assert_true(training_in_pieces(curve.u.dir, curve.job, cases[i].ticks, "") > 2);
        resumed = curve_digest(&curve, cases[i].file);
        assert_string_equal(whole, resumed);
        free(whole);
        free(resumed);
        curve_close(&curve);
    }
}

#define SGD     "optim: sgd\n"
#define FREEZES "which this job freezes"
#define LOSES                                                                           \
    "which this job would lose; name the same layers as that job in lora_target, with " \
    "freeze_vision_tower: false"

/* They would be those that the first job began with. */
static void test_encoders_are_not_reset_by_a_resume(void **state)
{
    static const struct {
        const char *method, *trained, *frozen, *says;
    } cases[] = {
        { "full", FULL, "freeze_multi_modal_projector: false\n", FREEZES },
        { "full", FULL, "freeze_vision_tower: false\n", FREEZES },
        { "full", SGD FULL, SGD "freeze_multi_modal_projector: false\n", FREEZES },
        { "full", SGD FULL, SGD "freeze_vision_tower: false\n", FREEZES },
        { "lora", "freeze_vision_tower: false\n", "", LOSES },
        { "lora", SGD "freeze_vision_tower: false\n", SGD, LOSES },
        { "lora", ALL, "freeze_vision_tower: false\nlora_target: q_proj,qkv\n", LOSES },
        { "lora", "lora_target: q_proj,v_proj\n", "lora_target: q_proj\n",
          "v_proj, which this job would lose; name the same layers as that job in "
          "lora_target, or " },
    };

    (void)state;
    if (!curve_supported("qwen3_vl"))
        skip();
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct curve curve;
        char *job;

        curve_open(&curve, "qwen3_vl", "full", SHORT);
        job = curve.job;
        memcpy(strstr(job, "full"), cases[i].method, strlen("full"));
        curve.job = arena_printf(curve.u.arena, "%s%s", job, cases[i].trained);
        curve_run(&curve, (struct training) { 0 });
        curve.job = arena_printf(curve.u.arena, "%sresume_from_checkpoint: true\n%s", job,
                                 cases[i].frozen);
        assert_false(training_run(
            &(struct training) { .dir = curve.u.dir, .job = curve.job }, &err));
        if (!strstr(err.text, cases[i].says))
            fail_msg("%zu: %s", i, err.text);
        curve_close(&curve);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_stopped_jobs_resume_with_the_same_bits),
        cmocka_unit_test(test_encoders_are_not_reset_by_a_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
