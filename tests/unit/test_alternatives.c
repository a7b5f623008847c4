/* tests/unit/test_alternatives.c - which alternatives apply to a job, what each changes in
 * its plan, and how long a step then takes. */
#include "config.h"

#include "patcher/rules/alternatives.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/model/optimizer_table.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 64, "
    "\"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}";

static struct arena *arena;
static struct model_config config;

static int setup(void **state)
{
    struct error err = { 0 };

    (void)state;
    arena = arena_new();
    return model_config_parse(llama, sizeof(llama) - 1, "config.json", arena, &config,
                              &err)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static const struct alternative *row_of(const char *name)
{
    const struct alternative *rows;
    size_t count = alternatives(&rows);

    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    fail_msg("there is no row %s", name);
    return NULL;
}

static struct device device_of(const char *name)
{
    struct device device;
    struct error err = { 0 };

    if (!device_find(name, &device, &err))
        fail_msg("%s", err.text);
    return device;
}

/* A full float32 job of LLaMA-Factory. */
static struct alternative_trial trial_on(const char *device)
{
    return (struct alternative_trial) { .plan = { .external = true,
                                                  .trainer = "llamafactory",
                                                  .method = METHOD_FULL,
                                                  .device = device_of(device),
                                                  .precision = { .mode = MODE_FP32,
                                                                 .compute = FORMAT_FP32,
                                                                 .trainable = FORMAT_FP32,
                                                                 .frozen = FORMAT_FP32 },
                                                  .per_device_train_batch_size = 4,
                                                  .per_device_eval_batch_size = 4,
                                                  .gradient_accumulation_steps = 3,
                                                  .cutoff_len = 64,
                                                  .lora_rank = 8,
                                                  .lora_target = "all" } };
}

enum answer { APPLIES, ALREADY, REFUSES };

static void expect(const char *row, struct alternative_trial *trial, enum answer expected)
{
    const char *why_not = row_of(row)->apply(trial);
    enum answer answer = !why_not ? APPLIES : *why_not ? REFUSES : ALREADY;

    if (answer != expected)
        fail_msg("%s: %s", row, why_not ? why_not : "applies");
}

static void test_batch_keeps_its_size_or_stays_whole(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    expect("smaller batch", &trial, APPLIES);
    assert_int_equal(trial.plan.per_device_train_batch_size, 1);
    assert_int_equal(trial.plan.gradient_accumulation_steps, 12);
    expect("smaller batch", &trial, ALREADY);
    trial = trial_on("A100");
    trial.whole_batch = true;
    expect("smaller batch", &trial, REFUSES);
    assert_int_equal(trial.plan.per_device_train_batch_size, 4);
}

static void test_optimizer_is_quantized_once(void **state)
{
    static const struct {
        const char *optim;
        enum answer answer;
    } rows[] = {
        { NULL, APPLIES },         { "adamw_torch", APPLIES },
        { "adamw_8bit", ALREADY }, { "adamw_bnb_8bit", ALREADY },
        { "sgd", REFUSES },        { "adafactor", REFUSES },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct alternative_trial trial = trial_on("A100");

        trial.setup.optim = rows[i].optim;
        expect("8-bit optimizer", &trial, rows[i].answer);
        trial.setup.optim = rows[i].optim;
        expect("paged optimizer", &trial, rows[i].answer);
        if (rows[i].answer == APPLIES)
            assert_string_equal(trial.setup.optim, "paged_adamw_8bit");
    }
}

static void test_optimizer_stays_where_it_cannot_be_quantized(void **state)
{
    struct alternative_trial trial = trial_on("cpu");

    (void)state;
    expect("8-bit optimizer", &trial, REFUSES);
    trial = trial_on("A100");
    trial.setup.offload_optimizer = trial.setup.deepspeed = true;
    expect("8-bit optimizer", &trial, REFUSES);
}

static void test_native_optimizer_is_quantized_once(void **state)
{
    struct alternative_trial trial = trial_on("cpu");

    (void)state;
    trial.plan.external = false;
    expect("8-bit optimizer", &trial, APPLIES);
    assert_string_equal(optimizer_names[trial.plan.optim], "adamw_8bit");
    expect("8-bit optimizer", &trial, ALREADY);
    expect("paged optimizer", &trial, REFUSES);
    trial.plan.optim = trial.plan.optimizer = optimizer_find("sgd");
    expect("8-bit optimizer", &trial, REFUSES);
}

/* LLaMA-Factory, hparams/parser.py: pure_bf16 is incompatible with ZeRO-3. */
static void test_pure_bf16_requires_the_card_and_no_zero_3(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    trial.setup.deepspeed = true;
    trial.setup.zero_stage = 2;
    expect("pure_bf16", &trial, APPLIES);
    assert_int_equal(trial.plan.precision.trainable, FORMAT_BF16);
    expect("pure_bf16", &trial, ALREADY);
    trial = trial_on("A100");
    trial.setup.deepspeed = true;
    trial.setup.zero_stage = 3;
    expect("pure_bf16", &trial, REFUSES);
    trial = trial_on("T4");
    expect("pure_bf16", &trial, REFUSES);
    trial = trial_on("A100");
    trial.plan.trainer = "trl";
    expect("pure_bf16", &trial, REFUSES);
}

/* Frozen weights stay float32 if the job loads them so; adapters are float32. */
static void test_modes_decide_the_stored_formats(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    trial.plan.method = METHOD_LORA;
    trial.plan.request.model_dtype = DTYPE_FLOAT32;
    expect("bf16", &trial, APPLIES);
    assert_int_equal(trial.plan.precision.frozen, FORMAT_FP32);
    expect("pure_bf16", &trial, APPLIES);
    assert_int_equal(trial.plan.precision.trainable, FORMAT_FP32);
    assert_int_equal(trial.plan.precision.frozen, FORMAT_BF16);
    trial.plan.request.model_dtype = DTYPE_AUTO;
    expect("fp16 + scaler", &trial, APPLIES);
    assert_int_equal(trial.plan.precision.frozen, FORMAT_FP16);
}

static void test_lora_keeps_the_rank_of_the_job(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    trial.plan.lora_rank = 64;
    trial.plan.lora_target = "q_proj";
    trial.setup.reference = true;
    expect("LoRA", &trial, APPLIES);
    assert_int_equal(trial.plan.lora_rank, 64);
    assert_string_equal(trial.plan.lora_target, "q_proj");
    assert_false(trial.setup.reference);
    expect("LoRA", &trial, ALREADY);
    trial = trial_on("A100");
    trial.plan.lora_rank = 0;
    expect("LoRA", &trial, APPLIES);
    assert_int_equal(trial.plan.lora_rank, 8);
    trial = trial_on("A100");
    trial.plan.train_from_scratch = true;
    expect("LoRA", &trial, REFUSES);
    expect("QLoRA", &trial, REFUSES);
}

static void test_gradients_are_sharded_among_ranks(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    trial.plan.ranks = 4;
    trial.plan.zero_stage = 1;
    expect("ZeRO stage 2", &trial, REFUSES);
    trial.plan.external = false;
    expect("ZeRO stage 2", &trial, APPLIES);
    assert_int_equal(trial.plan.zero_stage, 2);
    expect("ZeRO stage 2", &trial, ALREADY);
    trial.plan.ranks = 1;
    expect("ZeRO stage 2", &trial, REFUSES);
}

static void test_weights_are_sharded_among_ranks(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    trial.plan.ranks = 4;
    trial.plan.zero_stage = 2;
    expect("ZeRO stage 3", &trial, REFUSES);
    trial.plan.external = false;
    trial.plan.method = METHOD_LORA;
    expect("ZeRO stage 3", &trial, APPLIES);
    assert_int_equal(trial.plan.zero_stage, 3);
    expect("ZeRO stage 3", &trial, ALREADY);
    trial.plan.ranks = 1;
    trial.plan.zero_stage = 1;
    expect("ZeRO stage 3", &trial, REFUSES);
}

static void test_moments_move_to_the_host(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    expect("optimizer on host", &trial, REFUSES);
    trial.plan.external = false;
    expect("optimizer on host", &trial, APPLIES);
    assert_true(plan_offloads(&trial.plan));
    expect("optimizer on host", &trial, ALREADY);
    trial.plan.device.kind = DEVICE_CPU;
    expect("optimizer on host", &trial, REFUSES);
}

static void test_reference_is_removed_from_plan_and_setup(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    expect("no ref_model", &trial, REFUSES);
    trial.plan.method = METHOD_LORA;
    trial.plan.model_name_or_path = "m";
    trial.plan.preference.reference = "n";
    trial.setup.reference = true;
    expect("no ref_model", &trial, REFUSES);
    trial.plan.preference.reference = "m/";
    expect("no ref_model", &trial, APPLIES);
    assert_null(trial.plan.preference.reference);
    assert_false(trial.setup.reference);
}

/* Return the time of a step with the row, relative to the unchanged job. */
static double time_of(const char *row, const struct alternative_trial *trial)
{
    const struct memory_fit_case request = { .plan = &trial->plan,
                                             .model = &config,
                                             .device = &trial->plan.device,
                                             .available = UINT64_C(1) << 40 };
    struct alternative_result result;

    alternative_try(&request, row_of(row), &result);
    if (result.why_not)
        fail_msg("%s: %s", row, result.why_not);
    return result.time;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

/* A step is 3 matmuls of each weight, 4 with checkpointing, and one less if the weights are
 * frozen.  Tensor cores are counted as twice as fast. */
static void test_time_is_that_of_the_matmuls(void **state)
{
    struct alternative_trial trial = trial_on("A100");

    (void)state;
    assert_true(is_near(time_of("checkpointing", &trial), 4. / 3));
    assert_true(is_near(time_of("LoRA", &trial), 2. / 3));
    assert_true(is_near(time_of("bf16", &trial), 0.5));
    assert_true(is_near(time_of("smaller batch", &trial), 1));
    trial.plan.gradient_checkpointing = true;
    assert_true(is_near(time_of("no checkpointing", &trial), 3. / 4));
    assert_true(is_near(time_of("LoRA", &trial), 3. / 4));
    trial = trial_on("GTX 1080 Ti"); /* no tensor cores */
    assert_true(is_near(time_of("fp16 + scaler", &trial), 1));
    trial = trial_on("T4");
    assert_true(is_near(time_of("fp16 + scaler", &trial), 0.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_keeps_its_size_or_stays_whole),
        cmocka_unit_test(test_optimizer_is_quantized_once),
        cmocka_unit_test(test_optimizer_stays_where_it_cannot_be_quantized),
        cmocka_unit_test(test_native_optimizer_is_quantized_once),
        cmocka_unit_test(test_pure_bf16_requires_the_card_and_no_zero_3),
        cmocka_unit_test(test_modes_decide_the_stored_formats),
        cmocka_unit_test(test_lora_keeps_the_rank_of_the_job),
        cmocka_unit_test(test_gradients_are_sharded_among_ranks),
        cmocka_unit_test(test_weights_are_sharded_among_ranks),
        cmocka_unit_test(test_moments_move_to_the_host),
        cmocka_unit_test(test_reference_is_removed_from_plan_and_setup),
        cmocka_unit_test(test_time_is_that_of_the_matmuls),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
