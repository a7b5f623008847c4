/*
 * kernels/cuda/topk.cu - the largest logits of a row.
 *
 * A block processes a row: it finds the smallest kept logit (select.cuh), and a fifth pass
 * stores the kept ones in order.
 */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/select.cuh"

enum { TOPK_THREADS = 256, TOPK_WARPS = TOPK_THREADS / WARP };

struct topk_rows {
    const float *logits;
    float *values;
    int32_t *ids;
    const int32_t *rows;
    size_t words, kept, stride, values_stride;
    float softcap;
};

struct topk_shared {
    select_shared select;
    unsigned above[TOPK_WARPS], equal[TOPK_WARPS];
};

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
    uint32_t least;

    if (place < 0)
        return;
    least = find_least(&s->select, logits, p.words, &left);
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
