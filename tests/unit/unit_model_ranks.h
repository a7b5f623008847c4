/*
 * tests/unit/unit_model_ranks.h - shared by tests of models in several processes: small
 * models, a plan by kind, a window of micro-batches dealt out to the ranks, hashes.
 */
#ifndef TESTS_UNIT_UNIT_MODEL_RANKS_H
#define TESTS_UNIT_UNIT_MODEL_RANKS_H

#include "base/size.h"
#include "train/model/model.h"

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_ranks.h"

enum { RANKS = UNIT_RANKS, WINDOW = 4, STEPS = 3, ROWS = 9, VOCABULARY = 40 };

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 5, \"num_attention_heads\": "
    "2,\"tie_word_embeddings\": false}";

/* Learned positions, norms with biases, q, k and v as one matrix. */
static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_embd\": 16, \"n_layer\": "
    "4,\"n_head\": 2, \"n_positions\": 9}";

static const char gpt_neox[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2}";

/* One norm for both parts of a parallel block, a head with a bias. */
static const char phi[] =
    "{\"model_type\": \"phi\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2}";

/* A factor of the residual. */
static const char granite[] =
    "{\"model_type\": \"granite\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"residual_multiplier\": 0.4, \"logits_scaling\": 1.7}";

/* No norm before attention and MLP. */
static const char olmo2[] =
    "{\"model_type\": \"olmo2\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2}";

static const char gemma3[] =
    "{\"model_type\": \"gemma3_text\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"head_dim\": 8, \"sliding_window\": "
    "4,\"sliding_window_pattern\": 2}";

/* Heads whose size depends on the layer, and layers without v. */
static const char gemma4[] =
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 2, \"head_dim\": 8, \"global_head_dim\": 12, "
    "\"attention_k_eq_v\": true, \"num_global_key_value_heads\": 1, "
    "\"hidden_size_per_layer_input\": 0, \"sliding_window\": 4, "
    "\"sliding_window_pattern\": 2}";

/* An activation with parameters of its own. */
static const char apertus[] =
    "{\"model_type\": \"apertus\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"rope_parameters\": {\"rope_type\": \"default\"}}";

/* Blocks whose matrices differ: the padding after them does, too. */
static const char lfm2[] =
    "{\"model_type\": \"lfm2\", \"vocab_size\": 40, \"hidden_size\": "
    "18,\"intermediate_size\": 36, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"head_dim\": 6, \"full_attn_idxs\": [1], "
    "\"block_multiple_of\": 8, \"initializer_range\": 0.4}";

/* LayerNorm of heads with parameters of their own, and limits of q, k and v. */
static const char stablelm[] =
    "{\"model_type\": \"stablelm\", \"vocab_size\": 40, \"hidden_size\": "
    "32,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"qk_layernorm\": true}";
static const char cohere[] =
    "{\"model_type\": \"cohere\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"use_qk_norm\": true}";
static const char olmo[] =
    "{\"model_type\": \"olmo\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"clip_qkv\": 0.5}";

static const char granite_hybrid[] =
    "{\"model_type\": \"granitemoehybrid\", \"vocab_size\": 40, \"hidden_size\": "
    "18,\"intermediate_size\": 12, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"head_dim\": 6, \"mamba_n_heads\": 2, "
    "\"mamba_d_state\": 6, \"num_local_experts\": 0, \"shared_intermediate_size\": 20, "
    "\"layer_types\": [\"mamba\", \"attention\", \"mamba\", \"mamba\"], "
    "\"initializer_range\": 0.4}";

/* Attention and state space models, with adapters on both. */
static const char falcon_h1[] =
    "{\"model_type\": \"falcon_h1\", \"vocab_size\": 40, \"hidden_size\": "
    "18,\"intermediate_size\": 36, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"head_dim\": 6, \"mamba_d_ssm\": 20, "
    "\"mamba_n_heads\": 2, \"mamba_d_state\": 6, \"mamba_rms_norm\": true, "
    "\"key_multiplier\": 0.5, \"time_step_limit\": [0.0, 0.4], "
    "\"initializer_range\": 0.4}";

/* Experts next to MLPs, each with norms of its own, in a layer with a window and in one
 * without. */
static const char gemma4_e[] =
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 12, \"num_hidden_layers\": 5, \"num_attention_heads\": "
    "2, \"num_key_value_heads\": 2, \"head_dim\": 8, \"global_head_dim\": 12, "
    "\"num_kv_shared_layers\": 3, \"use_double_wide_mlp\": true, "
    "\"hidden_size_per_layer_input\": 7, \"vocab_size_per_layer_input\": 40, "
    "\"sliding_window\": 4, \"sliding_window_pattern\": 2, \"initializer_range\": 0.2}";

static const char gemma4_moe[] =
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 2, \"head_dim\": 8, \"global_head_dim\": 12, "
    "\"enable_moe_block\": true, \"num_experts\": 3, \"top_k_experts\": 2, "
    "\"moe_intermediate_size\": 12, \"hidden_size_per_layer_input\": 0, "
    "\"sliding_window\": 4, \"sliding_window_pattern\": 2}";

static const char phi3[] =
    "{\"model_type\": \"phi3\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2}";

/* Linear biases, and a norm of the embeddings. */
static const char bloom[] =
    "{\"model_type\": \"bloom\", \"vocab_size\": 40, \"hidden_size\": 16, \"n_layer\": 4, "
    "\"n_head\": 2}";

/* Experts and a load balancing loss. */
static const char qwen3_moe[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"head_dim\": 8, \"num_experts\": 3, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 12, \"mlp_only_layers\": [1], "
    "\"output_router_logits\": true, \"router_aux_loss_coef\": 0.1}";

/* A dense block, experts in groups, one that all rows pass through, and the choice corrected
 * by a vector that is not trained. */
static const char glm4_moe[] =
    "{\"model_type\": \"glm4_moe\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"head_dim\": 8, \"n_routed_experts\": 6, "
    "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12, \"n_group\": 3, "
    "\"topk_group\": 2, \"routed_scaling_factor\": 1.5, \"use_qk_norm\": true}";

/* Sinks, alternate windows, and experts with biases. */
static const char gpt_oss[] =
    "{\"model_type\": \"gpt_oss\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 12, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"head_dim\": 8, \"num_local_experts\": 5, "
    "\"num_experts_per_tok\": 2, \"sliding_window\": 3, \"swiglu_limit\": 0.3, "
    "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 100}}";

/* Sampled experts, whose inputs are multiplied by noise. */
static const char phimoe[] =
    "{\"model_type\": \"phimoe\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"num_local_experts\": 5, \"attention_bias\": true, "
    "\"lm_head_bias\": true, \"router_jitter_noise\": 0.3, \"input_jitter_noise\": 0.1}";

/* Latent attention. */
static const char deepseek_v3[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"q_lora_rank\": 10, \"kv_lora_rank\": 8, "
    "\"qk_nope_head_dim\": 6, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8, "
    "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12, "
    "\"n_group\": 1, \"topk_group\": 1, \"first_k_dense_replace\": 2}";

/* Experts in each second block, norms of heads, and blocks without positions. */
static const char llama4[] =
    "{\"model_type\": \"llama4_text\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 12, \"intermediate_size_mlp\": 28, "
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"head_dim\": 8, \"num_local_experts\": 3, \"num_experts_per_tok\": 1, "
    "\"interleave_moe_layer_step\": 2, \"use_qk_norm\": true}";

/* Norms of heads after their rotation, and an expert that all rows pass through. */
static const char hunyuan_moe[] =
    "{\"model_type\": \"hunyuan_v1_moe\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 12, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 1, \"head_dim\": 8, \"num_experts\": 4, \"moe_topk\": 2}";

/* Linear attention in three of four blocks, gated attention, and a gated expert. */
static const char qwen3_next[] =
    "{\"model_type\": \"qwen3_next\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 1, \"head_dim\": 8, \"linear_num_key_heads\": 2, "
    "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 6, "
    "\"linear_value_head_dim\": 5, \"num_experts\": 4, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 12, \"shared_expert_intermediate_size\": 20}";

/* The head alone fills a bucket. */
static const char headed[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": "
    "16,\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "2,\"tie_word_embeddings\": false}";

/* Changes of a case to a plan for full training of a Llama in fp32 by SGD. */
struct kind {
    enum method method;
    const char *optimizer;
    enum format compute;
    const char *model;
    int64_t zero_stage;
};

/* lora_target_parameters of the running test; NULL: none. */
static const char *unit_parameters;

/* How the ranks of the running test send gradients. */
static enum reduction unit_reduce_dtype;

static inline struct plan plan_of(const struct kind *kind, size_t ranks)
{
    struct plan plan = unit_plan(NULL);

    plan.method = kind->method;
    plan.train_from_scratch = !plan_adapts(&plan);
    plan.lora_target_parameters = unit_parameters;
    plan.oft_block_size = 5; /* which 16 inputs have as 4 */
    plan.optimizer = optimizer_find(kind->optimizer);
    plan.precision.compute = kind->compute;
    plan.precision.max_grad_norm = 0.05;
    plan.weight_decay = 0.1;
    plan.learning_rate = 0.1;
    plan.freeze_trainable_layers = 2;
    plan.ranks = (int64_t)ranks;
    plan.zero_stage = kind->zero_stage;
    plan.reduce_dtype = unit_reduce_dtype;
    return plan;
}

/* Return whether a micro-batch of a window belongs to this rank: 4 on 3 ranks, so one has
 * more. */
static inline bool is_mine(size_t batch, const struct unit_ranks *ranks)
{
    return batch % (size_t)ranks->group.ranks == (size_t)ranks->group.rank;
}

/* Preferences compare two. */
static inline size_t sequences_of(const struct plan *plan)
{
    return plan->stage == STAGE_DPO ? 2 : 1;
}

static inline void make_batch(struct batch *out, const struct plan *plan, uint32_t stream)
{
    size_t sequences = sequences_of(plan);

    *out = (struct batch) { 0 };
    for (size_t i = 0; i < sequences; i++)
        unit_batch_random(out, ROWS / sequences, VOCABULARY,
                          stream + (uint32_t)(1000 * i));
}

static inline struct step_scalars train_window(struct unit_model *u,
                                               const struct unit_ranks *ranks,
                                               int64_t step, size_t window)
{
    struct step_scalars numbers = unit_numbers(u, window * (ROWS - 1), step);
    struct error err = { 0 };
    size_t mine = 0;
    double sum;

    for (size_t i = 0; i < window; i++)
        mine += is_mine(i, ranks);
    model_begin(u->model, &numbers);
    model_expect_batches(u->model, mine,
                         size_divide_up(window, (size_t)ranks->group.ranks));
    for (size_t i = 0; i < window; i++) {
        struct batch batch;

        if (!is_mine(i, ranks))
            continue;
        make_batch(&batch, &u->plan, (uint32_t)(step * WINDOW + (int64_t)i));
        unit_must(model_train(u->model, &batch, i, &err), &err);
        unit_batch_free(&batch);
    }
    unit_must(optimizer_step(u->model, &u->plan, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    return numbers;
}

static inline void start_plan(struct unit_model *u, const char *model, struct plan plan,
                              const struct unit_ranks *ranks)
{
    static struct device device;

    *u = unit_model_text(model, plan);
    if (ranks->group.ranks > 1)
        u->group = &ranks->group;
    unit_ranks_device(ranks->group.rank, &device);
    u->device = &device;
    u->ops = unit_ranks_ops;
    unit_model_start(u, ROWS, sequences_of(&u->plan), 1);
}

static inline const char *model_of(const struct kind *kind)
{
    return kind->model ? kind->model : llama;
}

static inline void start(struct unit_model *u, const struct kind *kind,
                         const struct unit_ranks *ranks)
{
    start_plan(u, model_of(kind), plan_of(kind, (size_t)ranks->group.ranks), ranks);
}

/* Download a tensor of the backend; malloc'ed. */
static inline void *fetch(struct unit_model *u, struct tensor t)
{
    void *out = memory_alloc(tensor_bytes(t));
    struct error err = { 0 };

    u->be->ops->download(u->be, out, t.data, tensor_bytes(t));
    unit_must(u->be->ops->sync(u->be, &err), &err);
    return out;
}

static inline uint64_t hash_of(struct unit_model *u, struct tensor t)
{
    unsigned char *bytes = fetch(u, t);
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < tensor_bytes(t); i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    free(bytes);
    return hash;
}

/* Return the hash of what every rank has of a trained parameter. */
static inline uint64_t hash_of_trained(struct unit_model *u, size_t index)
{
    const struct parameter *p = model_trained(u->model, index);

    return hash_of(u, p->sharded ? p->copy : p->weight);
}

/* The base of an adapter: the same in each rank, because it has one seed. */
static inline char *base_new(const char *config)
{
    struct plan plan = unit_plan("");
    char *dir = unit_dir_new();
    struct unit_model u;
    struct error err = { 0 };

    plan.train_from_scratch = true;
    u = unit_model_text(config, plan);
    unit_model_start(&u, ROWS, 1, 1);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    return dir;
}

#endif
