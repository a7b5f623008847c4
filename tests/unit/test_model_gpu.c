/* tests/unit/test_model_gpu.c - the same steps on a GPU as on the CPU, in every precision.
 * Skipped without a GPU. */
#include "config.h"

#include "tests/unit/unit_model.h"

#include "train/shapes.h"

enum { STEPS = 5 };

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 48,"
    "\"intermediate_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": 4,"
    "\"num_key_value_heads\": 2, \"head_dim\": 16, \"initializer_range\": 0.1}";
static const char qwen[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 300, \"hidden_size\": 64,"
    "\"intermediate_size\": 160, \"num_hidden_layers\": 2, \"num_attention_heads\": 2,"
    "\"num_key_value_heads\": 1, \"initializer_range\": 0.1,"
    "\"tie_word_embeddings\": true}";

/* What two machines may differ by, in epsilons of the compute format: sums are added in
 * another order, and a number near the middle of two is rounded the other way. */
static const struct kind {
    const char *name, *config;
    enum format compute, trainable;
    bool lora, checkpointing;
    double epsilons;
} kinds[] = {
    { "fp32", llama, FORMAT_FP32, FORMAT_FP32, false, false, 128 },
    { "fp32, Qwen", qwen, FORMAT_FP32, FORMAT_FP32, false, false, 128 },
    { "fp32, checkpointing", llama, FORMAT_FP32, FORMAT_FP32, false, true, 128 },
    { "fp32, LoRA", llama, FORMAT_FP32, FORMAT_FP32, true, false, 128 },
    { "fp16", llama, FORMAT_FP16, FORMAT_FP32, false, false, 2 },
    { "fp16, LoRA", qwen, FORMAT_FP16, FORMAT_FP32, true, false, 2 },
    { "bf16", llama, FORMAT_BF16, FORMAT_FP32, false, false, 2 },
    { "bf16, checkpointing", qwen, FORMAT_BF16, FORMAT_FP32, false, true, 2 },
    { "bf16, LoRA", llama, FORMAT_BF16, FORMAT_FP32, true, false, 2 },
    { "pure bf16", llama, FORMAT_BF16, FORMAT_BF16, false, false, 2 },
};

struct told {
    double losses[STEPS + 1], norms[STEPS];
};

static struct plan plan_of(const struct kind *kind)
{
    struct plan plan = unit_plan(NULL);

    plan.train_from_scratch = true;
    plan.method = kind->lora ? METHOD_LORA : METHOD_FULL;
    plan.gradient_checkpointing = kind->checkpointing;
    plan.weight_decay = 0.01;
    plan.precision.compute = kind->compute;
    plan.precision.trainable = kind->trainable;
    plan.precision.mode = kind->trainable != FORMAT_FP32  ? MODE_BF16_PURE
                          : kind->compute == FORMAT_FP16 ? MODE_FP16_MIXED
                          : kind->compute == FORMAT_BF16 ? MODE_BF16_MIXED
                                                         : MODE_FP32;
    plan.precision.has_frozen = kind->lora;
    plan.precision.frozen = kind->lora ? kind->compute : FORMAT_FP32;
    plan.precision.max_grad_norm = 1;
    return plan;
}

static struct told train(const struct kind *kind, const struct device *device)
{
    struct unit_model u = unit_model_text(kind->config, plan_of(kind));
    struct batch batch = { 0 };
    struct told told;

    for (uint32_t i = 0; i < 4; i++)
        unit_batch_random(&batch, 17 + 23 * i, 300, i);
    u.device = device;
    unit_model_start(&u, batch.rows, batch.sequences, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        told.losses[i] = unit_train(&u, &batch);
        told.norms[i] = unit_step(&u, i + 1);
    }
    told.losses[STEPS] = unit_loss(&u, &batch);
    unit_model_stop(&u);
    unit_batch_free(&batch);
    return told;
}

static void near(const struct kind *kind, const char *what, int step, double is,
                 double wanted, double factor)
{
    double most = factor * kind->epsilons * format_info(kind->compute)->epsilon;

    if (!(fabs(is - wanted) <= most * fabs(wanted)))
        fail_msg("%s, step %d: the %s is %.9g on the GPU and %.9g on the CPU", kind->name,
                 step + 1, what, is, wanted);
}

static void test_model_on_a_gpu_is_that_of_the_cpu(void **state)
{
    const struct device *gpu = *state;

    for (size_t i = 0; i < TS_COUNT(kinds); i++) {
        const struct kind *kind = &kinds[i];
        struct told here, there;

        if (kind->compute == FORMAT_BF16 && gpu->major < 8)
            continue;
        there = train(kind, NULL);
        here = train(kind, gpu);
        assert_true(there.losses[STEPS] < there.losses[0]);
        for (int s = 0; s <= STEPS; s++)
            near(kind, "loss", s, here.losses[s], there.losses[s], 1);
        /* a norm is a sum of squares: its parts are off by more than the loss is */
        for (int s = 0; s < STEPS; s++)
            near(kind, "norm", s, here.norms[s], there.norms[s], 8);
    }
}

static void test_model_on_a_gpu_gives_the_same_bits_again(void **state)
{
    for (size_t i = 0; i < TS_COUNT(kinds); i++) {
        struct told once, again;

        if (kinds[i].compute == FORMAT_BF16 && ((struct device *)*state)->major < 8)
            continue;
        once = train(&kinds[i], *state);
        again = train(&kinds[i], *state);
        assert_memory_equal(&once, &again, sizeof(once));
    }
}

int main(void)
{
    static struct device gpu;
    char note[256] = "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_model_on_a_gpu_is_that_of_the_cpu, &gpu),
        cmocka_unit_test_prestate(test_model_on_a_gpu_gives_the_same_bits_again, &gpu),
    };

    if (backend_devices(&gpu, 1, note, sizeof(note)) == 0 || !gpu.runnable) {
        printf("1..0 # SKIP no GPU to try: %s\n", note);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
