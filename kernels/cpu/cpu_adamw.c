/* kernels/cpu/cpu_adamw.c - one pass over weights, gradients and moments: read 16 bytes a
 * weight, write 12, and 2 for the copy; memory is the limit. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* The numbers of a step as the loop wants them. */
struct adamw {
    struct tensor w, grad, m, v, copy;
    float grad_scale, keep, beta1, beta2, rest1, rest2, rate, root, eps;
};

static void adamw_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adamw *a = context;
    size_t first = task * CPU_TASK_NUMBERS;
    size_t last = cpu_least(first + CPU_TASK_NUMBERS, a->w.cols);

    (void)worker;
    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec g = vec_load(a->grad.data, a->grad.format, i, count) * a->grad_scale;
        vec m = vec_load(a->m.data, a->m.format, i, count);
        vec v = vec_load(a->v.data, a->v.format, i, count);
        vec w = vec_load(a->w.data, a->w.format, i, count) * a->keep;

        m = m * a->beta1 + g * a->rest1;
        v = v * a->beta2 + g * g * a->rest2;
        w -= a->rate * m / (vec_sqrt(v) * a->root + a->eps);
        vec_store(a->m.data, a->m.format, i, count, m);
        vec_store(a->v.data, a->v.format, i, count, v);
        vec_store(a->w.data, a->w.format, i, count, w);
        if (a->copy.data)
            vec_store(a->copy.data, a->copy.format, i, count, w);
    }
}

void CPU_OP(adamw)(struct backend *be, const struct op_adamw *op)
{
    struct adamw adamw = {
        .w = cpu_flat(op->w),
        .grad = cpu_flat(op->grad),
        .m = cpu_flat(op->m),
        .v = cpu_flat(op->v),
        .copy = cpu_flat(op->copy),
        .grad_scale = (float)op->grad_scale,
        .keep = (float)(1 - op->lr * op->decay),
        .beta1 = (float)op->beta1,
        .beta2 = (float)op->beta2,
        .rest1 = (float)(1 - op->beta1),
        .rest2 = (float)(1 - op->beta2),
        .rate = (float)(op->lr / (1 - pow(op->beta1, (double)op->step))),
        .root = (float)(1 / sqrt(1 - pow(op->beta2, (double)op->step))),
        .eps = (float)op->eps,
    };

    cpu_backend_run(be, cpu_pieces(adamw.w.cols, CPU_TASK_NUMBERS), adamw_task, &adamw);
}

struct sgd {
    struct tensor w, grad, copy;
    float grad_scale, lr, decay;
};

static void sgd_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct sgd *s = context;
    size_t first = task * CPU_TASK_NUMBERS;
    size_t last = cpu_least(first + CPU_TASK_NUMBERS, s->w.cols);

    (void)worker;
    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec w = vec_load(s->w.data, s->w.format, i, count);
        vec g = vec_load(s->grad.data, s->grad.format, i, count) * s->grad_scale;

        w -= s->lr * (g + s->decay * w);
        vec_store(s->w.data, s->w.format, i, count, w);
        if (s->copy.data)
            vec_store(s->copy.data, s->copy.format, i, count, w);
    }
}

void CPU_OP(sgd)(struct backend *be, const struct op_sgd *op)
{
    struct sgd sgd = {
        .w = cpu_flat(op->w),
        .grad = cpu_flat(op->grad),
        .copy = cpu_flat(op->copy),
        .grad_scale = (float)op->grad_scale,
        .lr = (float)op->lr,
        .decay = (float)op->decay,
    };

    cpu_backend_run(be, cpu_pieces(sgd.w.cols, CPU_TASK_NUMBERS), sgd_task, &sgd);
}
