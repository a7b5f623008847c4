/* kernels/cpu/cpu_adam_mini.c - Adam-mini: the mean square of the gradient of each block,
 * then AdamW's update. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

/* The scalars of a step in the form the loops use. */
struct adam_mini {
    struct target target;
    struct tensor grad, m;
    float *v;
    size_t block, blocks, blocks_a_task;
    float grad_scale, keep, beta1, beta2, rest1, rest2, rate, root, eps;
};

static void means_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adam_mini *a = context;
    size_t end = size_min((task + 1) * a->blocks_a_task, a->blocks);

    (void)worker;
    for (size_t b = task * a->blocks_a_task; b < end; b++) {
        size_t last = (b + 1) * a->block;
        double sum = 0;

        for (size_t i = b * a->block; i < last; i += LANES) {
            vec g = vec_load(a->grad.data, FORMAT_FP32, i, vec_count(i, last)) *
                    a->grad_scale;

            sum += vec_sum_wide(g * g);
        }
        a->v[b] = a->v[b] * a->beta2 + (float)(sum / (double)a->block) * a->rest2;
    }
}

/* Elements first .. last, of one block. */
CPU_INLINE void update_part(const struct adam_mini *a, size_t first, size_t last,
                            const uint32_t *draws)
{
    const struct tensor *target = &a->target.w;
    float rate = a->rate / (sqrtf(a->v[first / a->block]) * a->root + a->eps);

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec g = vec_load(a->grad.data, FORMAT_FP32, i, count) * a->grad_scale;
        vec m = vec_load(a->m.data, a->m.format, i, count);
        vec w = vec_load(target->data, target->format, i, count) * a->keep;

        m = m * a->beta1 + g * a->rest1;
        w -= m * rate;
        vec_store(a->m.data, a->m.format, i, count, m);
        target_store(&a->target, i, count, w, draws ? draws + (i - first) : NULL);
    }
}

static void mini_drawn(const void *context, size_t first, size_t last,
                       const uint32_t *draws)
{
    const struct adam_mini *a = context;

    for (size_t at = first; at < last;) {
        size_t end = size_min(last, (at / a->block + 1) * a->block);

        update_part(a, at, end, draws ? draws + (at - first) : NULL);
        at = end;
    }
}

static void mini_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adam_mini *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (a->target.stochastic)
        target_draw(&a->target, task, mini_drawn, a);
    else
        mini_drawn(a, first, size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols), NULL);
}

void CPU_OP(adam_mini)(struct backend *be, const struct op_adam_mini *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    int64_t step = n ? n->step : op->step;
    struct adam_mini a = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
        .m = cpu_flat(op->m),
        .v = op->v.data,
        .block = op->block,
        .blocks_a_task = cpu_task_rows(op->block),
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

    if (n && !n->finite)
        return;
    a.blocks = a.target.w.cols / a.block;
    if (op->stochastic)
        target_rounds(&a.target, op->seed, step, op->first);
    cpu_backend_run(be, size_divide_up(a.blocks, a.blocks_a_task), means_task, &a);
    cpu_backend_run(be, size_divide_up(a.target.w.cols, CPU_TASK_ELEMENTS), mini_task,
                    &a);
}
