/* kernels/cuda/decay.cu - the decay and beta of each head of op_delta, and their gradients.
 * A block of the backward pass has all rows of a head, which it adds up in order. */
#include "kernels/cuda/elementwise_kernel.cuh"

enum { DECAY_THREADS = 256, DECAY_BLOCKS = 8 /* per multiprocessor */ };

struct decay_heads {
    any_view a, b, a_log, bias;
    size_t rows;
    unsigned heads;
};

__device__ static inline float decay_sigmoid(float x)
{
    float t = expf(-fabsf(x));

    return x < 0 ? t / (1 + t) : 1 / (1 + t);
}

__device__ static inline float decay_softplus(float x)
{
    return x > 20 ? x : (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}

static __global__ void __launch_bounds__(DECAY_THREADS)
    decay_forward(struct decay_heads f, view<float> decay, view<float> beta)
{
    size_t step = gridDim.x * (size_t)DECAY_THREADS;

    for (size_t i = blockIdx.x * (size_t)DECAY_THREADS + threadIdx.x;
         i < f.rows * f.heads; i += step) {
        size_t n = i / f.heads, h = i % f.heads;

        *decay.at(n, h) =
            -expf(f.a_log.get(0, h)) * decay_softplus(f.a.get(n, h) + f.bias.get(0, h));
        *beta.at(n, h) = decay_sigmoid(f.b.get(n, h));
    }
}

static struct decay_heads decay_heads_of(struct tensor a, struct tensor b,
                                         struct tensor a_log, struct tensor bias)
{
    struct decay_heads f = { any_view_of(a),    any_view_of(b), any_view_of(a_log),
                             any_view_of(bias), a.rows,         (unsigned)a.cols };

    return f;
}

cudaError_t launch_decay(const struct cuda_launch *to, const struct op_decay *op)
{
    size_t wanted = (op->a.rows * op->a.cols + DECAY_THREADS - 1) / DECAY_THREADS;

    return launch(to->stream, decay_forward, dim3(blocks_for(to, wanted, DECAY_BLOCKS)),
                  dim3(DECAY_THREADS), 0,
                  decay_heads_of(op->a, op->b, op->a_log, op->bias),
                  view_of<float>(op->decay), view_of<float>(op->beta));
}

struct decay_slopes {
    struct decay_heads of;
    any_view da, db;
    view<const float> ddecay, dbeta;
    float *da_log, *dbias; /* or NULL */
};

static __global__ void __launch_bounds__(DECAY_THREADS)
    decay_backward(struct decay_slopes f)
{
    float *room = (float *)shared_memory();
    unsigned h = blockIdx.x;
    float rate = -expf(f.of.a_log.get(0, h)), bias = f.of.bias.get(0, h);
    float da_log = 0, dbias = 0;

    for (size_t n = threadIdx.x; n < f.of.rows; n += DECAY_THREADS) {
        float x = f.of.a.get(n, h) + bias, slope = *f.ddecay.at(n, h) * rate;
        float b = f.of.b.get(n, h), da = slope * (x > 20 ? 1 : decay_sigmoid(x));

        da_log += slope * decay_softplus(x);
        dbias += da;
        f.da.set(n, h, da);
        f.db.set(n, h, *f.dbeta.at(n, h) * decay_sigmoid(b) * decay_sigmoid(-b));
    }
    da_log = block_sum(da_log, room);
    dbias = block_sum(dbias, room);
    if (threadIdx.x > 0)
        return;
    if (f.da_log)
        f.da_log[h] += da_log;
    if (f.dbias)
        f.dbias[h] += dbias;
}

cudaError_t launch_decay_backward(const struct cuda_launch *to,
                                  const struct op_decay_backward *op)
{
    struct decay_slopes f = { decay_heads_of(op->a, op->b, op->a_log, op->bias),
                              any_view_of(op->da),
                              any_view_of(op->db),
                              view_of<const float>(op->ddecay),
                              view_of<const float>(op->dbeta),
                              (float *)op->da_log.data,
                              (float *)op->dbias.data };

    return launch(to->stream, decay_backward, dim3((unsigned)op->a.cols),
                  dim3(DECAY_THREADS), WARP * sizeof(float), f);
}
