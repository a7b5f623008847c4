/*
 * kernels/cuda/flash_dropout.cuh - dropout of weights and their gradients in the fragments
 * of flash attention, whose rows are queries, or keys.
 *
 * Where they are queries, a block of random bits is for one row of a lane and its columns
 * of 32 keys.
 */
#ifndef KERNELS_CUDA_FLASH_DROPS_CUH
#define KERNELS_CUDA_FLASH_DROPS_CUH

#include "kernels/cuda/dropout_bits.cuh"

/* Weights become 0 where they are dropped.  query: the lane's first row, in the batch;
 * key: of the first column, in the run. */
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

/* Gradients of what is left of the weights become those of the weights, less delta. */
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
 * Which weights of a lane are kept where the rows of its fragments are keys, for column i
 * of its two: bit 16 i + 4 n + 2 m + h.  query: row of the batch of the tile's first
 * column; key: the warp's first, in its run.  Lanes g and g + 1 want the two halves of
 * the same words: each draws for one of their two columns.
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
    /* lower half of the words: of the lane with the even key */
    other = __shfl_xor_sync(FULL_WARP_MASK, drawn, 4);
    return half ? other >> 16 | (drawn & 0xffff0000u) : (drawn & 0xffff) | other << 16;
}

/* The same to weights that are rounded, and to gradients of weights. */
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
