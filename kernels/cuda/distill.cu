/*
 * kernels/cuda/distill.cu - the parts of op_distill that are not matmuls: losses and
 * gradients of a row of a student's logits and its teacher's.
 *
 * A block processes a row. The student's logits z are read four times (both softmaxes,
 * the distance, the gradient), the teacher's t three times, the gradient is written once:
 * 30 bytes per token in 16 bits, most of them from the caches (loss.cu), and six
 * exponentials. The matmuls take 4 C + 2 C' operations per token.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"

#include <float.h>

/* Number of tokens from which a row justifies a large block. */
enum { LARGE_ROW = 8192, LARGE_BLOCK = 512, SMALL_BLOCK = 128 };
enum { CLEAR_THREADS = 256 };
enum { FORWARD, REVERSE, MIXED };

#define LOG2_E 1.44269504f

struct distill_rows {
    float *z, *t; /* t NULL: ids and values */
    const float *values;
    const int32_t *ids, *rows, *targets;
    const float *scale, *weights;
    void *dlogits;
    float *losses, *kd_losses;
    size_t words, shared, kept, z_stride, t_stride, dlogits_stride, values_stride;
    float grad_scale, smoothing, ratio, temperature, beta;
    float even;                         /* smoothing / words */
    float z_cap, t_cap, z_down, t_down; /* of the logits, and 1 / them; 0: none */
    bool dft;                           /* CE has the factor of TOKEN_LOSS_DFT */
};

/* log p = (x - top) cold - log_sum,  p = e^(log p) */
struct softmax {
    float top, cold, log_sum, factor;
};

/* The state of a row, in each thread of its block. */
struct row {
    const float *z, *t, *values;
    const int32_t *ids;
    softmax data, student, teacher;
    float beta, weight, wanted, hard, soft; /* as in cpu_distill.c */
};

__device__ static float exp_of(float x)
{
    return exp2_fast(x * LOG2_E);
}

/* Set x = c tanh(x / c); all threads of the block take part. */
__device__ static void cap_row(float *x, size_t cols, float cap, float down)
{
    if (!(cap > 0))
        return;
    for (size_t i = threadIdx.x; i < cols; i += blockDim.x)
        x[i] = cap * tanhf(x[i] * down);
    __syncthreads();
}

/* Compute the softmax of a row; all threads of the block get the result. room: 32
 * floats. */
__device__ static softmax softmax_of(const float *x, size_t cols, float cold, float *room)
{
    float top = -FLT_MAX, sum = 0, all;

#pragma unroll 4
    for (size_t i = threadIdx.x; i < cols; i += blockDim.x) {
        float now = x[i];

        if (now > top) {
            sum *= exp_of((top - now) * cold);
            top = now;
        }
        sum += exp_of((now - top) * cold);
    }
    all = block_largest(top, room);
    sum = block_sum(sum * exp_of((top - all) * cold), room);
    return { all, cold, logf(sum), 1 / sum };
}

__device__ static float log_of(const softmax &s, float x)
{
    return (x - s.top) * s.cold - s.log_sum;
}

__device__ static float share_of(const softmax &s, float x)
{
    return exp_of((x - s.top) * s.cold) * s.factor;
}

/* Return p log, or 0 where p is 0 and the logarithm infinite. */
__device__ static float times(float p, float log)
{
    return p == 0 ? p : p * log;
}

/* Return log(p / m), and log(q / m) in *log_q, for d = log(p / q): never divides by the
 * larger of p and q. */
__device__ static float mixture(float d, float beta, float *log_q)
{
    bool larger = d > 0;
    float less = exp_of(larger ? -d : d);
    float all = logf(larger ? (1 - beta) + beta * less : beta + (1 - beta) * less);

    *log_q = larger ? -d - all : -all;
    return larger ? -all : d - all;
}

/* Add a token's contribution to the two halves of D. */
template <int kind>
__device__ static void add_word(const row &r, float z, float log_q, float q,
                                float halves[2])
{
    float p = share_of(r.student, z), log_p = log_of(r.student, z), log_qm;

    if (kind == FORWARD) {
        halves[1] += times(q, log_q - log_p);
    } else if (kind == REVERSE) {
        halves[0] += times(p, log_p - log_q);
    } else {
        halves[0] += times(p, mixture(log_p - log_q, r.beta, &log_qm));
        halves[1] += times(q, log_qm);
    }
}

/* Return the gradient of D with respect to z / T. */
template <int kind>
__device__ static float slope(const row &r, float z, float log_q, float q)
{
    float p = share_of(r.student, z), log_p = log_of(r.student, z), unused;

    if (kind == FORWARD)
        return p - q;
    if (kind == REVERSE)
        return times(p, log_p - log_q - r.wanted);
    return (1 - r.beta) * times(p, mixture(log_p - log_q, r.beta, &unused) - r.wanted);
}

/* Return D, and store in *r what its gradient needs. */
template <int kind>
__device__ static float distance(const distill_rows &p, row *r, float *room)
{
    float halves[2] = { 0, 0 }, taken = 0;

#pragma unroll 4
    for (size_t i = threadIdx.x; r->t && i < p.shared; i += blockDim.x)
        add_word<kind>(*r, r->z[i], log_of(r->teacher, r->t[i]),
                       share_of(r->teacher, r->t[i]), halves);
    for (size_t k = threadIdx.x; !r->t && k < p.kept; k += blockDim.x) {
        float z = r->z[r->ids[k]], t = r->values[k];

        taken += share_of(r->student, z);
        add_word<kind>(*r, z, log_of(r->teacher, t), share_of(r->teacher, t), halves);
    }
    halves[0] = block_sum(halves[0], room);
    halves[1] = block_sum(halves[1], room);
    if (kind == MIXED && !r->t) { /* log(p / m) is the same for all other tokens */
        taken = block_sum(taken, room);
        halves[0] -= fmaxf(1 - taken, 0) * log1pf(-r->beta);
    }
    r->wanted = halves[0];
    return kind == MIXED ? r->beta * halves[1] + (1 - r->beta) * halves[0]
                         : halves[0] + halves[1];
}

/* Return the gradient of the loss with respect to a token's logit; log_q is -inf and q 0
 * where the teacher has none. */
template <int kind>
__device__ static float gradient(const distill_rows &p, const row &r, size_t word,
                                 bool target, float log_q, float q)
{
    float z = r.z[word], wanted = target ? (1 - p.smoothing) + p.even : p.even;
    float x = (share_of(r.data, z) - wanted) * r.hard, t = p.z_cap > 0 ? z * p.z_down : 0;

    if (word < p.shared)
        x += r.soft * slope<kind>(r, z, log_q, q);
    return x * (1 - t * t); /* slope of the cap */
}

template <typename T, int kind>
__device__ static void put_gradients(const distill_rows &p, const row &r, T *out,
                                     size_t target)
{
    const float none = -INFINITY;

#pragma unroll 4
    for (size_t i = threadIdx.x; i < p.words; i += blockDim.x) {
        bool taught = r.t && i < p.shared;
        float t = taught ? r.t[i] : 0;

        out[i] = from_float<T>(gradient<kind>(p, r, i, i == target,
                                              taught ? log_of(r.teacher, t) : none,
                                              taught ? share_of(r.teacher, t) : 0));
    }
    if (r.t)
        return;
    __syncthreads();
    for (size_t k = threadIdx.x; k < p.kept; k += blockDim.x) {
        size_t word = (size_t)r.ids[k];

        out[word] = from_float<T>(gradient<kind>(p, r, word, word == target,
                                                 log_of(r.teacher, r.values[k]),
                                                 share_of(r.teacher, r.values[k])));
    }
}

__device__ static float cross_entropy(const distill_rows &p, const row &r, size_t target,
                                      float *room)
{
    float loss = r.data.top - r.z[target] + r.data.log_sum, mean = 0;

    if (p.smoothing == 0)
        return loss;
    for (size_t i = threadIdx.x; i < p.words; i += blockDim.x)
        mean += r.z[i];
    mean = block_sum(mean, room) / (float)p.words;
    return loss + p.smoothing * (r.data.top - mean + r.data.log_sum - loss);
}

__device__ static row row_of(const distill_rows &p, size_t place, float *room)
{
    float scale = p.grad_scale * (p.scale ? *p.scale : 1), cold = 1 / p.temperature;
    row r = {};

    cap_row(p.z + blockIdx.x * p.z_stride, p.words, p.z_cap, p.z_down);
    r.z = p.z + blockIdx.x * p.z_stride;
    r.beta = p.beta;
    r.weight = p.weights ? p.weights[place] : 1;
    r.hard = r.weight * scale * (1 - p.ratio);
    r.soft = r.weight * scale * p.ratio * p.temperature;
    r.data = softmax_of(r.z, p.words, 1, room);
    r.student = softmax_of(r.z, p.shared, cold, room);
    if (p.t) {
        cap_row(p.t + blockIdx.x * p.t_stride, p.shared, p.t_cap, p.t_down);
        r.t = p.t + blockIdx.x * p.t_stride;
        r.teacher = softmax_of(r.t, p.shared, cold, room);
    } else {
        r.values = p.values + place * p.values_stride;
        r.ids = p.ids + place * p.kept;
        r.teacher = softmax_of(r.values, p.kept, cold, room);
    }
    return r;
}

/* One block per row. Allow one block per multiprocessor: two would spill registers. */
template <typename T, int kind>
static __global__ void __launch_bounds__(LARGE_BLOCK, 1) distill_row(const distill_rows p)
{
    float *room = (float *)shared_memory();
    T *dlogits = p.dlogits ? (T *)p.dlogits + blockIdx.x * p.dlogits_stride : NULL;
    int32_t place = p.rows[blockIdx.x], target = place < 0 ? -1 : p.targets[place];
    float hard, soft, factor = 1;
    row r;

    if (target < 0) {
        for (size_t i = threadIdx.x; dlogits && i < p.words; i += blockDim.x)
            dlogits[i] = from_float<T>(0);
        return;
    }
    r = row_of(p, (size_t)place, room);
    if (p.dft)
        factor = exp_of(r.z[target] - r.data.top) * r.data.factor;
    r.hard *= factor;
    hard = cross_entropy(p, r, (size_t)target, room);
    soft = distance<kind>(p, &r, room);
    if (threadIdx.x == 0) {
        p.losses[place] = r.weight * factor * hard;
        p.kd_losses[place] = r.weight * p.temperature * p.temperature * soft;
    }
    if (dlogits)
        put_gradients<T, kind>(p, r, dlogits, (size_t)target);
}

/* Set the losses of rows without a target to 0. */
static __global__ void clear_losses(float *losses, const int32_t *targets, size_t rows)
{
    size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (row < rows && targets[row] < 0)
        losses[row] = 0;
}

template <typename T, int kind>
static cudaError_t launch_kind(const struct cuda_launch *to, const distill_rows &p,
                               size_t count)
{
    unsigned threads = p.words < LARGE_ROW ? SMALL_BLOCK : LARGE_BLOCK;

    return launch(to->stream, distill_row<T, kind>, dim3((unsigned)count), dim3(threads),
                  WARP * sizeof(float), p);
}

template <typename T>
static cudaError_t launch_rows(const struct cuda_launch *to, const distill_rows &p,
                               size_t count)
{
    return p.beta == 0   ? launch_kind<T, FORWARD>(to, p, count)
           : p.beta == 1 ? launch_kind<T, REVERSE>(to, p, count)
                         : launch_kind<T, MIXED>(to, p, count);
}

extern "C" cudaError_t launch_distill_clear(const struct cuda_launch *to,
                                            const struct op_distill *op)
{
    size_t rows = op->student.x.rows;
    unsigned blocks = (unsigned)((rows + CLEAR_THREADS - 1) / CLEAR_THREADS);

    return launch(to->stream, clear_losses, dim3(blocks), dim3(CLEAR_THREADS), 0,
                  (float *)op->kd_losses.data, op->student.targets, rows);
}

extern "C" cudaError_t launch_distill_loss(const struct cuda_launch *to,
                                           const struct op_distill *op, size_t first,
                                           size_t count)
{
    const struct op_classifier *s = &op->student;
    bool gradients = s->dx.data || s->dw.data, kept = op->values.data;
    distill_rows p = {};

    p.z = (float *)s->logits.data;
    p.t = kept ? NULL : (float *)op->logits.data;
    p.values = (const float *)op->values.data;
    p.ids = op->ids;
    p.rows = s->rows + first;
    p.targets = s->targets;
    p.scale = s->scale;
    p.weights = s->weights;
    p.dlogits = gradients ? s->dlogits.data : NULL;
    p.losses = (float *)s->losses.data;
    p.kd_losses = (float *)op->kd_losses.data;
    p.words = s->w.rows;
    p.shared = kept ? op->words : op->w.rows;
    p.kept = kept ? op->values.cols : 0;
    p.z_stride = s->logits.stride;
    p.t_stride = op->logits.stride;
    p.dlogits_stride = s->dlogits.stride;
    p.values_stride = op->values.stride;
    p.grad_scale = s->grad_scale;
    p.smoothing = s->smoothing;
    p.ratio = op->ratio;
    p.temperature = op->temperature;
    p.beta = op->beta;
    p.even = s->smoothing / (float)p.words;
    p.dft = s->kind == TOKEN_LOSS_DFT;
    p.z_cap = s->softcap;
    p.t_cap = op->softcap;
    p.z_down = p.z_cap > 0 ? 1 / p.z_cap : 0;
    p.t_down = p.t_cap > 0 ? 1 / p.t_cap : 0;
    if (!gradients)
        return launch_rows<float>(to, p, count);
    return BY_FORMAT(s->dlogits.format, T, launch_rows<T>(to, p, count));
}
