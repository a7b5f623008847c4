/*
 * kernels/cuda/embedding.cu - looks up rows of a table by token, and accumulates their
 * gradients in it.
 *
 * Bytes moved per element: forward 4, plus the size of the table's format if the row is
 * not in the cache; backward 4 of dout, and 8 of dtable for every column of every token
 * that occurs. (8192, 2048) at 4.2 TB/s: 24 us from a 16-bit table, backward 48 us at
 * most.
 *
 * The backward pass adds rows of the same token in order, each element by one thread. So
 * the entries (token, row) are first sorted by token with a stable sort: a radix sort
 * from the lowest digit up, whose tiles count the digits, then move every entry to the
 * position that the counts of all earlier tiles give. It uses only integers, and nothing
 * depends on timing. Then a warp that finds a token's first entry adds its rows: two
 * memory latencies if the token is rare, one for the entries and one for everything else;
 * for a frequent token, one more per SUM_ROWS.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum {
    DIGIT_BITS = 9,
    DIGITS = 1 << DIGIT_BITS, /* also the threads of a tile's block: one per digit */
    TILE_WARPS = DIGITS / WARP,
    TILE_ROUNDS = 4, /* entries of one lane */
    TILE = DIGITS * TILE_ROUNDS,
    TILES_MOST = 512,
    SUM_THREADS = 256,
    SUM_BLOCKS = 8, /* per multiprocessor; four run at once */
    SUM_ROWS = 5    /* rows whose loads are issued together */
};

/* Return the scale of an operation; 0 means 1. */
static float scale_of(float scale)
{
    return scale != 0 ? scale : 1;
}

struct embedding_position {
    int32_t token;
    uint32_t row;
};

/* One pass of the radix sort over the entries, by one digit of their token. */
struct embedding_order {
    const int32_t *tokens; /* of the rows; used if `from` is NULL */
    const struct embedding_position *from;
    struct embedding_position *to;
    uint32_t *counts; /* (tiles, DIGITS) */
    uint32_t count, tiles;
    int shift, mask;

    __device__ struct embedding_position at(uint32_t i) const
    {
        struct embedding_position first;

        if (from)
            return from[i];
        first.token = tokens[i];
        first.row = i;
        return first;
    }

    __device__ uint32_t digit(struct embedding_position place) const
    {
        return (uint32_t)(place.token >> shift & mask);
    }
};

static __global__ void __launch_bounds__(DIGITS) order_count(struct embedding_order o)
{
    int *count = (int *)shared_memory(); /* [DIGITS] */

    count[threadIdx.x] = 0;
    __syncthreads();
    for (int round = 0; round < TILE_ROUNDS; round++) {
        uint32_t i = blockIdx.x * TILE + round * DIGITS + threadIdx.x;

        if (i < o.count)
            atomicAdd(&count[o.digit(o.at(i))], 1);
    }
    __syncthreads();
    o.counts[blockIdx.x * DIGITS + threadIdx.x] = (uint32_t)count[threadIdx.x];
}

/* Return the sum of x over the threads before this one, of DIGITS threads. */
__device__ static inline uint32_t sum_before(uint32_t x, uint32_t *room)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t sum = x, before = 0;

#pragma unroll
    for (int i = 1; i < WARP; i *= 2) {
        uint32_t other = __shfl_up_sync(FULL_WARP_MASK, sum, i);

        if (lane >= i)
            sum += other;
    }
    if (lane == WARP - 1)
        room[warp] = sum;
    __syncthreads();
    for (int other = 0; other < warp; other++)
        before += room[other];
    return before + sum - x;
}

/* Return the position of this tile's first entry with digit threadIdx.x. */
__device__ static inline uint32_t digit_begin(const struct embedding_order &o,
                                              uint32_t *room)
{
    uint32_t before = 0, all = 0;

#pragma unroll 8
    for (uint32_t tile = 0; tile < o.tiles; tile++) {
        uint32_t count = o.counts[tile * DIGITS + threadIdx.x];

        all += count;
        before += tile < blockIdx.x ? count : 0;
    }
    return before + sum_before(all, room);
}

/* Return the mask of lanes that have this lane's digit; 0 if the lane has no entry. */
__device__ static inline uint32_t lanes_alike(uint32_t digit, bool there)
{
    uint32_t alike = __ballot_sync(FULL_WARP_MASK, there);

#pragma unroll
    for (int bit = 0; bit < DIGIT_BITS; bit++) {
        bool set = digit >> bit & 1;
        uint32_t lanes = __ballot_sync(FULL_WARP_MASK, set);

        alike &= set ? lanes : ~lanes;
    }
    return there ? alike : 0;
}

/* A warp has TILE_ROUNDS * WARP consecutive entries; within a round the lanes are in
 * order. */
static __global__ void __launch_bounds__(DIGITS) order_place(struct embedding_order o)
{
    uint32_t *room = (uint32_t *)shared_memory(); /* [TILE_WARPS] */
    uint32_t *next = room + TILE_WARPS;           /* [TILE_WARPS][DIGITS] */
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t first = blockIdx.x * TILE + warp * TILE_ROUNDS * WARP + lane;
    uint32_t *mine = next + warp * DIGITS, begin = digit_begin(o, room);
    uint32_t alike[TILE_ROUNDS], lower = ((uint32_t)1 << lane) - 1;
    struct embedding_position place[TILE_ROUNDS] = {};

    for (int w = 0; w < TILE_WARPS; w++)
        next[w * DIGITS + threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_ROUNDS; i++) {
        bool there = first + i * WARP < o.count;

        if (there)
            place[i] = o.at(first + i * WARP);
        alike[i] = lanes_alike(o.digit(place[i]), there);
        if (there && (alike[i] & lower) == 0)
            mine[o.digit(place[i])] += __popc(alike[i]);
        __syncwarp();
    }
    __syncthreads();
    for (int w = 0; w < TILE_WARPS; w++) {
        uint32_t count = next[w * DIGITS + threadIdx.x];

        next[w * DIGITS + threadIdx.x] = begin;
        begin += count;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_ROUNDS; i++) {
        bool there = first + i * WARP < o.count;

        if (there)
            o.to[mine[o.digit(place[i])] + __popc(alike[i] & lower)] = place[i];
        __syncwarp();
        if (there && (alike[i] & lower) == 0)
            mine[o.digit(place[i])] += __popc(alike[i]);
        __syncwarp();
    }
}

struct embedding_sum {
    view<float> dtable;
    view<const float> dout;
    float scale;
    const struct embedding_position *places;
    uint32_t count, cols, pieces; /* of columns, one per warp */
    int32_t padding;              /* the token to skip; -1: none */
};

/* Return entry `at`, or one with token -1 past the end. */
__device__ static inline struct embedding_position place_at(const struct embedding_sum &s,
                                                            uint32_t at)
{
    return at < s.count ? s.places[at] : embedding_position { -1, 0 };
}

/*
 * Add the rows of one token to n columns per lane, from `col` on. `place` is entry `at`
 * of the lane; that of lane 1 is the token's first. Entries of a token are adjacent: the
 * next 32 are fetched while the rows of these are added.
 */
template <int n>
__device__ static inline void sum_token(const struct embedding_sum &s,
                                        struct embedding_position place, uint32_t at,
                                        int32_t token, uint32_t col)
{
    bool there = col < s.cols;
    float total[n] = {};
    int from = 1, end;

    if (there)
        load<n>(total, s.dtable.at((size_t)token, col));
    do {
        struct embedding_position next = { -1, 0 };

        end = from + __popc(__ballot_sync(FULL_WARP_MASK, place.token == token));
        at += WARP;
        if (end == WARP)
            next = place_at(s, at);
#pragma unroll 1
        for (; from < end; from += SUM_ROWS) {
            uint32_t row[SUM_ROWS];
            float dout[SUM_ROWS][n];

#pragma unroll
            for (int i = 0; i < SUM_ROWS; i++)
                row[i] = __shfl_sync(FULL_WARP_MASK, place.row, from + i);
#pragma unroll
            for (int i = 0; i < SUM_ROWS; i++)
                if (from + i < end && there)
                    load<n>(dout[i], s.dout.at(row[i], col));
#pragma unroll
            for (int i = 0; i < SUM_ROWS; i++)
#pragma unroll
                for (int k = 0; k < n; k++)
                    if (from + i < end && there)
                        total[k] += s.scale * dout[i][k];
        }
        from = 0;
        place = next;
    } while (end == WARP);
    if (there)
        store<n>(s.dtable.at((size_t)token, col), total);
}

/* One warp per entry that is its token's first, and piece of the columns. Its lanes have
 * the entry before it, the entry, and those after it. */
template <int n>
__global__ void __launch_bounds__(SUM_THREADS, 4) embedding_sums(struct embedding_sum s)
{
    uint32_t warp = (blockIdx.x * SUM_THREADS + threadIdx.x) / WARP,
             lane = threadIdx.x % WARP;
    uint32_t warps = gridDim.x * (SUM_THREADS / WARP);
    uint32_t first = warp / s.pieces, piece = warp % s.pieces;

    while (first < s.count) {
        uint32_t at = first + lane - 1; /* wraps around for lane 0 of the first entry,
                                         * which has none before it */
        struct embedding_position place = place_at(s, at);
        int32_t before = __shfl_sync(FULL_WARP_MASK, place.token, 0);
        int32_t token = __shfl_sync(FULL_WARP_MASK, place.token, 1);

        if (token != s.padding && token != before)
            sum_token<n>(s, place, at, token, (piece * WARP + lane) * n);
        first += warps / s.pieces;
        piece += warps % s.pieces;
        if (piece >= s.pieces) {
            piece -= s.pieces;
            first++;
        }
    }
}

template <int n>
static cudaError_t sum_launch(const struct cuda_launch *to, struct embedding_sum s)
{
    size_t wanted;

    s.pieces = (s.cols + WARP * n - 1) / (WARP * n);
    wanted = ((size_t)s.count * s.pieces * WARP + SUM_THREADS - 1) / SUM_THREADS;
    return launch(to->stream, embedding_sums<n>, blocks_for(to, wanted, SUM_BLOCKS),
                  dim3(SUM_THREADS), 0, s);
}

/* Sort `count` rows by their tokens, which are below `vocabulary`; *sorted points to the
 * sorted entries in the scratch memory. */
static cudaError_t order_launch(const struct cuda_launch *to, const int32_t *tokens,
                                size_t count, size_t vocabulary,
                                const struct embedding_position **sorted)
{
    struct embedding_order o = {};
    struct embedding_position *places = (struct embedding_position *)to->scratch;
    int bits = 1, digits;
    cudaError_t status = cudaSuccess;

    while ((vocabulary - 1) >> bits > 0)
        bits++;
    digits = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    o.tokens = tokens;
    o.count = (uint32_t)count;
    o.tiles = (uint32_t)((count + TILE - 1) / TILE);
    o.counts = (uint32_t *)(places + 2 * count);
    o.mask = DIGITS - 1;
    for (int digit = 0; digit < digits && status == cudaSuccess; digit++) {
        o.to = places + digit % 2 * count;
        o.shift = digit * DIGIT_BITS;
        status = launch(to->stream, order_count, dim3(o.tiles), dim3(DIGITS),
                        DIGITS * sizeof(int), o);
        if (status == cudaSuccess)
            status = launch(to->stream, order_place, dim3(o.tiles), dim3(DIGITS),
                            (TILE_WARPS + TILE_WARPS * DIGITS) * sizeof(uint32_t), o);
        o.from = o.to;
    }
    *sorted = o.from;
    return status;
}

/* Return the number of rows that fit in the scratch memory: two copies of a tile's
 * entries, and its counts. */
static size_t rows_at_once(const struct cuda_launch *to)
{
    size_t most = TILES_MOST;
    size_t tiles = to->scratch_bytes /
                   (2 * TILE * sizeof(struct embedding_position) + DIGITS * sizeof(int));

    return (tiles < most ? tiles : most) * TILE;
}

cudaError_t launch_embedding_backward(const struct cuda_launch *to,
                                      const struct op_embedding_backward *op)
{
    size_t rows = op->dout.rows, cols = op->dout.cols, most = rows_at_once(to);
    bool wide = elementwise_is_aligned(op->dout, 4) &&
                elementwise_is_aligned(op->dtable, 4) && cols % 4 == 0;
    cudaError_t status = cudaSuccess;

    if (cols == 0)
        return cudaSuccess;
    if (most == 0)
        return cudaErrorNotSupported;
    for (size_t first = 0; first < rows && status == cudaSuccess; first += most) {
        size_t count = rows - first < most ? rows - first : most;
        struct embedding_sum s = {};

        s.dtable = view_of<float>(op->dtable);
        s.dout = view_of<const float>(op->dout);
        s.dout.data += first * s.dout.stride;
        s.scale = scale_of(op->scale);
        s.count = (uint32_t)count;
        s.cols = (uint32_t)cols;
        s.padding = op->padded ? op->padding : -1;
        status = order_launch(to, op->tokens + first, count, op->dtable.rows, &s.places);
        if (status == cudaSuccess)
            status = wide ? sum_launch<4>(to, s) : sum_launch<1>(to, s);
    }
    return status;
}

template <typename T> struct embedding_cells {
    view<float> out;
    view<const T> table;
    const int32_t *tokens;
    float scale;

    template <int n> struct input {
        pack<T, n> value;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        in.value = *(const pack<T, n> *)table.at((size_t)tokens[row], col);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        float value[n];

#pragma unroll
        for (int i = 0; i < n; i++)
            value[i] = scale * to_float(in.value.at[i]);
        ::store<n>(out.at(row, col), value);
    }
};

template <typename T>
static cudaError_t embedding_typed(const struct cuda_launch *to,
                                   const struct op_embedding *op)
{
    embedding_cells<T> cells = { view_of<float>(op->out), view_of<const T>(op->table),
                                 op->tokens, scale_of(op->scale) };

    if (elementwise_is_aligned(op->out, 4) && elementwise_is_aligned(op->table, 4))
        return elementwise_launch<4, 2>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, 2>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_embedding(const struct cuda_launch *to, const struct op_embedding *op)
{
    return BY_FORMAT(op->table.format, T, embedding_typed<T>(to, op));
}
