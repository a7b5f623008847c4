/* kernels/cpu/cpu_optimizer_8bit.c - optimizers whose moments are codes of 8 bits, one
 * block at a time: decode, update, find the absmax, encode.  The codes are found by
 * comparison with midpoints, which takes longer than memory does. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"
#include "precision/dynamic_map.h"

enum { MOST_MOMENTS = 2 };

/* A moment, and how its codes are read. */
struct moment {
    uint8_t *codes;
    float *absmax;
    struct dynamic_map map;
};

/* The scalars of a step in the form the loop uses. */
struct step_8bit {
    struct target target;
    struct tensor grad;
    struct moment moments[MOST_MOMENTS];
    float grad_scale, keep, lr, beta1, beta2, rest1, rest2, rate, root, eps;
};

/* The moments of a block, in fp32; 0 after its end. */
struct decoded {
    float at[DYNAMIC_BLOCK + LANES];
};

static void decode(const struct moment *moment, size_t first, size_t count,
                   struct decoded *out)
{
    float absmax = moment->absmax[first / DYNAMIC_BLOCK];

    for (size_t i = 0; i < count; i++)
        out->at[i] = moment->map.values[moment->codes[first + i]] * absmax;
    memset(out->at + count, 0, LANES * sizeof(float));
}

static void encode(const struct moment *moment, size_t first, size_t count,
                   const struct decoded *in)
{
    float absmax = 0;

    for (size_t i = 0; i < count; i++)
        absmax = fabsf(in->at[i]) > absmax ? fabsf(in->at[i]) : absmax;
    moment->absmax[first / DYNAMIC_BLOCK] = absmax;
    for (size_t i = 0; i < count; i++)
        moment->codes[first + i] =
            dynamic_code(moment->map.between, absmax > 0 ? in->at[i] / absmax : 0);
}

/* Update LANES weights and their moments. */
typedef vec update_8bit(const struct step_8bit *s, vec w, vec g, vec *m, vec *v);

CPU_INLINE vec adamw_8bit_lanes(const struct step_8bit *s, vec w, vec g, vec *m, vec *v)
{
    *m = *m * s->beta1 + g * s->rest1;
    *v = *v * s->beta2 + g * g * s->rest2;
    return w * s->keep - s->rate * *m / (vec_sqrt(*v) * s->root + s->eps);
}

CPU_INLINE vec lion_8bit_lanes(const struct step_8bit *s, vec w, vec g, vec *m, vec *v)
{
    vec sign = vec_sign(*m * s->beta1 + g * s->rest1);

    (void)v;
    *m = *m * s->beta2 + g * s->rest2;
    return w * s->keep - sign * s->lr;
}

/* Update elements first .. last of one block. */
CPU_INLINE void update_block(const struct step_8bit *s, size_t first, size_t last,
                             size_t moments, update_8bit *update)
{
    const struct tensor *target = &s->target.w;
    struct decoded decoded[MOST_MOMENTS];
    uint32_t bits[RANDOM_ROOM] = { 0 };

    if (s->target.stochastic)
        random_fill(&s->target.key, (s->target.base + first) / 4, bits);
    for (size_t k = 0; k < moments; k++)
        decode(&s->moments[k], first, last - first, &decoded[k]);
    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last), at = i - first;
        vec g = vec_load(s->grad.data, s->grad.format, i, count) * s->grad_scale;
        vec w = vec_load(target->data, target->format, i, count), moment[MOST_MOMENTS];

        memcpy(&moment[0], decoded[0].at + at, sizeof(vec));
        if (moments > 1)
            memcpy(&moment[1], decoded[1].at + at, sizeof(vec));
        w = update(s, w, g, &moment[0], &moment[1]);
        memcpy(decoded[0].at + at, &moment[0], sizeof(vec));
        if (moments > 1)
            memcpy(decoded[1].at + at, &moment[1], sizeof(vec));
        target_store(&s->target, i, count, w, s->target.stochastic ? bits + at : NULL);
    }
    for (size_t k = 0; k < moments; k++)
        encode(&s->moments[k], first, last - first, &decoded[k]);
}

/* Return the end of a task. */
static size_t task_end(const struct step_8bit *s, size_t task)
{
    return size_min((task + 1) * CPU_TASK_ELEMENTS, s->target.w.cols);
}

static void adamw_8bit_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct step_8bit *s = context;
    size_t end = task_end(s, task);

    (void)worker;
    for (size_t i = task * CPU_TASK_ELEMENTS; i < end; i += DYNAMIC_BLOCK)
        update_block(s, i, size_min(i + DYNAMIC_BLOCK, end), 2, adamw_8bit_lanes);
}

static void lion_8bit_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct step_8bit *s = context;
    size_t end = task_end(s, task);

    (void)worker;
    for (size_t i = task * CPU_TASK_ELEMENTS; i < end; i += DYNAMIC_BLOCK)
        update_block(s, i, size_min(i + DYNAMIC_BLOCK, end), 1, lion_8bit_lanes);
}

static void moment_open(struct moment *moment, struct tensor codes, struct tensor absmax,
                        bool has_sign)
{
    moment->codes = codes.data;
    moment->absmax = absmax.data;
    dynamic_map_fill(&moment->map, has_sign);
}

void CPU_OP(adamw_8bit)(struct backend *be, const struct op_adamw_8bit *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    int64_t step = n ? n->step : op->step;
    struct step_8bit s = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
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
    moment_open(&s.moments[0], op->m, op->m_absmax, true);
    moment_open(&s.moments[1], op->v, op->v_absmax, false);
    if (op->stochastic)
        target_rounds(&s.target, op->seed, step, op->first);
    cpu_backend_run(be, size_divide_up(s.target.w.cols, CPU_TASK_ELEMENTS),
                    adamw_8bit_task, &s);
}

void CPU_OP(lion_8bit)(struct backend *be, const struct op_lion_8bit *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    struct step_8bit s = {
        .target = target_of(op->w, op->copy),
        .grad = cpu_flat(op->grad),
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
    moment_open(&s.moments[0], op->m, op->m_absmax, true);
    if (op->stochastic)
        target_rounds(&s.target, op->seed, n ? n->step : op->step, op->first);
    cpu_backend_run(be, size_divide_up(s.target.w.cols, CPU_TASK_ELEMENTS),
                    lion_8bit_task, &s);
}
