/*
 * kernels/cuda/flash_dropout.cuh - dropout of weights and their gradients in the
 * fragments of flash attention, whose rows are queries or keys.
 *
 * Where rows are queries, a block of random bits covers one row of a lane and its columns
 * of 32 keys.
 */
#ifndef KERNELS_CUDA_FLASH_DROPS_CUH
#define KERNELS_CUDA_FLASH_DROPS_CUH

#include "kernels/cuda/dropout_bits.cuh"

/* Set dropped weights to 0. query: the lane's first row, in the batch; key: the first
 * column, in the sequence. */
template <int M, int N>
__device__ inline void flash_drops_weights(uint32_t (&weights)[M][N][2],
                                           const struct dropout_bits_head &drops,
                                           int query, int key)
{
    int block = key / 8 + (int)threadIdx.x % 4;

#pragma unroll
    for (int i = 0; i < 2 * M; i++)
#pragma unroll
        for (int n = 0; n < N; n += 4) {
            uint32_t words[4];

            dropout_bits_words(words, drops, query + 8 * i, block + n);
#pragma unroll
            for (int j = 0; j < 4; j++)
                weights[i / 2][n + j][i % 2] &=
                    dropout_bits_halfword_mask(drops, words[j]);
        }
}

/* Turn gradients of the weights after dropout into those of the weights, minus delta. */
template <int M, int N>
__device__ inline void
flash_drops_gradients(float (&ds)[M][N][4], const float (&delta)[M][2],
                      const struct dropout_bits_head &drops, int query, int key)
{
    int block = key / 8 + (int)threadIdx.x % 4;

#pragma unroll
    for (int i = 0; i < 2 * M; i++)
#pragma unroll
        for (int n = 0; n < N; n += 4) {
            uint32_t words[4];

            dropout_bits_words(words, drops, query + 8 * i, block + n);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float *x = &ds[i / 2][n + j / 2][i % 2 * 2 + j % 2];

                *x = (dropout_bits_keep(drops, words[j / 2], j % 2) ? *x : 0) *
                         drops.factor -
                     delta[i / 2][i % 2];
            }
        }
}

/*
 * Return which weights of a lane are kept where the rows of its fragments are keys: bit
 * 16 i + 4 n + 2 m + h for column i of its two. query: row in the batch of the tile's
 * first column; key: the warp's first one, in its sequence. Lanes g and g + 1 need the
 * two halves of the same words: each draws for one of their two columns.
 */
__device__ inline uint32_t flash_drops_kept(const struct dropout_bits_head &drops,
                                            int query, int key)
{
    int lane = threadIdx.x % WARP, half = lane / 4 % 2;
    uint32_t drawn = 0, other;

#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t words[4];

        dropout_bits_words(words, drops, query + 8 * n + lane % 4 * 2 + half,
                           key / 8 + lane / 8);
#pragma unroll
        for (int i = 0; i < 8; i++)
            drawn |= dropout_bits_keep(drops, words[i / 2], i % 2)
                         ? 1u << (i % 2 * 16 + 4 * n + i / 2)
                         : 0;
    }
    /* the lane with the even key takes the lower half of the words */
    other = __shfl_xor_sync(FULL_WARP_MASK, drawn, 4);
    return half ? other >> 16 | (drawn & 0xffff0000u) : (drawn & 0xffff) | other << 16;
}

/* Apply `kept` to rounded weights, and to gradients of weights. */
template <int M, int N>
__device__ inline void flash_drops_weights(uint32_t (&weights)[M][N][2], uint32_t kept)
{
#pragma unroll
    for (int i = 0; i < M * N * 2; i++) {
        int m = i / (2 * N), n = i / 2 % N, h = i % 2;

        weights[m][n][h] &= (kept >> (4 * n + 2 * m + h) & 0x10001) * 0xffff;
    }
}

template <int M, int N>
__device__ inline void flash_drops_gradients(float (&ds)[M][N][4], uint32_t kept,
                                             float factor)
{
#pragma unroll
    for (int i = 0; i < M * N * 4; i++) {
        int m = i / (4 * N), n = i / 4 % N, h = i / 2 % 2;
        float *x = &ds[m][n][i % 4];

        *x = (kept >> (16 * (i % 2) + 4 * n + 2 * m + h) & 1 ? *x : 0) * factor;
    }
}

#endif
