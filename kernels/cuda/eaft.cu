/*
 * kernels/cuda/eaft.cu - the factor of TOKEN_LOSS_EAFT: the entropy of the softmax over
 * the largest logits of a row.
 *
 * A block processes a row and reads it six times: for its largest logit, for the smallest
 * of those that count (select.cuh), and for the sums over them.  The first read is from
 * memory, the others mostly from the caches.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/select.cuh"

#include <float.h>

enum { EAFT_THREADS = 256 };

#define LOG2_E 1.44269504f

struct eaft_rows {
    const float *logits;
    float *factors;
    const int32_t *rows;
    size_t words, stride;
    float softcap, alpha;
};

struct eaft_shared {
    select_shared select;
    float room[WARP];
};

/* Sums of e^(x - top), and of (x - top) times it. */
struct eaft_sums {
    float sum, mean;
};

__device__ static float capped(float x, float cap)
{
    return cap > 0 ? cap * tanhf(x / cap) : x;
}

__device__ static void add_logit(eaft_sums *sums, float x, float top, float times)
{
    float down = x - top, e = exp2_fast(down * LOG2_E) * times;

    sums->sum += e;
    sums->mean += e > 0 ? e * down : e;
}

/* The logit with this key, which key_of gave. */
__device__ static float logit_of(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

static __global__ void __launch_bounds__(EAFT_THREADS) eaft_row(const eaft_rows p)
{
    eaft_shared *s = (eaft_shared *)shared_memory();
    int32_t place = p.rows[blockIdx.x];
    const float *logits = p.logits + blockIdx.x * p.stride;
    unsigned left = (unsigned)(p.words < EAFT_TOKENS ? p.words : EAFT_TOKENS);
    float top = -FLT_MAX;
    eaft_sums sums = { 0, 0 };
    uint32_t least;

    if (place < 0)
        return;
    for (size_t i = threadIdx.x; i < p.words; i += blockDim.x)
        top = fmaxf(top, logits[i]);
    top = capped(block_largest(top, s->room), p.softcap);
    least = find_least(&s->select, logits, p.words, &left);
    for (size_t i = threadIdx.x; i < p.words; i += blockDim.x)
        if (key_of(logits[i]) > least)
            add_logit(&sums, capped(logits[i], p.softcap), top, 1);
    if (threadIdx.x == 0)
        add_logit(&sums, capped(logit_of(least), p.softcap), top, (float)left);
    sums.sum = block_sum(sums.sum, s->room);
    sums.mean = block_sum(sums.mean, s->room);
    if (threadIdx.x == 0)
        p.factors[place] = powf((logf(sums.sum) - sums.mean / sums.sum) / 3, p.alpha);
}

extern "C" cudaError_t launch_eaft_factors(const struct cuda_launch *to,
                                           const struct op_classifier *op, size_t first,
                                           size_t count)
{
    const eaft_rows p = { (const float *)op->logits.data,
                          (float *)op->losses.data,
                          op->rows + first,
                          op->w.rows,
                          op->logits.stride,
                          op->softcap,
                          op->alpha };

    return launch(to->stream, eaft_row, dim3((unsigned)count), dim3(EAFT_THREADS),
                  sizeof(eaft_shared), p);
}
