/* tests/unit/test_model_gradients.c - compares every gradient of tiny models, run in
 * double, with finite differences of the loss, and the CPU's gradients with these. */
#include "config.h"

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

static int setup(void **state)
{
    (void)state;
    unit_batch_random(&batch, 13, VOCABULARY, 1);
    unit_batch_random(&batch, 1, VOCABULARY, 2);
    unit_batch_random(&batch, 9, VOCABULARY, 3);
    batch.targets[3] = batch.targets[4] = LABEL_NONE;
    batch.trained -= 2;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unit_batch_free(&batch);
    return 0;
}

/* Update the copy after weights of p have been changed. */
static void update_copy(struct unit_model *u, const struct parameter *p)
{
    if (p->copy.data)
        u->be->ops->convert(u->be,
                            &(struct op_convert) { .out = p->copy, .x = p->weight });
}

/* Move the weights that are zero or one in a new model. */
static void perturb(struct unit_model *u)
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
static void set_teacher_logits(struct unit_model *u)
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
static void train(struct unit_model *u)
{
    if (u->plan.stage == STAGE_DISTILL)
        set_teacher_logits(u);
    unit_train(u, &batch);
}

/* Return whether evaluation and training have different losses. */
static bool differs(const struct unit_model *u)
{
    return u->plan.lora_dropout > 0 || u->plan.label_smoothing > 0 ||
           u->plan.neftune_alpha > 0 || u->plan.stage == STAGE_DISTILL ||
           u->config.embed_dropout > 0 || u->config.residual_dropout > 0 ||
           u->config.attention_dropout > 0;
}

/* Return the loss that gradients belong to, in double. */
static double exact_loss(struct unit_model *u)
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

static double loss_at(const struct line *line, double by)
{
    for (size_t i = 0; i < line->count; i++)
        line->numbers[i] = line->was[i] + by * line->along[i];
    update_copy(line->u, line->p);
    return exact_loss(line->u);
}

/* Fourth-order difference: the error is the fifth derivative times h^4, and 1e-13 from
 * rounding. */
static double slope_of(const struct line *line)
{
    double h = 1e-3, slope;

    slope = 8 * (loss_at(line, h) - loss_at(line, -h));
    slope -= loss_at(line, 2 * h) - loss_at(line, -2 * h);
    memcpy(line->numbers, line->was, line->count * sizeof(double));
    update_copy(line->u, line->p);
    return slope / (12 * h);
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Check that the slope along a direction is that of the gradient g, whose norm is
 * given. */
static void check_along(const struct line *line, const double *g, double norm)
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
static void check(struct unit_model *u, struct parameter *p)
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
static void check_fp32(struct unit_model *exact, struct unit_model *fp32)
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

static void keep_norm(struct backend *be, const struct op_dora_norm *op)
{
    (void)be;
    (void)op;
}

/* The gradients of decomposed adapters treat the norms of rows as constants: keep those of
 * the last pass. */
static void keep_norms(struct unit_model *u, struct backend_ops *ops)
{
    *ops = *u->be->ops;
    ops->dora_norm = keep_norm;
    u->be->ops = ops;
}

/* Compare the model in double with finite differences, and the CPU's gradients with the
 * model in double: the same code of train/ with two sets of operations. */
static void check_all(struct unit_model *u)
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

static struct plan scratch(void)
{
    struct plan plan = unit_plan(NULL);

    plan.train_from_scratch = true;
    return plan;
}

static void test_model_gradients_llama(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());

    (void)state;
    check_all(&u);
}

static void test_model_gradients_qwen2(void **state)
{
    struct unit_model u = unit_model_text(qwen2, scratch());

    (void)state;
    u.plan.label_smoothing = 0.1;
    check_all(&u);
}

/* With adapters, the loss is not smooth enough for differences; test_architectures.c compares
 * their gradients. */
static void test_model_gradients_of_inputs_of_layers(void **state)
{
    struct unit_model u = unit_model_text(gemma4_e, scratch());

    (void)state;
    check_all(&u);
}

static void test_model_gradients_of_other_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        struct unit_model u = unit_model_text(others[i], scratch());

        check_all(&u);
    }
}

static void test_model_gradients_with_noise(void **state)
{
    const char *const texts[] = { llama, gpt2 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct unit_model u = unit_model_text(texts[i], scratch());

        u.plan.neftune_alpha = 5;
        check_all(&u);
    }
}

/* transformers' neftune_post_forward_hook: within alpha / sqrt(length * width). */
static void test_noise_of_embeddings_has_its_size(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());
    size_t cols = u.config.hidden_size, longest = 0;
    const struct shape_buffer *b;
    const float *x, *table;
    double magnitude;

    (void)state;
    u.plan.neftune_alpha = 5;
    unit_model_start(&u, batch.rows, batch.sequences, 1);
    for (size_t i = 0; i < batch.sequences; i++)
        longest = (size_t)fmax((double)longest, batch.offsets[i + 1] - batch.offsets[i]);
    magnitude = 5 / sqrt((double)(size_round(longest, 8) * cols));
    train(&u);
    b = &u.model->shapes.buffers[BUFFER_X_IN];
    x = (const float *)(void *)(u.model->buffers + b->at);
    table = u.model->embed->weight.data;
    for (size_t i = 0; i < batch.rows * cols; i++) {
        size_t token = (size_t)batch.tokens[i / cols];
        double noise = (double)x[i] - (double)table[token * cols + i % cols];
        double uniform = random_uniform((uint64_t)u.plan.seed, RANDOM_NOISE, 0, i);

        assert_true(fabs(noise - magnitude * (2 * uniform - 1)) <=
                    1e-6 * magnitude + 1e-6);
    }
    unit_loss(&u, &batch); /* none in an evaluation */
    for (size_t i = 0; i < batch.rows * cols; i++)
        assert_true(x[i] == table[(size_t)batch.tokens[i / cols] * cols + i % cols]);
    unit_model_stop(&u);
}

static void test_model_gradients_with_the_models_own_dropout(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(drops); i++)
        for (int recomputed = 0; recomputed < 2; recomputed++) {
            struct unit_model u = unit_model_text(drops[i], scratch());

            u.plan.gradient_checkpointing = recomputed;
            check_all(&u);
        }
}

/* With kept logits of a teacher, and each of the distances. */
static void test_model_gradients_in_distillation(void **state)
{
    static const double betas[] = { 0, 0.5, 0 };
    static const char *const texts[] = { qwen2, llama, gemma2 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(betas); i++) {
        struct unit_model u = unit_model_text(texts[i], scratch());

        u.plan.stage = STAGE_DISTILL;
        u.plan.kd = (struct distillation_settings) {
            .logits = "kept", .ratio = 0.7, .temperature = 2, .beta = betas[i], .topk = 3
        };
        check_all(&u);
    }
}

/* Save a model from scratch, as a base for adapters. */
static char *base_of(const char *text)
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

static void check_adapters(const char *text, const char *target, double dropout)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = target;
    u.plan.lora_dropout = dropout;
    check_all(&u);
    unit_dir_free(dir);
}

static void check_decomposed(const char *text, const char *target, double dropout)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = target;
    u.plan.lora_dropout = dropout;
    u.plan.use_dora = true;
    check_all(&u);
    unit_dir_free(dir);
}

static void test_model_gradients_dora(void **state)
{
    (void)state;
    check_decomposed(llama, "all", 0);
    check_decomposed(llama, "all", 0.25);
    check_decomposed(qwen2, "k_proj,down_proj", 0.25);
    check_decomposed(qwen2, "q_proj,v_proj,o_proj", 0);
    check_decomposed(gpt2, "all", 0);
    check_decomposed(gpt_neox_drops, "all", 0.25);
    check_decomposed(gpt_neox, "dense,dense_4h_to_h", 0);
}

static void check_rotated(const char *text, const char *target, int64_t size)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_OFT;
    u.plan.oft_target = target;
    u.plan.oft_block_size = size;
    check_all(&u);
    unit_dir_free(dir);
}

/* Layers that rotate their input are next to some that do not, and have one block or
 * several. */
static void test_model_gradients_oft(void **state)
{
    (void)state;
    check_rotated(llama, "all", 4);
    check_rotated(qwen2, "k_proj,down_proj", 2);
    check_rotated(qwen2, "q_proj,v_proj,o_proj,up_proj", 64);
    check_rotated(gpt_neox, "all", 4);
    check_rotated(qwen2_moe, "q_proj,o_proj", 4);
    check_rotated(gpt_neox_drops, "dense,dense_4h_to_h", 8);
}

static void test_model_gradients_lora(void **state)
{
    (void)state;
    check_adapters(llama, "all", 0);
}

static void test_model_gradients_lora_of_other_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        check_adapters(others[i], "all", 0);
        check_adapters(others[i], "all", 0.3);
    }
    check_adapters(gpt2, "mlp.c_proj", 0);
    check_adapters(gpt_neox, "dense", 0);
}

static void test_model_gradients_lora_on_some_layers(void **state)
{
    (void)state;
    check_adapters(qwen2, "k_proj,up_proj", 0);
    check_adapters(qwen2, "down_proj", 0);
    check_adapters(qwen2, "q_proj,v_proj", 0);
}

static void test_model_gradients_lora_with_dropout(void **state)
{
    (void)state;
    check_adapters(llama, "all", 0.25);
    for (size_t i = 0; i < TS_COUNT(drops); i++)
        check_adapters(drops[i], "all", 0);
    check_adapters(gpt_neox_drops, "all", 0.25);
}

static void check_additional(const char *text, const char *target, const char *more)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = target;
    u.plan.additional_target = more;
    check_all(&u);
    unit_dir_free(dir);
}

static void test_model_gradients_additional_target(void **state)
{
    (void)state;
    check_additional(qwen2, "q_proj,v_proj", "embed_tokens,k_proj,norm");
    check_additional(gpt2, "c_attn", "wpe,ln_2");
    check_additional(gpt2, "mlp.c_proj", "ln_f,lm_head");
    check_additional(gpt2_drops, "mlp.c_proj", "wte,wpe");
    check_additional(gpt_neox, "dense_h_to_4h", "embed_in,query_key_value");
    check_additional(phi, "fc1", "lm_head,input_layernorm");
    check_additional(gemma3, "o_proj", "post_attention_layernorm,k_norm");
}

static void check_frozen(const char *text, const char *modules)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_FREEZE;
    u.plan.freeze_trainable_layers = 1;
    u.plan.freeze_trainable_modules = modules;
    check_all(&u);
    unit_dir_free(dir);
}

/* The backward pass stops at a different point in each case. */
static void test_model_gradients_of_last_layers(void **state)
{
    static const struct {
        const char *text, *modules;
    } cases[] = {
        { llama, "all" },
        { llama, "mlp" },
        { llama, "self_attn" },
        { llama, "post_attention_layernorm" },
        { gpt2, "attn" },
        { gpt2, "ln_2" },
        { gpt2_drops, "attn" },
        { gpt_neox_drops, "mlp" },
        { gpt_neox, "all" },
        { gpt_neox, "mlp" },
        { gpt_neox, "attention" },
        { gpt_neox, "input_layernorm" },
        { gpt_neox, "post_attention_layernorm" },
        { phi, "mlp" },
        { granite, "self_attn" },
        { olmo2, "mlp" },
        { olmo2, "self_attn" },
        { olmo2, "post_feedforward_layernorm" },
        { phi, "self_attn" },
        { phi, "input_layernorm" },
        { gemma3, "mlp" },
        { gemma3, "post_attention_layernorm" },
        { gemma3, "post_feedforward_layernorm" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        check_frozen(cases[i].text, cases[i].modules);
}

/* Layers without gradients are between those that are trained. */
static void test_model_gradients_of_expanded_layers(void **state)
{
    static const char text[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"intermediate_size\": 12, \"num_hidden_layers\": 4, "
        "\"num_attention_heads\": 2, \"initializer_range\": 0.2}";
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    (void)state;
    u.plan.method = METHOD_FREEZE;
    u.plan.use_llama_pro = true;
    u.plan.freeze_trainable_layers = 2;
    u.plan.freeze_trainable_modules = "all";
    check_all(&u);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_gradients_llama),
        cmocka_unit_test(test_model_gradients_qwen2),
        cmocka_unit_test(test_model_gradients_of_expanded_layers),
        cmocka_unit_test(test_model_gradients_of_other_architectures),
        cmocka_unit_test(test_model_gradients_of_inputs_of_layers),
        cmocka_unit_test(test_model_gradients_with_noise),
        cmocka_unit_test(test_noise_of_embeddings_has_its_size),
        cmocka_unit_test(test_model_gradients_with_the_models_own_dropout),
        cmocka_unit_test(test_model_gradients_in_distillation),
        cmocka_unit_test(test_model_gradients_lora),
        cmocka_unit_test(test_model_gradients_dora),
        cmocka_unit_test(test_model_gradients_oft),
        cmocka_unit_test(test_model_gradients_lora_of_other_architectures),
        cmocka_unit_test(test_model_gradients_lora_on_some_layers),
        cmocka_unit_test(test_model_gradients_lora_with_dropout),
        cmocka_unit_test(test_model_gradients_additional_target),
        cmocka_unit_test(test_model_gradients_of_last_layers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
