/*
 * tests/unit/test_model_cuda.c - whole models on a GPU: the losses, gradients and steps
 * of the CPU, and the same bits whatever is recorded, recomputed or gone on from.
 *
 * The models are small: the same program runs on a GPU and on tests/emulation/.
 */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "train/checkpoint.h"
#include "train/shapes.h"

#define VOCABULARY 60
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
    BASES
};

#define START_WITH(model_type, range) \
    "{\"model_type\": \"" model_type  \
    "\", \"vocab_size\": 60, \"hidden_size\": 32, \"initializer_range\": " range ","
#define START(model_type) START_WITH(model_type, "0.15")
static const char *const configs[BASES] = {
    [BASE_LLAMA] =
        START("llama") "\"intermediate_size\": 48, \"num_hidden_layers\": 2,"
                       "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                       "\"tie_word_embeddings\": true}",
    [BASE_QWEN2] =
        START("qwen2") "\"intermediate_size\": 40, \"num_hidden_layers\": 2,"
                       "\"num_attention_heads\": 1, \"num_key_value_heads\": 1,"
                       "\"tie_word_embeddings\": false,"
                       "\"use_sliding_window\": true, \"sliding_window\": 4,"
                       "\"max_window_layers\": 1}",
    [BASE_GPT2] = START("gpt2") "\"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2,"
                                "\"n_inner\": 48, \"n_positions\": 32}",
    /* its scores are not scaled */
    [BASE_GPT_NEO] =
        START_WITH("gpt_neo", "0.05") "\"num_layers\": 2, \"num_heads\": 2,"
                                      "\"intermediate_size\": 48, \"window_size\": 4,"
                                      "\"max_position_embeddings\": 32}",
    [BASE_GPT_NEOX] =
        START("gpt_neox") "\"intermediate_size\": 48, \"num_hidden_layers\": 2,"
                          "\"num_attention_heads\": 2, \"rotary_pct\": 0.5}",
    [BASE_GEMMA] =
        START("gemma") "\"intermediate_size\": 40, \"num_hidden_layers\": 2,"
                       "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                       "\"head_dim\": 16}",
    [BASE_PHI3] = START("phi3") "\"intermediate_size\": 40, \"num_hidden_layers\": 2,"
                                "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                                "\"sliding_window\": 4}",
    [BASE_GEMMA2] =
        START("gemma2") "\"intermediate_size\": 40, \"num_hidden_layers\": 2,"
                        "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                        "\"head_dim\": 16, \"query_pre_attn_scalar\": 9,"
                        "\"attn_logit_softcapping\": 2.0,"
                        "\"final_logit_softcapping\": 3.0, \"sliding_window\": 4}",
    [BASE_GEMMA3] =
        START("gemma3_text") "\"intermediate_size\": 40, \"num_hidden_layers\": 2,"
                             "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                             "\"head_dim\": 16, \"query_pre_attn_scalar\": 9,"
                             "\"sliding_window\": 4, \"sliding_window_pattern\": 2}",
    [BASE_QWEN3] =
        START("qwen3") "\"intermediate_size\": 40, \"num_hidden_layers\": 2,"
                       "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                       "\"head_dim\": 16}",
};

enum { BATCHES = 2, WINDOWS = 3 };

static struct batch batches[BATCHES];
static size_t rows_max, sequences_max, trained;
static char *bases[BASES]; /* folders */
static struct device gpus[8];
static size_t gpu_count;

struct trial {
    const char *name;
    enum base base;
    enum mode mode;
    enum format compute;
    enum method method;
    double dropout;
    bool checkpointing;
    int capability; /* the least that has it: 10 * major + minor */
    double near;    /* how far gradients may be from the CPU's, of their norm */
};

/*
 * A 16-bit number is off by up to half an ulp, 2^-9 of bf16, 2^-12 of fp16 (TF32 has as
 * many bits in a product's operands); some twenty on the way down and up two blocks, of
 * either sign, come to about 20^0.5 of that, and twice as much is allowed.  fp32: sums of
 * another order.
 */
#define NEAR_FP32 1e-5
#define NEAR_FP16 (9 * 0x1p-12)
#define NEAR_BF16 (9 * 0x1p-9)

enum { TRIAL_FP32, TRIAL_FP16 = 3, TRIAL_PURE = 5, TRIAL_DROPOUT = 8 };

static const struct trial trials[] = {
    { "fp32", BASE_LLAMA, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, false, 60, NEAR_FP32 },
    { "fp32 windows", BASE_QWEN2, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60,
      NEAR_FP32 },
    { "tf32", BASE_LLAMA, MODE_TF32, FORMAT_TF32, METHOD_FULL, 0, false, 80, NEAR_FP16 },
    { "fp16", BASE_QWEN2, MODE_FP16_MIXED, FORMAT_FP16, METHOD_FULL, 0, false, 75,
      NEAR_FP16 },
    { "bf16", BASE_LLAMA, MODE_BF16_MIXED, FORMAT_BF16, METHOD_FULL, 0, false, 80,
      NEAR_BF16 },
    { "pure bf16", BASE_QWEN2, MODE_BF16_PURE, FORMAT_BF16, METHOD_FULL, 0, false, 80,
      NEAR_BF16 },
    { "lora", BASE_QWEN2, MODE_BF16_MIXED, FORMAT_BF16, METHOD_LORA, 0, false, 80,
      NEAR_BF16 },
    { "lora fp32", BASE_QWEN2, MODE_FP32, FORMAT_FP32, METHOD_LORA, 0, true, 60,
      NEAR_FP32 },
    { "lora dropout", BASE_LLAMA, MODE_FP16_MIXED, FORMAT_FP16, METHOD_LORA, 0.2, true,
      75, NEAR_FP16 },
    { "gpt2", BASE_GPT2, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60, NEAR_FP32 },
    { "gpt2 fp16", BASE_GPT2, MODE_FP16_MIXED, FORMAT_FP16, METHOD_FULL, 0, false, 75,
      NEAR_FP16 },
    { "gpt2 lora", BASE_GPT2, MODE_BF16_MIXED, FORMAT_BF16, METHOD_LORA, 0, true, 80,
      NEAR_BF16 },
    { "gpt_neo", BASE_GPT_NEO, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, false, 60,
      NEAR_FP32 },
    { "gpt_neox", BASE_GPT_NEOX, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60,
      NEAR_FP32 },
    { "gpt_neox bf16", BASE_GPT_NEOX, MODE_BF16_MIXED, FORMAT_BF16, METHOD_FULL, 0, false,
      80, NEAR_BF16 },
    { "qwen3", BASE_QWEN3, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60, NEAR_FP32 },
    { "qwen3 bf16", BASE_QWEN3, MODE_BF16_MIXED, FORMAT_BF16, METHOD_FULL, 0, false, 80,
      NEAR_BF16 },
    { "gemma", BASE_GEMMA, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60, NEAR_FP32 },
    { "phi3 lora", BASE_PHI3, MODE_BF16_MIXED, FORMAT_BF16, METHOD_LORA, 0, true, 80,
      NEAR_BF16 },
    { "gemma2", BASE_GEMMA2, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60,
      NEAR_FP32 },
    { "gemma2 bf16", BASE_GEMMA2, MODE_BF16_MIXED, FORMAT_BF16, METHOD_FULL, 0, false, 80,
      NEAR_BF16 },
    { "gemma3", BASE_GEMMA3, MODE_FP32, FORMAT_FP32, METHOD_FULL, 0, true, 60,
      NEAR_FP32 },
    { "gemma3 lora", BASE_GEMMA3, MODE_BF16_MIXED, FORMAT_BF16, METHOD_LORA, 0, false, 80,
      NEAR_BF16 },
    { "gpt_neox lora", BASE_GPT_NEOX, MODE_FP32, FORMAT_FP32, METHOD_LORA, 0, false, 60,
      NEAR_FP32 },
};

static struct plan plan_of(const struct trial *trial)
{
    struct plan plan = unit_plan(bases[trial->base]);
    bool scaled = trial->mode == MODE_FP16_MIXED;

    plan.method = trial->method;
    plan.lora_dropout = trial->dropout;
    plan.gradient_checkpointing = trial->checkpointing;
    plan.gradient_accumulation_steps = BATCHES;
    plan.learning_rate = 1e-2;
    plan.weight_decay = 0.1;
    plan.job_digest = "0";
    plan.precision.mode = trial->mode;
    plan.precision.compute = plan.precision.frozen = trial->compute;
    if (trial->mode == MODE_BF16_PURE)
        plan.precision.trainable = FORMAT_BF16;
    plan.precision.max_grad_norm = 1;
    plan.precision.scaling = scaled ? SCALING_DYNAMIC : SCALING_NONE;
    plan.precision.loss_scale = scaled ? 1024 : 1;
    return plan;
}

/* The first GPU that can; NULL: none can. */
static const struct device *gpu_for(const struct trial *trial)
{
    for (size_t i = 0; i < gpu_count; i++)
        if (10 * gpus[i].major + gpus[i].minor >= trial->capability)
            return &gpus[i];
    return NULL;
}

/* On a GPU, or on the CPU where it is NULL. */
static void start(struct unit_model *u, const struct trial *trial, struct plan plan,
                  const struct device *gpu)
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

/* ---- A run ---- */

struct run {
    struct scaler scaler;
    int64_t step, updates;
    double losses[WINDOWS], norms[WINDOWS];
    float *gradients; /* of the first window */
    char *weights;    /* at the end, of all that is trained, as they are stored */
    size_t count, bytes;
};

static struct run run_new(const struct unit_model *u)
{
    struct run run = { 0 };

    scaler_init(&run.scaler, &u->plan.precision);
    return run;
}

static void run_clear(struct run *run)
{
    free(run->gradients);
    free(run->weights);
}

static void fetch(struct unit_model *u, void *to, struct tensor from)
{
    struct error err = { 0 };

    u->be->ops->download(u->be, to, from.data, tensor_bytes(from));
    unit_must(u->be->ops->sync(u->be, &err), &err);
}

/* An optimizer step, as the trainer makes it. */
static void run_window(struct unit_model *u, struct run *run)
{
    struct step_numbers numbers = unit_numbers(u, trained, run->updates + 1);
    uint64_t draw = (uint64_t)run->step * BATCHES;
    size_t at = (size_t)run->step % WINDOWS;
    struct error err = { 0 };

    numbers.grad_scale = (float)(run->scaler.scale / (double)trained);
    numbers.scaler = run->scaler;
    model_begin(u->model, &numbers);
    for (size_t i = 0; i < BATCHES; i++)
        unit_must(model_train(u->model, &batches[i], draw + i, &err), &err);
    optimizer_step(u->model, &u->plan);
    unit_must(model_end(u->model, &numbers, &run->losses[at], &err), &err);
    run->norms[at] = numbers.norm;
    run->scaler = numbers.scaler;
    run->updates += numbers.finite;
    run->step++;
}

static void keep_gradients(struct unit_model *u, struct run *run)
{
    struct tensor gradients = model_gradients(u->model);

    run->count = gradients.cols;
    run->gradients = memory_alloc(tensor_bytes(gradients));
    fetch(u, run->gradients, gradients);
}

static void keep_weights(struct unit_model *u, struct run *run)
{
    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        struct tensor weight = model_trained(u->model, i)->weight;

        run->weights = memory_resize(run->weights, run->bytes + tensor_bytes(weight), 1);
        fetch(u, run->weights + run->bytes, weight);
        run->bytes += tensor_bytes(weight);
    }
}

static struct run run_all(const struct trial *trial, struct plan plan,
                          const struct device *gpu)
{
    struct unit_model u;
    struct run run;

    start(&u, trial, plan, gpu);
    run = run_new(&u);
    run_window(&u, &run);
    keep_gradients(&u, &run);
    while (run.step < WINDOWS)
        run_window(&u, &run);
    keep_weights(&u, &run);
    unit_model_stop(&u);
    return run;
}

static struct run done[TS_COUNT(trials)];

/* A trial as it stands in the table, on a GPU: run once, for all who ask. */
static const struct run *gpu_run(const struct trial *trial)
{
    struct run *run = &done[trial - trials];

    if (!run->weights)
        *run = run_all(trial, plan_of(trial), gpu_for(trial));
    return run;
}

/* ---- What is held against what ---- */

static void check_near(const struct trial *trial, const struct run *is,
                       const struct run *wanted)
{
    double away = 0, norm = 0;

    for (size_t i = 0; i < wanted->count; i++) {
        double by = (double)is->gradients[i] - wanted->gradients[i];

        norm += (double)wanted->gradients[i] * wanted->gradients[i];
        away += by * by;
    }
    if (!(norm > 0) || !(sqrt(away) <= trial->near * sqrt(norm)))
        fail_msg("%s: gradients are off by %g of %g, more than %g of it", trial->name,
                 sqrt(away), sqrt(norm), trial->near);
    for (size_t i = 0; i < WINDOWS; i++) {
        /* a step of AdamW is as long whatever the gradient: later losses drift apart */
        double near = trial->near * (i == 0 ? 1 : 8);

        if (!(fabs(is->losses[i] - wanted->losses[i]) <= near * wanted->losses[i]) ||
            !(fabs(is->norms[i] - wanted->norms[i]) <= near * wanted->norms[i]))
            fail_msg("%s, step %zu: loss %g and norm %g, wanted %g and %g", trial->name,
                     i + 1, is->losses[i], is->norms[i], wanted->losses[i],
                     wanted->norms[i]);
    }
    assert_true(is->losses[WINDOWS - 1] < is->losses[0]);
}

static void check_same(const struct trial *trial, const struct run *a,
                       const struct run *b)
{
    for (size_t i = 0; i < WINDOWS; i++)
        if (a->losses[i] != b->losses[i] || a->norms[i] != b->norms[i])
            fail_msg("%s, step %zu: loss %.9g and norm %.9g, then %.9g and %.9g",
                     trial->name, i + 1, a->losses[i], a->norms[i], b->losses[i],
                     b->norms[i]);
    assert_int_equal(a->bytes, b->bytes);
    if (memcmp(a->weights, b->weights, a->bytes) != 0)
        fail_msg("%s: other weights", trial->name);
}

static void test_model_cuda_learns_as_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(trials); i++) {
        struct run cpu;

        if (!gpu_for(&trials[i]))
            continue;
        cpu = run_all(&trials[i], plan_of(&trials[i]), NULL);
        check_near(&trials[i], gpu_run(&trials[i]), &cpu);
        run_clear(&cpu);
    }
}

/* Without recordings, and with blocks computed again where they were not. */
static void test_model_cuda_keeps_its_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(trials); i++) {
        const struct device *gpu = gpu_for(&trials[i]);
        struct plan plan = plan_of(&trials[i]);
        struct run again;

        if (!gpu)
            continue;
        setenv("TRAINSPOOL_NO_GRAPHS", "1", 1);
        plan.gradient_checkpointing = !plan.gradient_checkpointing;
        again = run_all(&trials[i], plan, gpu);
        unsetenv("TRAINSPOOL_NO_GRAPHS");
        check_same(&trials[i], gpu_run(&trials[i]), &again);
        run_clear(&again);
    }
}

/* Two steps and a checkpoint. */
static struct run run_begin(const struct trial *trial, struct plan plan,
                            const struct device *gpu)
{
    struct unit_model u;
    struct run run;
    struct progress progress = { 0 };
    struct progress_history history = { 0 };
    struct error err = { 0 };

    start(&u, trial, plan, gpu);
    run = run_new(&u);
    run_window(&u, &run);
    run_window(&u, &run);
    progress.step = run.step;
    progress.updates = run.updates;
    progress.scaler = run.scaler;
    unit_must(checkpoint_save(u.model, &plan, &progress, &history, &err), &err);
    unit_model_stop(&u);
    return run;
}

/* The third, by another model. */
static void run_resume(const struct trial *trial, struct plan plan,
                       const struct device *gpu, struct run *run)
{
    struct unit_model u;
    char *name = checkpoint_name(plan.output_dir, run->step);
    struct progress progress = { 0 };
    struct progress_history history = { 0 };
    struct error err = { 0 };

    start(&u, trial, plan, gpu);
    unit_must(checkpoint_load(u.model, name, &progress, &history, &err), &err);
    run->updates = progress.updates;
    run->scaler = progress.scaler;
    run_window(&u, run);
    keep_weights(&u, run);
    unit_model_stop(&u);
    progress_history_clear(&history);
    free(name);
}

static void test_model_cuda_goes_on_to_the_bit(void **state)
{
    static const size_t some[] = { TRIAL_FP16, TRIAL_PURE, TRIAL_DROPOUT };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(some); i++) {
        const struct trial *trial = &trials[some[i]];
        const struct device *gpu = gpu_for(trial);
        struct plan plan = plan_of(trial);
        char *dir = unit_dir_new();
        struct run parts;

        if (gpu) {
            plan.output_dir = dir;
            parts = run_begin(trial, plan, gpu);
            run_resume(trial, plan, gpu, &parts);
            check_same(trial, gpu_run(trial), &parts);
            run_clear(&parts);
        }
        unit_dir_free(dir);
    }
}

/* From a scale far beyond fp16: the same steps are left out, the same scales follow. */
static void test_model_cuda_scales_as_the_cpu(void **state)
{
    const struct trial *trial = &trials[TRIAL_FP16];
    const struct device *devices[2] = { NULL, gpu_for(trial) };
    double scales[2][12];

    (void)state;
    if (!devices[1])
        skip();
    for (size_t d = 0; d < 2; d++) {
        struct plan plan = plan_of(trial);
        struct unit_model u;
        struct run run;

        plan.precision.loss_scale = 0x1p24;
        start(&u, trial, plan, devices[d]);
        run = run_new(&u);
        run.scaler.interval = 3;
        for (size_t i = 0; i < TS_COUNT(scales[d]); i++) {
            run_window(&u, &run);
            scales[d][i] = run.scaler.scale;
        }
        assert_true(run.scaler.skipped > 2 && run.updates > 2);
        unit_model_stop(&u);
    }
    for (size_t i = 0; i < TS_COUNT(scales[0]); i++)
        if (scales[0][i] != scales[1][i])
            fail_msg("step %zu leaves the scale %g, on the CPU %g", i + 1, scales[1][i],
                     scales[0][i]);
}

/* Evaluation and logits, which a training does not come by. */
static void test_model_cuda_evaluates_as_the_cpu(void **state)
{
    const struct trial *trial = &trials[TRIAL_FP32];
    const struct device *devices[2] = { NULL, gpu_for(trial) };
    size_t count = batches[0].sequences * VOCABULARY;
    float *logits = memory_alloc(2 * count * sizeof(*logits));
    double losses[2];

    (void)state;
    for (size_t d = 0; d < 2; d++) {
        struct unit_model u;
        struct error err = { 0 };

        start(&u, trial, plan_of(trial), devices[d]);
        losses[d] = unit_loss(&u, &batches[0]);
        unit_must(model_logits(u.model, &batches[0], logits + d * count, &err), &err);
        unit_model_stop(&u);
    }
    unit_near("loss", losses[1], losses[0], NEAR_FP32);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(logits[count + i] - logits[i]) <= 1e-4f))
            fail_msg("logit %zu is %g, on the CPU %g", i, logits[count + i], logits[i]);
    free(logits);
}

enum { SLOTS = 2, GROWN = 5 };

/* Two sequences that grow, an evaluation between their steps; logits (GROWN + 2, V). */
static void grow(const struct trial *trial, const struct device *device, float *out)
{
    struct plan plan = plan_of(trial);
    struct unit_model u;
    struct error err = { 0 };
    int32_t tokens[SLOTS], lengths[SLOTS] = { 5, 3 };

    plan.generation = (struct generation) {
        .on = true, .slots = SLOTS, .prompt_max = 5, .max_new_tokens = GROWN
    };
    start(&u, trial, plan, device);
    for (size_t s = 0; s < SLOTS; s++, out += VOCABULARY)
        unit_must(
            model_prefill(u.model, s, batches[s].tokens, (size_t)lengths[s], out, &err),
            &err);
    for (int32_t i = 0; i < GROWN; i++, out += SLOTS * VOCABULARY) {
        for (size_t s = 0; s < SLOTS; s++)
            tokens[s] = batches[s].tokens[(lengths[s] + i) % 7];
        unit_must(model_grow(u.model, tokens,
                             (int32_t[]) { lengths[0] + i, lengths[1] + i }, out, &err),
                  &err);
        if (i % 2 == 0)
            unit_loss(&u, &batches[0]);
    }
    unit_model_stop(&u);
}

/* Each architecture, with what is recorded for a step played between other passes. */
static void test_model_cuda_grows_as_the_cpu(void **state)
{
    enum { LOGITS = (SLOTS + GROWN * SLOTS) * VOCABULARY };
    float *logits = memory_alloc(2 * LOGITS * sizeof(*logits));

    (void)state;
    for (size_t t = 0; t < TS_COUNT(trials); t++) {
        if (trials[t].mode != MODE_FP32 || !gpu_for(&trials[t]))
            continue;
        grow(&trials[t], NULL, logits);
        grow(&trials[t], gpu_for(&trials[t]), logits + LOGITS);
        for (size_t i = 0; i < LOGITS; i++)
            if (!(fabsf(logits[LOGITS + i] - logits[i]) <= 1e-4f))
                fail_msg("%s: logit %zu is %g, on the CPU %g", trials[t].name, i,
                         (double)logits[LOGITS + i], (double)logits[i]);
    }
    free(logits);
}

/* What is told before a job starts is what the device has given, or a little more. */
static void test_model_cuda_takes_what_was_estimated(void **state)
{
    const struct trial *trial = &trials[TRIAL_FP32];
    const struct memory_use *taken;
    struct memory_use estimate;
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    start(&u, trial, plan_of(trial), gpu_for(trial));
    taken = model_memory(u.model);
    unit_must(shapes_memory(&u.plan, &u.config, rows_max, sequences_max, &estimate, &err),
              &err);
    assert_int_equal(taken->weights, estimate.weights);
    assert_int_equal(taken->activations, estimate.activations);
    assert_true(taken->total <= estimate.total);
    unit_model_stop(&u);
}

/* Losses of a published model, as transformers has them. */
static void test_model_cuda_has_the_losses_of_transformers(void **state)
{
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    struct backend_options with = { .device = &gpus[0] };
    char *name = path_join(u.plan.model_name_or_path, "reference.json");
    struct error err = { 0 };
    json_t *root = json_read_file(name, (size_t)4 << 20, &err);
    const json_t *one = json_array_get(json_object_get(root, "cases"), 0);
    double wanted = json_number_value(json_object_get(one, "loss")), loss;
    struct batch batch = { 0 };

    (void)state;
    unit_batch_json(&batch, json_object_get(one, "ids"));
    u.plan.device = gpus[0];
    u.be = backend_cuda.open(&with, &err);
    unit_must(u.be != NULL, &err);
    unit_model_load(&u, batch.rows, 1);
    loss = unit_loss(&u, &batch);
    if (!(fabs(loss - wanted) <= 1e-4))
        fail_msg("loss %.8f, wanted %.8f", loss, wanted);
    unit_batch_free(&batch);
    unit_model_stop(&u);
    json_decref(root);
    free(name);
}

/* ---- What all of them begin with ---- */

static char *base_new(const char *config)
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

static int setup(void **state)
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

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(done); i++)
        run_clear(&done[i]);
    for (size_t i = 0; i < BATCHES; i++)
        unit_batch_free(&batches[i]);
    for (enum base i = 0; i < BASES; i++)
        unit_dir_free(bases[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_cuda_evaluates_as_the_cpu),
        cmocka_unit_test(test_model_cuda_grows_as_the_cpu),
        cmocka_unit_test(test_model_cuda_learns_as_the_cpu),
        cmocka_unit_test(test_model_cuda_keeps_its_bits),
        cmocka_unit_test(test_model_cuda_goes_on_to_the_bit),
        cmocka_unit_test(test_model_cuda_scales_as_the_cpu),
        cmocka_unit_test(test_model_cuda_takes_what_was_estimated),
        cmocka_unit_test(test_model_cuda_has_the_losses_of_transformers),
    };
    char note[256] = "";

    gpu_count = backend_cuda.devices(gpus, TS_COUNT(gpus), note, sizeof(note));
    if (gpu_count == 0) {
        printf("1..0 # SKIP no GPU: %s\n", note);
        return 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
