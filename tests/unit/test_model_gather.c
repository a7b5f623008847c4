/* tests/unit/test_model_gather.c - ZeRO stage 3: with its blocks divided among ranks, a
 * model trains, evaluates and generates to the bit as in stage 2. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_watch.h"
#include "train/model/shapes.h"

#include "tests/unit/unit_model_ranks.h"

enum { DECODED = 3 }; /* tokens, the first with a prompt */

/* What a rank has computed. */
struct course {
    double norms[STEPS], losses[2];
    uint64_t weights;
    float logits[DECODED][VOCABULARY];
    double largest[2]; /* of the weights, and of what a micro-batch computes */
};

struct gathered {
    struct kind kind;
    bool checkpointing;
    double dropout;
    int64_t bits;          /* of the frozen base */
    bool pure;             /* weights and moments have 16 bits, too */
    const char *trainable; /* of a freeze */
    enum stage stage;
    bool second; /* a second model: the teacher or the reference */
    bool joined; /* adapters of all experts */
};

static struct plan gathered_plan(const struct gathered *g, const char *base,
                                 int64_t zero_stage)
{
    struct plan plan = plan_of(&g->kind, RANKS);

    plan.zero_stage = zero_stage;
    plan.gradient_checkpointing = g->checkpointing;
    plan.lora_dropout = g->dropout;
    plan.quantization_bit = g->bits;
    plan.freeze_trainable_modules = g->trainable;
    plan.precision.trainable = g->pure ? FORMAT_BF16 : FORMAT_FP32;
    plan.model_name_or_path = base;
    if (g->joined)
        plan.lora_target_parameters = "experts.gate_up_proj,experts.down_proj";
    plan.stage = g->stage;
    plan.preference = (struct preference) { .loss = PREFERENCE_SIGMOID, .beta = 0.1 };
    plan.kd = (struct distillation_settings) { .ratio = 0.5, .temperature = 2 };
    plan.generation = (struct generation) {
        .on = g->stage != STAGE_DPO, .slots = 2, .prompt_max = ROWS, .max_new_tokens = 4
    };
    return plan;
}

/* Hash what is in this rank's shard of the trained weights, of either stage. */
static uint64_t hash_of_shard(struct unit_model *u)
{
    struct model_shard shard = model_shard(u->model);
    uint64_t hash = 0;

    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        const struct parameter *p = model_trained(u->model, i);
        size_t end = p->at + p->rows * p->cols, to = shard.first + shard.count;
        size_t from = p->at > shard.first ? p->at : shard.first;
        const char *data = p->weight.data;
        size_t item = format_info(p->weight.format)->bytes;

        to = to < end ? to : end;
        if (from >= to)
            continue;
        data += p->sharded ? 0 : (from - p->at) * item;
        hash = hash * 31 +
               hash_of(u, p->sharded
                              ? model_shard_weights(u->model, from, to - from)
                              : tensor_of((void *)data, p->weight.format, 1, to - from));
    }
    return hash;
}

/* Rank 0 evaluates two batches, rank 1 one, the others none; rank 1 generates, unless the
 * stage is that of preferences, which generates nothing. */
static void look(struct unit_model *u, const struct unit_ranks *ranks, struct course *out)
{
    const int32_t tokens[] = { 3, 1, 4, 1, 5 };
    int32_t next[] = { 9, 0 }, lengths[] = { 5, 0 };
    float logits[2 * VOCABULARY];
    struct error err = { 0 };

    for (int i = 0; i < 2 - ranks->group.rank; i++) {
        struct batch batch;

        make_batch(&batch, &u->plan, 100 + (uint32_t)i);
        unit_must(model_evaluate(u->model, &batch, &out->losses[i], &err), &err);
        unit_batch_free(&batch);
    }
    for (int i = 0; u->plan.generation.on && ranks->group.rank == 1 && i < DECODED; i++) {
        if (i == 0)
            unit_must(model_prefill(u->model, 0, tokens, 5, logits, &err), &err);
        else
            unit_must(model_decode_step(u->model, next, lengths, logits, &err), &err);
        lengths[0] += i > 0;
        memcpy(out->logits[i], logits, sizeof(out->logits[i]));
    }
    unit_must(model_follow(u->model, &err), &err);
}

/* Rank 0 searches for values that are not finite. */
static void watch_alone(struct unit_model *u, const struct unit_ranks *ranks,
                        struct course *out)
{
    struct step_scalars numbers = unit_numbers(u, ROWS, STEPS + 1);
    struct error err = { 0 };
    struct watch seen;
    struct batch batch;

    if (ranks->group.rank > 0) {
        if (model_shards_blocks(u->model))
            unit_must(model_follow_rank_0(u->model, &err), &err);
        return;
    }
    if (model_shards_blocks(u->model))
        model_lead(u->model, true);
    unit_must(model_watch_weights(u->model, &seen, &err), &err);
    out->largest[0] = seen.largest_output.largest;
    make_batch(&batch, &u->plan, 200);
    unit_must(model_watch_batch(u->model, &batch, &numbers, &seen, &err), &err);
    out->largest[1] = seen.largest_output.largest;
    unit_batch_free(&batch);
    if (model_shards_blocks(u->model))
        model_lead(u->model, false);
}

/* A model that is not trained, divided likewise.  It keeps pointers into `second`. */
static void start_second(struct unit_model *second, const struct unit_model *of,
                         const char *base)
{
    struct model_options options = { .plan = &second->plan,
                                     .config = &second->config,
                                     .backend = of->be,
                                     .rows_max = ROWS,
                                     .sequences_max = sequences_of(&of->plan),
                                     .rank = (size_t)of->group->rank };
    struct error err = { 0 };

    *second = unit_model_text(llama, of->plan);
    second->plan.method = METHOD_LORA;
    second->plan.train_from_scratch = false;
    second->plan.model_name_or_path = base;
    second->plan.stage = STAGE_SFT;
    second->plan.generation = (struct generation) { .alone = true };
    second->plan.ranks = of->plan.zero_stage > 2 ? RANKS : 1;
    second->model = model_new(&options, &err);
    unit_must(second->model && model_load(second->model, &err), &err);
}

static struct course run_stage(const struct gathered *g, const struct unit_ranks *ranks,
                               const char *base, int64_t zero_stage)
{
    struct course out = { 0 };
    struct unit_model u, second = { 0 };

    start_plan(&u, g->kind.model, gathered_plan(g, base, zero_stage), ranks);
    if (g->second) {
        start_second(&second, &u, base);
        (g->stage == STAGE_DPO ? model_set_reference : model_set_teacher)(u.model,
                                                                          second.model);
    }
    look(&u, ranks, &out);
    for (int64_t step = 1; step <= STEPS; step++)
        out.norms[step - 1] =
            train_window(&u, ranks, step, step == STEPS ? 1 : WINDOW).norm;
    look(&u, ranks, &out);
    out.weights = hash_of_shard(&u);
    watch_alone(&u, ranks, &out);
    if (g->second) {
        model_free(second.model);
        arena_free(second.arena);
    }
    unit_model_stop(&u);
    return out;
}

static void test_model_gather_changes_no_bit(void **state)
{
    const struct gathered *g = *state;
    struct course whole, sharded;
    struct unit_ranks ranks;
    char *base = NULL;
    bool same;

    unit_ranks_fork(&ranks, RANKS);
    if (g->kind.method == METHOD_LORA || g->second)
        base = base_new(g->kind.model);
    whole = run_stage(g, &ranks, base, 2);
    sharded = run_stage(g, &ranks, base, 3);
    same = memcmp(&whole, &sharded, sizeof(whole)) == 0;
    if (!same)
        fprintf(stderr, "# rank %d: norms %.9g %.9g, loss %.9g %.9g\n", ranks.group.rank,
                whole.norms[0], sharded.norms[0], whole.losses[0], sharded.losses[0]);
    if (base)
        unit_dir_free(base);
    if (ranks.group.rank > 0)
        _exit(!same);
    unit_ranks_join(&ranks);
    assert_true(same && sharded.norms[STEPS - 1] > 0);
}

static uint64_t weight_bytes(const struct kind *kind, int64_t zero_stage)
{
    struct plan plan = plan_of(kind, 7);
    struct unit_model u = unit_model_text(kind->model, plan);
    struct error err = { 0 };
    struct memory_use use;

    plan.zero_stage = zero_stage;
    plan.train_from_scratch = false;
    unit_must(shapes_memory(&plan, &u.config, ROWS, 1, &use, &err), &err);
    arena_free(u.arena);
    return use.weights;
}

/* No tensor ends within an alignment, except the norms. */
static const char wide[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": "
    "64,\"intermediate_size\": 128, \"num_hidden_layers\": 14, \"num_attention_heads\": "
    "2,\"tie_word_embeddings\": false}";

/* A rank has its part of the blocks, two of them in windows, and the rest. */
static void test_model_gather_shares_the_weights(void **state)
{
    const struct kind full = { METHOD_FULL, "sgd", FORMAT_FP32, wide, 3 };
    const struct kind lora = { METHOD_LORA, "sgd", FORMAT_FP32, wide, 3 };
    const size_t block = (4 * 64 + 3 * 128) * 64, adapters = 4 * (6 * 64 + 128);
    const size_t whole = 2 * 64 * 64 + 14 * block, rest = 2 * 64 * 64 + (2 * 14 + 1) * 64;
    const size_t norms = (2 * 14 + 1) * 512; /* each is aligned */
    const size_t least = whole / 7 + rest + 2 * block;
    /* the copies of folded adapters are among the frozen weights */
    const size_t saved = (14 - 2 - 2) * (block + adapters);
    uint64_t stage_3 = weight_bytes(&full, 3);

    (void)state;
    assert_true(stage_3 >= least * sizeof(float));
    assert_true(stage_3 < least * sizeof(float) + norms);
    assert_int_equal(weight_bytes(&lora, 3) + saved * sizeof(float),
                     weight_bytes(&lora, 2));
}

static struct gathered cases[] = {
    { .kind = { METHOD_FULL, "adamw_torch", FORMAT_FP32, llama, 3 } },
    { .kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, llama, 3 },
      .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, gpt2, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, gpt_neox, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, gemma3, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, headed, 3 } },
    { .kind = { METHOD_FREEZE, "sgd", FORMAT_FP32, llama, 3 } },
    { .kind = { METHOD_FREEZE, "sgd", FORMAT_BF16, llama, 3 }, .trainable = "mlp" },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama, 3 } },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama, 3 },
      .checkpointing = true,
      .dropout = 0.25 },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_BF16, llama, 3 }, .bits = 4 },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama, 3 }, .stage = STAGE_DPO },
    { .kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, llama, 3 }, .pure = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, llama, 3 },
      .stage = STAGE_DPO,
      .second = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, llama, 3 },
      .stage = STAGE_DISTILL,
      .second = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, phi, 3 }, .pure = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, granite, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, olmo2, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, qwen3_moe, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, qwen3_moe, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, glm4_moe, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, deepseek_v3, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, gemma4, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, apertus, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, lfm2, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, stablelm, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, cohere, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, falcon_h1, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, bloom, 3 }, .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, granite_hybrid, 3 } },
    { .kind = { METHOD_FULL, "adamw_8bit", FORMAT_FP32, llama, 3 } },
    { .kind = { METHOD_FULL, "adamw_8bit", FORMAT_BF16, llama4, 3 },
      .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, llama4, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, hunyuan_moe, 3 },
      .checkpointing = true },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, qwen3_next, 3 } },
    { .kind = { METHOD_FULL, "sgd", FORMAT_BF16, gemma4_e, 3 }, .checkpointing = true },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama4, 3 }, .joined = true },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_BF16, gpt_oss, 3 },
      .checkpointing = true,
      .bits = 4,
      .joined = true },
};

#define CASE(name, i)                                             \
    unit_ranks_test_of("test_model_gather_changes_no_bit: " name, \
                       test_model_gather_changes_no_bit, &cases[i])

/* What differs on emulated GPUs, which take seconds for each. */
#define CASES_OF_GPUS                                                       \
    CASE("16 bits", 1), CASE("frozen parts of blocks", 7), CASE("lora", 8), \
        CASE("qlora", 10), CASE("lora, preferences", 11), CASE("a reference model", 13)

int main(int argc, char **argv)
{
    const struct CMUnitTest few[] = { CASES_OF_GPUS };
    const struct CMUnitTest tests[] = {
        CASES_OF_GPUS,
        CASE("float32", 0),
        CASE("gpt2", 2),
        CASE("gpt_neox, 16 bits", 3),
        CASE("gemma3", 4),
        CASE("more ranks than blocks", 5),
        CASE("frozen blocks", 6),
        CASE("lora with dropout", 9),
        CASE("pure 16 bits", 12),
        CASE("a teacher", 14),
        CASE("phi, pure 16 bits", 15),
        CASE("granite, 16 bits", 16),
        CASE("olmo2, 16 bits", 17),
        CASE("experts, 16 bits", 18),
        CASE("experts", 19),
        CASE("experts in groups", 20),
        CASE("latent attention", 21),
        CASE("gemma4, 16 bits", 22),
        CASE("apertus", 23),
        CASE("short convolutions", 24),
        CASE("norms of heads, 16 bits", 25),
        CASE("norms of heads", 26),
        CASE("attention and state spaces, 16 bits", 27),
        CASE("bloom, 16 bits", 28),
        CASE("adapters of experts", 36),
        CASE("adapters of experts in 4 bits", 37),
        CASE("attention or state spaces", 29),
        CASE("moments in 8 bits", 30),
        CASE("llama4, moments in 8 bits", 31),
        CASE("llama4", 32),
        CASE("hunyuan_v1_moe, 16 bits", 33),
        CASE("linear attention", 34),
        CASE("inputs of layers, 16 bits", 35),
        unit_ranks_test(test_model_gather_shares_the_weights),
    };

    unit_ranks_main(argc, argv, tests);
    if (!unit_ranks_fit())
        return 0;
    return unit_ranks_emulated ? cmocka_run_group_tests(few, NULL, NULL)
                               : cmocka_run_group_tests(tests, NULL, NULL);
}
