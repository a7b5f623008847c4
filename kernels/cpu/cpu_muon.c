/* kernels/cpu/cpu_muon.c - Muon: the momentum, scaled to norm 1, and the update by the
 * matrix that the caller has orthogonalized. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

#define NORM_EPSILON 1e-7

enum { MOST_TASKS = 64 };

struct muon_begin {
    struct tensor x, grad, m;
    size_t tasks;
    float momentum, grad_scale, scale;
    double sums[MOST_TASKS];
};

/* Return where a task's share begins: a multiple of the widest vector. */
static size_t share_of(const struct muon_begin *a, size_t task)
{
    size_t each = size_round(size_divide_up(a->x.cols, a->tasks), 16);

    return size_min(each * task, a->x.cols);
}

CPU_INLINE vec momentum_at(const struct muon_begin *a, size_t i, size_t count)
{
    return vec_load(a->grad.data, FORMAT_FP32, i, count) * a->grad_scale +
           vec_load(a->m.data, a->m.format, i, count) * a->momentum;
}

static void momentum_task(void *context, size_t task, struct pool_worker *worker)
{
    struct muon_begin *a = context;
    size_t end = share_of(a, task + 1);
    double sum = 0;

    (void)worker;
    for (size_t i = share_of(a, task); i < end; i += LANES) {
        size_t count = vec_count(i, end);
        vec u;

        vec_store(a->m.data, a->m.format, i, count, momentum_at(a, i, count));
        u = momentum_at(a, i, count); /* Nesterov's: of the new momentum */
        sum += vec_sum_wide(u * u);
    }
    a->sums[task] = sum;
}

static void scale_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct muon_begin *a = context;
    size_t end = share_of(a, task + 1);

    (void)worker;
    for (size_t i = share_of(a, task); i < end; i += LANES) {
        size_t count = vec_count(i, end);

        vec_store(a->x.data, a->x.format, i, count, momentum_at(a, i, count) * a->scale);
    }
}

void CPU_OP(muon_begin)(struct backend *be, const struct op_muon_begin *op)
{
    const struct step_scalars *n = op->numbers;
    struct muon_begin a = {
        .x = cpu_flat(op->x),
        .grad = cpu_flat(op->grad),
        .m = cpu_flat(op->m),
        .momentum = (float)op->momentum,
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
    };
    double sum = 0;

    if (n && !n->finite)
        return;
    a.tasks = size_min(size_divide_up(a.x.cols, CPU_TASK_ELEMENTS), MOST_TASKS);
    cpu_backend_run(be, a.tasks, momentum_task, &a);
    for (size_t i = 0; i < a.tasks; i++)
        sum += a.sums[i];
    a.scale = (float)(1 / (sqrt(sum) + NORM_EPSILON));
    cpu_backend_run(be, a.tasks, scale_task, &a);
}

struct muon_end {
    struct target target;
    struct tensor x;
    float keep, rate;
};

static void end_drawn(const void *context, size_t first, size_t last,
                      const uint32_t *draws)
{
    const struct muon_end *a = context;
    const struct tensor *target = &a->target.w;

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec w = vec_load(target->data, target->format, i, count) * a->keep;

        w -= vec_load(a->x.data, a->x.format, i, count) * a->rate;
        target_store(&a->target, i, count, w, draws ? draws + (i - first) : NULL);
    }
}

static void end_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct muon_end *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (a->target.stochastic)
        target_draw(&a->target, task, end_drawn, a);
    else
        end_drawn(a, first, size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols), NULL);
}

void CPU_OP(muon_end)(struct backend *be, const struct op_muon_end *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    struct muon_end a = {
        .target = target_of(op->w, op->copy),
        .x = cpu_flat(op->x),
        .keep = (float)(1 - lr * op->decay),
        .rate = (float)(lr * op->scale),
    };

    if (n && !n->finite)
        return;
    if (op->stochastic)
        target_rounds(&a.target, op->seed, n ? n->step : op->step, op->first);
    cpu_backend_run(be, size_divide_up(a.target.w.cols, CPU_TASK_ELEMENTS), end_task, &a);
}
