/* tests/unit/test_torch_memory.c - the estimate for PyTorch compared with
 * measurements. */
#include "config.h"

#include "train/torch_memory.h"

#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/torch_optimizers.h"

/*
 * Peaks of torch.distributed._tools.mem_tracker over one step of LlamaForCausalLM on a
 * CPU, torch 2.14.1, transformers 5.12.1, AdamW without foreach, the second step
 * (docs/memory.md).
 */
static const struct measured {
    enum mode mode;
    bool checkpointing, plain;
    int width, mlp, layers, heads, keys, vocabulary, batch, length;
    uint64_t bytes;
    bool lora;
} measured[] = {
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

static void read_config(const struct measured *s, struct model_config *config)
{
    struct error err = { 0 };
    char text[512];

    snprintf(text, sizeof(text),
             "{\"model_type\": \"llama\", \"vocab_size\": %d, \"hidden_size\": "
             "%d,\"intermediate_size\": %d, \"num_hidden_layers\": "
             "%d,\"num_attention_heads\": %d, \"num_key_value_heads\": %d}",
             s->vocabulary, s->width, s->mlp, s->layers, s->heads, s->keys);
    if (!model_config_parse(text, strlen(text), "config.json", arena, config, &err))
        fail_msg("%s", err.text);
}

static struct plan plan_of(const struct measured *s)
{
    return (struct plan) {
        .method = s->lora ? METHOD_LORA : METHOD_FULL,
        .external = true,
        .precision = { .mode = s->mode,
                       .trainable = s->mode == MODE_BF16_PURE ? FORMAT_BF16 : FORMAT_FP32,
                       .frozen = s->mode == MODE_FP32 ? FORMAT_FP32 : FORMAT_BF16 },
        .gradient_checkpointing = s->checkpointing,
        .per_device_train_batch_size = s->batch,
        .per_device_eval_batch_size = 8,
        .gradient_accumulation_steps = 1,
        .lora_rank = 8,
        .lora_target = "all",
        .cutoff_len = s->length
    };
}

static struct memory_use use_of(const struct plan *plan,
                                const struct model_config *config)
{
    struct memory_use use;
    struct error err = { 0 };

    if (!torch_memory(plan, config, &use, &err))
        fail_msg("%s", err.text);
    return use;
}

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

static const struct measured small = {
    MODE_BF16_MIXED, false, false, 256, 704, 4, 4, 2, 1024, 2, 256, 0, false
};

static void test_torch_memory_counts_an_optimizer(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;
    uint64_t adam, bits8;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    adam = use_of(&plan, &config).optimizer;
    setup.optim = "adamw_8bit";
    bits8 = use_of(&plan, &config).optimizer;
    assert_true(bits8 * 3 < adam && bits8 * 5 > adam);
    setup.optim = "sgd";
    assert_int_equal(use_of(&plan, &config).optimizer, 0);
    setup.optim = "paged_adamw_32bit";
    assert_int_equal(use_of(&plan, &config).optimizer, adam);
    assert_true(use_of(&plan, &config).low + adam / 2 <= use_of(&plan, &config).total);
    assert_string_equal(torch_optimizer_find(NULL)->name, "adamw_torch");
    assert_null(torch_optimizer_find("of tomorrow"));
    setup.optim = "of tomorrow";
    assert_int_equal(use_of(&plan, &config).optimizer, adam);
}

/* The linear layers of the blocks of `small`, and all elements. */
static const double small_linear = 4 * (737792.0 - 512);
static const double small_all = 4 * 737792.0 + 2 * 1024 * 256 + 256;

static uint64_t optimizer_with(struct plan *plan, struct torch_setup *setup,
                               const char *optim, int64_t rank)
{
    struct model_config config;

    setup->optim = optim;
    setup->rank = rank;
    read_config(&small, &config);
    return use_of(plan, &config).optimizer;
}

/* Zhao et al., GaLore, 2024, table 1: for a matrix (m, n), m <= n, moments of 2 n r and a
 * projection of m r.  The matrices of `small`: q and o (256, 256), k and v (128, 256),
 * gate, up and down (704, 256). */
static void test_torch_memory_counts_low_ranks(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    const double long_sides = 4 * (2 * 256 + 2 * 256 + 3 * 704),
                 short_sides = 4 * (2 * 256 + 2 * 128 + 3 * 256);
    const double others = small_all - small_linear;

    (void)state;
    plan.torch = &setup;
    for (int64_t rank = 8; rank <= 64; rank *= 2) {
        const double r = (double)rank;

        assert_int_equal(optimizer_with(&plan, &setup, "galore_adamw", rank),
                         (uint64_t)(8 * (others + r * long_sides) + 4 * r * short_sides));
        assert_int_equal(optimizer_with(&plan, &setup, "apollo_adamw", rank),
                         optimizer_with(&plan, &setup, "galore_adamw", rank));
    }
    /* a rank above the shorter side saves nothing of that matrix */
    assert_int_equal(
        optimizer_with(&plan, &setup, "galore_adamw", 4096),
        (uint64_t)(8 * small_all + 4.0 * 4 * (5 * 256.0 * 256 + 2 * 128.0 * 128)));
}

/* Luo et al., BAdam, 2024: the weights, and 16 bytes per weight of one block, of which
 * the gradient is 4; a 16-bit model also has a float32 copy of the block. */
static void test_torch_memory_counts_a_block(void **state)
{
    struct torch_setup setup = { .optim = "use_badam" };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use use;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.gradient_accumulation_steps = 2;
    use = use_of(&plan, &config);
    assert_int_equal(use.optimizer, (uint64_t)(12 * small_linear / 4));
    assert_int_equal(use.gradients, (uint64_t)(4 * small_linear / 4));
}

static void test_torch_memory_frees_gradients_in_the_backward_pass(void **state)
{
    static const char *const names[] = { "lomo", "adalomo", "galore_adamw_layerwise" };
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.gradient_accumulation_steps = 2;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        setup.optim = names[i];
        /* the largest matrix is the classifier */
        assert_int_equal(use_of(&plan, &config).gradients, 4 * 1024 * 256);
    }
    setup.optim = "lomo";
    assert_int_equal(use_of(&plan, &config).optimizer, 0);
}

/* Pairs are two sequences; kto computes a second set of logits; a reference model has
 * 16-bit weights; rm trains a value head. */
static void test_torch_memory_of_stages(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small), twice = plan;
    struct model_config config;
    struct memory_use sft, dpo, with, rm;
    struct error err = { 0 };

    (void)state;
    read_config(&small, &config);
    plan.torch = twice.torch = &setup;
    sft = use_of(&plan, &config);
    twice.per_device_train_batch_size *= 2;
    twice.per_device_eval_batch_size *= 2;
    with = use_of(&twice, &config);
    setup.stage = "dpo";
    dpo = use_of(&plan, &config);
    assert_int_equal(dpo.total, with.total);
    setup.reference = true;
    with = use_of(&plan, &config);
    assert_int_equal(with.weights - dpo.weights, (uint64_t)(2 * small_all));
    setup.stage = "kto";
    with = use_of(&plan, &config);
    assert_true(with.total > sft.total + (uint64_t)(2 * small_all) &&
                with.total < dpo.total + (uint64_t)(2 * small_all));
    setup.stage = "rm";
    rm = use_of(&plan, &config);
    assert_int_equal(rm.weights - sft.weights, 4 * 257);
    setup.stage = "ppo";
    assert_false(torch_memory(&plan, &config, &rm, &err));
}

/* What makes an estimate doubtful; nothing else does. */
static void test_torch_memory_doubts(void **state)
{
    static const struct {
        struct torch_setup setup;
        int64_t ranks;
        bool doubt;
    } cases[] = {
        { { 0 }, 1, false },
        { { .optim = "adamw_8bit" }, 1, false },
        { { .optim = "sgd" }, 1, false },
        { { .optim = "galore_adamw" }, 1, true },
        { { .optim = "of tomorrow" }, 1, true },
        { { .stage = "dpo" }, 1, true },
        { { .deepspeed = true, .sharding_unknown = true }, 8, true },
        { { .deepspeed = true }, 1, false }, /* stage 0 */
        { { .zero_stage = 1 }, 1, true },
        { { .zero_stage = 3 }, 1, true },
        { { .zero_stage = 3, .ranks_given = true }, 1, false },
        { { .zero_stage = 3 }, 8, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of(&small);

        plan.torch = &cases[i].setup;
        plan.ranks = cases[i].ranks;
        if ((torch_memory_doubt(&plan) != NULL) != cases[i].doubt)
            fail_msg("case %zu", i);
        assert_int_equal(torch_memory_lacks_ranks(&plan),
                         cases[i].doubt && cases[i].setup.zero_stage > 0);
    }
    assert_null(torch_memory_doubt(&(struct plan) { .external = true }));
}

/* Rajbhandari et al.: with Adam and 16-bit weights 16 bytes per parameter, of which stage
 * 1 divides 12, stage 2 14, stage 3 all. */
static void test_torch_memory_is_sharded_by_zero_stages(void **state)
{
    struct torch_setup setup = { .deepspeed = true };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use one, use;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.gradient_accumulation_steps = 2; /* gradients exist at all times */
    one = use_of(&plan, &config);
    assert_int_equal(one.optimizer, 6 * one.weights);
    assert_int_equal(one.gradients, one.weights);
    plan.ranks = 8;
    setup.zero_stage = 1;
    use = use_of(&plan, &config);
    assert_int_equal(use.optimizer, one.optimizer / 8);
    assert_int_equal(use.gradients, one.gradients);
    setup.zero_stage = 2;
    use = use_of(&plan, &config);
    assert_int_equal(use.gradients, one.gradients / 8);
    assert_int_equal(use.weights, one.weights);
    setup.zero_stage = 3;
    assert_int_equal(use_of(&plan, &config).weights, one.weights / 8);
    setup.offload_optimizer = true;
    assert_int_equal(use_of(&plan, &config).optimizer, 0);
}

/* With several GPUs, each also has NCCL, with any program. */
static void test_torch_memory_counts_nccl(void **state)
{
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_range group;
    struct memory_use one, two;

    (void)state;
    read_config(&small, &config);
    plan.device = (struct device) { .kind = DEVICE_CUDA, .major = 9 };
    group = memory_group_overhead(&plan.device, 2);
    one = use_of(&plan, &config);
    plan.ranks = 2;
    two = use_of(&plan, &config);
    assert_int_equal(two.total, one.total + group.expected);
    assert_int_equal(two.low, one.low + group.low);
    assert_int_equal(two.high, one.high + group.high);
}

/* The table of LLaMA-Factory: 2 bytes per parameter of a 16-bit base, 8 bits 1, 4 bits
 * 0.5. */
static void test_torch_memory_quantizes_linear_layers(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;
    uint64_t bits16, bits8, bits4, linear = 4 * (uint64_t)(737792 - 512);

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.method = METHOD_LORA;
    bits16 = use_of(&plan, &config).weights;
    setup.quantization_bit = 8;
    bits8 = use_of(&plan, &config).weights;
    setup.quantization_bit = 4;
    bits4 = use_of(&plan, &config).weights;
    assert_int_equal(bits16 - bits8, linear);
    assert_int_equal(bits8 - bits4, linear * 7 / 16);
    plan.precision.frozen = FORMAT_FP32;
    setup.quantization_bit = 0;
    assert_true(use_of(&plan, &config).weights > 19 * bits16 / 10);
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

static void test_torch_memory_of_an_evaluation(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use use;
    struct error err = { 0 };

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    assert_true(torch_memory_eval(&plan, &config, &use, &err));
    assert_int_equal(use.total, 0);
    setup.evaluates = true;
    assert_true(torch_memory_eval(&plan, &config, &use, &err));
    assert_true(use.workspace >= 10ull * 8 * 256 * 1024);
    assert_true(use.total > use.weights + use.optimizer);
}

static void test_torch_memory_of_loading(void **state)
{
    struct plan plan = plan_of(&small);
    struct model_config config;
    uint64_t bits16;

    (void)state;
    read_config(&small, &config);
    bits16 = torch_memory_load(&plan, &config);
    plan.precision.frozen = FORMAT_FP32;
    assert_int_equal(torch_memory_load(&plan, &config), 2 * bits16);
    plan.ranks = 4;
    assert_int_equal(torch_memory_load(&plan, &config), 8 * bits16);
}

/* The largest batch and length that a job may give exceed 2^64 bytes. */
static void test_torch_memory_of_too_much_does_not_wrap(void **state)
{
    struct torch_setup setup = { .plain_attention = true };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use use;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.per_device_train_batch_size = 65536;
    plan.cutoff_len = 16777216;
    use = use_of(&plan, &config);
    assert_true(use.activations >= (uint64_t)1 << 60);
    assert_true(use.low >= (uint64_t)1 << 60 && use.low <= use.high);
    memory_finish(&use, (uint64_t)80 << 30);
    assert_false(use.fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_memory_matches_measurements),
        cmocka_unit_test(test_torch_memory_of_architectures_matches_measurements),
        cmocka_unit_test(test_torch_memory_counts_an_optimizer),
        cmocka_unit_test(test_torch_memory_counts_low_ranks),
        cmocka_unit_test(test_torch_memory_counts_a_block),
        cmocka_unit_test(test_torch_memory_frees_gradients_in_the_backward_pass),
        cmocka_unit_test(test_torch_memory_of_stages),
        cmocka_unit_test(test_torch_memory_doubts),
        cmocka_unit_test(test_torch_memory_is_sharded_by_zero_stages),
        cmocka_unit_test(test_torch_memory_counts_nccl),
        cmocka_unit_test(test_torch_memory_quantizes_linear_layers),
        cmocka_unit_test(test_torch_memory_of_an_evaluation),
        cmocka_unit_test(test_torch_memory_of_an_evaluation_matches_measurements),
        cmocka_unit_test(test_torch_memory_of_loading),
        cmocka_unit_test(test_torch_memory_of_too_much_does_not_wrap),
    };

    return cmocka_run_group_tests_name("torch_memory", tests, setup, teardown);
}
