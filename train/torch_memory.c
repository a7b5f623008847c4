/* train/torch_memory.c - memory of a PyTorch run: the maximum over four points of a
 * step. */
#include "config.h"

#include "train/torch_memory.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "train/model/shapes.h"
#include "train/torch_activations.h"
#include "train/torch_optimizers.h"

enum { LOGITS = 12, LOGITS_LOW = 10, LOGITS_KEPT = 4 }; /* bytes each */

/* Temporary intermediate gradients of one layer, in elements per row: measured as
 * 2 I + 4 C (docs/memory.md). */
enum { TEMPORARY_MLP = 2, TEMPORARY_WIDTH = 4 };

/* What a step of LLaMA-Factory's stages processes beyond that of stage sft: train/dpo, kto
 * and rm/trainer.py, data/collator.py (LLaMA-Factory 0.9.3).  Their memory has not been
 * measured. */
static const struct stage_cost {
    const char *stage;
    double sequences; /* per sample: the chosen and the rejected answer */
    double logits;    /* bytes of each logit, instead of LOGITS */
    bool reference;   /* compares with a reference model */
    bool value_head;  /* a linear layer with one output, which is trained */
} stage_costs[] = {
    { .stage = "dpo", .sequences = 2, .logits = LOGITS, .reference = true },
    /* the logits of the mismatched answers exist next to the others, without gradients */
    { .stage = "kto", .sequences = 1, .logits = LOGITS + LOGITS_KEPT, .reference = true },
    /* logits are computed, as float32 too, but nothing reads them */
    { .stage = "rm", .sequences = 2, .logits = 6, .value_head = true },
};

static const struct stage_cost *find_stage(const char *stage)
{
    for (size_t i = 0; stage && i < TS_COUNT(stage_costs); i++)
        if (strcmp(stage_costs[i].stage, stage) == 0)
            return &stage_costs[i];
    return NULL;
}

/* Elements of a model by use. */
struct counts {
    double all, trained;
    double linear, frozen_linear; /* of the blocks; of these, not trained */
    double head;                  /* the classifier */
    double embeddings;            /* trained ones */
    double largest;               /* linear layer */
    double projected;             /* elements of the matrices that are projected */
    double low_rank, projections; /* of those: the gradients in rank r; the projections */
    double adapters;              /* columns of x A^T in one layer */
    double layers, width, queries, keys, mlp, heads, vocabulary;
};

static void count_projection(const struct shape_parameter *p, double rank,
                             struct counts *n)
{
    const double rows = (double)p->rows, cols = (double)p->cols;
    const double least = fmin(rows, cols), kept = fmin(rank, least);

    n->projected += rows * cols;
    n->low_rank += kept * fmax(rows, cols);
    n->projections += kept * least;
}

static void count_parameter(const struct shape_parameter *p, double rank,
                            struct counts *n)
{
    double numbers = (double)p->rows * (double)p->cols;

    n->all += numbers;
    n->trained += p->trainable ? numbers : 0;
    if (p->trainable && p->part == PART_WEIGHT && module_is_table(p->module))
        n->embeddings += numbers;
    if (p->part == PART_LORA_A && p->layer == 0)
        n->adapters += (double)p->rows;
    if (p->part != PART_WEIGHT || !module_is_linear(p->module))
        return;
    n->linear += numbers;
    n->frozen_linear += p->trainable ? 0 : numbers;
    n->largest = numbers > n->largest ? numbers : n->largest;
    if (p->trainable)
        count_projection(p, rank, n);
}

static bool count(const struct plan *plan, const struct model_config *config,
                  struct counts *n, struct error *err)
{
    struct arena *arena = arena_new();
    struct shapes shapes;
    bool ok = shapes_make(plan, config, 0, 0, arena, &shapes, err);

    *n = (struct counts) { .layers = (double)config->layers,
                           .width = (double)config->hidden_size,
                           .queries = (double)model_config_most_queries(config),
                           .keys = (double)model_config_most_keys(config),
                           .mlp = (double)model_config_active_size(config),
                           .heads = (double)config->heads,
                           .vocabulary = (double)config->vocab_size,
                           .head =
                               (double)config->vocab_size * (double)config->hidden_size };
    for (size_t i = 0; ok && i < shapes.count; i++)
        count_parameter(&shapes.parameters[i],
                        plan->torch ? (double)plan->torch->rank : 0, n);
    arena_free(arena);
    return ok;
}

/* Inputs of the sums below. */
struct torch_run {
    const struct plan *plan;
    const struct torch_setup *setup;
    const struct torch_optimizer *optimizer;
    const struct stage_cost *stage; /* NULL: like sft */
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

/* An unknown optimizer is counted as AdamW; torch_memory_doubt says so. */
static const struct torch_optimizer *optimizer_of_setup(const struct torch_setup *setup)
{
    const struct torch_optimizer *found = torch_optimizer_find(setup->optim);

    return found ? found : torch_optimizer_find(NULL);
}

static void add_value_head(struct torch_run *run)
{
    if (!run->stage || !run->stage->value_head)
        return;
    run->n.all += run->n.width + 1;
    run->n.trained += run->n.width + 1;
}

static bool run_init(const struct plan *plan, const struct model_config *config,
                     struct torch_run *run, struct error *err)
{
    enum mode mode = plan->precision.mode;
    const char *stage = plan->torch ? plan->torch->stage : NULL;

    if (stage && !find_stage(stage))
        return error_set(err, ERROR_JOB, "cannot estimate the memory of stage: %s",
                         stage);
    *run = (struct torch_run) { .plan = plan,
                                .setup = plan->torch ? plan->torch : &defaults,
                                .stage = find_stage(stage),
                                .mixed = is_mixed(mode),
                                .lora = plan_adapts(plan),
                                .devices = (double)plan_ranks(plan),
                                .tokens = (double)plan->cutoff_len,
                                .trained = bytes_of(plan->precision.trainable),
                                .frozen = bytes_of(plan->precision.frozen) };
    run->optimizer = optimizer_of_setup(run->setup);
    run->rows = (double)plan->per_device_train_batch_size * run->tokens *
                (run->stage ? run->stage->sequences : 1);
    run->row = torch_activations_of(config, mode, run->lora);
    if (!count(plan, config, &run->n, err))
        return false;
    add_value_head(run);
    return true;
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

/* The reference model has the compute format: create_ref_model and, for a model that is
 * not trained, init_adapter and load_model of LLaMA-Factory. */
static double reference(const struct torch_run *run)
{
    const double each = run->mixed || run->trained < 4 ? 2 : run->trained;

    if (!run->stage || !run->stage->reference || !run->setup->reference)
        return 0;
    return each * run->n.all / (run->setup->deepspeed ? divisor(run, 3) : 1);
}

static double weights(const struct torch_run *run)
{
    const struct counts *n = &run->n;
    double quantized = run->setup->quantization_bit ? n->frozen_linear : 0;
    double each = run->setup->quantization_bit == 4 ? 0.5 + 4.0 / 64 : 1;
    double trained = has_masters(run) ? 2 : run->trained;
    double held = trained * n->trained + run->frozen * (n->all - n->trained - quantized) +
                  each * quantized;

    return (run->setup->offload_weights ? 0 : held) / divisor(run, 3) + reference(run);
}

static double block_elements(const struct torch_run *run)
{
    return run->n.linear / run->n.layers;
}

/* Weights whose gradients exist at the same time. */
static double gradient_elements(const struct torch_run *run)
{
    const struct counts *n = &run->n;

    if (run->optimizer->in_backward)
        return fmin(n->trained, fmax(n->largest, n->head));
    if (run->optimizer->kind == MOMENTS_OF_BLOCK)
        return fmin(n->trained, block_elements(run));
    return n->trained;
}

static double gradients(const struct torch_run *run)
{
    const double each = run->optimizer->kind == MOMENTS_OF_BLOCK ? 4
                        : has_masters(run)                       ? 2
                                                                 : run->trained;

    return each * gradient_elements(run) / divisor(run, 2);
}

/* Moments in the format of the weights, unless the optimizer quantizes them. */
static double moment_bytes(const struct torch_run *run, double each)
{
    return each >= 4 ? each * run->trained / 4 : each;
}

static double moments(const struct torch_run *run)
{
    const struct torch_optimizer *optimizer = run->optimizer;
    const struct counts *n = &run->n;
    const double each = moment_bytes(run, optimizer->moments);
    const double masters = has_masters(run) ? 4 * n->trained : 0;
    double bytes = each * n->trained;

    if (run->setup->offload_optimizer)
        return 0;
    if (optimizer->kind == MOMENTS_OF_BLOCK)
        bytes = optimizer->moments * fmin(n->trained, block_elements(run));
    if (optimizer->kind == MOMENTS_LOW_RANK)
        bytes = each * (n->trained - n->projected + n->low_rank) +
                run->trained * n->projections;
    if (optimizer->embeddings > 0)
        bytes += (optimizer->embeddings - each) * n->embeddings;
    if (optimizer->matrices > 0)
        bytes += (moment_bytes(run, optimizer->matrices) - each) * n->projected;
    return (bytes + masters) / divisor(run, 1);
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

    if (run->plan->method != METHOD_FULL || run->plan->gradient_accumulation_steps > 1 ||
        gradient_elements(run) < n->trained)
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
                            plan_nccl_overhead(plan));
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
    if (run->optimizer->paged)
        out->low -= out->optimizer;
    memory_finish(out, 0);
}

bool torch_memory(const struct plan *plan, const struct model_config *config,
                  struct memory_use *out, struct error *err)
{
    struct point low, expected, high;
    struct torch_run run;
    double each;

    *out = (struct memory_use) { .fits = true };
    if (!run_init(plan, config, &run, err))
        return false;
    each = run.stage ? run.stage->logits : LOGITS;
    low = largest_point(&run, fmin(each, LOGITS_LOW), false);
    expected = largest_point(&run, each, false);
    high = largest_point(&run, each, true);
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
    run.rows = (double)plan->per_device_eval_batch_size * run.tokens *
               (run.stage ? run.stage->sequences : 1);
    /* a quarter of a layer exists at once, as measured (docs/memory.md) */
    pass = (struct point) {
        .logits =
            (run.mixed ? LOGITS_LOW : 2 * LOGITS_KEPT) * run.rows * run.n.vocabulary,
        .activations = layer(&run, false) / 4 + copies_of(&run, run.n.layers),
    };
    fill(&run, &pass, total(&pass) * 0.8, total(&pass), out);
    return true;
}

bool torch_memory_lacks_ranks(const struct plan *plan)
{
    const struct torch_setup *setup = plan->torch;

    return setup && setup->zero_stage > 0 && plan_ranks(plan) == 1 && !setup->ranks_given;
}

/* Return why the bytes of weights, gradients and optimizer are uncertain, or NULL. */
static const char *state_doubt(const struct plan *plan)
{
    const struct torch_setup *setup = plan->torch ? plan->torch : &defaults;
    const struct torch_optimizer *optimizer = torch_optimizer_find(setup->optim);

    if (torch_memory_lacks_ranks(plan))
        return "the number of ranks that share it is unknown";
    if (setup->sharding_unknown)
        return "the DeepSpeed file cannot be read here, so what it shards is unknown";
    if (!optimizer)
        return "what this optimizer keeps is unknown, so it counts as AdamW";
    if (setup->partly_covered)
        return "the estimate does not cover this setting of the optimizer";
    return optimizer->unmeasured ? "no run with this optimizer was measured" : NULL;
}

bool torch_memory_knows_state(const struct plan *plan)
{
    return state_doubt(plan) == NULL;
}

const char *torch_memory_doubt(const struct plan *plan)
{
    const char *doubt = state_doubt(plan);

    if (!doubt && plan->torch && plan->torch->stage)
        doubt = "no run of this stage was measured";
    return doubt;
}

uint64_t torch_memory_load(const struct plan *plan, const struct model_config *config)
{
    struct error ignored = { 0 };
    struct torch_run run;

    if (!run_init(plan, config, &run, &ignored))
        return 0;
    return whole(run.frozen * run.n.all * run.devices);
}
