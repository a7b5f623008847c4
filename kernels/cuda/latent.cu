/*
 * kernels/cuda/latent.cu - whole heads of multi-head latent attention from their parts, and
 * heads of another size.
 *
 * Bytes moved, of b bytes per element in the format: latent writes 3 b per element of a
 * head and reads about two thirds of that; latent_backward the reverse; pad_heads 2 b.  What
 * the keys of all heads share, and the table's row, come from caches.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

enum { LATENT_AT_ONCE = 1, PAD_AT_ONCE = 2 };

/* Columns of a head, of its parts, and of heads in up_q and up_kv. */
struct latent_sizes {
    uint32_t head, plain, rotated, value, both, pair;
};

static inline struct latent_sizes latent_sizes_of(struct tensor whole, struct tensor up_q,
                                                  struct tensor up_kv, size_t rotated,
                                                  size_t heads)
{
    struct latent_sizes s = {};

    s.head = (uint32_t)(whole.cols / heads);
    s.both = (uint32_t)(up_q.cols / heads);
    s.pair = (uint32_t)(up_kv.cols / heads);
    s.rotated = (uint32_t)rotated;
    s.plain = s.both - s.rotated;
    s.value = s.pair - s.plain;
    return s;
}

/* Element i of what turns in x, after it has turned. */
template <typename T>
__device__ static inline float turned(const T *x, const float *table, uint32_t i,
                                      uint32_t half, bool interleaved, float sign)
{
    uint32_t pair = interleaved ? i / 2 : i < half ? i : i - half;
    uint32_t first = interleaved ? 2 * pair : pair, apart = interleaved ? 1 : half;
    float a = to_float(x[first]), b = to_float(x[first + apart]);
    float cosine = table[pair], sine = table[half + pair] * sign;

    return i == first ? a * cosine - b * sine : b * cosine + a * sine;
}

/* The columns are those of q, k and v, head by head; n of them are in one part. */
template <typename T> struct latent_cells {
    view<T> q, k, v;
    view<const T> up_q, up_kv, shared;
    view<const float> table;
    const int32_t *positions;
    struct latent_sizes s;
    bool interleaved;

    template <int n> struct input {
        float q[n], k[n], v[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t head = (uint32_t)col / s.head, at = (uint32_t)col - head * s.head;
        const T *from_q = up_q.at(row, (size_t)head * s.both);
        const T *from_kv = up_kv.at(row, (size_t)head * s.pair);

        if (at < s.plain) {
            ::load<n>(in.q, from_q + at);
            ::load<n>(in.k, from_kv + at);
        } else if (at < s.both) {
            const float *turn = table.at((size_t)positions[row], 0);

#pragma unroll
            for (int i = 0; i < n; i++) {
                uint32_t of = at - s.plain + i;

                in.q[i] =
                    turned(from_q + s.plain, turn, of, s.rotated / 2, interleaved, 1.0f);
                in.k[i] =
                    turned(shared.at(row, 0), turn, of, s.rotated / 2, interleaved, 1.0f);
            }
        } else {
#pragma unroll
            for (int i = 0; i < n; i++)
                in.q[i] = in.k[i] = 0;
        }
        if (at < s.value) {
            ::load<n>(in.v, from_kv + s.plain + at);
        } else {
#pragma unroll
            for (int i = 0; i < n; i++)
                in.v[i] = 0;
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        ::store<n>(q.at(row, col), in.q);
        ::store<n>(k.at(row, col), in.k);
        ::store<n>(v.at(row, col), in.v);
    }
};

/* Return whether n columns, aligned in a head, are in one part of it and are one access. */
static inline bool latent_fits(const struct latent_sizes &s, uint32_t n,
                               const struct tensor *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!elementwise_is_aligned(all[i], n))
            return false;
    return s.head % n == 0 && s.plain % n == 0 && s.rotated % n == 0 && s.value % n == 0;
}

template <typename T>
static cudaError_t latent_typed(const struct cuda_launch *to, const struct op_latent *op)
{
    constexpr int n = 16 / sizeof(T);
    latent_cells<T> cells = { view_of<T>(op->q),
                              view_of<T>(op->k),
                              view_of<T>(op->v),
                              view_of<const T>(op->up_q),
                              view_of<const T>(op->up_kv),
                              view_of<const T>(op->shared),
                              view_of<const float>(op->table),
                              op->positions,
                              latent_sizes_of(op->q, op->up_q, op->up_kv, op->table.cols,
                                              op->heads),
                              op->interleaved };
    const struct tensor all[] = { op->q, op->k, op->v, op->up_q, op->up_kv };

    if (latent_fits(cells.s, n, all, 5))
        return elementwise_launch<n, LATENT_AT_ONCE>(to, cells, op->q.rows, op->q.cols);
    return elementwise_launch<1, LATENT_AT_ONCE>(to, cells, op->q.rows, op->q.cols);
}

cudaError_t launch_latent(const struct cuda_launch *to, const struct op_latent *op)
{
    if (op->up_q.format != op->q.format || op->up_kv.format != op->q.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->q.format, T, latent_typed<T>(to, op));
}

/* The columns are those of dq, dk and dv. */
template <typename T> struct latent_back_cells {
    view<T> dup_q, dup_kv;
    view<const T> dq, dk, dv;
    view<const float> table;
    const int32_t *positions;
    struct latent_sizes s;
    bool interleaved;

    template <int n> struct input {
        float q[n], k[n], v[n];
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t head = (uint32_t)col / s.head, at = (uint32_t)col - head * s.head;
        const T *from = dq.at(row, (size_t)head * s.head);

        if (at < s.plain) {
            ::load<n>(in.q, from + at);
            ::load<n>(in.k, dk.at(row, col));
        } else if (at < s.both) {
            const float *turn = table.at((size_t)positions[row], 0);

#pragma unroll
            for (int i = 0; i < n; i++)
                in.q[i] = turned(from + s.plain, turn, at - s.plain + i, s.rotated / 2,
                                 interleaved, -1.0f);
        }
        if (at < s.value)
            ::load<n>(in.v, dv.at(row, col));
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        uint32_t head = (uint32_t)col / s.head, at = (uint32_t)col - head * s.head;
        T *to_kv = dup_kv.at(row, (size_t)head * s.pair);

        if (at < s.both)
            ::store<n>(dup_q.at(row, (size_t)head * s.both + at), in.q);
        if (at < s.plain)
            ::store<n>(to_kv + at, in.k);
        if (at < s.value)
            ::store<n>(to_kv + s.plain + at, in.v);
    }
};

/* The columns are pairs of dshared: the sums over the heads, in their order, turned back. */
template <typename T> struct latent_sum_cells {
    view<T> dshared;
    view<const T> dk;
    view<const float> table;
    const int32_t *positions;
    struct latent_sizes s;
    uint32_t heads;
    bool interleaved;

    template <int n> struct input {
        float a, b;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t half = s.rotated / 2, first = (uint32_t)(interleaved ? 2 * col : col);
        const T *from = dk.at(row, s.plain + first);

        in.a = in.b = 0;
        for (uint32_t h = 0; h < heads; h++) {
            in.a += to_float(from[(size_t)h * s.head]);
            in.b += to_float(from[(size_t)h * s.head + (interleaved ? 1 : half)]);
        }
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        uint32_t half = s.rotated / 2, first = (uint32_t)(interleaved ? 2 * col : col);
        const float *turn = table.at((size_t)positions[row], 0);
        float cosine = turn[col], sine = turn[half + col];
        T *to = dshared.at(row, first);

        to[0] = from_float<T>(in.a * cosine + in.b * sine);
        to[interleaved ? 1 : half] = from_float<T>(in.b * cosine - in.a * sine);
    }
};

template <typename T>
static cudaError_t latent_back_typed(const struct cuda_launch *to,
                                     const struct op_latent_backward *op)
{
    constexpr int n = 16 / sizeof(T);
    struct latent_sizes s =
        latent_sizes_of(op->dq, op->dup_q, op->dup_kv, op->table.cols, op->heads);
    latent_back_cells<T> cells = { view_of<T>(op->dup_q),
                                   view_of<T>(op->dup_kv),
                                   view_of<const T>(op->dq),
                                   view_of<const T>(op->dk),
                                   view_of<const T>(op->dv),
                                   view_of<const float>(op->table),
                                   op->positions,
                                   s,
                                   op->interleaved };
    latent_sum_cells<T> sums = { view_of<T>(op->dshared),
                                 view_of<const T>(op->dk),
                                 view_of<const float>(op->table),
                                 op->positions,
                                 s,
                                 (uint32_t)op->heads,
                                 op->interleaved };
    const struct tensor all[] = { op->dq, op->dk, op->dv, op->dup_q, op->dup_kv };
    cudaError_t status;

    if (latent_fits(s, n, all, 5))
        status =
            elementwise_launch<n, LATENT_AT_ONCE>(to, cells, op->dq.rows, op->dq.cols);
    else
        status =
            elementwise_launch<1, LATENT_AT_ONCE>(to, cells, op->dq.rows, op->dq.cols);
    if (status != cudaSuccess)
        return status;
    return elementwise_launch<1, LATENT_AT_ONCE>(to, sums, op->dk.rows, s.rotated / 2);
}

cudaError_t launch_latent_backward(const struct cuda_launch *to,
                                   const struct op_latent_backward *op)
{
    if (op->dup_q.format != op->dq.format || op->dup_kv.format != op->dq.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->dq.format, T, latent_back_typed<T>(to, op));
}

/* The columns are those of out. */
template <typename T> struct pad_cells {
    view<T> out;
    view<const T> x;
    uint32_t to, from;

    template <int n> struct input {
        pack<T, n> x;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t head = (uint32_t)col / to, at = (uint32_t)col - head * to;

        if (at < from) {
            in.x = *(const pack<T, n> *)x.at(row, (size_t)head * from + at);
            return;
        }
#pragma unroll
        for (int i = 0; i < n; i++)
            in.x.at[i] = from_float<T>(0);
    }

    template <int n>
    __device__ void store(const input<n> &in, size_t row, size_t col) const
    {
        *(pack<T, n> *)out.at(row, col) = in.x;
    }
};

template <typename T>
static cudaError_t pad_typed(const struct cuda_launch *to, const struct op_pad_heads *op)
{
    constexpr int n = 16 / sizeof(T);
    pad_cells<T> cells = { view_of<T>(op->out), view_of<const T>(op->x),
                           (uint32_t)(op->out.cols / op->heads),
                           (uint32_t)(op->x.cols / op->heads) };

    if (cells.to % n == 0 && cells.from % n == 0 && elementwise_is_aligned(op->out, n) &&
        elementwise_is_aligned(op->x, n))
        return elementwise_launch<n, PAD_AT_ONCE>(to, cells, op->out.rows, op->out.cols);
    return elementwise_launch<1, PAD_AT_ONCE>(to, cells, op->out.rows, op->out.cols);
}

cudaError_t launch_pad_heads(const struct cuda_launch *to, const struct op_pad_heads *op)
{
    if (op->x.format != op->out.format)
        return cudaErrorNotSupported;
    return BY_FORMAT(op->x.format, T, pad_typed<T>(to, op));
}
