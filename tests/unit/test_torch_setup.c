/* tests/unit/test_torch_setup.c - keys of an external job that determine its memory. */
#include "config.h"

#include "patcher/rules/torch_setup.h"

#include "base/file.h"
#include "tests/unit/unit.h"

static struct arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static struct torch_setup read_in(const char *dir, const char *text)
{
    struct torch_setup out;
    struct document document;

    document_read(text, strlen(text), arena, &document);
    assert_non_null(document.root);
    torch_setup_read(&document, dir, arena, &out);
    return out;
}

static void test_torch_setup_of_plain_keys(void **state)
{
    struct torch_setup s = read_in(".", "optim: paged_adamw_8bit\nquantization_bit: 4\n"
                                        "flash_attn: disabled\neval_strategy: steps\n");

    (void)state;
    assert_string_equal(s.optim, "paged_adamw_8bit");
    assert_int_equal(s.quantization_bit, 4);
    assert_true(s.plain_attention && s.evaluates);
    assert_null(s.stage);
    s = read_in(".", "optim:\nquantization_bit: 3\nflash_attn: fa2\neval_strategy: 'no'\n"
                     "stage: sft\n");
    assert_null(s.optim);
    assert_int_equal(s.quantization_bit, 0);
    assert_false(s.plain_attention || s.evaluates);
    assert_null(s.stage);
    assert_string_equal(read_in(".", "stage: dpo\n").stage, "dpo");
}

static void test_torch_setup_of_fsdp(void **state)
{
    (void)state;
    assert_int_equal(read_in(".", "fsdp: full_shard auto_wrap\n").zero_stage, 3);
    assert_int_equal(read_in(".", "fsdp: shard_grad_op\n").zero_stage, 2);
    assert_int_equal(read_in(".", "fsdp: no_shard\n").zero_stage, 0);
    assert_int_equal(read_in(".", "fsdp: false\n").zero_stage, 0);
    assert_true(read_in(".", "fsdp: full_shard offload\n").offload_weights);
    assert_false(read_in(".", "fsdp: full_shard\n").deepspeed);
}

/* In a file next to the job, or in the job. */
static void test_torch_setup_of_deepspeed(void **state)
{
    static const char json[] = "{\"zero_optimization\": {\"stage\": 3, "
                               "\"offload_optimizer\": {\"device\": \"cpu\"}, "
                               "\"offload_param\": {\"device\": \"none\"}}}";
    char *dir = unit_dir_new(), *name = path_join(dir, "z3.json");
    struct error err = { 0 };
    struct torch_setup s;

    (void)state;
    assert_true(file_replace(name, json, sizeof(json) - 1, 0644, &err));
    s = read_in(dir, "deepspeed: z3.json\n");
    assert_true(s.deepspeed && s.offload_optimizer && !s.offload_weights);
    assert_int_equal(s.zero_stage, 3);
    s = read_in(dir, "deepspeed:\n  zero_optimization:\n    stage: 2\n"
                     "    offload_param: {device: nvme}\n");
    assert_true(s.deepspeed && !s.offload_optimizer && s.offload_weights);
    assert_int_equal(s.zero_stage, 2);
    free(name);
    unit_dir_free(dir);
}

/* A missing file, one that is not JSON, a folder, or an unknown stage shards nothing. */
static void test_torch_setup_trusts_no_file(void **state)
{
    static const char *const bad[] = { "",
                                       "[]",
                                       "{\"zero_optimization\": 3}",
                                       "{\"zero_optimization\": {\"stage\": \"x\"}}",
                                       "{\"zero_optimization\": {\"stage\": 99}}",
                                       "{\"zero_optimization\": {\"stage\": -1," };
    char *dir = unit_dir_new(), *name = path_join(dir, "bad.json");
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(file_replace(name, bad[i], strlen(bad[i]), 0644, &err));
        assert_int_equal(read_in(dir, "deepspeed: bad.json\n").zero_stage, 0);
    }
    assert_int_equal(read_in(dir, "deepspeed: nowhere.json\n").zero_stage, 0);
    assert_int_equal(read_in(dir, "deepspeed: .\n").zero_stage, 0);
    assert_int_equal(
        read_in(dir, "deepspeed: {zero_optimization: {stage: 7}}\n").zero_stage, 0);
    assert_int_equal(read_in(dir, "deepspeed: {zero_optimization: [1]}\n").zero_stage, 0);
    assert_false(read_in(dir, "deepspeed:\n").deepspeed);
    free(name);
    unit_dir_free(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_torch_setup_of_plain_keys),
        TEST(test_torch_setup_of_fsdp),
        TEST(test_torch_setup_of_deepspeed),
        TEST(test_torch_setup_trusts_no_file),
    };

    return cmocka_run_group_tests_name("torch_setup", tests, NULL, NULL);
}
