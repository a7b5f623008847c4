/* train/duration.c - duration of a step: its work divided by the rates of the device. */
#include "config.h"

#include "train/duration.h"

#include <math.h>

#include "base/size.h"
#include "train/model/optimizer_table.h"
#include "train/model/shapes.h"
#include "train/teacher/teacher_plan.h"

/* From the runs of docs/memory.md, with a margin. */
static const double low_factor = 0.6, high_factor = 1.6;

/* What kernels read of host memory over PCIe 4.0 x16, 32 GB/s each way: assumed. */
#define BUS_BYTES_PER_SECOND 20e9

/* Operations that the trainer issues: train/model/model_forward.c,
 * train/model/model_backward.c. */
enum { FORWARD_OPS = 10, BACKWARD_OPS = 19, ADAPTER_OPS = 3 };

struct work {
    const struct plan *plan;
    const struct model_config *config;
    const struct calibration *calibration;
    const struct duration_step *step;
    struct shapes shapes;
    double passes; /* of the forward pass: 1, 2 with checkpointing */
};

static double rate(const struct work *w, double width)
{
    return calibration_rate(w->calibration, w->shapes.compute, width);
}

/* Matmuls of one weight: forward, gradient of the input, gradient of the weight. */
static double matmul_seconds(const struct work *w, const struct shape_parameter *p)
{
    const struct model_config *c = w->config;
    double rows = (double)p->rows, cols = (double)p->cols;
    double operations = 2 * rows * cols * w->step->tokens;

    if (module_is_of_experts(p->module)) /* of the tokens that chose this one */
        operations *= (double)c->chosen_experts / (double)c->experts;
    return operations * (w->passes + 1 + (p->trainable ? 1 : 0)) /
           rate(w, sqrt(rows * cols));
}

static bool is_matmul(const struct shape_parameter *p)
{
    return p->rank == 2 && (module_in_block(p->module) || module_is_linear(p->module));
}

static double matmuls(const struct work *w)
{
    double seconds = 0;

    for (size_t i = 0; i < w->shapes.count; i++)
        if (is_matmul(&w->shapes.parameters[i]))
            seconds += matmul_seconds(w, &w->shapes.parameters[i]);
    return seconds;
}

static double attention(const struct work *w)
{
    const struct model_config *c = w->config;
    double width = 0; /* of all layers */
    /* a CPU computes attention in float32, whatever the stored format */
    enum format format =
        w->plan->device.kind == DEVICE_CPU ? FORMAT_FP32 : w->shapes.compute;
    double operations;

    for (size_t l = 0; l < c->layers; l++)
        width += (double)model_config_queries(c, l);
    operations = 4 * w->step->tokens * w->step->length / 2 * width;
    return operations * (w->passes + 2.5) /
           calibration_rate(w->calibration, format, (double)c->head_size);
}

static double classifier(const struct work *w)
{
    double rows = (double)w->config->vocab_size, cols = (double)w->config->hidden_size;
    double operations = 2 * rows * cols * w->step->learned;
    int times = w->plan->method == METHOD_FULL ? 3 : 2;

    if (w->config->scores)
        return 0;
    return times * operations / rate(w, sqrt(rows * cols)) +
           8 * rows * w->step->learned / w->calibration->bytes_per_second;
}

static double traffic(const struct work *w)
{
    const struct model_config *c = w->config;
    double item = (double)format_info(w->shapes.compute)->bytes;
    double width = (double)c->hidden_size;
    double queries = (double)model_config_most_queries(c);
    double keys = (double)model_config_most_keys(c),
           mlp = (double)model_config_active_size(c);
    double forward =
        2 * (8 + 2 * item) * width + 2 * item * (queries + keys) + 3 * item * mlp;

    return forward * (w->passes + 2) * w->step->tokens * (double)c->layers /
           w->calibration->bytes_per_second;
}

static bool has_router_adapters(const struct architecture *a)
{
    return a->paths[MODULE_SHARED_ROUTER] || a->paths[MODULE_LINEAR_ROUTER];
}

static double overhead(const struct work *w)
{
    double ops = FORWARD_OPS * w->passes + BACKWARD_OPS;
    double windows = (double)w->plan->gradient_accumulation_steps;
    /* without those of latent attention, of routers, of state spaces, and of inputs for layers */
    double stacks = STACKS - (model_config_is_latent(w->config) ? 0 : 2) -
                    (has_router_adapters(w->config->architecture) ? 0 : 1) -
                    (w->config->ssm.heads > 0 ? 0 : 1) - (w->config->crosses ? 0 : 1) -
                    (w->config->layer_inputs > 0 ? 0 : 3);

    if (plan_adapts(w->plan))
        ops += ADAPTER_OPS * (w->passes + 2) * stacks;
    return ops * windows * (double)w->config->layers *
           w->calibration->seconds_per_operation;
}

/* Moments in host memory are read and written over the bus, both at a time. */
static double update(const struct work *w)
{
    const struct shapes *s = &w->shapes;
    double numbers = (double)s->shard;
    double seconds = numbers * (double)optimizer_of(w->plan)->update_bytes /
                     w->calibration->bytes_per_second;

    if (s->offloads)
        seconds += (double)s->moments_bytes / BUS_BYTES_PER_SECOND;
    return seconds;
}

static double forward(const struct work *w)
{
    /* one forward pass of attention is 1 / (passes + 2.5) of the total */
    double seconds = attention(w) / (w->passes + 2.5);
    double vocab = (double)w->config->vocab_size, cols = (double)w->config->hidden_size;

    for (size_t i = 0; i < w->shapes.count; i++)
        if (is_matmul(&w->shapes.parameters[i]))
            seconds += matmul_seconds(w, &w->shapes.parameters[i]) / 2;
    return seconds + 2 * vocab * cols * w->step->learned / rate(w, sqrt(vocab * cols)) +
           FORWARD_OPS * (double)w->plan->gradient_accumulation_steps *
               (double)w->config->layers * w->calibration->seconds_per_operation;
}

/* A teacher or reference model, which only runs forward. */
static double second_model(const struct work *first, struct arena *arena)
{
    struct error ignored = { 0 };
    struct teacher_plan teacher;
    struct work w = *first;

    if (!plan_has_second_model(first->plan) || plan_teacher_logits(first->plan) ||
        !first->plan->kd.config ||
        !teacher_plan_make(first->plan, false, arena, &teacher, &ignored) ||
        !shapes_make(&teacher.plan, &teacher.config, 0, 0, arena, &w.shapes, &ignored))
        return 0;
    w.config = &teacher.config;
    w.passes = 1;
    return forward(&w);
}

/* Extra work of preferences: the loss of each token before the backward pass, and the
 * forward pass of the reference if the base model serves as one. */
static double preferences(const struct work *w)
{
    struct work once = *w;
    double vocab = (double)w->config->vocab_size, cols = (double)w->config->hidden_size;
    double losses = 2 * vocab * cols * w->step->learned / rate(w, sqrt(vocab * cols));

    if (w->plan->stage < STAGE_DPO || w->config->scores)
        return 0;
    once.passes = 1;
    return plan_has_reference(w->plan) && !plan_has_second_model(w->plan)
               ? losses + forward(&once)
               : losses;
}

bool duration_of_step(const struct plan *plan, const struct model_config *config,
                      const struct calibration *calibration,
                      const struct duration_step *step, struct duration *out)
{
    struct arena *arena = arena_new();
    struct work w = { .plan = plan,
                      .config = config,
                      .calibration = calibration,
                      .step = step,
                      .passes = plan->gradient_checkpointing ? 2 : 1 };
    struct error ignored = { 0 };
    bool ok =
        !plan->external && shapes_make(plan, config, 0, 0, arena, &w.shapes, &ignored);
    double seconds = ok ? matmuls(&w) + attention(&w) + classifier(&w) + traffic(&w) +
                              overhead(&w) + update(&w) + second_model(&w, arena) +
                              preferences(&w)
                        : 0;

    /* ranks on one CPU share it */
    if (plan->device.kind == DEVICE_CPU)
        seconds *= (double)plan_ranks(plan);
    *out = (struct duration) { low_factor * seconds, seconds, high_factor * seconds };
    arena_free(arena);
    return ok;
}
