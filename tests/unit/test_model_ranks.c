/* tests/unit/test_model_ranks.c - a model in several processes trains as in one: the same
 * steps within rounding, the same weights in every rank to the bit, a part of the moments
 * in each. */
#include "config.h"

#include "train/model/model.h"

#include <float.h>

#include "train/model/shapes.h"

#include "tests/unit/unit_model_ranks.h"

/* Norms of the gradients of the first two steps, before clipping. */
struct norms {
    double of_short, of_full;
};

/* The first window is short: some ranks have nothing to compute in it. */
static struct norms train_steps(struct unit_model *u, const struct unit_ranks *ranks)
{
    struct norms norms;

    norms.of_short = train_window(u, ranks, 1, 1).norm;
    norms.of_full = train_window(u, ranks, 2, WINDOW).norm;
    for (int64_t step = 3; step <= STEPS; step++)
        train_window(u, ranks, step, WINDOW);
    return norms;
}

/* Return a trained parameter, or, of one that other ranks have parts of, its copy. */
static float *values_of(struct unit_model *u, size_t index, bool copy)
{
    const struct parameter *p = model_parameter(u->model, index);
    struct tensor t = copy ? p->copy : p->weight;
    float *values = memory_alloc(p->rows * p->cols * sizeof(*values));
    void *raw = fetch(u, t);

    format_convert(values, FORMAT_FP32, raw, t.format, p->rows * p->cols);
    free(raw);
    return values;
}

static void same_weights(struct unit_model *a, struct unit_model *b, double tolerance)
{
    for (size_t i = 0; i < model_parameters(a->model); i++) {
        const struct parameter *p = model_parameter(a->model, i);
        float *x = values_of(a, i, p->sharded), *y = values_of(b, i, p->sharded);

        for (size_t j = 0; p->trainable && j < p->rows * p->cols; j++)
            if (!(fabs((double)x[j] - (double)y[j]) <= tolerance))
                fail_msg("%s[%zu]: %.9g, alone %.9g", p->name, j, x[j], y[j]);
        free(x);
        free(y);
    }
}

/* Return whether a hash is the same in all ranks.  48 bits of it, exact in a double: rank
 * 0 contributes its hash times the number of others, these subtract theirs. */
static bool agree_on(struct unit_model *u, const struct unit_ranks *ranks, uint64_t hash)
{
    int others = ranks->group.ranks - 1;
    double sum = (double)(hash >> 16) * (ranks->group.rank == 0 ? others : -1);
    double *device_sum = unit_ranks_put(u->be, &sum, sizeof(sum));
    bool ok;

    u->be->ops->all_reduce(u->be, device_sum, 1);
    u->be->ops->meet(u->be);
    ok = unit_ranks_get(u->be, &sum, device_sum, sizeof(sum));
    u->be->ops->free(u->be, device_sum);
    return ok && sum == 0;
}

/* The weights and copies of every rank equal those of rank 0. */
static bool ranks_agree(struct unit_model *u, const struct unit_ranks *ranks)
{
    bool ok = true;

    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);

        if (p->trainable && !p->sharded)
            ok = agree_on(u, ranks, hash_of(u, p->weight)) && ok;
        if (p->trainable && p->copy.data)
            ok = agree_on(u, ranks, hash_of(u, p->copy)) && ok;
    }
    return ok;
}

/* Return whether a copy is the rounded weight; of a sharded one, this rank's part. */
static bool copy_follows(struct unit_model *u, const struct parameter *p)
{
    const size_t bytes = format_info(p->copy.format)->bytes, count = p->rows * p->cols;
    struct model_shard shard = model_shard(u->model);
    size_t from = p->at > shard.first ? p->at : shard.first, to = p->at + count;
    struct tensor part, x, copy;
    bool ok;

    if (!p->sharded)
        from = p->at;
    else if (to > shard.first + shard.count)
        to = shard.first + shard.count;
    if (from >= to)
        return true;
    part = tensor_of((char *)p->copy.data + (from - p->at) * bytes, p->copy.format, 1,
                     to - from);
    x = p->sharded ? model_shard_weights(u->model, from, to - from)
                   : tensor_of(p->weight.data, p->weight.format, 1, count);
    copy = part;
    copy.data = u->be->ops->alloc(u->be, tensor_bytes(copy), NULL);
    u->be->ops->convert(u->be, &(struct op_convert) { .out = copy, .x = x });
    ok = hash_of(u, copy) == hash_of(u, part);
    u->be->ops->free(u->be, copy.data);
    return ok;
}

static bool copies_follow(struct unit_model *u)
{
    bool ok = true;

    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);

        if (p->trainable && p->copy.data)
            ok = copy_follows(u, p) && ok;
    }
    return ok;
}

/*
 * Compare three ranks with one that runs all of their micro-batches.  Norms of later steps
 * are not compared: the weights differ by rounding then, and a gradient may change by a
 * thousand times that.
 */
static void check_like_one(const struct kind *kind, double tolerance)
{
    struct unit_ranks ranks, alone = { .group = { .rank = 0, .ranks = 1 } };
    struct plan plan = plan_of(kind, RANKS), plan_alone = plan_of(kind, 1);
    struct unit_model u, one;
    char *base = NULL;
    bool agree, follow;
    struct norms norms, norms_alone;

    unit_ranks_fork(&ranks, RANKS);
    if (plan_adapts(&plan))
        plan.model_name_or_path = plan_alone.model_name_or_path = base =
            base_new(model_of(kind));
    start_plan(&u, model_of(kind), plan, &ranks);
    norms = train_steps(&u, &ranks);
    agree = ranks_agree(&u, &ranks);
    follow = copies_follow(&u);
    if (ranks.group.rank > 0) {
        if (base)
            unit_dir_free(base);
        _exit(!agree || !follow);
    }
    unit_ranks_join(&ranks);
    assert_true(agree && follow);
    start_plan(&one, model_of(kind), plan_alone, &alone);
    norms_alone = train_steps(&one, &alone);
    if (strcmp(kind->optimizer, "sgd") == 0) {
        unit_assert_near("norm of a short window", norms.of_short, norms_alone.of_short,
                         32 * FLT_EPSILON);
        unit_assert_near("norm", norms.of_full, norms_alone.of_full, 32 * FLT_EPSILON);
    }
    same_weights(&u, &one, tolerance);
    unit_model_stop(&u);
    unit_model_stop(&one);
    if (base)
        unit_dir_free(base);
}

/*
 * A gradient is a sum of about 32 terms, in another order: 32 roundings of at most half
 * an epsilon of what is at most the norm, 0.05 after clipping, and 0.1 of that is added
 * to the weight in each step; the weight itself, at most about 1, is rounded by an
 * epsilon per step.
 */
static const double rounding = STEPS * (32 * 0.05 * 0.1 + 1) * FLT_EPSILON;

static void test_model_ranks_train_like_one(void **state)
{
    const struct kind kind = { METHOD_FULL, "sgd", FORMAT_FP32, NULL, 1 };

    (void)state;
    check_like_one(&kind, rounding);
}

/*
 * Each rank's gradient is rounded by at most half an epsilon of bf16, and on GPUs so is
 * each partial sum: 2 * RANKS roundings by 2^-8 of what is at most the norm.
 */
static const double bf16_rounding = 2 * RANKS / 256.0;

static struct kind sent_in_bf16[] = {
    { METHOD_FULL, "sgd", FORMAT_FP32, llama, 1 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gpt2, 2 },
};

static uint64_t hash_of_all(struct unit_model *u)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < model_trained_parameters(u->model); i++)
        hash = hash * 31 + hash_of_trained(u, i);
    return hash;
}

/* Gradients that are sent in bf16 differ from those sent in fp32, but by no more than
 * their rounding, and in the same way each time. */
static void test_model_ranks_send_gradients_in_bf16(void **state)
{
    const struct kind *kind = *state;
    struct unit_ranks ranks;
    struct unit_model u, again, whole;
    double norm, norm_whole;
    bool same, differs;

    unit_ranks_fork(&ranks, RANKS);
    start(&whole, kind, &ranks);
    norm_whole = train_steps(&whole, &ranks).of_full;
    unit_reduce_dtype = REDUCE_BF16;
    start(&u, kind, &ranks);
    norm = train_steps(&u, &ranks).of_full;
    start(&again, kind, &ranks);
    train_steps(&again, &ranks);
    unit_reduce_dtype = REDUCE_FP32;
    same = hash_of_all(&u) == hash_of_all(&again);
    differs = hash_of_all(&u) != hash_of_all(&whole);
    if (ranks.group.rank > 0)
        _exit(!same || !differs);
    unit_ranks_join(&ranks);
    assert_true(same && differs);
    assert_true(fabs(norm - norm_whole) <= bf16_rounding * norm_whole);
    /* a step adds 0.1 of a gradient whose norm is clipped to 0.05 */
    same_weights(&u, &whole, rounding + STEPS * 0.1 * 0.05 * bf16_rounding);
    unit_model_stop(&u);
    unit_model_stop(&again);
    unit_model_stop(&whole);
}

static void spoil(struct unit_model *u)
{
    const float inf = INFINITY;

    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        const struct parameter *p = model_trained(u->model, i);

        if (p->rows == 1)
            u->be->ops->upload(u->be, p->weight.data, &inf, sizeof(inf));
    }
}

/* What is inf in the gradients of one rank keeps all from updating. */
static void test_model_ranks_notice_inf_in_bf16(void **state)
{
    const struct kind kind = { METHOD_FULL, "sgd", FORMAT_FP32, llama, 1 };
    struct unit_ranks ranks;
    struct unit_model u;
    bool noticed;

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    unit_reduce_dtype = REDUCE_BF16;
    start(&u, &kind, &ranks);
    unit_reduce_dtype = REDUCE_FP32;
    if (ranks.group.rank == RANKS - 1)
        spoil(&u);
    noticed = !train_window(&u, &ranks, 1, WINDOW).finite;
    if (ranks.group.rank > 0)
        _exit(!noticed);
    unit_ranks_join(&ranks);
    assert_true(noticed);
    unit_model_stop(&u);
}

static struct kind others[] = {
    { METHOD_FULL, "sgd", FORMAT_FP32, gpt2, 1 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gpt_neox, 1 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gemma3, 1 },
    { METHOD_FULL, "sgd", FORMAT_FP32, phi3, 1 },
    { METHOD_FREEZE, "sgd", FORMAT_FP32, gpt2, 1 },
    { METHOD_FULL, "sgd", FORMAT_FP32, llama, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gpt2, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gpt_neox, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gemma3, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, headed, 2 },
    { METHOD_FREEZE, "sgd", FORMAT_FP32, llama, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, phi, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, qwen3_moe, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, glm4_moe, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, phimoe, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, deepseek_v3, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gpt_oss, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gemma4, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, apertus, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, lfm2, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, stablelm, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, cohere, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, olmo, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, falcon_h1, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, bloom, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gemma4_moe, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, granite_hybrid, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, llama4, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, hunyuan_moe, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, qwen3_next, 2 },
    { METHOD_OFT, "sgd", FORMAT_FP32, llama, 1 },
    { METHOD_OFT, "sgd", FORMAT_FP32, phi3, 1 },
    { METHOD_OFT, "sgd", FORMAT_FP32, gpt_neox, 2 },
    { METHOD_FULL, "sgd", FORMAT_FP32, gemma4_e, 2 },
};

static void test_model_ranks_train_other_architectures(void **state)
{
    check_like_one(*state, rounding);
}

static struct kind joined[] = {
    { METHOD_LORA, "sgd", FORMAT_FP32, gpt_oss, 1 },
    { METHOD_LORA, "sgd", FORMAT_FP32, llama4, 2 },
};

static void test_model_ranks_train_adapters_of_experts(void **state)
{
    const struct kind *kind = *state;

    unit_parameters = kind == joined
                          ? "2.mlp.experts.gate_up_proj,2.mlp.experts.down_proj"
                          : "experts.gate_up_proj,experts.down_proj";
    check_like_one(kind, rounding);
    unit_parameters = NULL;
}

static void test_model_ranks_train_with_frozen_16_bit_weights(void **state)
{
    const struct kind kind = { METHOD_FREEZE, "sgd", FORMAT_FP32, NULL, 1 };

    (void)state;
    check_like_one(&kind, rounding);
}

/* AdamW turns a small gradient of any size into a step of the learning rate, and also the
 * rounding of one around 0: a weight may differ by two rates per step, but few do. */
static void test_model_ranks_match_with_adamw_and_16_bit_copies(void **state)
{
    const struct kind kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, NULL, 1 };

    (void)state;
    check_like_one(&kind, 2 * 0.1 * STEPS);
}

/* Each rank keeps a third of the moments, and requests the others. */
static bool fetch_moments(const void *context, const struct moment_span *span, void *to,
                          struct error *err)
{
    const struct unit_ranks *ranks = context;
    int link = ranks->links[span->rank - 1];

    return link_send(link, span, sizeof(*span), 10, err) &&
           link_receive(link, to, span->bytes, 10, err);
}

static void serve(struct unit_model *u, const struct unit_ranks *ranks)
{
    struct moment_span span;
    float *numbers = memory_alloc(model_shard(u->model).count * sizeof(*numbers));

    while (link_receive(ranks->links[0], &span, sizeof(span), 10, NULL))
        if (span.rank != (size_t)ranks->group.rank ||
            !model_read_span(u->model, &span, numbers, NULL) ||
            !link_send(ranks->links[0], numbers, span.bytes, 10, NULL))
            _exit(1);
    _exit(0);
}

static void test_model_ranks_assemble_the_moments(void **state)
{
    const struct kind kind = { METHOD_FULL, "adamw_torch", FORMAT_FP32, NULL, 1 };
    struct unit_ranks ranks, alone = { .group = { .rank = 0, .ranks = 1 } };
    struct unit_model u, one;
    struct error err = { 0 };
    float numbers[2][VOCABULARY * 16];

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    start(&u, &kind, &ranks);
    train_window(&u, &ranks, 1, WINDOW);
    if (ranks.group.rank > 0)
        serve(&u, &ranks);
    start(&one, &kind, &alone);
    train_window(&one, &alone, 1, WINDOW);
    model_set_fetch(u.model, fetch_moments, &ranks);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);

        for (int k = 0; k < 2; k++) {
            enum moment moment = k ? MOMENT_2 : MOMENT_1;

            unit_must(model_read_moment(u.model, moment, p, numbers[0], &err), &err);
            unit_must(model_read_moment(one.model, moment, model_parameter(one.model, i),
                                        numbers[1], &err),
                      &err);
            for (size_t j = 0; j < p->rows * p->cols; j++)
                if (!(fabsf(numbers[0][j] - numbers[1][j]) <= 32 * 0.05f * FLT_EPSILON))
                    fail_msg("%s[%zu]: %g, alone %g", p->name, j, numbers[0][j],
                             numbers[1][j]);
        }
    }
    for (int r = 1; r < RANKS; r++) {
        close(ranks.links[r - 1]);
        assert_int_equal(unit_ranks_wait(&ranks, r), 0);
    }
    unit_model_stop(&u);
    unit_model_stop(&one);
}

/* Moments in 8 bits next to others in fp32: what every rank writes of a whole parameter is
 * what rank 0 reads of it, and no part of it is another's. */
static void exchange_moments(struct unit_model *u, bool reads)
{
    unsigned char in[1 << 16], out[1 << 16];
    struct error err = { 0 };
    size_t codes = 0;

    for (size_t i = 0; i < model_parameters(u->model); i++)
        for (size_t k = 0; k < model_moments(u->model); k++) {
            const struct parameter *p = model_parameter(u->model, i);
            const struct shape_moment *kept = &p->moments[k];
            size_t bytes = kept->count * format_info(kept->format)->bytes;

            if (bytes == 0)
                continue;
            assert_true(bytes <= sizeof(in));
            for (size_t j = 0; j < bytes; j++)
                in[j] = (unsigned char)(j * 7 + j / 256 + i * 31 + k * 101);
            codes += kept->format == FORMAT_CODES;
            if (!reads) {
                model_write_moment(u->model, (enum moment)k, p, in);
                continue;
            }
            unit_must(model_read_moment(u->model, (enum moment)k, p, out, &err), &err);
            assert_memory_equal(in, out, bytes);
        }
    assert_true(codes > 4);
}

static void test_model_ranks_assemble_moments_in_8_bits(void **state)
{
    static const char wide[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 64, "
        "\"intermediate_size\": 100, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 1}";
    const struct kind kind = { METHOD_FULL, "adamw_8bit", FORMAT_FP32, wide, 1 };
    struct unit_ranks ranks;
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    start(&u, &kind, &ranks);
    model_zero_moments(u.model);
    exchange_moments(&u, false);
    unit_must(u.be->ops->sync(u.be, &err), &err);
    if (ranks.group.rank > 0)
        serve(&u, &ranks);
    model_set_fetch(u.model, fetch_moments, &ranks);
    exchange_moments(&u, true);
    for (int r = 1; r < RANKS; r++) {
        close(ranks.links[r - 1]);
        assert_int_equal(unit_ranks_wait(&ranks, r), 0);
    }
    unit_model_stop(&u);
}

/* Rank 0 has all copies, a third of the weights, and requests the others. */
static void test_model_ranks_assemble_the_weights(void **state)
{
    const struct kind kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, NULL, 2 };
    struct unit_ranks ranks;
    struct unit_model u;
    struct error err = { 0 };
    float numbers[VOCABULARY * 16];
    size_t sharded = 0;

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    start(&u, &kind, &ranks);
    train_window(&u, &ranks, 1, WINDOW);
    if (ranks.group.rank > 0)
        serve(&u, &ranks);
    model_set_fetch(u.model, fetch_moments, &ranks);
    for (size_t i = 0; i < model_trained_parameters(u.model); i++) {
        const struct parameter *p = model_trained(u.model, i);
        uint16_t rounded[VOCABULARY * 16], *copy;
        size_t count = p->rows * p->cols;

        unit_must(model_read_weight(u.model, p, 0, p->rows, numbers, &err), &err);
        if (!p->copy.data)
            continue;
        sharded += p->sharded;
        copy = fetch(&u, p->copy);
        format_convert(rounded, p->copy.format, numbers, FORMAT_FP32, count);
        assert_memory_equal(copy, rounded, count * sizeof(*rounded));
        free(copy);
    }
    /* of a Llama everything but embeddings and norms, if weights have copies */
    assert_true(sharded == (unit_ranks_ops->rounds_b ? 0 : 5 * 7 + 1));
    for (int r = 1; r < RANKS; r++) {
        close(ranks.links[r - 1]);
        assert_int_equal(unit_ranks_wait(&ranks, r), 0);
    }
    unit_model_stop(&u);
}

/* The size of a rank's moments is that of its shard. */
static void test_model_ranks_share_the_moments(void **state)
{
    const struct kind kind = { METHOD_FULL, "adamw_torch", FORMAT_FP32, NULL, 1 };
    struct plan one = plan_of(&kind, 1), many = plan_of(&kind, 7);
    struct unit_model u = unit_model_text(llama, one);
    struct error err = { 0 };
    struct memory_use alone, shared;

    (void)state;
    unit_must(shapes_memory(&one, &u.config, ROWS, 1, &alone, &err), &err);
    unit_must(shapes_memory(&many, &u.config, ROWS, 1, &shared, &err), &err);
    assert_true(shared.optimizer >= alone.optimizer / 7);
    assert_true(shared.optimizer < alone.optimizer / 7 + 2 * 512 + 2 * sizeof(float));
    arena_free(u.arena);
}

static uint64_t weights_after_a_window(int64_t zero_stage, const struct unit_ranks *ranks)
{
    const struct kind kind = { METHOD_FULL, "adamw_torch", FORMAT_FP32, NULL,
                               zero_stage };
    struct unit_model u;
    uint64_t hash = 0;

    start(&u, &kind, ranks);
    train_window(&u, ranks, 1, RANKS);
    for (size_t i = 0; i < model_trained_parameters(u.model); i++)
        hash = hash * 31 + hash_of_trained(&u, i);
    unit_model_stop(&u);
    return hash;
}

/* With one micro-batch for each rank both stages add the same numbers in the same order. */
static void test_model_ranks_of_both_stages_agree(void **state)
{
    struct unit_ranks ranks;
    bool same;

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    same = weights_after_a_window(1, &ranks) == weights_after_a_window(2, &ranks);
    unit_reduce_dtype = REDUCE_BF16;
    same = same && weights_after_a_window(1, &ranks) == weights_after_a_window(2, &ranks);
    if (ranks.group.rank > 0)
        _exit(!same);
    unit_ranks_join(&ranks);
    assert_true(same);
}

/* A rank's gradients are its shard, two blocks, and the larger of head and embeddings. */
static void test_model_ranks_share_the_gradients(void **state)
{
    const struct kind kind = { METHOD_FULL, "adamw_torch", FORMAT_FP32, NULL, 2 };
    struct plan one = plan_of(&kind, 1), many = plan_of(&kind, 7);
    struct unit_model u = unit_model_text(llama, one);
    const size_t table = VOCABULARY * 16, block = (4 * 16 + 3 * 24) * 16,
                 vectors = (2 * 5 + 1) * 16, whole = 2 * table + 5 * block + vectors;
    const size_t shared_least = whole / 7 + table + 2 * block + vectors;
    struct error err = { 0 };
    struct memory_use alone, shared;

    (void)state;
    unit_must(shapes_memory(&one, &u.config, ROWS, 1, &alone, &err), &err);
    unit_must(shapes_memory(&many, &u.config, ROWS, 1, &shared, &err), &err);
    assert_true(alone.gradients >= whole * sizeof(float));
    assert_true(shared.gradients >= shared_least * sizeof(float));
    /* each part begins and ends at a multiple of 512 bytes, each vector too */
    assert_true(shared.gradients < shared_least * sizeof(float) + (6 + 7 + 11) * 512);
    arena_free(u.arena);
}

#define ROUNDED(name, i)                                                 \
    unit_ranks_test_of("test_model_ranks_send_gradients_in_bf16: " name, \
                       test_model_ranks_send_gradients_in_bf16, &sent_in_bf16[i])
#define JOINED(name, i)                                                     \
    unit_ranks_test_of("test_model_ranks_learn_adapters_of_experts: " name, \
                       test_model_ranks_train_adapters_of_experts, &joined[i])
#define OTHER(name, i)                                                      \
    unit_ranks_test_of("test_model_ranks_learn_other_architectures: " name, \
                       test_model_ranks_train_other_architectures, &others[i])

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        unit_ranks_test(test_model_ranks_train_like_one),
        OTHER("gpt2", 0),
        OTHER("gpt_neox", 1),
        OTHER("gemma3", 2),
        OTHER("phi3", 3),
        OTHER("frozen gpt2", 4),
        OTHER("sharded gradients", 5),
        OTHER("sharded gradients of gpt2", 6),
        OTHER("sharded gradients of gpt_neox", 7),
        OTHER("sharded gradients of gemma3", 8),
        OTHER("sharded gradients of a large head", 9),
        OTHER("sharded gradients, frozen", 10),
        ROUNDED("stage 1", 0),
        ROUNDED("stage 2 of gpt2", 1),
        unit_ranks_test(test_model_ranks_notice_inf_in_bf16),
        OTHER("sharded gradients of phi", 11),
        OTHER("sharded gradients of experts", 12),
        OTHER("sharded gradients of experts in groups", 13),
        OTHER("sharded gradients of sampled experts", 14),
        OTHER("sharded gradients of latent attention", 15),
        OTHER("sharded gradients of sinks", 16),
        OTHER("sharded gradients of gemma4", 17),
        OTHER("sharded gradients of apertus", 18),
        OTHER("sharded gradients of short convolutions", 19),
        OTHER("sharded gradients of norms of heads", 20),
        OTHER("sharded gradients of cohere", 21),
        OTHER("sharded gradients of limits", 22),
        OTHER("sharded gradients of state spaces", 23),
        OTHER("sharded gradients of linear biases", 24),
        OTHER("sharded gradients of gemma4 with experts", 25),
        OTHER("sharded gradients of attention or state spaces", 26),
        OTHER("sharded gradients of llama4", 27),
        OTHER("sharded gradients of hunyuan_v1_moe", 28),
        OTHER("sharded gradients of linear attention", 29),
        OTHER("rotations", 30),
        OTHER("rotations of joined layers", 31),
        OTHER("sharded gradients of rotations", 32),
        OTHER("sharded gradients of inputs of layers", 33),
        JOINED("one block", 0),
        JOINED("sharded gradients", 1),
        unit_ranks_test(test_model_ranks_train_with_frozen_16_bit_weights),
        unit_ranks_test(test_model_ranks_match_with_adamw_and_16_bit_copies),
        unit_ranks_test(test_model_ranks_assemble_the_moments),
        unit_ranks_test(test_model_ranks_assemble_moments_in_8_bits),
        unit_ranks_test(test_model_ranks_assemble_the_weights),
        unit_ranks_test(test_model_ranks_share_the_moments),
        unit_ranks_test(test_model_ranks_of_both_stages_agree),
        unit_ranks_test(test_model_ranks_share_the_gradients),
    };

    unit_ranks_main(argc, argv, tests);
    return unit_ranks_fit() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
