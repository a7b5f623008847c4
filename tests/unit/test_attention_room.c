/* tests/unit/test_attention_room.c - memory for gradients of attention by cuDNN. */
#include "config.h"

#include "train/model/attention_room.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct plan hopper(void)
{
    return (struct plan) { .device = { .kind = DEVICE_CUDA, .major = 9 },
                           .precision = { .compute = FORMAT_BF16 },
                           .cutoff_len = 2048 };
}

static const struct model_config model = { .heads = 4, .kv_heads = 4, .head_size = 64 };

/* Sequences are counted as long as the backend takes them for: a power of two, from 256 on. */
static void test_attention_room_is_for_the_rows_that_sequences_might_have(void **state)
{
    static const struct {
        int64_t cutoff;
        size_t rows, sequences, counted;
    } cases[] = {
        { 2048, 8192, 4, 8192 }, { 2000, 8000, 4, 8192 },  { 128, 1024, 8, 2048 },
        { 16, 64, 1, 256 },      { 2048, 1024, 64, 4096 }, /* mostly holes: four times */
    };
    struct plan plan = hopper();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        plan.cutoff_len = cases[i].cutoff;
        assert_int_equal(
            attention_room_bytes(&plan, &model, cases[i].rows, cases[i].sequences),
            cases[i].counted * 4 * (4 + 4 * 64) + (1 << 20));
    }
}

static void test_attention_room_counts_shared_heads(void **state)
{
    struct plan plan = hopper();
    struct model_config config = model;

    (void)state;
    config.kv_heads = 2;
    assert_int_equal(attention_room_bytes(&plan, &config, 8192, 4),
                     (size_t)8192 * 4 * (4 + 8 * 64) + (1 << 20));
}

static void assert_none(const struct plan *plan, const struct model_config *config)
{
    assert_int_equal(attention_room_bytes(plan, config, 8192, 4), 0);
}

static void test_attention_room_is_none_without_kernels(void **state)
{
    struct plan plan = hopper();
    struct model_config config = model;

    (void)state;
    plan.deterministic = true;
    assert_none(&plan, &model);
    plan = hopper();
    plan.device.kind = DEVICE_CPU;
    assert_none(&plan, &model);
    plan = hopper();
    plan.device.major = 8;
    assert_none(&plan, &model);
    plan = hopper();
    plan.precision.compute = FORMAT_FP32;
    assert_none(&plan, &model);
    plan = hopper();
    config.head_size = 60;
    assert_none(&plan, &config);
    config.head_size = 264;
    assert_none(&plan, &config);
    config.head_size = 64;
    config.score_softcap = 50;
    assert_none(&plan, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_room_is_for_the_rows_that_sequences_might_have),
        cmocka_unit_test(test_attention_room_counts_shared_heads),
        cmocka_unit_test(test_attention_room_is_none_without_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
