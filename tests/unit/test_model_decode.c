/* tests/unit/test_model_decode.c - generation with a cache gives the logits of a full
 * forward pass, with the same bits whatever other sequences are generated. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>

#include "tests/unit/unit_model.h"

enum { TOKENS = 40, PROMPT = 7, SLOTS = 3 };

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "6,\"num_key_value_heads\": 2, \"max_position_embeddings\": "
    "64,\"initializer_range\": 0.2, \"tie_word_embeddings\": false}";

/* Every other layer attends to the last 8 rows. */
static const char windowed_text[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "6,\"num_key_value_heads\": 2, \"max_position_embeddings\": 64, \"head_dim\": "
    "8,\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": "
    "1,\"initializer_range\": 0.2, \"tie_word_embeddings\": true}";

/* Head norms of q and k. */
static const char qwen3_text[] =
    "{\"model_type\": \"qwen3\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"max_position_embeddings\": "
    "64,\"initializer_range\": 0.2, \"tie_word_embeddings\": true}";

/* Windows and rotations depend on the layer; embeddings are scaled. */
static const char gemma3_text[] =
    "{\"model_type\": \"gemma3_text\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 1, \"head_dim\": 16, \"max_position_embeddings\": "
    "64,\"sliding_window\": 8, \"sliding_window_pattern\": 2, "
    "\"query_pre_attn_scalar\": 16,\"initializer_range\": 0.2, \"hidden_activation\": "
    "\"gelu_pytorch_tanh\"}";

/* Scores and logits have a soft cap. */
static const char gemma2_text[] =
    "{\"model_type\": \"gemma2\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"max_position_embeddings\": "
    "64,\"sliding_window\": 8, \"query_pre_attn_scalar\": 16, \"initializer_range\": "
    "0.2,\"attn_logit_softcapping\": 5.0, \"final_logit_softcapping\": "
    "3.0,\"hidden_activation\": \"gelu_pytorch_tanh\"}";

/* Layers without a window have larger and fewer key heads, and keys in place of values. */
static const char gemma4_text[] =
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"global_head_dim\": 24, "
    "\"attention_k_eq_v\": true, \"num_global_key_value_heads\": 1, "
    "\"hidden_size_per_layer_input\": 0, \"max_position_embeddings\": 64, "
    "\"sliding_window\": 8, \"sliding_window_pattern\": 2, \"initializer_range\": 0.2}";

/* Layers have inputs of their own, and the last ones the keys and values of earlier ones. */
static const char gemma4_e_text[] =
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 40, \"num_hidden_layers\": 5, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"global_head_dim\": 24, "
    "\"num_kv_shared_layers\": 3, \"use_double_wide_mlp\": true, "
    "\"hidden_size_per_layer_input\": 20, \"vocab_size_per_layer_input\": 97, "
    "\"max_position_embeddings\": 64, \"sliding_window\": 8, "
    "\"sliding_window_pattern\": 2, \"initializer_range\": 0.2}";

/* The same with experts next to the MLPs, which have norms of their own. */
static const char gemma4_moe_text[] =
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"global_head_dim\": 24, "
    "\"enable_moe_block\": true, \"num_experts\": 5, \"top_k_experts\": 2, "
    "\"moe_intermediate_size\": 32, "
    "\"hidden_size_per_layer_input\": 0, \"max_position_embeddings\": 64, "
    "\"sliding_window\": 8, \"sliding_window_pattern\": 2, \"initializer_range\": 0.2}";

/* Linear attention, with a state in place of a cache, and gated attention. */
static const char qwen3_5_text[] =
    "{\"model_type\": \"qwen3_5_text\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 4, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"linear_num_key_heads\": 2, "
    "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 16, "
    "\"linear_value_head_dim\": 8, \"max_position_embeddings\": 64, "
    "\"full_attention_interval\": 2, \"initializer_range\": 0.2}";

/* The same with experts, and with q, k, v and gates in one matrix. */
static const char qwen3_next_text[] =
    "{\"model_type\": \"qwen3_next\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 32, \"moe_intermediate_size\": 20, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4,\"num_key_value_heads\": 2, \"head_dim\": 16, "
    "\"num_experts\": 6, \"num_experts_per_tok\": 2, "
    "\"shared_expert_intermediate_size\": 24, \"linear_num_key_heads\": 2, "
    "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 16, "
    "\"linear_value_head_dim\": 8, \"max_position_embeddings\": 64, "
    "\"full_attention_interval\": 2, \"initializer_range\": 0.2}";

/* Short convolutions, whose last rows are kept. */
static const char lfm2_text[] =
    "{\"model_type\": \"lfm2\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"block_ff_dim\": 80, \"block_multiple_of\": 16, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4,\"num_key_value_heads\": 2, \"conv_bias\": true, "
    "\"max_position_embeddings\": 64, \"full_attn_idxs\": [1, 3], "
    "\"initializer_range\": 0.2}";

/* State space models next to attention, whose states are kept. */
static const char falcon_h1_text[] =
    "{\"model_type\": \"falcon_h1\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 3, \"num_attention_heads\": 4,"
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 64, \"mamba_d_ssm\": 64, "
    "\"mamba_n_heads\": 4, \"mamba_n_groups\": 2, \"mamba_d_state\": 16, "
    "\"mamba_rms_norm\": true, \"mamba_norm_before_gate\": false, "
    "\"attention_out_multiplier\": 0.7, \"key_multiplier\": 0.5, "
    "\"ssm_multipliers\": [0.6, 1.3, 0.7, 1.2, 0.4], \"ssm_out_multiplier\": 0.5, "
    "\"time_step_limit\": [0.0, 0.5], \"initializer_range\": 0.2}";

/* State space models in place of attention. */
static const char granite_hybrid_text[] =
    "{\"model_type\": \"granitemoehybrid\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 24, \"num_hidden_layers\": 3, \"num_attention_heads\": 4,"
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 64, \"mamba_n_heads\": 6, "
    "\"mamba_d_state\": 16, \"num_local_experts\": 4, \"shared_intermediate_size\": 40, "
    "\"layer_types\": [\"mamba\", \"attention\", \"mamba\"], "
    "\"residual_multiplier\": 0.5, \"initializer_range\": 0.2}";

/* Heads that are made of latents. */
static const char deepseek_text[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 4, \"q_lora_rank\": 20, \"kv_lora_rank\": 16, "
    "\"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, "
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
    "\"n_group\": 4, \"topk_group\": 2, \"first_k_dense_replace\": 1, "
    "\"max_position_embeddings\": 64, \"initializer_range\": 0.2}";

/* Linear biases of attention, for a number of heads that is no power of two. */
static const char bloom_text[] =
    "{\"model_type\": \"bloom\", \"vocab_size\": 97, \"hidden_size\": 48, \"n_layer\": 3, "
    "\"n_head\": 6, \"initializer_range\": 0.2}";

/* Attention within chunks, and without rotation every other layer, where queries are scaled
 * by their positions. */
static const char llama4_text[] =
    "{\"model_type\": \"llama4_text\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 24, \"intermediate_size_mlp\": 80, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4,\"num_key_value_heads\": 2, \"head_dim\": 16, "
    "\"num_local_experts\": 3, \"num_experts_per_tok\": 1, \"interleave_moe_layer_step\": 2, "
    "\"no_rope_layer_interval\": 2, \"attention_chunk_size\": 9, \"floor_scale\": 4, "
    "\"attn_scale\": 0.5, \"max_position_embeddings\": 64, \"initializer_range\": 0.2}";

/* Queries are scaled after their rotation. */
static const char ministral3_text[] =
    "{\"model_type\": \"ministral3\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"max_position_embeddings\": 64, "
    "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 4.0, "
    "\"original_max_position_embeddings\": 8, \"llama_4_scaling_beta\": 0.5}, "
    "\"initializer_range\": 0.2}";

/* The same of heads that are made of latents. */
static const char mistral4_text[] =
    "{\"model_type\": \"mistral4\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 4, \"q_lora_rank\": 20, \"kv_lora_rank\": 16, "
    "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, "
    "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
    "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 4.0, "
    "\"original_max_position_embeddings\": 8, \"llama_4_scaling_beta\": 0.5}, "
    "\"max_position_embeddings\": 64, \"initializer_range\": 0.2}";

/* The activation has learned slopes. */
static const char apertus_text[] =
    "{\"model_type\": \"apertus\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"max_position_embeddings\": 64, "
    "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, "
    "\"initializer_range\": 0.2}";

/* LayerNorm of q and k by head, which part of their columns is rotated after. */
static const char stablelm_text[] =
    "{\"model_type\": \"stablelm\", \"vocab_size\": 97, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"qk_layernorm\": true, \"partial_rotary_factor\": 0.5, "
    "\"max_position_embeddings\": 64, \"initializer_range\": 0.2}";

/* Queries, keys and values have a limit. */
static const char dbrx_text[] =
    "{\"model_type\": \"dbrx\", \"vocab_size\": 97, \"d_model\": 48, \"n_layers\": 2, "
    "\"n_heads\": 4, \"max_seq_len\": 64, \"attn_config\": {\"kv_n_heads\": 2, "
    "\"clip_qkv\": 0.5}, \"ffn_config\": {\"ffn_hidden_size\": 40, \"moe_num_experts\": 4, "
    "\"moe_top_k\": 2}, \"initializer_range\": 0.2}";

/* Learned positions. */
static const char gpt2_text[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_embd\": 48, \"n_layer\": "
    "2,\"n_head\": 4, \"n_positions\": 64, \"n_ctx\": 64, \"initializer_range\": "
    "0.2,\"activation_function\": \"gelu_new\"}";

static struct plan generation_plan(void)
{
    struct plan plan = unit_plan("");

    plan.train_from_scratch = true;
    plan.generation = (struct generation) {
        .on = true, .slots = SLOTS, .prompt_max = PROMPT, .max_new_tokens = TOKENS
    };
    return plan;
}

static void random_tokens(int32_t tokens[TOKENS], size_t vocabulary, uint32_t stream)
{
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(random_bits(11, RANDOM_ORDER, stream, i) % vocabulary);
}

/* Return the logits of a forward pass over the first `count` tokens. */
static void full_logits(struct unit_model *u, const int32_t *tokens, size_t count,
                        float *out)
{
    struct batch batch = { 0 };
    struct error err = { 0 };

    unit_batch_add(&batch, tokens, count);
    unit_must(model_logits(u->model, &batch, out, &err), &err);
    unit_batch_free(&batch);
}

static size_t largest(const float *x, size_t count)
{
    size_t at = 0;

    for (size_t i = 1; i < count; i++)
        at = x[i] > x[at] ? i : at;
    return at;
}

static void check_near(const float *is, const float *expected, size_t count, double near)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)is[i] - (double)expected[i]) <= near))
            fail_msg("logit %zu is %.8g, expected %.8g", i, (double)is[i],
                     (double)expected[i]);
    assert_int_equal(largest(is, count), largest(expected, count));
}

/* Generate one sequence in slot `slot` with the given tokens; logits (TOKENS - PROMPT +
 * 1, V).  Other slots start and end sequences according to `others`. */
static void generate(struct unit_model *u, const int32_t *tokens_fed, size_t slot,
                     bool others, float *logits)
{
    size_t vocabulary = u->config.vocab_size;
    float *all = memory_alloc(SLOTS * vocabulary * sizeof(*all));
    int32_t tokens[SLOTS] = { 0 }, lengths[SLOTS] = { 0 }, other[TOKENS];
    struct error err = { 0 };

    random_tokens(other, vocabulary, 2);
    unit_must(model_prefill(u->model, slot, tokens_fed, PROMPT, logits, &err), &err);
    for (size_t i = PROMPT; i < TOKENS; i++) {
        size_t neighbor = (slot + 1 + i % 2) % SLOTS;

        if (others && i % 5 == 0) {
            lengths[neighbor] = (int32_t)(i % 3 + 1);
            unit_must(model_prefill(u->model, neighbor, other, i % 3 + 1, all, &err),
                      &err);
        }
        for (size_t s = 0; s < SLOTS; s++)
            tokens[s] = others && lengths[s] ? other[i] : 0;
        tokens[slot] = tokens_fed[i];
        lengths[slot] = (int32_t)i;
        logits += vocabulary;
        unit_must(model_decode_step(u->model, tokens, lengths, all, &err), &err);
        memcpy(logits, all + slot * vocabulary, vocabulary * sizeof(*logits));
        for (size_t s = 0; s < SLOTS; s++)
            lengths[s] += s != slot && lengths[s] > 0;
    }
    free(all);
}

static float *generated(struct unit_model *u, const int32_t *tokens_fed, size_t slot,
                        bool others)
{
    size_t rows = TOKENS - PROMPT + 1;
    float *logits = memory_alloc(rows * u->config.vocab_size * sizeof(*logits));

    generate(u, tokens_fed, slot, others, logits);
    return logits;
}

static void check_generation(struct unit_model *u, double near)
{
    size_t vocabulary = u->config.vocab_size;
    float *whole = memory_alloc(vocabulary * sizeof(*whole)), *logits;
    int32_t tokens_fed[TOKENS];

    random_tokens(tokens_fed, vocabulary, 1);
    logits = generated(u, tokens_fed, 1, false);
    for (size_t i = PROMPT; i <= TOKENS; i++) {
        full_logits(u, tokens_fed, i, whole);
        check_near(logits + (i - PROMPT) * vocabulary, whole, vocabulary, near);
    }
    free(logits);
    free(whole);
}

static void test_generation_matches_the_forward_pass(void **state)
{
    static const char *const texts[] = {
        config_text,     windowed_text,       qwen3_text,      gemma2_text,
        gemma3_text,     gemma4_text,         gemma4_moe_text, gpt2_text,
        qwen3_5_text,    qwen3_next_text,     deepseek_text,   lfm2_text,
        falcon_h1_text,  granite_hybrid_text, bloom_text,      llama4_text,
        ministral3_text, apertus_text,        stablelm_text,   dbrx_text,
        gemma4_e_text,   mistral4_text
    };

    (void)state;
    /* oneDNN rounds differently for one row and for many */
    setenv("TRAINSPOOL_NO_ONEDNN", "1", 1);
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct unit_model u = unit_model_text(texts[i], generation_plan());

        unit_model_start(&u, TOKENS, 1, 1);
        check_generation(&u, 2e-5);
        unit_model_stop(&u);
    }
    unsetenv("TRAINSPOOL_NO_ONEDNN");
}

/* In 16 bits the two passes round at different points: by half an epsilon of the format
 * each time, about twenty times on the way (as in test_model_cuda.c). */
static void test_generation_matches_the_forward_pass_in_16_bits(void **state)
{
    static const enum format formats[] = { FORMAT_BF16, FORMAT_FP16, FORMAT_BF16,
                                           FORMAT_BF16, FORMAT_BF16 };
    static const char *const texts[] = { gemma3_text, gemma3_text, lfm2_text,
                                         falcon_h1_text, gemma4_e_text };
    float whole[97], *logits;
    int32_t tokens_fed[TOKENS];

    (void)state;
    random_tokens(tokens_fed, 97, 1);
    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct unit_model u = unit_model_text(texts[f], generation_plan());
        double off = 0, all = 0;

        u.plan.precision.compute = formats[f];
        unit_model_start(&u, TOKENS, 1, 2);
        logits = generated(&u, tokens_fed, 1, true);
        for (size_t i = PROMPT; i <= TOKENS; i++) {
            full_logits(&u, tokens_fed, i, whole);
            for (size_t v = 0; v < 97; v++) {
                off += pow(logits[(i - PROMPT) * 97 + v] - whole[v], 2);
                all += pow(whole[v], 2);
            }
        }
        if (!(sqrt(off / all) <= 9 * format_info(formats[f])->epsilon / 2))
            fail_msg("%s: differs by %g", format_info(formats[f])->name, sqrt(off / all));
        free(logits);
        unit_model_stop(&u);
    }
}

static void test_generation_matches_the_forward_pass_of_published_models(void **state)
{
    static const char *const names[] = {
        "data/stories260K/hf",     "data/stories260K/hf-qwen2", "data/made-here/qwen2",
        "data/made-here/gpt_neox", "data/made-here/gpt_neo",    "data/capp-gpt2/hf",
        "data/slm4096/hf",
    };
    size_t done = 0;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        char *dir = unit_shared(names[i]);
        struct unit_model u = { .arena = arena_new(), .plan = generation_plan() };
        struct error err = { 0 };

        if (dir) {
            u.plan.train_from_scratch = false;
            u.plan.model_name_or_path = arena_strdup(u.arena, dir);
        }
        if (dir && model_config_read(dir, u.arena, &u.config, &err)) {
            unit_model_start(&u, TOKENS, 1, 1);
            check_generation(&u, 2e-4);
            unit_model_stop(&u);
            done++;
        } else {
            print_message("# SKIP %s: %s\n", names[i], dir ? err.text : "does not exist");
            arena_free(u.arena);
        }
        free(dir);
    }
    if (done == 0)
        skip();
}

/* Generate with random adapters of a kind. */
static void check_adapters(enum method method)
{
    struct plan plan = generation_plan();
    struct unit_model u;
    struct parameter *p;
    struct error err = { 0 };

    plan.train_from_scratch = false;
    plan.method = method;
    plan.oft_block_size = 12; /* 172 inputs have blocks of another size */
    plan.gradient_checkpointing = true;
    u = unit_model_shared("data/stories260K/hf");
    plan.model_name_or_path = u.plan.model_name_or_path;
    u.plan = plan;
    unit_model_start(&u, TOKENS, 1, 2);
    for (size_t i = 0; i < model_trained_parameters(u.model); i++) {
        float *x;

        p = model_trained(u.model, i);
        x = p->weight.data;
        for (size_t n = 0; n < p->rows * p->cols; n++)
            x[n] = (float)(0.05 * random_normal(3, RANDOM_INIT, (uint32_t)i, n));
        if (p->copy.data)
            u.be->ops->convert(u.be, &(struct op_convert) { p->copy, p->weight });
    }
    unit_must(u.be->ops->sync(u.be, &err), &err);
    check_generation(&u, 2e-4);
    unit_model_stop(&u);
}

/* Folded adapters widen the rows of q, k and v, and rotations are those of the last whole
 * forward pass; recomputed blocks share their buffers. */
static void test_generation_matches_the_forward_pass_while_adapters_train(void **state)
{
    (void)state;
    check_adapters(METHOD_LORA);
    check_adapters(METHOD_OFT);
}

/* Bits do not depend on the slot, the other slots or the threads. */
static void test_generation_is_deterministic(void **state)
{
    size_t bytes = (TOKENS - PROMPT + 1) * 97 * sizeof(float);
    float *expected = NULL;
    int32_t tokens_fed[TOKENS];

    (void)state;
    random_tokens(tokens_fed, 97, 1);
    for (int threads = 1; threads <= 3; threads++) {
        struct unit_model u = unit_model_text(config_text, generation_plan());

        unit_model_start(&u, TOKENS, 1, threads);
        for (size_t slot = 0; slot < SLOTS; slot++)
            for (int others = 0; others < 2; others++) {
                float *logits = generated(&u, tokens_fed, slot, others);

                expected = expected ? expected : logits;
                assert_memory_equal(logits, expected, bytes);
                if (logits != expected)
                    free(logits);
            }
        unit_model_stop(&u);
    }
    free(expected);
}

/* A plan that only generates has no gradients, no moments, and the activations of one
 * block; its logits are the same. */
static void test_generation_without_training_gives_the_same_logits(void **state)
{
    struct unit_model trains = unit_model_text(config_text, generation_plan());
    struct unit_model alone = unit_model_text(config_text, generation_plan());
    int32_t tokens_fed[TOKENS];
    float *left, *right;

    (void)state;
    random_tokens(tokens_fed, 97, 1);
    alone.plan.generation.alone = true;
    unit_model_start(&trains, TOKENS, 1, 1);
    unit_model_start(&alone, TOKENS, 1, 1);
    left = generated(&trains, tokens_fed, 0, false);
    right = generated(&alone, tokens_fed, 0, false);
    assert_memory_equal(left, right, (TOKENS - PROMPT + 1) * 97 * sizeof(float));
    assert_int_equal(model_trainable_elements(alone.model), 0);
    assert_true(model_memory(alone.model)->low * 3 < model_memory(trains.model)->low);
    free(left);
    free(right);
    unit_model_stop(&trains);
    unit_model_stop(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_matches_the_forward_pass),
        cmocka_unit_test(test_generation_matches_the_forward_pass_in_16_bits),
        cmocka_unit_test(test_generation_matches_the_forward_pass_of_published_models),
        cmocka_unit_test(test_generation_matches_the_forward_pass_while_adapters_train),
        cmocka_unit_test(test_generation_is_deterministic),
        cmocka_unit_test(test_generation_without_training_gives_the_same_logits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
