/* kernels/cpu/cpu_schedule_free.c - schedule-free AdamW, and the exchange of weights with
 * their average. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

/* The scalars of a step in the form the loop uses. */
struct schedule_free {
    struct target target;
    struct tensor grad, z, x, v;
    float grad_scale, lr, decay, share, rest, beta1, rest1, beta2, rest2, root, eps;
};

static void step_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct schedule_free *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;
    size_t last = size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols);

    (void)worker;
    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec g = vec_load(a->grad.data, FORMAT_FP32, i, count) * a->grad_scale;
        vec z = vec_load(a->z.data, FORMAT_FP32, i, count);
        vec x = vec_load(a->x.data, FORMAT_FP32, i, count);
        vec v = vec_load(a->v.data, FORMAT_FP32, i, count);
        vec y = vec_load(a->target.w.data, FORMAT_FP32, i, count);

        v = v * a->beta2 + g * g * a->rest2;
        z -= (g / (vec_sqrt(v) * a->root + a->eps) + y * a->decay) * a->lr;
        x = x * a->rest + z * a->share;
        y = x * a->beta1 + z * a->rest1;
        vec_store(a->v.data, FORMAT_FP32, i, count, v);
        vec_store(a->z.data, FORMAT_FP32, i, count, z);
        vec_store(a->x.data, FORMAT_FP32, i, count, x);
        target_store(&a->target, i, count, y, NULL);
    }
}

void CPU_OP(schedule_free)(struct backend *be, const struct op_schedule_free *op)
{
    const struct step_scalars *n = op->numbers;
    double share = n ? n->average_share : op->share;
    int64_t step = n ? n->step : op->step;
    struct schedule_free a = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
        .z = cpu_flat(op->z),
        .x = cpu_flat(op->x),
        .v = cpu_flat(op->v),
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
        .lr = (float)(op->lr * (n ? n->learning_rate : 1)),
        .decay = (float)op->decay,
        .share = (float)share,
        .rest = (float)(1 - share),
        .beta1 = (float)op->beta1,
        .rest1 = (float)(1 - op->beta1),
        .beta2 = (float)op->beta2,
        .rest2 = (float)(1 - op->beta2),
        .root = (float)(1 / sqrt(1 - pow(op->beta2, (double)step))),
        .eps = (float)op->eps,
    };

    if (n && !n->finite)
        return;
    cpu_backend_run(be, size_divide_up(a.target.w.cols, CPU_TASK_ELEMENTS), step_task,
                    &a);
}

static void exchange_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_exchange *op = context;
    size_t first = task * CPU_TASK_ELEMENTS;
    size_t last = size_min(first + CPU_TASK_ELEMENTS, op->a.cols);
    float *a = op->a.data, *b = op->b.data;

    (void)worker;
    for (size_t i = first; i < last; i++) {
        float kept = a[i];

        a[i] = b[i];
        b[i] = kept;
    }
}

void CPU_OP(exchange)(struct backend *be, const struct op_exchange *op)
{
    struct op_exchange flat = { cpu_flat(op->a), cpu_flat(op->b) };

    cpu_backend_run(be, size_divide_up(flat.a.cols, CPU_TASK_ELEMENTS), exchange_task,
                    &flat);
}
