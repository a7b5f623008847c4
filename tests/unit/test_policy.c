/* tests/unit/test_policy.c - the precision decided for each request and device. */
#include "config.h"

#include "tests/unit/unit.h"

#include "base/size.h"
#include "precision/policy.h"

static struct precision decide(const char *name, struct precision_request request)
{
    struct device device;
    struct precision out;
    struct error err = { 0 };

    if (!device_find(name, &device, &err))
        fail_msg("%s", err.text);
    if (request.loss_scaling == CHOICE_NO && request.loss_scale == 0)
        request.loss_scaling = CHOICE_AUTO;
    policy_decide(&request, &device, &out);
    assert_true(out.message[0] != '\0');
    return out;
}

static void test_policy_bounds_the_request_by_the_device(void **state)
{
    static const struct {
        const char *device;
        struct precision_request request;
        enum mode mode;
        enum scaling scaling;
    } cases[] = {
        { "A100", { .bf16 = CHOICE_YES }, MODE_BF16_MIXED, SCALING_NONE },
        { "T4", { .bf16 = CHOICE_YES }, MODE_FP16_MIXED, SCALING_DYNAMIC },
        { "GTX 1650", { .bf16 = CHOICE_YES }, MODE_FP32, SCALING_NONE },
        { "P100", { .bf16 = CHOICE_YES }, MODE_FP32, SCALING_NONE },
        { "P100", { .fp16 = CHOICE_YES }, MODE_FP16_MIXED, SCALING_DYNAMIC },
        { "cpu", { .bf16 = CHOICE_YES }, MODE_BF16_MIXED, SCALING_NONE },
        { "cpu", { .fp16 = CHOICE_YES }, MODE_FP16_MIXED, SCALING_DYNAMIC },
        { "cpu", { .bf16 = CHOICE_AUTO }, MODE_FP32, SCALING_NONE },
        { "cpu", { 0 }, MODE_FP32, SCALING_NONE },
        { "T4",
          { .fp16 = CHOICE_YES, .bf16 = CHOICE_YES },
          MODE_FP16_MIXED,
          SCALING_DYNAMIC },
        { "L4",
          { .fp16 = CHOICE_YES, .bf16 = CHOICE_YES },
          MODE_BF16_MIXED,
          SCALING_NONE },
        { "V100", { .bf16 = CHOICE_AUTO }, MODE_FP16_MIXED, SCALING_DYNAMIC },
        { "H100", { .bf16 = CHOICE_AUTO }, MODE_BF16_MIXED, SCALING_NONE },
        { "H100", { .tf32 = CHOICE_YES }, MODE_TF32, SCALING_NONE },
        { "T4", { .tf32 = CHOICE_YES }, MODE_FP32, SCALING_NONE },
        { "H100", { .pure_bf16 = true }, MODE_BF16_PURE, SCALING_NONE },
        { "T4", { .pure_bf16 = true }, MODE_FP16_MIXED, SCALING_DYNAMIC },
        { "H100", { .fp8 = true }, MODE_BF16_MIXED, SCALING_NONE },
        { "A100", { .fp8 = true }, MODE_FP32, SCALING_NONE },
        { "H100",
          { .bf16 = CHOICE_YES, .policy = POLICY_FP32 },
          MODE_FP32,
          SCALING_NONE },
        { "T4",
          { .fp16 = CHOICE_YES, .model_dtype = DTYPE_FLOAT16, .all_trainable = true },
          MODE_FP16_MIXED,
          SCALING_DYNAMIC },
        { "T4",
          { .fp16 = CHOICE_YES,
            .model_dtype = DTYPE_FLOAT16,
            .all_trainable = true,
            .policy = POLICY_NOSCALER },
          MODE_FP16_PURE,
          SCALING_NONE },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct precision out = decide(cases[i].device, cases[i].request);

        assert_string_equal(mode_names[out.mode], mode_names[cases[i].mode]);
        assert_int_equal(out.scaling, cases[i].scaling);
        if (out.scaling == SCALING_NONE)
            assert_true(out.loss_scale == 1);
    }
}

/* TS105 cannot occur: whatever the job says, trainables are fp32, except in the two modes
 * that a person must name. */
static void test_policy_keeps_trainables_in_fp32(void **state)
{
    static const char *const names[] = {
        "cpu", "P100", "T4", "GTX 1660", "A100", "H200"
    };

    (void)state;
    for (size_t d = 0; d < TS_COUNT(names); d++)
        for (int fp16 = CHOICE_NO; fp16 <= CHOICE_AUTO; fp16++)
            for (int bf16 = CHOICE_NO; bf16 <= CHOICE_AUTO; bf16++)
                for (int dtype = DTYPE_AUTO; dtype <= DTYPE_BFLOAT16; dtype++) {
                    struct precision_request request = { .fp16 = (enum choice)fp16,
                                                         .bf16 = (enum choice)bf16,
                                                         .model_dtype = (enum dtype)dtype,
                                                         .checkpoint = FORMAT_FP16,
                                                         .all_trainable = true };
                    struct precision out = decide(names[d], request);

                    assert_int_equal(out.trainable, FORMAT_FP32);
                    assert_int_equal(out.scaling != SCALING_NONE,
                                     out.mode == MODE_FP16_MIXED);
                }
}

static void test_policy_scales_as_asked(void **state)
{
    struct precision out;

    (void)state;
    out = decide("T4", (struct precision_request) { .fp16 = CHOICE_YES,
                                                    .loss_scaling = CHOICE_YES,
                                                    .loss_scale = 128 });
    assert_int_equal(out.scaling, SCALING_STATIC);
    assert_true(out.loss_scale == 128);
    out = decide("T4", (struct precision_request) { .fp16 = CHOICE_YES });
    assert_true(out.loss_scale == 65536);
    out = decide("T4", (struct precision_request) { .fp16 = CHOICE_YES,
                                                    .loss_scaling = CHOICE_NO,
                                                    .loss_scale = 1 });
    assert_int_equal(out.scaling, SCALING_NONE);
}

static void test_policy_noclip_turns_clipping_off(void **state)
{
    struct precision_request request = { .max_grad_norm = 1 };

    (void)state;
    assert_true(decide("T4", request).max_grad_norm == 1);
    request.policy = POLICY_NOCLIP;
    assert_true(decide("T4", request).max_grad_norm == 0);
}

/* Only with bf16, and on devices whose tensor cores support it. */
static void test_policy_fp8_goes_with_bf16(void **state)
{
    static const struct {
        const char *device;
        struct precision_request request;
        bool fp8;
    } cases[] = {
        { "H100", { .fp8 = true, .bf16 = CHOICE_YES }, true },
        { "L4", { .fp8 = true, .bf16 = CHOICE_AUTO }, true },
        { "H100", { .fp8 = true, .fp16 = CHOICE_YES }, false },
        { "H100", { .fp8 = true, .pure_bf16 = true }, false },
        { "H100", { .fp8 = true, .policy = POLICY_FP32 }, false },
        { "A100", { .fp8 = true, .bf16 = CHOICE_YES }, false },
        { "cpu", { .fp8 = true, .bf16 = CHOICE_YES }, false },
        { "H100", { .bf16 = CHOICE_YES }, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct precision out = decide(cases[i].device, cases[i].request);

        assert_int_equal(out.fp8, cases[i].fp8);
        assert_int_equal(strstr(out.message, "fp8 matmuls") != NULL, cases[i].fp8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_bounds_the_request_by_the_device),
        cmocka_unit_test(test_policy_keeps_trainables_in_fp32),
        cmocka_unit_test(test_policy_scales_as_asked),
        cmocka_unit_test(test_policy_noclip_turns_clipping_off),
        cmocka_unit_test(test_policy_fp8_goes_with_bf16),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
