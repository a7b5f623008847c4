/*
 * kernels/cuda/route.cu - the router of a mixture of experts.
 *
 * A warp processes a row: its logits, scores and keys are in shared memory, and each of
 * the k choices is a maximum over the warp of (key, lower index).  8192 rows of 128
 * experts: 4 MB of logits and 4 MB of probabilities; the choices are 8 maxima of 10
 * shuffles.
 *
 * The pairs are sorted by counting.  A warp takes PIECE pairs, at least: one kernel counts
 * the experts of each piece, one block adds up the counts, piece by piece, and a warp then
 * gives each pair the next slot of its expert, in order.  All of it is integers, in a
 * fixed order.
 */
#include "base/random.h"
#include "kernels/cuda/elementwise_kernel.cuh"
#include "kernels/route_math.h"

enum {
    ROUTE_WARPS = 4, /* of a block, at most; a row each */
    ROUTE_ROOM = 3,  /* elements of shared memory for each expert: logit, score, key */
    PIECE = 256,     /* pairs of a warp of the sort, at least */
    PIECES_MOST = 1024
};

/* A row of a warp. */
struct route_row {
    float *logits, *scores;
    uint32_t *keys;
    size_t row;
    int lane;
};

__device__ static size_t counted_rows(const struct op_route &op)
{
    return op.rows && *op.rows < op.logits.rows ? (size_t)*op.rows : op.logits.rows;
}

/* The warp's row, or false. */
__device__ static bool find_row(struct route_row &r, size_t rows, int experts)
{
    int warp = threadIdx.x / WARP;

    r.lane = threadIdx.x % WARP;
    r.row = blockIdx.x * (size_t)(blockDim.x / WARP) + warp;
    r.logits = (float *)shared_memory() + warp * ROUTE_ROOM * experts;
    r.scores = r.logits + experts;
    r.keys = (uint32_t *)(r.scores + experts);
    return r.row < rows;
}

__device__ static void read_logits(const struct route_row &r, const any_view &logits,
                                   int experts)
{
    for (int e = r.lane; e < experts; e += WARP)
        r.logits[e] = logits.get(r.row, e);
    __syncwarp();
}

/* Softmax of the logits, minus `most`, of those that `has` includes. */
template <typename F>
__device__ static void route_softmax(const struct route_row &r, int experts, float most,
                                     F has)
{
    float sum = 0;

    for (int e = r.lane; e < experts; e += WARP) {
        float x = has(e) ? expf(r.logits[e] - most) : 0.0f;

        r.scores[e] = x;
        sum += x;
    }
    sum = warp_sum(sum);
    for (int e = r.lane; e < experts; e += WARP)
        r.scores[e] /= sum;
    __syncwarp();
}

__device__ static void softmax_of_all(const struct route_row &r, int experts)
{
    float most = -INFINITY;

    for (int e = r.lane; e < experts; e += WARP)
        most = fmaxf(most, r.logits[e]);
    route_softmax(r, experts, warp_largest(most), [](int) { return true; });
}

__device__ static void sigmoid_of_all(const struct route_row &r, int experts)
{
    for (int e = r.lane; e < experts; e += WARP)
        r.scores[e] = 1.0f / (1.0f + expf(-r.logits[e]));
    __syncwarp();
}

/* Return the first index of the largest key. */
__device__ static int largest_key(const uint32_t *keys, int count, int lane)
{
    unsigned long long best = 0;

    for (int i = lane; i < count; i += WARP) {
        unsigned long long mine =
            (unsigned long long)keys[i] << 32 | (0xffffffffu - (unsigned)i);

        best = mine > best ? mine : best;
    }
#pragma unroll
    for (int i = WARP / 2; i > 0; i /= 2) {
        unsigned long long other = __shfl_xor_sync(FULL_WARP_MASK, best, i);

        best = other > best ? other : best;
    }
    return (int)(0xffffffffu - (unsigned)best);
}

/* Exclude the experts of all groups but the best.  The keys of the groups take the place
 * of the logits, which are not needed any more. */
__device__ static void keep_groups(const struct op_route &op, const struct route_row &r)
{
    int groups = (int)op.groups, experts = (int)op.logits.cols, size = experts / groups;
    uint32_t *keys = (uint32_t *)r.logits;

    for (int g = r.lane; g < groups; g += WARP)
        keys[g] = route_group_key(r.keys + g * size, size, op.group_pairs);
    __syncwarp();
    for (size_t i = 0; i < op.groups_kept; i++) {
        int g = largest_key(keys, groups, r.lane);

        __syncwarp();
        if (r.lane == 0)
            keys[g] = 0;
        __syncwarp();
    }
    for (int e = r.lane; e < experts; e += WARP)
        if (keys[e / size] != 0)
            r.keys[e] = 0;
    __syncwarp();
}

__device__ static void choose(const struct op_route &op, const struct route_row &r)
{
    int experts = (int)op.logits.cols, chosen = (int)op.weights.cols;
    const float *bias = (const float *)op.bias.data;
    bool by_logit = op.kind == ROUTE_SOFTMAX && !bias && op.groups == 0;
    float *weights = (float *)op.weights.data + r.row * op.weights.stride;
    float sum = 0, mine = 0, factor = op.scale != 0 ? op.scale : 1;

    for (int e = r.lane; e < experts; e += WARP)
        r.keys[e] =
            route_key(by_logit ? r.logits[e] : r.scores[e] + (bias ? bias[e] : 0));
    __syncwarp();
    if (op.groups > 0)
        keep_groups(op, r);
    for (int j = 0; j < chosen; j++) {
        int e = largest_key(r.keys, experts, r.lane);
        float score = r.scores[e];

        __syncwarp();
        if (r.lane == 0) {
            r.keys[e] = 0;
            op.experts[r.row * chosen + j] = e;
        }
        __syncwarp();
        mine = j == r.lane ? score : mine;
        sum += score;
    }
    if (r.lane < chosen)
        weights[r.lane] =
            factor * (op.normalize ? mine / (sum + route_least_sum(&op)) : mine);
}

/* ---- SPARSEMIXER ---- */

__device__ static float mixer_uniform(const struct op_route &op, size_t row, int choice,
                                      int expert)
{
    uint64_t index = route_index(&op, counted_rows(op), row, choice, expert);
    uint4 words = random_block(op.seed, RANDOM_ROUTING, op.stream, index / 4);
    uint32_t word = index % 4 == 0   ? words.x
                    : index % 4 == 1 ? words.y
                    : index % 4 == 2 ? words.z
                                     : words.w;

    return route_uniform(word);
}

/* Write the softmax over S as scores; return the highest. */
__device__ static int mixer_softmax(const struct op_route &op, const struct route_row &r,
                                    int before)
{
    int experts = (int)op.logits.cols, best;
    float most;

    for (int e = r.lane; e < experts; e += WARP)
        r.keys[e] = e == before ? 0 : route_key(r.logits[e]);
    __syncwarp();
    best = largest_key(r.keys, experts, r.lane);
    most = r.logits[best];
    route_softmax(r, experts, most, [&](int e) {
        return e != before && route_mixer_has(r.logits[e], most, op.jitter);
    });
    return best;
}

__device__ static int mixer_sample(const struct op_route &op, const struct route_row &r,
                                   int choice)
{
    int experts = (int)op.logits.cols;

    for (int e = r.lane; e < experts; e += WARP) {
        float u = mixer_uniform(op, r.row, choice, e);

        r.keys[e] = r.scores[e] == 0 ? 0 : route_key(r.logits[e] - logf(-logf(u)));
    }
    __syncwarp();
    return largest_key(r.keys, experts, r.lane);
}

__device__ static void mixer_choose(const struct op_route &op, const struct route_row &r)
{
    float *weights = (float *)op.weights.data + r.row * op.weights.stride;
    int before = -1;

    for (int i = 0; i < 2; i++) {
        int best = mixer_softmax(op, r, before), e = best;
        float factor = 1;

        if (op.sampled)
            e = mixer_sample(op, r, i);
        if (e != best && mixer_uniform(op, r.row, i, (int)op.logits.cols) <= 0.75f)
            factor = ROUTE_MIXER_FACTOR;
        if (r.lane == 0) {
            op.experts[2 * r.row + i] = e;
            weights[i] = factor * r.scores[e];
        }
        before = e;
        __syncwarp();
    }
}

static __global__ void __launch_bounds__(ROUTE_WARPS *WARP)
    route_rows(const struct op_route op, const any_view logits)
{
    int experts = (int)op.logits.cols;
    float *probabilities;
    struct route_row r;
    bool counted;

    if (!find_row(r, op.logits.rows, experts))
        return;
    counted = r.row < counted_rows(op);
    read_logits(r, logits, experts);
    if (op.kind == ROUTE_SPARSEMIXER)
        mixer_choose(op, r);
    if (op.kind == ROUTE_SIGMOID)
        sigmoid_of_all(r, experts);
    else
        softmax_of_all(r, experts);
    probabilities = (float *)op.probabilities.data + r.row * op.probabilities.stride;
    for (int e = r.lane; e < experts; e += WARP)
        probabilities[e] = counted ? r.scores[e] : 0;
    if (op.kind != ROUTE_SPARSEMIXER)
        choose(op, r);
}

/* ---- The order of the pairs ---- */

struct route_sort {
    struct op_route op;
    int32_t *counts; /* (pieces, E): the pairs of each expert, then its first slot */
    int pairs, piece, pieces;
};

static __global__ void sort_count(const struct route_sort s)
{
    int experts = (int)s.op.logits.cols, first = blockIdx.x * s.piece;
    int end = first + s.piece < s.pairs ? first + s.piece : s.pairs;
    int *count = (int *)shared_memory(); /* [E] */

    for (int e = threadIdx.x; e < experts; e += blockDim.x)
        count[e] = 0;
    __syncthreads();
    for (int p = first + threadIdx.x; p < end; p += blockDim.x)
        atomicAdd(&count[s.op.experts[p]], 1);
    __syncthreads();
    for (int e = threadIdx.x; e < experts; e += blockDim.x)
        s.counts[(size_t)blockIdx.x * experts + e] = count[e];
}

/* One block, a thread for each expert. */
static __global__ void __launch_bounds__(EXPERTS_MAX) sort_add(const struct route_sort s)
{
    int experts = (int)s.op.logits.cols, e = threadIdx.x, all = 0, first = 0;
    int *totals = (int *)shared_memory(); /* [E] */

    for (int i = 0; i < s.pieces && e < experts; i++)
        all += s.counts[(size_t)i * experts + e];
    if (e < experts)
        totals[e] = all;
    __syncthreads();
    if (e >= experts)
        return;
    for (int i = 0; i < e; i++)
        first += totals[i];
    s.op.starts[e] = first;
    if (e == experts - 1)
        s.op.starts[experts] = first + all;
    for (int i = 0; i < s.pieces; i++) {
        int32_t *at = &s.counts[(size_t)i * experts + e], count = *at;

        *at = first;
        first += count;
    }
}

/* A warp places the pairs of a piece. */
static __global__ void __launch_bounds__(WARP) sort_place(const struct route_sort s)
{
    int experts = (int)s.op.logits.cols, first = blockIdx.x * s.piece;
    int end = first + s.piece < s.pairs ? first + s.piece : s.pairs;
    int *next = (int *)shared_memory(), lane = threadIdx.x; /* [E] */

    for (int e = lane; e < experts; e += WARP)
        next[e] = s.counts[(size_t)blockIdx.x * experts + e];
    __syncwarp();
    for (int base = first; base < end; base += WARP) {
        int p = base + lane, expert = p < end ? s.op.experts[p] : -1 - lane;
        unsigned same = __match_any_sync(FULL_WARP_MASK, expert);
        int before = __popc(same & ((1u << lane) - 1)), slot = 0;

        if (p < end)
            slot = next[expert] + before;
        __syncwarp();
        if (p < end && before == 0)
            next[expert] += __popc(same);
        __syncwarp();
        if (p < end) {
            s.op.order[slot] = p;
            s.op.slots[p] = slot;
        }
    }
}

/* counts += the experts of counted rows; integers, so that their order is of no matter */
static __global__ void add_counts(const struct op_route op)
{
    size_t pairs = counted_rows(op) * op.weights.cols;

    for (size_t p = blockIdx.x * (size_t)blockDim.x + threadIdx.x; p < pairs;
         p += (size_t)gridDim.x * blockDim.x)
        atomicAdd(&op.counts[op.experts[p]], 1);
}

/* The same of SPARSEMIXER: the experts that would be chosen without sampling. */
static __global__ void add_best(const struct op_route op)
{
    size_t rows = counted_rows(op);

    for (size_t row = blockIdx.x * (size_t)blockDim.x + threadIdx.x; row < rows;
         row += (size_t)gridDim.x * blockDim.x) {
        size_t best[2];

        route_two_best((const float *)op.probabilities.data +
                           row * op.probabilities.stride,
                       op.logits.cols, best);
        atomicAdd(&op.counts[best[0]], 1);
        atomicAdd(&op.counts[best[1]], 1);
    }
}

static cudaError_t sort_pairs(const struct cuda_launch *to, const struct op_route *op)
{
    size_t experts = op->logits.cols, shared = experts * sizeof(int);
    struct route_sort s = {};
    cudaError_t status;

    s.op = *op;
    s.counts = (int32_t *)to->scratch;
    s.pairs = (int)(op->logits.rows * op->weights.cols);
    s.piece = (s.pairs + PIECES_MOST - 1) / PIECES_MOST;
    s.piece = s.piece < PIECE ? PIECE : s.piece;
    s.pieces = (s.pairs + s.piece - 1) / s.piece;
    status = launch(to->stream, sort_count, dim3(s.pieces), dim3(128), shared, s);
    if (status == cudaSuccess)
        status = launch(to->stream, sort_add, dim3(1),
                        dim3((unsigned)((experts + WARP - 1) / WARP * WARP)), shared, s);
    if (status == cudaSuccess)
        status = launch(to->stream, sort_place, dim3(s.pieces), dim3(WARP), shared, s);
    if (status == cudaSuccess && op->counts)
        status =
            launch(to->stream, op->kind == ROUTE_SPARSEMIXER ? add_best : add_counts,
                   dim3(blocks_for(to, (s.pairs + 255) / 256, 4)), dim3(256), 0, *op);
    return status;
}

/* How rows are divided among blocks: fewer warps if experts are many, for the shared
 * memory of a block. */
struct route_grid {
    unsigned warps, blocks;
    size_t bytes; /* for each element of room of an expert */
};

static struct route_grid grid_of(size_t rows, size_t experts)
{
    struct route_grid grid;

    grid.warps = experts > EXPERTS_MAX / 2 ? ROUTE_WARPS / 2 : ROUTE_WARPS;
    grid.blocks = (unsigned)((rows + grid.warps - 1) / grid.warps);
    grid.bytes = grid.warps * experts * sizeof(float);
    return grid;
}

cudaError_t launch_route(const struct cuda_launch *to, const struct op_route *op)
{
    struct route_grid grid = grid_of(op->logits.rows, op->logits.cols);
    cudaError_t status =
        launch(to->stream, route_rows, dim3(grid.blocks), dim3(grid.warps * WARP),
               ROUTE_ROOM * grid.bytes, *op, any_view_of(op->logits));

    return status == cudaSuccess ? sort_pairs(to, op) : status;
}

/* ---- The gradient ---- */

/* out += the gradient of the scores from that of the weights; lane j has choice j. */
__device__ static void score_gradient(const struct op_route_backward &op, size_t row,
                                      int lane, float *out)
{
    const struct op_route &forward = op.forward;
    int chosen = (int)forward.weights.cols;
    bool there = lane < chosen;
    const float *dweights = (const float *)op.dweights.data + row * op.dweights.stride;
    const float *weights =
        (const float *)forward.weights.data + row * forward.weights.stride;
    const float *scores =
        (const float *)forward.probabilities.data + row * forward.probabilities.stride;
    float factor = forward.scale != 0 ? forward.scale : 1;
    int expert = there ? forward.experts[row * chosen + lane] : 0;
    float d = there ? dweights[lane] : 0;
    float sum = warp_sum(there ? scores[expert] : 0.0f) + route_least_sum(&forward);
    float inner = warp_sum(there ? d * weights[lane] : 0.0f);

    if (there)
        out[expert] += forward.normalize ? (factor * d - inner) / sum : factor * d;
    __syncwarp();
}

/* out += g-weighted gradient of choice i of SPARSEMIXER */
__device__ static void mixer_gradient(const struct op_route_backward &op,
                                      const struct route_row &r, float *out)
{
    const float *dweights = (const float *)op.dweights.data + r.row * op.dweights.stride;
    const int32_t *chosen = op.forward.experts + 2 * r.row;
    int experts = (int)op.dlogits.cols;

    for (int i = 0; i < 2; i++) {
        float g;

        mixer_softmax(op.forward, r, i == 0 ? -1 : chosen[0]);
        g = dweights[i] * r.scores[chosen[i]];
        for (int e = r.lane; e < experts; e += WARP)
            out[e] += (e == chosen[i] ? g : 0) - r.scores[e] * g;
        __syncwarp();
    }
}

/* The gradient of a row is in shared memory, after the room of route_row. */
static __global__ void __launch_bounds__(ROUTE_WARPS *WARP)
    route_backward_rows(const struct op_route_backward op, const any_view logits,
                        const any_view dlogits)
{
    const struct op_route &forward = op.forward;
    int experts = (int)op.dlogits.cols;
    float balance = route_balance(&op, counted_rows(forward)), inner = 0;
    const float *p;
    struct route_row r;
    float *out;

    if (!find_row(r, op.dlogits.rows, experts))
        return;
    out = (float *)shared_memory() +
          (blockDim.x / WARP * ROUTE_ROOM + threadIdx.x / WARP) * experts;
    p = (const float *)forward.probabilities.data + r.row * forward.probabilities.stride;
    for (int e = r.lane; e < experts; e += WARP)
        out[e] = balance != 0 ? balance * (float)forward.counts[e] : 0;
    __syncwarp();
    if (forward.kind != ROUTE_SPARSEMIXER)
        score_gradient(op, r.row, r.lane, out);
    for (int e = r.lane; e < experts; e += WARP)
        inner += p[e] * out[e];
    inner = warp_sum(inner);
    for (int e = r.lane; e < experts; e += WARP)
        out[e] = forward.kind == ROUTE_SIGMOID ? out[e] * (p[e] * (1 - p[e]))
                                               : p[e] * (out[e] - inner);
    __syncwarp();
    if (forward.kind == ROUTE_SPARSEMIXER) {
        read_logits(r, logits, experts);
        mixer_gradient(op, r, out);
    }
    for (int e = r.lane; e < experts; e += WARP)
        dlogits.set(r.row, e, out[e]);
}

cudaError_t launch_route_backward(const struct cuda_launch *to,
                                  const struct op_route_backward *op)
{
    struct route_grid grid = grid_of(op->dlogits.rows, op->dlogits.cols);

    return launch(to->stream, route_backward_rows, dim3(grid.blocks),
                  dim3(grid.warps * WARP), (ROUTE_ROOM + 1) * grid.bytes, *op,
                  any_view_of(op->forward.logits), any_view_of(op->dlogits));
}
