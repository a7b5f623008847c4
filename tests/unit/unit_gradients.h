/*
 * tests/unit/unit_gradients.h - tiny models, and the comparison of every gradient of one, run in
 * double precision, with finite differences, and of the CPU's with those in double.
 */
#ifndef TESTS_UNIT_UNIT_GRADIENTS_H
#define TESTS_UNIT_UNIT_GRADIENTS_H

#include "tests/reference/backend_double.h"
#include "tests/unit/unit_model.h"
#include "train/model/model_internal.h"

/* Llama 3 rotation, an untied head, head size other than width / heads, all biases. */
static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 8, \"attention_bias\": "
    "true,\"mlp_bias\": true, \"initializer_range\": 0.2, \"rope_theta\": "
    "50.0,\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4.0, "
    "\"low_freq_factor\": 1.0,\"high_freq_factor\": 4.0, "
    "\"original_max_position_embeddings\": 16}}";

/* A tied head, and a window in the upper block. */
static const char qwen2[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 1, \"tie_word_embeddings\": true, "
    "\"initializer_range\": 0.2,\"use_sliding_window\": true, \"sliding_window\": 5, "
    "\"max_window_layers\": 1}";

/* Learned positions, an untied head, GELU by erf. */
#define GPT2                                                                           \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_embd\": 24, \"n_layer\": 2,"   \
    "\"n_head\": 4, \"n_inner\": 36, \"n_positions\": 16, \"initializer_range\": 0.2," \
    "\"activation_function\": \"gelu\", \"tie_word_embeddings\": false,"
static const char gpt2[] =
    GPT2 "\"embd_pdrop\": 0, \"resid_pdrop\": 0, \"attn_pdrop\": 0}";

/* Parallel blocks, and half of each head rotated. */
#define GPT_NEOX                                                                       \
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 40, \"hidden_size\": 24,"          \
    "\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": 3," \
    "\"rotary_pct\": 0.5, \"initializer_range\": 0.2"
static const char gpt_neox[] = GPT_NEOX "}";

/* The models' own dropout: all kinds together, and each alone. */
static const char gpt2_drops[] =
    GPT2 "\"embd_pdrop\": 0.2, \"resid_pdrop\": 0.3, \"attn_pdrop\": 0.4}";
static const char gpt2_drops_embed[] =
    GPT2 "\"embd_pdrop\": 0.2, \"resid_pdrop\": 0, \"attn_pdrop\": 0}";
static const char gpt2_drops_added[] =
    GPT2 "\"embd_pdrop\": 0, \"resid_pdrop\": 0.3, \"attn_pdrop\": 0}";
static const char gpt_neox_drops[] =
    GPT_NEOX ", \"hidden_dropout\": 0.3, \"attention_dropout\": 0.2}";
static const char phi3_drops[] =
    "{\"model_type\": \"phi3\", \"vocab_size\": 40, \"hidden_size\": 24, "
    "\"pad_token_id\": null,\"intermediate_size\": 36, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4,\"initializer_range\": 0.2, \"resid_pdrop\": 0.3, "
    "\"attention_dropout\": 0.2}";
static const char *const drops[] = { gpt2_drops, gpt2_drops_embed, gpt2_drops_added,
                                     gpt_neox_drops, phi3_drops };

/* Head norms and norms of attention and MLP outputs, two bases of rotation, scaled
 * embeddings; no token is padding, so every embedding has a gradient. */
static const char gemma3[] =
    "{\"model_type\": \"gemma3_text\", \"pad_token_id\": null, \"vocab_size\": 40, "
    "\"hidden_size\": 24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4,\"num_key_value_heads\": 2, \"head_dim\": 8, "
    "\"initializer_range\": 0.2,\"sliding_window\": 5, \"sliding_window_pattern\": 2, "
    "\"query_pre_attn_scalar\": 6}";

/* Scores and logits with a soft cap. */
static const char gemma2[] =
    "{\"model_type\": \"gemma2\", \"pad_token_id\": null, \"vocab_size\": 40, "
    "\"hidden_size\": 24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4,\"num_key_value_heads\": 2, \"head_dim\": 8, "
    "\"initializer_range\": 0.2,\"sliding_window\": 5, \"query_pre_attn_scalar\": 6, "
    "\"attn_logit_softcapping\": 1.5,\"final_logit_softcapping\": 2.0}";

/* One norm for both parts of a parallel block, a head with a bias. */
static const char phi[] =
    "{\"model_type\": \"phi\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "3,\"initializer_range\": 0.2}";

/* Factors of the embeddings, the scores, the residual and the logits, with biases. */
static const char granite[] =
    "{\"model_type\": \"granite\", \"vocab_size\": 40, \"hidden_size\": 24, "
    "\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"initializer_range\": 0.2, \"attention_bias\": true, "
    "\"mlp_bias\": true, \"embedding_multiplier\": 3, \"attention_multiplier\": 0.3, "
    "\"residual_multiplier\": 0.4, \"logits_scaling\": 1.7}";

/* No norm before attention and MLP, norms of all heads of q and of k at once. */
static const char olmo2[] =
    "{\"model_type\": \"olmo2\", \"pad_token_id\": null, \"vocab_size\": 40, "
    "\"hidden_size\": 24, \"intermediate_size\": 36, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"initializer_range\": 0.2}";

/* LayerNorm without a bias, adjacent columns rotated in layers with a window, scaled
 * logits. */
static const char cohere2[] =
    "{\"model_type\": \"cohere2\", \"pad_token_id\": null, \"vocab_size\": 40, "
    "\"hidden_size\": 24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 3,\"initializer_range\": 0.2, \"logit_scale\": 0.5, "
    "\"sliding_window\": 5, \"sliding_window_pattern\": 2}";

/* Weights of norms are distances from 1: they start as 1, so factors are 2, and smaller
 * matrices keep the loss smooth enough for differences.  GELU, for the same reason. */
static const char nemotron[] =
    "{\"model_type\": \"nemotron\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "3,\"initializer_range\": 0.1, \"hidden_act\": \"gelu\"}";

/* Experts next to an MLP that all rows pass through, and a block without experts. */
static const char qwen2_moe[] =
    "{\"model_type\": \"qwen2_moe\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "3,\"initializer_range\": 0.2, \"num_experts\": 3, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 12, \"shared_expert_intermediate_size\": 20, "
    "\"mlp_only_layers\": [1]}";

/* Latent attention, with and without a latent of q, and values that are narrower than
 * keys. */
static const char deepseek_v3[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"initializer_range\": 0.4, \"q_lora_rank\": 10, "
    "\"kv_lora_rank\": 8, \"qk_nope_head_dim\": 6, \"qk_rope_head_dim\": 4, "
    "\"v_head_dim\": 8, \"n_routed_experts\": 3, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 20, \"n_group\": 1, \"topk_group\": 1, "
    "\"first_k_dense_replace\": 1}";
static const char youtu[] =
    "{\"model_type\": \"youtu\", \"vocab_size\": 40, \"hidden_size\": "
    "24,\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"initializer_range\": 0.3, \"q_lora_rank\": null, "
    "\"kv_lora_rank\": 8, \"qk_nope_head_dim\": 6, \"qk_rope_head_dim\": 4, "
    "\"v_head_dim\": 8}";

/* Layers with inputs of their own, the last of which uses the keys and values of another. */
static const char gemma4_e[] =
    "{\"model_type\": \"gemma4_text\", \"pad_token_id\": null, \"vocab_size\": 40, "
    "\"hidden_size\": 24,\"intermediate_size\": 36, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 8, "
    "\"global_head_dim\": 8, \"num_kv_shared_layers\": 1, \"use_double_wide_mlp\": true, "
    "\"hidden_size_per_layer_input\": 16, \"vocab_size_per_layer_input\": 40, "
    "\"sliding_window\": 5, \"sliding_window_pattern\": 2, \"initializer_range\": 0.3}";

static const char *const others[] = { gpt2,     gpt_neox,  gemma2,      gemma3,
                                      phi,      granite,   olmo2,       cohere2,
                                      nemotron, qwen2_moe, deepseek_v3, youtu };

enum { VOCABULARY = 40 }; /* of all models */

static struct batch batch;

static inline int setup(void **state)
{
    (void)state;
    unit_batch_random(&batch, 13, VOCABULARY, 1);
    unit_batch_random(&batch, 1, VOCABULARY, 2);
    unit_batch_random(&batch, 9, VOCABULARY, 3);
    batch.targets[3] = batch.targets[4] = LABEL_NONE;
    batch.trained -= 2;
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    unit_batch_free(&batch);
    return 0;
}

/* Update the copy after weights of p have been changed. */
static inline void update_copy(struct unit_model *u, const struct parameter *p)
{
    if (p->copy.data)
        u->be->ops->convert(u->be,
                            &(struct op_convert) { .out = p->copy, .x = p->weight });
}

/* Move the weights that are zero or one in a new model. */
static inline void perturb(struct unit_model *u)
{
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        struct parameter *p = model_parameter(u->model, i);
        float *w = p->weight.data;

        if (p->rank == 2 && !strstr(p->name, "lora_B"))
            continue;
        for (size_t j = 0; j < p->rows * p->cols; j++)
            w[j] += 0.2f * (float)random_normal(3, RANDOM_INIT, (uint32_t)i, j);
        u->be->ops->upload(u->be, w, w, p->rows * p->cols * sizeof(*w));
        update_copy(u, p);
    }
}

/* Set the kept logits of a teacher: some tokens and their logits for each row. */
static inline void set_teacher_logits(struct unit_model *u)
{
    enum { KEPT = 3 };
    size_t count = batch.rows * KEPT;
    int32_t *ids = memory_alloc(count * sizeof(*ids));
    float *values = memory_alloc(count * sizeof(*values));

    for (size_t i = 0; i < count; i++) {
        ids[i] = (int32_t)(i % KEPT * 13 + i % 7);
        values[i] = (float)random_normal(9, RANDOM_INIT, 0, i);
    }
    model_set_teacher_logits(u->model, batch.rows, ids, values, VOCABULARY);
    free(ids);
    free(values);
}

/* Compute the gradients of the batch. */
static inline void train(struct unit_model *u)
{
    if (u->plan.stage == STAGE_DISTILL)
        set_teacher_logits(u);
    unit_train(u, &batch);
}

/* Return whether evaluation and training have different losses. */
static inline bool differs(const struct unit_model *u)
{
    return u->plan.lora_dropout > 0 || u->plan.label_smoothing > 0 ||
           u->plan.neftune_alpha > 0 || u->plan.stage == STAGE_DISTILL ||
           u->config.embed_dropout > 0 || u->config.residual_dropout > 0 ||
           u->config.attention_dropout > 0;
}

/* Return the loss that gradients belong to, in double. */
static inline double exact_loss(struct unit_model *u)
{
    double_take_loss(u->be);
    if (differs(u))
        train(u);
    else
        unit_loss(u, &batch);
    return double_take_loss(u->be) * (double)(1 / (float)batch.trained);
}

/* A parameter, its original values, and a direction of length 1. */
struct line {
    struct unit_model *u;
    struct parameter *p;
    size_t count;
    double *numbers, *was, *along;
};

static inline double loss_at(const struct line *line, double by)
{
    for (size_t i = 0; i < line->count; i++)
        line->numbers[i] = line->was[i] + by * line->along[i];
    update_copy(line->u, line->p);
    return exact_loss(line->u);
}

/* Fourth-order difference: the error is the fifth derivative times h^4, and 1e-13 from
 * rounding. */
static inline double slope_of(const struct line *line)
{
    double h = 1e-3, slope;

    slope = 8 * (loss_at(line, h) - loss_at(line, -h));
    slope -= loss_at(line, 2 * h) - loss_at(line, -2 * h);
    memcpy(line->numbers, line->was, line->count * sizeof(double));
    update_copy(line->u, line->p);
    return slope / (12 * h);
}

static inline double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Check that the slope along a direction is that of the gradient g, whose norm is
 * given. */
static inline void check_along(const struct line *line, const double *g, double norm)
{
    double length = sqrt(dot(line->along, line->along, line->count)), slope, expected;

    for (size_t i = 0; i < line->count; i++)
        line->along[i] /= length;
    slope = slope_of(line);
    expected = dot(g, line->along, line->count);
    if (!(fabs(slope - expected) <= 1e-6 * norm))
        fail_msg("%s: the loss rises by %.12f, but the gradient gives %.12f of %.12f",
                 line->p->name, slope, expected, norm);
}

/* Check along the gradient itself, and along a random direction, which detects errors
 * orthogonal to it. */
static inline void check(struct unit_model *u, struct parameter *p)
{
    size_t count = p->rows * p->cols, bytes = count * sizeof(double);
    double *room = memory_alloc(3 * bytes), *g = room + 2 * count, norm;
    struct line line = { u,    p,           count, double_values(u->be, p->weight.data),
                         room, room + count };

    memcpy(line.was, line.numbers, bytes);
    memcpy(g, double_values(u->be, p->grad.data), bytes);
    memcpy(line.along, g, bytes);
    norm = sqrt(dot(g, g, count));
    if (!(norm > 1e-4))
        fail_msg("%s has no gradient", p->name);
    check_along(&line, g, norm);
    for (size_t i = 0; i < count; i++)
        line.along[i] = random_normal(5, RANDOM_INIT, 0, i);
    check_along(&line, g, norm);
    free(room);
}

/* Compare the CPU's gradients of the same weights, in fp32. */
static inline void check_fp32(struct unit_model *exact, struct unit_model *fp32)
{
    for (size_t i = 0; i < model_parameters(exact->model); i++) {
        const struct parameter *p = model_parameter(exact->model, i);
        const struct parameter *q = model_parameter(fp32->model, i);
        const double *expected =
            p->trainable ? double_values(exact->be, p->grad.data) : NULL;
        const float *is = q->grad.data;
        double off = 0, square = 0;

        for (size_t j = 0; expected && j < p->rows * p->cols; j++) {
            off += ((double)is[j] - expected[j]) * ((double)is[j] - expected[j]);
            square += expected[j] * expected[j];
        }
        if (!(sqrt(off) <= 1e-5 * sqrt(square)))
            fail_msg("%s: the gradient in fp32 has a relative error of %.2g", p->name,
                     sqrt(off / square));
    }
}

static inline void keep_norm(struct backend *be, const struct op_dora_norm *op)
{
    (void)be;
    (void)op;
}

/* The gradients of decomposed adapters treat the norms of rows as constants: keep those of
 * the last pass. */
static inline void keep_norms(struct unit_model *u, struct backend_ops *ops)
{
    *ops = *u->be->ops;
    ops->dora_norm = keep_norm;
    u->be->ops = ops;
}

/* Compare the model in double with finite differences, and the CPU's gradients with the
 * model in double: the same code of train/ with two sets of operations. */
static inline void check_all(struct unit_model *u)
{
    struct unit_model fp32 = *u;
    const struct backend_ops *original;
    struct backend_ops kept;
    size_t checked = 0;

    u->ops = &backend_double;
    unit_model_start(u, batch.rows, batch.sequences, 1);
    unit_model_start(&fp32, batch.rows, batch.sequences, 1);
    perturb(u);
    perturb(&fp32);
    train(u);
    train(&fp32);
    check_fp32(u, &fp32);
    original = u->be->ops;
    keep_norms(u, &kept);
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        struct parameter *p = model_parameter(u->model, i);

        if (!p->trainable)
            continue;
        train(u);
        check(u, p);
        checked++;
    }
    assert_true(checked > 0);
    u->be->ops = original;
    fp32.arena = NULL;
    unit_model_stop(&fp32);
    unit_model_stop(u);
}

static inline struct plan scratch(void)
{
    struct plan plan = unit_plan(NULL);

    plan.train_from_scratch = true;
    return plan;
}

/* Save a model from scratch, as a base for adapters. */
static inline char *base_of(const char *text)
{
    struct unit_model u = unit_model_text(text, scratch());
    char *dir = unit_dir_new();
    struct error err = { 0 };

    u.plan.model_name_or_path = dir;
    unit_model_start(&u, batch.rows, batch.sequences, 1);
    perturb(&u);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    return dir;
}

#endif
