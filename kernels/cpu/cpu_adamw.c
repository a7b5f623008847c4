/* kernels/cpu/cpu_adamw.c - the optimizers: one pass over weights, gradients and moments.
 * AdamW reads 16 bytes per weight and writes 12, and 2 for the copy; memory bandwidth is
 * the limit. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

/* The scalars of a step in the form the loop uses. */
struct adamw {
    struct target target;
    struct tensor grad, m, v;
    float grad_scale, keep, beta1, beta2, rest1, rest2, rate, root, eps;
};

CPU_INLINE void adamw_range(const struct adamw *a, size_t first, size_t last,
                            const uint32_t *draws)
{
    const struct tensor *target = &a->target.w;

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec g = vec_load(a->grad.data, a->grad.format, i, count) * a->grad_scale;
        vec m = vec_load(a->m.data, a->m.format, i, count);
        vec v = vec_load(a->v.data, a->v.format, i, count);
        vec w = vec_load(target->data, target->format, i, count) * a->keep;

        m = m * a->beta1 + g * a->rest1;
        v = v * a->beta2 + g * g * a->rest2;
        w -= a->rate * m / (vec_sqrt(v) * a->root + a->eps);
        vec_store(a->m.data, a->m.format, i, count, m);
        vec_store(a->v.data, a->v.format, i, count, v);
        target_store(&a->target, i, count, w, draws ? draws + (i - first) : NULL);
    }
}

static void adamw_drawn(const void *context, size_t first, size_t last,
                        const uint32_t *draws)
{
    adamw_range(context, first, last, draws);
}

static void adamw_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adamw *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (a->target.stochastic)
        target_draw(&a->target, task, adamw_drawn, a);
    else
        adamw_range(a, first, size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols),
                    NULL);
}

void CPU_OP(adamw)(struct backend *be, const struct op_adamw *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    int64_t step = n ? n->step : op->step;
    struct adamw adamw = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
        .m = cpu_flat(op->m),
        .v = cpu_flat(op->v),
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
        .keep = (float)(1 - lr * op->decay),
        .beta1 = (float)op->beta1,
        .beta2 = (float)op->beta2,
        .rest1 = (float)(1 - op->beta1),
        .rest2 = (float)(1 - op->beta2),
        .rate = (float)(lr / (1 - pow(op->beta1, (double)step))),
        .root = (float)(1 / sqrt(1 - pow(op->beta2, (double)step))),
        .eps = (float)op->eps,
    };

    if (op->correct_eps)
        adamw.eps *= adamw.root;
    if (op->decay_last)
        adamw.rate *= adamw.keep;
    if (n && !n->finite)
        return;
    if (op->stochastic)
        target_rounds(&adamw.target, op->seed, step, op->first);
    cpu_backend_run(be, size_divide_up(adamw.target.w.cols, CPU_TASK_ELEMENTS),
                    adamw_task, &adamw);
}

struct sgd {
    struct target target;
    struct tensor grad;
    float grad_scale, lr, decay;
};

CPU_INLINE void sgd_range(const struct sgd *s, size_t first, size_t last,
                          const uint32_t *draws)
{
    const struct tensor *target = &s->target.w;

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec w = vec_load(target->data, target->format, i, count);
        vec g = vec_load(s->grad.data, s->grad.format, i, count) * s->grad_scale;

        w -= s->lr * (g + s->decay * w);
        target_store(&s->target, i, count, w, draws ? draws + (i - first) : NULL);
    }
}

static void sgd_drawn(const void *context, size_t first, size_t last,
                      const uint32_t *draws)
{
    sgd_range(context, first, last, draws);
}

static void sgd_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct sgd *s = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (s->target.stochastic)
        target_draw(&s->target, task, sgd_drawn, s);
    else
        sgd_range(s, first, size_min(first + CPU_TASK_ELEMENTS, s->target.w.cols), NULL);
}

void CPU_OP(sgd)(struct backend *be, const struct op_sgd *op)
{
    const struct step_scalars *n = op->numbers;
    struct sgd sgd = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
        .lr = (float)(op->lr * (n ? n->learning_rate : 1)),
        .decay = (float)op->decay,
    };

    if (n && !n->finite)
        return;
    if (op->stochastic)
        target_rounds(&sgd.target, op->seed, n ? n->step : op->step, op->first);
    cpu_backend_run(be, size_divide_up(sgd.target.w.cols, CPU_TASK_ELEMENTS), sgd_task,
                    &sgd);
}
