/* train/torch_memory.c - memory of a PyTorch run: the maximum over four points of a
 * step. */
#include "config.h"

#include "train/torch_memory.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "train/model/shapes.h"
#include "train/torch_activations.h"

/* bitsandbytes: 8-bit moments and a float32 scale per 256 of them; the foreach AdamW of
 * torch computes in a copy of the weights (torch.optim documentation, "foreach"). */
static const struct torch_optimizer optimizers[] = {
    { "paged_adamw_8bit", 2.03, true, "bitsandbytes" },
    { "paged_adamw", 8, true, "bitsandbytes" },
    { "paged_lion_8bit", 1.02, true, "bitsandbytes" },
    { "adamw_bnb_8bit", 2.03, false, "bitsandbytes" },
    { "adamw_8bit", 2.03, false, "bitsandbytes" },
    { "adamw_torch_8bit", 2.03, false, "torchao" },
    { "adamw_torch_4bit", 1.06, false, "torchao, a scale per 128" },
    { "adamw", 8, false, "torch.optim: two moments" },
    { "lion_8bit", 1.02, false, "bitsandbytes: one moment" },
    { "lion", 4, false, "bitsandbytes: one moment" },
    { "adafactor", 0.05, false, "a row and a column per matrix" },
    { "rmsprop", 4, false, "torch.optim: one average" },
    { "adagrad", 4, false, "torch.optim: one sum" },
    { "sgd", 0, false, "torch.optim, without momentum" },
};

enum { LOGITS = 12, LOGITS_LOW = 10, LOGITS_KEPT = 4 }; /* bytes each */

/* Temporary intermediate gradients of one layer, in elements per row: measured as
 * 2 I + 4 C (docs/memory.md). */
enum { TEMPORARY_MLP = 2, TEMPORARY_WIDTH = 4 };

const struct torch_optimizer *torch_optimizer_find(const char *optim)
{
    for (size_t i = 0; optim && i < TS_COUNT(optimizers); i++)
        if (strncmp(optim, optimizers[i].name, strlen(optimizers[i].name)) == 0)
            return &optimizers[i];
    return torch_optimizer_find("adamw");
}

/* Elements of a model by use. */
struct counts {
    double all, trained;
    double linear, frozen_linear; /* of the blocks; of these, not trained */
    double head;                  /* the classifier */
    double largest;               /* linear layer */
    double adapters;              /* columns of x A^T in one layer */
    double layers, width, queries, keys, mlp, heads, vocabulary;
};

static void count_parameter(const struct shape_parameter *p, struct counts *n)
{
    double numbers = (double)p->rows * (double)p->cols;

    n->all += numbers;
    n->trained += p->trainable ? numbers : 0;
    if (p->part == PART_LORA_A && p->layer == 0)
        n->adapters += (double)p->rows;
    if (p->part != PART_WEIGHT || !module_is_linear(p->module))
        return;
    n->linear += numbers;
    n->frozen_linear += p->trainable ? 0 : numbers;
    n->largest = numbers > n->largest ? numbers : n->largest;
}

static bool count(const struct plan *plan, const struct model_config *config,
                  struct counts *n, struct error *err)
{
    struct arena *arena = arena_new();
    struct shapes shapes;
    bool ok = shapes_make(plan, config, 0, 0, arena, &shapes, err);

    *n = (struct counts) { .layers = (double)config->layers,
                           .width = (double)config->hidden_size,
                           .queries = (double)(config->heads * config->head_size),
                           .keys = (double)(config->kv_heads * config->head_size),
                           .mlp = (double)config->intermediate_size,
                           .heads = (double)config->heads,
                           .vocabulary = (double)config->vocab_size,
                           .head =
                               (double)config->vocab_size * (double)config->hidden_size };
    for (size_t i = 0; ok && i < shapes.count; i++)
        count_parameter(&shapes.parameters[i], n);
    arena_free(arena);
    return ok;
}

/* Inputs of the sums below. */
struct torch_run {
    const struct plan *plan;
    const struct torch_setup *setup;
    struct counts n;
    struct torch_row row;
    bool mixed, lora;
    double devices, rows, tokens; /* rows of a micro-batch; tokens of a sample */
    double trained, frozen;       /* bytes per trained and per frozen element */
};

static const struct torch_setup defaults;

static bool is_mixed(enum mode mode)
{
    return mode == MODE_FP16_MIXED || mode == MODE_BF16_MIXED;
}

static double bytes_of(enum format format)
{
    return (double)format_info(format)->bytes;
}

static bool run_init(const struct plan *plan, const struct model_config *config,
                     struct torch_run *run, struct error *err)
{
    enum mode mode = plan->precision.mode;

    if (plan->torch && plan->torch->stage)
        return error_set(err, ERROR_JOB, "cannot estimate the memory of stage: %s",
                         plan->torch->stage);
    *run = (struct torch_run) { .plan = plan,
                                .setup = plan->torch ? plan->torch : &defaults,
                                .mixed = is_mixed(mode),
                                .lora = plan->method == METHOD_LORA,
                                .devices = (double)plan_ranks(plan),
                                .tokens = (double)plan->cutoff_len,
                                .trained = bytes_of(plan->precision.trainable),
                                .frozen = bytes_of(plan->precision.frozen) };
    run->rows = (double)plan->per_device_train_batch_size * run->tokens;
    run->row = torch_activations_of(config, mode, run->lora);
    return count(plan, config, &run->n, err);
}

/* ---- Memory held during the whole step ---- */

static double divisor(const struct torch_run *run, int stage)
{
    return run->setup->zero_stage >= stage ? run->devices : 1;
}

/* DeepSpeed keeps 16-bit weights, and float32 masters next to the moments. */
static bool has_masters(const struct torch_run *run)
{
    return run->setup->deepspeed && run->mixed;
}

static double weights(const struct torch_run *run)
{
    const struct counts *n = &run->n;
    double quantized = run->setup->quantization_bit ? n->frozen_linear : 0;
    double each = run->setup->quantization_bit == 4 ? 0.5 + 4.0 / 64 : 1;
    double trained = has_masters(run) ? 2 : run->trained;
    double held = trained * n->trained + run->frozen * (n->all - n->trained - quantized) +
                  each * quantized;

    return (run->setup->offload_weights ? 0 : held) / divisor(run, 3);
}

static double gradients(const struct torch_run *run)
{
    return (has_masters(run) ? 2 : run->trained) * run->n.trained / divisor(run, 2);
}

static double moments(const struct torch_run *run)
{
    const struct torch_optimizer *optimizer = torch_optimizer_find(run->setup->optim);
    double each = optimizer->moments;

    if (run->setup->offload_optimizer)
        return 0;
    if (each >= 4)
        each *= run->trained / 4;
    if (has_masters(run))
        each += 4;
    return each * run->n.trained / divisor(run, 1);
}

/* Linear layers stored in 32 bits have a 16-bit copy under autocast. */
static double copies_of(const struct torch_run *run, double layers)
{
    const struct counts *n = &run->n;
    bool all = !run->lora || run->frozen > 2;

    if (!run->mixed || has_masters(run) || !all || run->setup->quantization_bit)
        return 0;
    return 2 * (layers * n->linear / n->layers + n->head);
}

static double copies(const struct torch_run *run)
{
    return copies_of(run, run->plan->gradient_checkpointing ? 1 : run->n.layers);
}

/* A quantized matrix is dequantized for its matmul; a sharded layer is gathered. */
static double gathered(const struct torch_run *run)
{
    const struct counts *n = &run->n;
    double whole = run->setup->quantization_bit ? 2 * n->largest : 0;

    if (run->setup->zero_stage >= 3 || run->setup->offload_weights)
        whole += 2 * (run->mixed ? 2 : run->trained) * (n->linear / n->layers);
    return whole;
}

/* ---- Temporary memory ---- */

static bool is_plain(const struct torch_run *run)
{
    return run->setup->plain_attention || run->row.always_plain;
}

/* Temporary gradients of one layer: of the MLP, or of unfused attention. */
static double temporary(const struct torch_run *run)
{
    const struct counts *n = &run->n;
    double mlp = run->row.number * (TEMPORARY_MLP * n->mlp + TEMPORARY_WIDTH * n->width);
    double scores = is_plain(run) ? run->row.scores * run->tokens * n->heads : 0;

    return run->rows * fmax(mlp, scores);
}

/* Activations of one layer; `repeats`: the kernel repeats keys and values for each
 * head. */
static double layer(const struct torch_run *run, bool repeats)
{
    const struct counts *n = &run->n;
    const struct torch_row *row = &run->row;
    bool plain = is_plain(run);
    double bytes = row->width * n->width + row->queries * n->queries +
                   row->keys * n->keys + row->mlp * n->mlp + 4 * n->heads + 8;

    bytes += row->number * 2 * n->adapters;
    if (repeats || plain)
        bytes += 2 * row->number * (n->queries - n->keys);
    if (plain)
        bytes += row->plain * run->tokens * n->heads;
    return bytes * run->rows;
}

struct point {
    double logits, activations, gradients, temporary;
};

static double total(const struct point *m)
{
    return m->logits + m->activations + m->gradients + m->temporary;
}

static struct point at_loss(const struct torch_run *run, double each, bool repeats)
{
    const struct counts *n = &run->n;
    double kept = run->plan->gradient_checkpointing
                      ? run->row.stream * n->width * run->rows
                      : layer(run, repeats);

    return (struct point) {
        .logits = each * run->rows * n->vocabulary,
        .activations =
            n->layers * kept + run->row.last * n->width * run->rows + copies(run),
        .gradients = run->plan->gradient_accumulation_steps > 1 ? gradients(run) : 0,
    };
}

/* Checkpointing recomputes the last layer while the inputs of all layers are still
 * held. */
static struct point at_last_layer(const struct torch_run *run, bool repeats)
{
    struct point loss = at_loss(run, LOGITS_KEPT, repeats);

    if (run->plan->gradient_checkpointing)
        loss.activations += layer(run, repeats);
    return loss;
}

/* In the first pass, gradients of the first layer and the embeddings do not exist yet. */
static double gradients_of_others(const struct torch_run *run)
{
    const struct counts *n = &run->n;
    double missing = n->linear / n->layers + n->head, all = gradients(run);

    if (run->plan->method != METHOD_FULL || run->plan->gradient_accumulation_steps > 1)
        return all;
    return all * (1 - missing / n->trained);
}

static struct point at_first_layer(const struct torch_run *run, bool repeats)
{
    const struct counts *n = &run->n;

    return (struct point) {
        .activations = layer(run, repeats) + run->row.stream * n->width * run->rows,
        .gradients = gradients_of_others(run),
        .temporary = temporary(run),
    };
}

static struct point at_step(const struct torch_run *run, bool copy)
{
    return (struct point) {
        .gradients = gradients(run),
        .temporary = copy ? gradients(run) : 0,
    };
}

static struct point largest_point(const struct torch_run *run, double each, bool high)
{
    const struct point all[] = { at_loss(run, each, high), at_last_layer(run, high),
                                 at_first_layer(run, high), at_step(run, high) };
    struct point most = all[0];

    for (size_t i = 1; i < TS_COUNT(all); i++)
        if (total(&all[i]) > total(&most))
            most = all[i];
    return most;
}

static struct memory_range held(const struct plan *plan)
{
    const uint64_t products = (uint64_t)(plan->device.major >= 9 ? 32 : 8) << 20;
    const struct memory_range context =
        plan->device.here
            ? (struct memory_range) { 0 }
            : (struct memory_range) { MEMORY_CUDA_CONTEXT - MEMORY_CUDA_CONTEXT_SPREAD,
                                      MEMORY_CUDA_CONTEXT,
                                      MEMORY_CUDA_CONTEXT + MEMORY_CUDA_CONTEXT_SPREAD };

    if (plan->device.kind == DEVICE_CPU)
        return (struct memory_range) { 0 };
    return memory_range_sum(memory_range_sum(memory_range_exact(products), context),
                            memory_group_overhead(&plan->device, plan_ranks(plan)));
}

/* An absurd batch size or length may exceed 64 bits. */
static uint64_t whole(double bytes)
{
    return (uint64_t)fmin(bytes, 0x1p60);
}

static void fill(const struct torch_run *run, const struct point *expected, double low,
                 double high, struct memory_use *out)
{
    const struct memory_range held_range = held(run->plan);
    const double fixed = weights(run) + moments(run) + gathered(run);

    *out = (struct memory_use) {
        .weights = whole(weights(run)),
        .gradients = whole(expected->gradients),
        .optimizer = whole(moments(run)),
        .activations = whole(expected->activations + expected->temporary),
        .workspace = whole(expected->logits + gathered(run)) + held_range.expected,
        .low = whole(fixed + low * 0.9) + held_range.low,
        .high = whole(fixed + high * 1.1) + held_range.high,
        .fits = true,
    };
    if (torch_optimizer_find(run->setup->optim)->paged)
        out->low -= out->optimizer;
    memory_finish(out, 0);
}

bool torch_memory(const struct plan *plan, const struct model_config *config,
                  struct memory_use *out, struct error *err)
{
    struct point low, expected, high;
    struct torch_run run;

    *out = (struct memory_use) { .fits = true };
    if (!run_init(plan, config, &run, err))
        return false;
    low = largest_point(&run, LOGITS_LOW, false);
    expected = largest_point(&run, LOGITS, false);
    high = largest_point(&run, LOGITS, true);
    fill(&run, &expected, total(&low), total(&high), out);
    return true;
}

bool torch_memory_eval(const struct plan *plan, const struct model_config *config,
                       struct memory_use *out, struct error *err)
{
    struct point pass;
    struct torch_run run;

    *out = (struct memory_use) { .fits = true };
    if (!run_init(plan, config, &run, err))
        return false;
    if (!run.setup->evaluates)
        return true;
    run.rows = (double)plan->per_device_eval_batch_size * run.tokens;
    /* a quarter of a layer exists at once, as measured (docs/memory.md) */
    pass = (struct point) {
        .logits =
            (run.mixed ? LOGITS_LOW : 2 * LOGITS_KEPT) * run.rows * run.n.vocabulary,
        .activations = layer(&run, false) / 4 + copies_of(&run, run.n.layers),
    };
    fill(&run, &pass, total(&pass) * 0.8, total(&pass), out);
    return true;
}

uint64_t torch_memory_load(const struct plan *plan, const struct model_config *config)
{
    struct error ignored = { 0 };
    struct torch_run run;

    if (!run_init(plan, config, &run, &ignored))
        return 0;
    return whole(run.frozen * run.n.all * run.devices);
}
