/*
 * kernels/cuda/topk.cu - the largest logits of a row.
 *
 * A block processes a row. Logits, mapped to integers of the same order, are read four
 * times, 8 bits each: a histogram of the digit among those whose upper digits are those
 * of the smallest kept logit. Then the smallest kept logit and the number of its equals
 * to keep are known; a fifth pass stores the kept ones in order. Counts are integers: no
 * result depends on timing.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"

enum { DIGITS = 256, TOPK_THREADS = 256, TOPK_WARPS = TOPK_THREADS / WARP };

struct topk_rows {
    const float *logits;
    float *values;
    int32_t *ids;
    const int32_t *rows;
    size_t words, kept, stride, values_stride;
    float softcap;
};

struct topk_shared {
    unsigned counts[DIGITS];
    unsigned digit, left;
    unsigned above[TOPK_WARPS], equal[TOPK_WARPS];
};

/* Map floats to integers of the same order; NaN is above all. */
__device__ static uint32_t key_of(float x)
{
    uint32_t bits = __float_as_uint(x);

    if (x != x)
        return 0xffffffffu;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The digit of the smallest kept logit among the keys that begin with `prefix`; *left of
 * those kept have this digit too. */
__device__ static unsigned find_digit(topk_shared *s, const float *logits, size_t words,
                                      uint32_t mask, uint32_t prefix, int shift,
                                      unsigned *left)
{
    for (int i = threadIdx.x; i < DIGITS; i += blockDim.x)
        s->counts[i] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < words; i += blockDim.x) {
        uint32_t key = key_of(logits[i]);

        if ((key & mask) == prefix)
            atomicAdd(&s->counts[key >> shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned digit = DIGITS - 1, wanted = *left;

        for (; digit > 0 && s->counts[digit] < wanted; digit--)
            wanted -= s->counts[digit];
        s->digit = digit;
        s->left = wanted;
    }
    __syncthreads();
    *left = s->left;
    return s->digit;
}

/* Return how many threads before this one pass true; *all: how many of the block. */
__device__ static unsigned count_before(unsigned *warps, bool yes, unsigned *all)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unsigned votes = __ballot_sync(FULL_WARP_MASK, yes);
    unsigned before = (unsigned)__popc(votes & ((1u << lane) - 1));

    if (lane == 0)
        warps[warp] = (unsigned)__popc(votes);
    __syncthreads();
    *all = 0;
    for (int i = 0; i < TOPK_WARPS; i++) {
        before += i < warp ? warps[i] : 0;
        *all += warps[i];
    }
    __syncthreads();
    return before;
}

static __global__ void __launch_bounds__(TOPK_THREADS) topk_row(const topk_rows p)
{
    topk_shared *s = (topk_shared *)shared_memory();
    int32_t place = p.rows[blockIdx.x];
    const float *logits = p.logits + blockIdx.x * p.stride;
    unsigned left = (unsigned)p.kept, above = 0, equal = 0, all;
    uint32_t mask = 0, least = 0;

    if (place < 0)
        return;
    for (int shift = 24; shift >= 0; shift -= 8) {
        least |= (uint32_t)find_digit(s, logits, p.words, mask, least, shift, &left)
                 << shift;
        mask |= (uint32_t)(DIGITS - 1) << shift;
    }
    for (size_t base = 0; base < p.words; base += blockDim.x) {
        size_t i = base + threadIdx.x;
        uint32_t key = i < p.words ? key_of(logits[i]) : 0;
        bool more = i < p.words && key > least, same = i < p.words && key == least;
        unsigned mores = above + count_before(s->above, more, &all), sames;

        above += all;
        sames = equal + count_before(s->equal, same, &all);
        equal += all;
        if (more || (same && sames < left)) {
            size_t at = mores + (sames < left ? sames : left);

            p.values[(size_t)place * p.values_stride + at] =
                p.softcap > 0 ? p.softcap * tanhf(logits[i] / p.softcap) : logits[i];
            p.ids[(size_t)place * p.kept + at] = (int32_t)i;
        }
    }
}

extern "C" cudaError_t launch_topk_rows(const struct cuda_launch *to,
                                        const struct op_topk *op, size_t first,
                                        size_t count)
{
    const topk_rows p = { (const float *)op->logits.data,
                          (float *)op->values.data,
                          op->ids,
                          op->rows + first,
                          op->w.rows,
                          op->values.cols,
                          op->logits.stride,
                          op->values.stride,
                          op->softcap };

    return launch(to->stream, topk_row, dim3((unsigned)count), dim3(TOPK_THREADS),
                  sizeof(topk_shared), p);
}
