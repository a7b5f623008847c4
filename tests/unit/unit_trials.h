/*
 * tests/unit/unit_trials.h - trials on a GPU: small models of every architecture, trained
 * in every precision.
 */
#ifndef TESTS_UNIT_UNIT_TRIALS_H
#define TESTS_UNIT_UNIT_TRIALS_H

#include "tests/unit/unit_model.h"

#define VOCABULARY 60

enum { BATCHES = 2 }; /* per step */

/* Models of 32 columns in 2 layers. */
enum base {
    BASE_LLAMA,
    BASE_QWEN2,
    BASE_GPT2,
    BASE_GPT_NEO,
    BASE_GPT_NEOX,
    BASE_QWEN3,
    BASE_GEMMA,
    BASE_PHI3,
    BASE_GEMMA2,
    BASE_GEMMA3,
    BASE_QWEN2_MOE,
    BASE_QWEN3_5,
    BASE_LLAMA4,
    BASES
};

#define START_WITH(model_type, range) \
    "{\"model_type\": \"" model_type  \
    "\", \"vocab_size\": 60, \"hidden_size\": 32, \"initializer_range\": " range ","
#define START(model_type) START_WITH(model_type, "0.15")
static const char *const configs[BASES] = {
    [BASE_LLAMA] =
        START("llama") "\"intermediate_size\": 48, \"num_hidden_layers\": "
                       "2,\"num_attention_heads\": 2, \"num_key_value_heads\": "
                       "1,\"tie_word_embeddings\": true}",
    [BASE_QWEN2] =
        START("qwen2") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                       "2,\"num_attention_heads\": 1, \"num_key_value_heads\": "
                       "1,\"tie_word_embeddings\": false,\"use_sliding_window\": true, "
                       "\"sliding_window\": 4,\"max_window_layers\": 1}",
    [BASE_GPT2] = START("gpt2") "\"n_embd\": 32, \"n_layer\": 2, \"n_head\": "
                                "2,\"n_inner\": 48, \"n_positions\": 32}",
    /* its scores are not scaled */
    [BASE_GPT_NEO] =
        START_WITH("gpt_neo", "0.05") "\"num_layers\": 2, \"num_heads\": "
                                      "2,\"intermediate_size\": 48, \"window_size\": "
                                      "4,\"max_position_embeddings\": 32}",
    [BASE_GPT_NEOX] =
        START("gpt_neox") "\"intermediate_size\": 48, \"num_hidden_layers\": "
                          "2,\"num_attention_heads\": 2, \"rotary_pct\": 0.5}",
    [BASE_GEMMA] =
        START("gemma") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                       "2,\"num_attention_heads\": 2, \"num_key_value_heads\": "
                       "1,\"head_dim\": 16}",
    [BASE_PHI3] = START("phi3") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                                "2,\"num_attention_heads\": 2, \"num_key_value_heads\": "
                                "1,\"sliding_window\": 4}",
    [BASE_GEMMA2] =
        START("gemma2") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                        "2,\"num_attention_heads\": 2, \"num_key_value_heads\": "
                        "1,\"head_dim\": 16, \"query_pre_attn_scalar\": "
                        "9,\"attn_logit_softcapping\": 2.0,\"final_logit_softcapping\": "
                        "3.0, \"sliding_window\": 4}",
    [BASE_GEMMA3] =
        START("gemma3_text") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                             "2,\"num_attention_heads\": 2, \"num_key_value_heads\": "
                             "1,\"head_dim\": 16, \"query_pre_attn_scalar\": "
                             "9,\"sliding_window\": 4, \"sliding_window_pattern\": 2}",
    [BASE_QWEN2_MOE] =
        START("qwen2_moe") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                           "2,\"num_attention_heads\": 2, \"num_experts\": 5, "
                           "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
                           "\"shared_expert_intermediate_size\": 24, "
                           "\"output_router_logits\": true, "
                           "\"router_aux_loss_coef\": 0.1}",
    [BASE_QWEN3_5] = START(
        "qwen3_5_text") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                        "2,\"num_attention_heads\": 2, \"head_dim\": 16, "
                        "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, "
                        "\"linear_key_head_dim\": 16, \"linear_value_head_dim\": 8, "
                        "\"full_attention_interval\": 2}",
    [BASE_LLAMA4] =
        START("llama4_text") "\"intermediate_size\": 24, \"intermediate_size_mlp\": 40, "
                             "\"num_hidden_layers\": 2,\"num_attention_heads\": 2, "
                             "\"num_key_value_heads\": 1, \"head_dim\": 16, "
                             "\"num_local_experts\": 5, \"num_experts_per_tok\": 2, "
                             "\"interleave_moe_layer_step\": 1}",
    [BASE_QWEN3] =
        START("qwen3") "\"intermediate_size\": 40, \"num_hidden_layers\": "
                       "2,\"num_attention_heads\": 2, \"num_key_value_heads\": "
                       "1,\"head_dim\": 16}",
};

/* lora_target_parameters: matrices that are [in][out], whose adapters PEFT transposes. */
static const char *const parameters[BASES] = {
    [BASE_LLAMA4] = "experts.gate_up_proj,experts.down_proj"
};

/* State of all tests of a program, from unit_trials_start to unit_trials_stop. */
static char *bases[BASES]; /* folders */
static struct batch batches[BATCHES];
static size_t rows_max, sequences_max, trained; /* the most of a batch; of both */
static struct device gpus[8];
static size_t gpu_count;

struct trial {
    const char *name;
    enum base base;
    enum mode mode;
    enum format compute;
    int capability; /* the lowest that supports it: 10 * major + minor */
    /* largest distance of gradients from the CPU's, relative to their norm */
    double near;
    bool fp8;
    enum method method;
    bool dora;    /* and noise on the embeddings */
    int64_t bits; /* of the frozen linear layers; 0: the compute format */
    bool checkpointing;
    double dropout;
};

/*
 * A 16-bit value is off by up to half an ulp, 2^-9 for bf16, 2^-12 for fp16; some twenty
 * roundings on the way through two blocks and back, of either sign, add up to about
 * 20^0.5 of that, and twice as much is allowed.  TF32 has as many bits as fp16, but
 * operands of matmuls are truncated: besides random errors of that size, they are smaller
 * by 0.72 * 2^-11 on average: by half of 2^-10 of their leading bit, which is 0.72 of the
 * value.  That adds up over the two operands of a matmul and the ten matmuls that a
 * gradient passes through: its own, four of each block and the head's.  Norms undo the
 * loss on the forward pass.  fp32: only the order of sums differs.  fp8: both round to 8
 * bits alike, except that a bf16 error of 2^-9 moves some values across the midpoint of
 * two neighbors, one in 2^7 of gradients that are 2^-2 apart (E5M2): over all, (2^-9
 * 2^-2)^0.5 of them instead of 2^-9.
 */
#define NEAR_FP32 1e-5
#define NEAR_FP16 (9 * 0x1p-12)
#define NEAR_TF32 (NEAR_FP16 + 10 * 2 * 0.72 * 0x1p-11)
#define NEAR_BF16 (9 * 0x1p-9)
#define NEAR_FP8  0.2

/* mode, compute, capability, near, fp8 */
#define FP32 MODE_FP32, FORMAT_FP32, 60, NEAR_FP32, false
#define TF32 MODE_TF32, FORMAT_TF32, 80, NEAR_TF32, false
#define FP16 MODE_FP16_MIXED, FORMAT_FP16, 60, NEAR_FP16, false
#define BF16 MODE_BF16_MIXED, FORMAT_BF16, 80, NEAR_BF16, false
#define FP8  MODE_BF16_MIXED, FORMAT_BF16, 89, NEAR_FP8, true
#define PURE MODE_BF16_PURE, FORMAT_BF16, 80, NEAR_BF16, false
/* method, dora, bits */
#define FULL  METHOD_FULL, false, 0
#define LORA  METHOD_LORA, false, 0
#define QLORA METHOD_LORA, false, 4
#define DORA  METHOD_LORA, true, 0
#define QDORA METHOD_LORA, true, 4

enum { TRIAL_FP32, TRIAL_FP16 = 3, TRIAL_PURE = 5, TRIAL_DROPOUT = 8 };

static const struct trial trials[] = {
    { "fp32", BASE_LLAMA, FP32, FULL, false, 0 },
    { "fp32 windows", BASE_QWEN2, FP32, FULL, true, 0 },
    { "tf32", BASE_LLAMA, TF32, FULL, false, 0 },
    { "fp16", BASE_QWEN2, FP16, FULL, false, 0 },
    { "bf16", BASE_LLAMA, BF16, FULL, false, 0 },
    { "pure bf16", BASE_QWEN2, PURE, FULL, false, 0 },
    { "lora", BASE_QWEN2, BF16, LORA, false, 0 },
    { "lora fp32", BASE_QWEN2, FP32, LORA, true, 0 },
    { "lora dropout", BASE_LLAMA, FP16, LORA, true, 0.2 },
    { "gpt2", BASE_GPT2, FP32, FULL, true, 0 },
    { "gpt2 fp16", BASE_GPT2, FP16, FULL, false, 0 },
    { "gpt2 lora", BASE_GPT2, BF16, LORA, true, 0 },
    { "gpt_neo", BASE_GPT_NEO, FP32, FULL, false, 0 },
    { "gpt_neox", BASE_GPT_NEOX, FP32, FULL, true, 0 },
    { "gpt_neox bf16", BASE_GPT_NEOX, BF16, FULL, false, 0 },
    { "qwen3", BASE_QWEN3, FP32, FULL, true, 0 },
    { "qwen3 bf16", BASE_QWEN3, BF16, FULL, false, 0 },
    { "gemma", BASE_GEMMA, FP32, FULL, true, 0 },
    { "phi3 lora", BASE_PHI3, BF16, LORA, true, 0 },
    { "gemma2", BASE_GEMMA2, FP32, FULL, true, 0 },
    { "gemma2 bf16", BASE_GEMMA2, BF16, FULL, false, 0 },
    { "gemma3", BASE_GEMMA3, FP32, FULL, true, 0 },
    { "gemma3 lora", BASE_GEMMA3, BF16, LORA, false, 0 },
    { "gpt_neox lora", BASE_GPT_NEOX, FP32, LORA, false, 0 },
    { "qlora", BASE_QWEN2, BF16, QLORA, true, 0 },
    { "qlora fp16", BASE_GPT2, FP16, QLORA, false, 0 },
    { "dora", BASE_QWEN2, BF16, DORA, false, 0 },
    { "dora dropout", BASE_LLAMA, FP32, DORA, true, 0.2 },
    { "qdora fp16", BASE_GPT2, FP16, QDORA, false, 0 },
    { "fp8", BASE_LLAMA, FP8, FULL, false, 0 },
    { "fp8 qwen2", BASE_QWEN2, FP8, FULL, true, 0 },
    { "experts", BASE_QWEN2_MOE, FP32, FULL, false, 0 },
    { "experts, lora", BASE_QWEN2_MOE, FP32, LORA, true, 0 },
    { "all experts, lora", BASE_LLAMA4, FP32, LORA, true, 0 },
    { "all experts, qlora", BASE_LLAMA4, FP32, QLORA, false, 0 },
    { "linear attention", BASE_QWEN3_5, FP32, FULL, false, 0 },
    { "linear attention, qlora bf16", BASE_QWEN3_5, BF16, QLORA, true, 0 },
};

static inline struct plan plan_of(const struct trial *trial)
{
    struct plan plan = unit_plan(bases[trial->base]);
    bool scaled = trial->mode == MODE_FP16_MIXED;

    plan.method = trial->method;
    plan.lora_target_parameters =
        trial->method == METHOD_LORA ? parameters[trial->base] : NULL;
    plan.quantization_bit = trial->bits;
    plan.double_quantization = trial->bits > 0;
    plan.lora_dropout = trial->dropout;
    plan.use_dora = trial->dora;
    plan.neftune_alpha = trial->dora && trial->dropout > 0 ? 5 : 0;
    plan.gradient_checkpointing = trial->checkpointing;
    plan.gradient_accumulation_steps = BATCHES;
    plan.learning_rate = 1e-2;
    plan.weight_decay = 0.1;
    plan.job_digest = "0";
    plan.precision.mode = trial->mode;
    plan.precision.fp8 = trial->fp8;
    plan.precision.compute = plan.precision.frozen = trial->compute;
    if (trial->mode == MODE_BF16_PURE)
        plan.precision.trainable = FORMAT_BF16;
    plan.precision.max_grad_norm = 1;
    plan.precision.scaling = scaled ? SCALING_DYNAMIC : SCALING_NONE;
    plan.precision.loss_scale = scaled ? 1024 : 1;
    return plan;
}

/* A folder of a new model whose norms and biases are not 1 and 0. */
static inline char *base_new(const char *config)
{
    struct plan plan = unit_plan(NULL);
    char *dir = unit_dir_new();
    struct unit_model u;
    struct error err = { 0 };

    plan.train_from_scratch = true;
    plan.model_name_or_path = dir;
    u = unit_model_text(config, plan);
    unit_model_start(&u, 16, 1, 1);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        struct parameter *p = model_parameter(u.model, i);
        float *w = p->weight.data;

        for (size_t j = 0; p->rank == 1 && j < p->cols; j++) /* biases are zero */
            w[j] += 0.1f * (float)random_normal(3, RANDOM_INIT, (uint32_t)i, j);
    }
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    return dir;
}

/* Return the first GPU that can run it; NULL: none can. */
static inline const struct device *gpu_from(int capability)
{
    for (size_t i = 0; i < gpu_count; i++)
        if (10 * gpus[i].major + gpus[i].minor >= capability)
            return &gpus[i];
    return NULL;
}

/* fp16 is for devices with tensor cores. */
static inline const struct device *gpu_for(const struct trial *trial)
{
    const struct device *cores = trial->compute == FORMAT_FP16 ? gpu_from(75) : NULL;

    return cores ? cores : gpu_from(trial->capability);
}

/* `plan` is the trial's, or nearly; run on a GPU, or on the CPU if it is NULL. */
static inline void trial_start(struct unit_model *u, const struct trial *trial,
                               struct plan plan, const struct device *gpu)
{
    static const struct device cpu = { .kind = DEVICE_CPU, .ordinal = -1 };
    struct backend_options with = { .device = gpu ? gpu : &cpu,
                                    .threads = 1,
                                    .tf32 = trial->mode == MODE_TF32 };
    struct error err = { 0 };

    plan.device = *with.device;
    *u = unit_model_text(configs[trial->base], plan);
    u->be = gpu ? backend_cuda.open(&with, &err) : backend_open(&with, &err);
    unit_must(u->be != NULL, &err);
    unit_model_load(u, rows_max, sequences_max);
}

static inline int unit_trials_start(void **state)
{
    static const size_t lengths[BATCHES][3] = { { 9, 5, 14 }, { 11, 8 } };

    (void)state;
    for (size_t i = 0; i < BATCHES; i++) {
        struct batch *b = &batches[i];

        for (size_t j = 0; j < 3 && lengths[i][j] > 0; j++)
            unit_batch_random(b, lengths[i][j], VOCABULARY, (uint32_t)(3 * i + j));
        b->targets[2] = b->targets[3] = LABEL_NONE;
        b->trained -= 2;
        trained += b->trained;
        rows_max = b->rows > rows_max ? b->rows : rows_max;
        sequences_max = b->sequences > sequences_max ? b->sequences : sequences_max;
    }
    for (enum base i = 0; i < BASES; i++)
        bases[i] = base_new(configs[i]);
    return 0;
}

static inline int unit_trials_stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < BATCHES; i++)
        unit_batch_free(&batches[i]);
    for (enum base i = 0; i < BASES; i++)
        unit_dir_free(bases[i]);
    return 0;
}

/* Return whether there are GPUs.  If not, print the plan of a skipped program. */
static inline bool unit_trials_gpus(void)
{
    char note[256] = "";

    gpu_count = backend_cuda.devices("cuda", gpus, TS_COUNT(gpus), note, sizeof(note));
    if (gpu_count == 0)
        printf("1..0 # SKIP no GPU: %s\n", note);
    return gpu_count > 0;
}

#endif
