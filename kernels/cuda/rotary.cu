/*
 * kernels/cuda/rotary.cu - rotary position embeddings, of two halves of a head or of
 * adjacent elements.
 *
 * Bytes moved per element, of b bytes in its format: 2 b. The table's row, 4 bytes for
 * each of a head's columns, comes from caches: the heads of a row read it together. q of
 * (8192, 2048) in bf16 at 4.2 TB/s: 16 us.
 */
#include "kernels/cuda/elementwise_kernel.cuh"

/* The columns are those of the left halves, head by head. */
template <typename T> struct rope_cells {
    view<T> x;
    view<const float> table;
    const int32_t *positions;
    uint32_t half, size; /* columns of half of what turns, of a head */
    float sign;

    template <int n> struct input {
        pack<T, n> left, right;
        pack<float, n> cosine, sine;
        T *at; /* of left */
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t head = (uint32_t)col / half, at = (uint32_t)col - head * half;
        const float *turn = table.at((size_t)positions[row], at);

        in.at = x.at(row, (size_t)head * size + at);
        in.left = *(const pack<T, n> *)in.at;
        in.right = *(const pack<T, n> *)(in.at + half);
        in.cosine = *(const pack<float, n> *)turn;
        in.sine = *(const pack<float, n> *)(turn + half);
    }

    template <int n> __device__ void store(const input<n> &in, size_t, size_t) const
    {
        float one[n], other[n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            float a = to_float(in.left.at[i]), b = to_float(in.right.at[i]);
            float cosine = in.cosine.at[i], sine = in.sine.at[i] * sign;

            one[i] = a * cosine - b * sine;
            other[i] = b * cosine + a * sine;
        }
        ::store<n>(in.at, one);
        ::store<n>(in.at + half, other);
    }
};

/* The columns are pairs of adjacent elements, head by head; half: pairs of a head. */
template <typename T> struct rope_pair_cells {
    rope_cells<T> of;

    template <int n> struct input {
        pack<T, 2 * n> pairs;
        pack<float, n> cosine, sine;
        T *at;
    };

    template <int n> __device__ void load(input<n> &in, size_t row, size_t col) const
    {
        uint32_t head = (uint32_t)col / of.half, at = (uint32_t)col - head * of.half;
        const float *turn = of.table.at((size_t)of.positions[row], at);

        in.at = of.x.at(row, (size_t)head * of.size + 2 * at);
        if (n == 1) { /* a pair may not be aligned */
            in.pairs.at[0] = in.at[0];
            in.pairs.at[1] = in.at[1];
        } else {
            in.pairs = *(const pack<T, 2 * n> *)in.at;
        }
        in.cosine = *(const pack<float, n> *)turn;
        in.sine = *(const pack<float, n> *)(turn + of.half);
    }

    template <int n> __device__ void store(const input<n> &in, size_t, size_t) const
    {
        float out[2 * n];

#pragma unroll
        for (int i = 0; i < n; i++) {
            float a = to_float(in.pairs.at[2 * i]), b = to_float(in.pairs.at[2 * i + 1]);
            float cosine = in.cosine.at[i], sine = in.sine.at[i] * of.sign;

            out[2 * i] = a * cosine - b * sine;
            out[2 * i + 1] = b * cosine + a * sine;
        }
        if (n == 1) {
            ::store<1>(in.at, out);
            ::store<1>(in.at + 1, out + 1);
        } else {
            ::store<2 * n>(in.at, out);
        }
    }
};

template <typename T>
static cudaError_t rope_typed(const struct cuda_launch *to, const struct op_rope *op)
{
    constexpr int n = 16 / sizeof(T);
    size_t size = op->x.cols / op->heads, half = (op->rotary ? op->rotary : size) / 2;
    rope_cells<T> cells = { view_of<T>(op->x), view_of<const float>(op->table),
                            op->positions,     (uint32_t)half,
                            (uint32_t)size,    op->inverse ? -1.0f : 1.0f };

    if (op->interleaved) {
        rope_pair_cells<T> pairs = { cells };

        if (half % (n / 2) == 0 && size % n == 0 && elementwise_is_aligned(op->x, n) &&
            elementwise_is_aligned(op->table, n / 2))
            return elementwise_launch<n / 2, 2>(to, pairs, op->x.rows, op->heads * half);
        return elementwise_launch<1, 2>(to, pairs, op->x.rows, op->heads * half);
    }
    if (half % n == 0 && size % n == 0 && elementwise_is_aligned(op->x, n) &&
        elementwise_is_aligned(op->table, n))
        return elementwise_launch<n, 1>(to, cells, op->x.rows, op->heads * half);
    return elementwise_launch<1, 2>(to, cells, op->x.rows, op->heads * half);
}

cudaError_t launch_rope(const struct cuda_launch *to, const struct op_rope *op)
{
    return BY_FORMAT(op->x.format, T, rope_typed<T>(to, op));
}
