/* tests/unit/test_setting.c - --set replaces the value of a key, or adds the key. */
#include "config.h"

#include "patcher/setting.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_setting_replaces_or_adds(void **state)
{
    static const struct {
        const char *text, *set, *expected;
    } cases[] = {
        { "seed: 1\nstage: sft\n", "output_dir=|",
          "seed: 1\nstage: sft\noutput_dir: '|'\n" },
        { "seed: 1 # c\n", "seed=2", "seed: 2 # c\n" },
        { "stage: sft\n", "seed=2", "stage: sft\nseed: 2\n" },
        { "stage: sft\n", "run_name=a: b", "stage: sft\nrun_name: 'a: b'\n" },
        { "stage: sft\n", "run_name=it's #1", "stage: sft\nrun_name: 'it''s #1'\n" },
        { "stage: sft\n", "lora_target=[q_proj, v_proj]",
          "stage: sft\nlora_target: [q_proj, v_proj]\n" },
        { "stage: sft\n", "trainspool.policy=fp32",
          "stage: sft\ntrainspool: {policy: fp32}\n" },
        { "stage: sft\n", "device=cpu", "stage: sft\ntrainspool: {device: cpu}\n" },
        { "trainspool:\n  device: auto # c\nseed: 1\n", "device=cpu",
          "trainspool:\n  device: cpu # c\nseed: 1\n" },
        { "trainspool:\n  device: auto # c\nseed: 1\n", "trainspool.policy=bf16",
          "trainspool:\n  device: auto # c\n  policy: bf16\nseed: 1\n" },
        { "trainspool:\nseed: 1\n", "policy=bf16",
          "trainspool: {policy: bf16}\nseed: 1\n" },
        { "stage: sft\n", "dataset=a,b", "stage: sft\ndataset: a,b\n" },
        { "{stage: sft}\n", "dataset=a,b", "{stage: sft, dataset: 'a,b'}\n" },
        { "{stage: sft, dataset: c}\n", "dataset=a}", "{stage: sft, dataset: 'a}'}\n" },
        { "stage: sft\n", "device=cuda:0,1",
          "stage: sft\ntrainspool: {device: 'cuda:0,1'}\n" },
        { "stage: sft\n", "run_name=!!x y", "stage: sft\nrun_name: '!!x y'\n" },
        { "stage: sft\n", "run_name=&a x", "stage: sft\nrun_name: '&a x'\n" },
        { "- no job\n", "seed=2", "- no job\n" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        const char *const set[] = { cases[i].set, NULL };
        const char *data = cases[i].text;
        size_t len = strlen(data);
        struct error err = { 0 };

        if (!setting_apply(set, arena, &data, &len, &err))
            fail_msg("%s: %s", cases[i].set, err.text);
        assert_string_equal(data, cases[i].expected);
        assert_int_equal(len, strlen(data));
        arena_free(arena);
    }
}

static void test_setting_applies_several_in_order(void **state)
{
    static const char *const set[] = { "seed=2", "policy=fp32", "seed=3", "device=cpu",
                                       NULL };
    struct arena *arena = arena_new();
    const char *data = "stage: sft\n";
    size_t len = strlen(data);

    (void)state;
    assert_true(setting_apply(set, arena, &data, &len, NULL));
    assert_string_equal(data,
                        "stage: sft\nseed: 3\ntrainspool: {policy: fp32, device: cpu}\n");
    assert_true(setting_apply(NULL, arena, &data, &len, NULL));
    arena_free(arena);
}

static void test_setting_refuses_invalid_settings(void **state)
{
    static const struct {
        const char *text, *set;
    } cases[] = {
        { "seed: 1\n", "seed" },
        { "seed: 1\n", "=1" },
        { "seed: 1\n", "seeed=1" },
        { "seed: 1\n", "seed=x" },
        { "seed: 1\n", "seed=1\nx: 2" },
        { "x: &s 1\nseed: *s\n", "seed=2" },
        { "seed: 1\n", "trainspool.none=1" },
        { "seed: 1\n", "output_dir=a \377" },
        { "seed: 1\n", "output_dir=a \1" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        const char *const set[] = { cases[i].set, NULL };
        const char *data = cases[i].text;
        size_t len = strlen(data);
        struct error err = { 0 };

        assert_false(setting_apply(set, arena, &data, &len, &err));
        assert_int_equal(err.code, ERROR_USAGE);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setting_replaces_or_adds),
        cmocka_unit_test(test_setting_applies_several_in_order),
        cmocka_unit_test(test_setting_refuses_invalid_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
