/* tests/unit/test_torch_memory.c - the estimate for PyTorch compared with
 * measurements. */
#include "config.h"

#include "train/torch_memory.h"

#include "base/size.h"
#include "tests/unit/unit_torch_memory.h"

/*
 * Peaks of torch.distributed._tools.mem_tracker over one step of LlamaForCausalLM on a
 * CPU, torch 2.14.1, transformers 5.12.1, AdamW without foreach, the second step
 * (docs/memory.md).
 */
static const struct measured measured[] = {
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 1024, 2, 256, 72347008, false },
    { MODE_FP32, true, false, 256, 704, 3, 4, 2, 1024, 2, 256, 55091584, false },
    { MODE_FP32, true, false, 256, 704, 3, 4, 2, 1024, 2, 256, 54567296, false },
    { MODE_FP32, false, false, 256, 704, 6, 4, 2, 1024, 2, 256, 130401772, false },
    { MODE_FP32, true, false, 256, 704, 6, 4, 2, 1024, 2, 256, 90505708, false },
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 8192, 2, 256, 160427392, false },
    { MODE_FP32, false, true, 256, 704, 3, 4, 2, 1024, 2, 256, 80186752, false },
    { MODE_FP32, false, false, 512, 704, 3, 8, 4, 1024, 2, 256, 135111040, false },
    { MODE_FP32, false, false, 256, 1408, 3, 4, 2, 1024, 2, 256, 110029184, false },
    { MODE_FP32, false, false, 256, 704, 3, 4, 4, 1024, 2, 256, 76279168, false },
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 1024, 2, 512, 111838592, false },
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 1024, 4, 256, 111707520, false },
    { MODE_FP32, false, true, 256, 704, 3, 4, 2, 1024, 2, 512, 140100992, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 1024, 2, 256, 66809216, false },
    { MODE_BF16_MIXED, true, false, 256, 704, 3, 4, 2, 1024, 2, 256, 51356032, false },
    { MODE_BF16_MIXED, true, false, 256, 704, 3, 4, 2, 1024, 2, 256, 50831744, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 6, 4, 2, 1024, 2, 256, 119064044, false },
    { MODE_BF16_MIXED, true, false, 256, 704, 6, 4, 2, 1024, 2, 256, 86770156, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 8192, 2, 256, 158559616, false },
    { MODE_BF16_MIXED, false, true, 256, 704, 3, 4, 2, 1024, 2, 256, 77008256, false },
    { MODE_BF16_MIXED, false, false, 512, 704, 3, 8, 4, 1024, 2, 256, 135053712, false },
    { MODE_BF16_MIXED, false, false, 256, 1408, 3, 4, 2, 1024, 2, 256, 98168192, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 4, 1024, 2, 256, 70348160, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 1024, 2, 512, 95815040, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 1024, 4, 256, 95683968, false },
    { MODE_BF16_MIXED, false, true, 256, 704, 3, 4, 2, 1024, 2, 512, 135087488, false },
    { MODE_BF16_PURE, false, false, 256, 704, 3, 4, 2, 1024, 2, 256, 41173760, false },
    { MODE_BF16_PURE, true, false, 256, 704, 3, 4, 2, 1024, 2, 256, 28339456, false },
    { MODE_BF16_PURE, true, false, 256, 704, 3, 4, 2, 1024, 2, 256, 28077312, false },
    { MODE_BF16_PURE, false, false, 256, 704, 6, 4, 2, 1024, 2, 256, 71792492, false },
    { MODE_BF16_PURE, true, false, 256, 704, 6, 4, 2, 1024, 2, 256, 46046572, false },
    { MODE_BF16_PURE, false, false, 256, 704, 3, 4, 2, 8192, 2, 256, 107234048, false },
    { MODE_BF16_PURE, false, true, 256, 704, 3, 4, 2, 1024, 2, 256, 51372800, false },
    { MODE_BF16_PURE, false, false, 512, 704, 3, 8, 4, 1024, 2, 256, 74403072, false },
    { MODE_BF16_PURE, false, false, 256, 1408, 3, 4, 2, 1024, 2, 256, 59556608, false },
    { MODE_BF16_PURE, false, false, 256, 704, 3, 4, 4, 1024, 2, 256, 43139840, false },
    { MODE_BF16_PURE, false, false, 256, 704, 3, 4, 2, 1024, 2, 512, 65919744, false },
    { MODE_BF16_PURE, false, false, 256, 704, 3, 4, 2, 1024, 4, 256, 65854208, false },
    { MODE_BF16_PURE, false, true, 256, 704, 3, 4, 2, 1024, 2, 512, 105192192, false },
    /* adapters of rank 8 on all linear layers, as in PEFT */
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 1024, 2, 256, 32473904, true },
    { MODE_BF16_MIXED, false, false, 256, 704, 6, 4, 2, 1024, 2, 256, 57553880, true },
    { MODE_BF16_MIXED, true, false, 256, 704, 6, 4, 2, 1024, 2, 256, 24405976, true },
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 1024, 2, 256, 47412656, true },
    { MODE_FP32, false, false, 256, 704, 6, 4, 2, 1024, 2, 256, 86304344, true },
    { MODE_FP32, true, false, 256, 704, 6, 4, 2, 1024, 2, 256, 38762072, true },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 8192, 2, 256, 83854128, true },
    { MODE_BF16_MIXED, false, false, 512, 704, 3, 8, 4, 1024, 2, 256, 51405104, true },
};

/* Within 5 %: without checkpointing the tensors are counted, with it the largest point of
 * a step is chosen. */
static void test_torch_memory_matches_measurements(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(measured); i++) {
        struct torch_setup setup = { .plain_attention = measured[i].plain };
        struct plan plan = plan_of(&measured[i]);
        struct model_config config;
        struct memory_use use;

        read_config(&measured[i], &config);
        plan.torch = &setup;
        use = use_of(&plan, &config);
        if (!((double)use.total > 0.95 * (double)measured[i].bytes &&
              (double)use.total < 1.05 * (double)measured[i].bytes))
            fail_msg("row %zu: %llu, measured %llu", i, (unsigned long long)use.total,
                     (unsigned long long)measured[i].bytes);
        assert_true(use.low <= measured[i].bytes && measured[i].bytes <= use.high);
        assert_int_equal(use.total, use.weights + use.gradients + use.optimizer +
                                        use.activations + use.workspace);
    }
}

/* The same for other architectures: width 256, inner 1024 (704 with a gate), 3 layers, 4
 * heads of 64, 2 key heads if they may be fewer, vocabulary 1024, 2 samples of 256. */
static const struct seen_architecture {
    const char *model_type;
    enum mode mode;
    bool checkpointing;
    uint64_t bytes;
} seen_architectures[] = {
    { "gpt2", MODE_FP32, false, 84595880 },
    { "gpt2", MODE_BF16_MIXED, false, 69129384 },
    { "gpt2", MODE_BF16_PURE, false, 45459112 },
    { "gpt2", MODE_FP32, true, 60995752 },
    { "gpt2", MODE_BF16_MIXED, true, 53131432 },
    { "gpt_neo", MODE_FP32, false, 91617460 },
    { "gpt_neo", MODE_BF16_MIXED, false, 80869556 },
    { "gpt_neo", MODE_BF16_PURE, false, 57213108 },
    { "gpt_neo", MODE_FP32, true, 64357556 },
    { "gpt_neo", MODE_BF16_MIXED, true, 58066100 },
    { "gpt_neox", MODE_FP32, false, 70466792 },
    { "gpt_neox", MODE_BF16_MIXED, false, 62078184 },
    { "gpt_neox", MODE_BF16_PURE, false, 38391496 },
    { "gpt_neox", MODE_FP32, true, 55257320 },
    { "gpt_neox", MODE_BF16_MIXED, true, 51063016 },
    { "qwen3", MODE_FP32, false, 77107096 },
    { "qwen3", MODE_BF16_MIXED, false, 70389656 },
    { "qwen3", MODE_BF16_PURE, false, 44751896 },
    { "qwen3", MODE_FP32, true, 56158104 },
    { "qwen3", MODE_BF16_MIXED, true, 52029336 },
    { "gemma", MODE_FP32, false, 72354180 },
    { "gemma", MODE_BF16_MIXED, false, 66816388 },
    { "gemma", MODE_BF16_PURE, false, 43015938 },
    { "gemma", MODE_FP32, true, 54569348 },
    { "gemma", MODE_BF16_MIXED, true, 50833796 },
    { "gemma3_text", MODE_FP32, false, 83444148 },
    { "gemma3_text", MODE_BF16_MIXED, false, 77906356 },
    { "gemma3_text", MODE_BF16_PURE, false, 54094386 },
    { "gemma3_text", MODE_FP32, true, 57235892 },
    { "gemma3_text", MODE_BF16_MIXED, true, 54843828 },
    { "gemma2", MODE_FP32, false, 94910876 },
    { "gemma2", MODE_BF16_MIXED, false, 87538076 },
    { "gemma2", MODE_BF16_PURE, false, 63728410 },
    { "gemma2", MODE_FP32, true, 60879260 },
    { "gemma2", MODE_BF16_MIXED, true, 58225052 },
    { "phi3", MODE_FP32, false, 76279132 },
    { "phi3", MODE_BF16_MIXED, false, 66415964 },
    { "phi3", MODE_BF16_PURE, false, 43139804 },
    { "phi3", MODE_FP32, true, 55877980 },
    { "phi3", MODE_BF16_MIXED, true, 50700636 },
};

/* Write the config with the key names of each architecture. */
#define SIZES_OF_GPT2                                                     \
    "\"n_embd\": 256, \"n_inner\": 1024, \"n_layer\": 3, \"n_head\": 4, " \
    "\"n_positions\": 512"
#define SIZES_OF_NEO "\"num_layers\": 3, \"num_heads\": 4"
#define SIZES                                                                     \
    "\"hidden_size\": 256, \"num_hidden_layers\": 3, \"num_attention_heads\": 4," \
    "\"num_key_value_heads\": 2, \"head_dim\": 64, \"max_position_embeddings\": 512"

static void read_architecture(const char *model_type, struct model_config *config)
{
    int inner = text_starts(model_type, "gpt") ? 1024 : 704;
    struct error err = { 0 };
    char text[512];

    snprintf(
        text, sizeof(text),
        "{\"model_type\": \"%s\", \"vocab_size\": 1024, " SIZES ", " SIZES_OF_GPT2
        ", " SIZES_OF_NEO ", \"intermediate_size\": %d, \"tie_word_embeddings\": %s}",
        model_type, inner,
        strcmp(model_type, "gpt2") == 0 || strcmp(model_type, "gpt_neo") == 0 ? "true"
                                                                              : "false");
    if (!model_config_parse(text, strlen(text), "config.json", arena, config, &err))
        fail_msg("%s", err.text);
}

static void test_torch_memory_of_architectures_matches_measurements(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(seen_architectures); i++) {
        const struct seen_architecture *s = &seen_architectures[i];
        const struct measured like = {
            .mode = s->mode, .checkpointing = s->checkpointing, .batch = 2, .length = 256
        };
        struct plan plan = plan_of(&like);
        struct model_config config;
        struct memory_use use;

        read_architecture(s->model_type, &config);
        use = use_of(&plan, &config);
        if (!((double)use.total > 0.95 * (double)s->bytes &&
              (double)use.total < 1.05 * (double)s->bytes))
            fail_msg("%s, row %zu: %llu, measured %llu", s->model_type, i,
                     (unsigned long long)use.total, (unsigned long long)s->bytes);
        assert_true(use.low <= s->bytes && s->bytes <= use.high);
    }
}

/* The same tracker over an evaluation of 8 samples after a step, without gradients. */
static const struct measured seen_evaluating[] = {
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 1024, 8, 256, 58678648, false },
    { MODE_FP32, false, false, 256, 704, 3, 4, 2, 8192, 8, 256, 213243328, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 1024, 8, 256, 60904896, false },
    { MODE_BF16_MIXED, false, false, 256, 704, 3, 4, 2, 8192, 8, 256, 255415744, false },
    { MODE_BF16_MIXED, false, false, 512, 1408, 3, 8, 4, 1024, 8, 256, 169259384, false },
};

static void test_torch_memory_of_an_evaluation_matches_measurements(void **state)
{
    struct torch_setup setup = { .evaluates = true };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(seen_evaluating); i++) {
        struct plan plan = plan_of(&seen_evaluating[i]);
        double bytes = (double)seen_evaluating[i].bytes;
        struct model_config config;
        struct memory_use use;
        struct error err = { 0 };

        read_config(&seen_evaluating[i], &config);
        plan.torch = &setup;
        assert_true(torch_memory_eval(&plan, &config, &use, &err));
        if (!((double)use.total > 0.92 * bytes && (double)use.total < 1.1 * bytes))
            fail_msg("row %zu: %.0f %% of the measurement", i,
                     (double)use.total / bytes * 100);
        assert_true(use.low <= seen_evaluating[i].bytes &&
                    seen_evaluating[i].bytes <= use.high);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_memory_matches_measurements),
        cmocka_unit_test(test_torch_memory_of_architectures_matches_measurements),
        cmocka_unit_test(test_torch_memory_of_an_evaluation_matches_measurements),
    };

    return cmocka_run_group_tests_name("torch_memory", tests, setup, teardown);
}
