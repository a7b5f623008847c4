/*
 * bench/bench_experts.c - measures a layer with a mixture of experts on the CPU: the
 * router, the experts' gated MLP, and their gradients.
 *
 *     bench/bench_experts [SHAPE fp32|bf16 [THREADS]]
 *
 * 1 thread is timed by processor time, which other processes hardly affect.
 * peer_experts.py runs it in turn with the same layer of transformers.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/target.h"

enum { REPEATS = 5 };

/* N rows, width C, E experts of inner width I, k of them for each row. */
struct shape {
    const char *name;
    size_t rows, width, inner, experts, chosen;
};

static const struct shape shapes[] = {
    { "few", 512, 1024, 1792, 8, 2 },   /* Mixtral's proportions */
    { "many", 1024, 1024, 384, 64, 8 }, /* OLMoE's and Qwen3's */
    { "sparse", 128, 1024, 384, 64, 8 },
};

struct layer {
    struct backend *be;
    const struct shape *shape;
    enum format format;
    struct tensor x, dx, gate, dgate, up, dup, down, ddown; /* up: gate and up, a stack */
    struct tensor logits, dlogits, weights, dweights, probabilities;
    struct tensor gathered, both, dboth, act, dact, y, out, dout;
    int32_t *integers;
};

static struct tensor matrix(struct layer *l, enum format format, size_t rows, size_t cols)
{
    struct tensor t = tensor_of(NULL, format, rows, cols);

    t.data = target_memory(l->be, tensor_bytes(t));
    return t;
}

static struct tensor random_matrix(struct layer *l, size_t rows, size_t cols,
                                   double scale)
{
    enum { PATTERN = 1 << 16 };
    struct tensor t = matrix(l, l->format, rows, cols);
    float *values = calloc(PATTERN, sizeof(*values));
    size_t each = format_info(l->format)->bytes;

    for (size_t i = 0; i < PATTERN; i++)
        values[i] = (float)(scale * random_normal(1, RANDOM_INIT, 0, i));
    for (size_t at = 0; at < rows * cols; at += PATTERN)
        format_convert((char *)t.data + at * each, l->format, values, FORMAT_FP32,
                       size_min(PATTERN, rows * cols - at));
    free(values);
    return t;
}

static void layer_open(struct layer *l)
{
    const struct shape *s = l->shape;
    size_t pairs = s->rows * s->chosen;

    l->x = random_matrix(l, s->rows, s->width, 1);
    l->dout = random_matrix(l, s->rows, s->width, 1);
    l->gate = random_matrix(l, s->experts, s->width, 0.3);
    l->up = random_matrix(l, s->experts * 2 * s->inner, s->width, 0.02);
    l->down = random_matrix(l, s->experts * s->width, s->inner, 0.02);
    l->dgate = matrix(l, FORMAT_FP32, s->experts, s->width);
    l->dup = matrix(l, FORMAT_FP32, s->experts * 2 * s->inner, s->width);
    l->ddown = matrix(l, FORMAT_FP32, s->experts * s->width, s->inner);
    l->logits = matrix(l, FORMAT_FP32, s->rows, s->experts);
    l->dlogits = matrix(l, l->format, s->rows, s->experts);
    l->probabilities = matrix(l, FORMAT_FP32, s->rows, s->experts);
    l->weights = matrix(l, FORMAT_FP32, s->rows, s->chosen);
    l->dweights = matrix(l, FORMAT_FP32, s->rows, s->chosen);
    l->gathered = matrix(l, l->format, pairs, s->width);
    l->y = matrix(l, l->format, pairs, s->width);
    l->both = matrix(l, l->format, pairs, 2 * s->inner);
    l->dboth = matrix(l, l->format, pairs, 2 * s->inner);
    l->act = matrix(l, l->format, pairs, s->inner);
    l->dact = matrix(l, l->format, pairs, s->inner);
    l->out = matrix(l, l->format, s->rows, s->width);
    l->dx = matrix(l, l->format, s->rows, s->width);
    l->integers =
        target_memory(l->be, (3 * pairs + 2 * s->experts + 1) * sizeof(int32_t));
}

static struct op_route route_of(const struct layer *l)
{
    size_t pairs = l->shape->rows * l->shape->chosen;

    return (struct op_route) { .probabilities = l->probabilities,
                               .weights = l->weights,
                               .logits = l->logits,
                               .experts = l->integers,
                               .order = l->integers + pairs,
                               .slots = l->integers + 2 * pairs,
                               .starts = l->integers + 3 * pairs,
                               .normalize = true };
}

static struct op_grouped_matmul grouped(const struct layer *l, struct tensor out,
                                        struct tensor a, struct tensor b)
{
    return (struct op_grouped_matmul) { .out = out,
                                        .a = a,
                                        .b = b,
                                        .starts = route_of(l).starts,
                                        .groups = l->shape->experts,
                                        .alpha = 1 };
}

static void forward(struct layer *l)
{
    const struct backend_ops *ops = l->be->ops;
    struct op_route route = route_of(l);
    struct op_grouped_matmul up = grouped(l, l->both, l->gathered, l->up);
    struct op_grouped_matmul down = grouped(l, l->y, l->act, l->down);
    size_t inner = l->shape->inner;

    up.trans_b = down.trans_b = true;
    ops->matmul(
        l->be,
        &(struct op_matmul) {
            .out = l->logits, .a = l->x, .b = l->gate, .trans_b = true, .alpha = 1 });
    ops->route(l->be, &route);
    ops->gather_pairs(l->be,
                      &(struct op_gather_pairs) { l->gathered, l->x, route.order });
    ops->grouped_matmul(l->be, &up);
    ops->swiglu(l->be, &(struct op_swiglu) { l->act, tensor_columns(l->both, 0, inner),
                                             tensor_columns(l->both, inner, inner),
                                             ACTIVATION_SILU, NULL });
    ops->grouped_matmul(l->be, &down);
    ops->combine(l->be, &(struct op_combine) { .out = l->out,
                                               .y = l->y,
                                               .weights = l->weights,
                                               .slots = route.slots });
}

/* The gradient of the weight of `of`, a row after the other, is added in fp32. */
static void grouped_backward(struct layer *l, struct tensor dx, struct tensor dw,
                             struct tensor dy, struct tensor x, struct tensor w)
{
    struct op_grouped_matmul to_x = grouped(l, dx, dy, w);
    struct op_grouped_matmul to_w = grouped(l, dw, dy, x);

    to_w.trans_a = true;
    to_w.beta = 1;
    l->be->ops->grouped_matmul(l->be, &to_w);
    l->be->ops->grouped_matmul(l->be, &to_x);
}

static void backward(struct layer *l)
{
    const struct backend_ops *ops = l->be->ops;
    struct op_route route = route_of(l);
    size_t inner = l->shape->inner;

    ops->combine_backward(l->be, &(struct op_combine_backward) { .dy = l->y,
                                                                 .dweights = l->dweights,
                                                                 .dout = l->dout,
                                                                 .y = l->y,
                                                                 .weights = l->weights,
                                                                 .slots = route.slots });
    grouped_backward(l, l->dact, l->ddown, l->y, l->act, l->down);
    ops->swiglu_backward(l->be, &(struct op_swiglu_backward) {
                                    .dgate = tensor_columns(l->dboth, 0, inner),
                                    .dup = tensor_columns(l->dboth, inner, inner),
                                    .dout = l->dact,
                                    .gate = tensor_columns(l->both, 0, inner),
                                    .up = tensor_columns(l->both, inner, inner) });
    grouped_backward(l, l->y, l->dup, l->dboth, l->gathered, l->up);
    ops->sum_pairs(l->be, &(struct op_sum_pairs) { l->dx, l->y, route.slots, false });
    ops->route_backward(l->be, &(struct op_route_backward) { .dlogits = l->dlogits,
                                                             .dweights = l->dweights,
                                                             .forward = route });
    ops->matmul(l->be, &(struct op_matmul) { .out = l->dgate,
                                             .a = l->dlogits,
                                             .b = l->x,
                                             .trans_a = true,
                                             .alpha = 1,
                                             .beta = 1 });
    ops->matmul(l->be,
                &(struct op_matmul) {
                    .out = l->dx, .a = l->dlogits, .b = l->gate, .alpha = 1, .beta = 1 });
}

/* Run the layer a few times; print the least time of each direction. */
static void measure(const struct shape *shape, enum format format, int threads)
{
    double (*clock)(void) = threads == 1 ? clock_cpu : clock_seconds;
    struct layer l = { .be = target_open(target_find("cpu"), threads),
                       .shape = shape,
                       .format = format };
    double best[2] = { 1e9, 1e9 };
    double flops =
        6.0 * (double)(shape->rows * shape->chosen * shape->inner) * (double)shape->width;

    layer_open(&l);
    for (int i = 0; i < REPEATS; i++) {
        double start = clock(), middle, end;

        forward(&l);
        target_wait(l.be);
        middle = clock();
        backward(&l);
        target_wait(l.be);
        end = clock();
        best[0] = middle - start < best[0] ? middle - start : best[0];
        best[1] = end - middle < best[1] ? end - middle : best[1];
    }
    printf("| %s | %s | %.1f | %.1f | %.0f |\n", shape->name, format_info(format)->name,
           best[0] * 1e3, best[1] * 1e3, 3 * flops / (best[0] + best[1]) * 1e-9);
    backend_close(l.be);
}

int main(int argc, char **argv)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16 };

    printf("| shape | format | forward, ms | backward, ms | GFLOP/s |\n"
           "|---|---|---|---|---|\n");
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            if (argc < 3 || (strcmp(argv[1], shapes[i].name) == 0 &&
                             strcmp(argv[2], format_info(formats[f])->name) == 0))
                measure(&shapes[i], formats[f], argc > 3 ? atoi(argv[3]) : 0);
    return 0;
}
