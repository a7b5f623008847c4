/* kernels/cpu/cpu_lion.c - Lion: the sign of a mean of gradients. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

/* The scalars of a step in the form the loop uses. */
struct lion {
    struct target target;
    struct tensor grad, m;
    float grad_scale, keep, lr, beta1, beta2, rest1, rest2;
};

CPU_INLINE void lion_range(const struct lion *a, size_t first, size_t last,
                           const uint32_t *draws)
{
    const struct tensor *target = &a->target.w;

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec g = vec_load(a->grad.data, a->grad.format, i, count) * a->grad_scale;
        vec m = vec_load(a->m.data, a->m.format, i, count);
        vec w = vec_load(target->data, target->format, i, count) * a->keep;

        w -= vec_sign(m * a->beta1 + g * a->rest1) * a->lr;
        m = m * a->beta2 + g * a->rest2;
        vec_store(a->m.data, a->m.format, i, count, m);
        target_store(&a->target, i, count, w, draws ? draws + (i - first) : NULL);
    }
}

static void lion_drawn(const void *context, size_t first, size_t last,
                       const uint32_t *draws)
{
    lion_range(context, first, last, draws);
}

static void lion_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct lion *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (a->target.stochastic)
        target_draw(&a->target, task, lion_drawn, a);
    else
        lion_range(a, first, size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols), NULL);
}

void CPU_OP(lion)(struct backend *be, const struct op_lion *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    struct lion lion = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
        .m = cpu_flat(op->m),
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
        .keep = (float)(1 - lr * op->decay),
        .lr = (float)lr,
        .beta1 = (float)op->beta1,
        .beta2 = (float)op->beta2,
        .rest1 = (float)(1 - op->beta1),
        .rest2 = (float)(1 - op->beta2),
    };

    if (n && !n->finite)
        return;
    if (op->stochastic)
        target_rounds(&lion.target, op->seed, n ? n->step : op->step, op->first);
    cpu_backend_run(be, size_divide_up(lion.target.w.cols, CPU_TASK_ELEMENTS), lion_task,
                    &lion);
}
