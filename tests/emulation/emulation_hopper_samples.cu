/* tests/emulation/emulation_hopper_samples.cu - a matmul of a warpgroup, right and
 * wrong. */
#include "tests/emulation/emulation_hopper_samples.h"

#include "kernels/cuda/hopper.cuh"

enum { SIZE = 64, SUMS = SIZE * SIZE / WARPGROUP };

/* Copy a matrix to a tile with the swizzle. */
static __device__ void fill(__half *tile, const __half *from)
{
    for (int i = threadIdx.x; i < SIZE * SIZE / 8; i += WARPGROUP) {
        int row = i / 8, chunk = i % 8;

        copy_16_bytes(tile + row * SIZE + 8 * (chunk ^ row % 8), from + 8 * i, true);
    }
    copies_close();
}

static __device__ void start(hopper_sample sample, float (&d)[SUMS],
                             uint32_t (&left)[4][4], const __half *tiles)
{
    uint64_t a = hopper_operand(tiles, 0), b = hopper_operand(tiles + SIZE * SIZE, 0);

    for (int k = 0; k < 4; k++) {
        uint64_t here = hopper_later(a, 32 * k);

        if (sample == HOPPER_SAMPLE_TURNED)
            hopper_matmul<__half, SIZE>::of_memory<false, true>(
                d, here, hopper_later(b, 2048 * k), k > 0);
        else if (sample == HOPPER_SAMPLE_REGISTERS ||
                 sample == HOPPER_SAMPLE_LEFT_OVERWRITTEN)
            hopper_matmul<__half, SIZE>::of_registers<true>(
                d, left[k], hopper_later(b, 2048 * k), k > 0);
        else
            hopper_matmul<__half, SIZE>::of_memory<false, false>(
                d, here, hopper_later(b, 32 * k), k > 0);
    }
    hopper_close();
}

static __global__ void multiply(hopper_sample sample, float *out, const __half *a,
                                const __half *b)
{
    char *shared = (char *)shared_memory();
    int skew = (HOPPER_ATOM - hopper_address(shared) % HOPPER_ATOM) % HOPPER_ATOM;
    __half *tiles = (__half *)(shared + skew);
    uint64_t *gate = (uint64_t *)(tiles + 2 * SIZE * SIZE);
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    uint32_t left[4][4];
    float d[SUMS];

    if (threadIdx.x == 0 && sample != HOPPER_SAMPLE_GATE_UNINITIALIZED)
        gate_init(gate, WARPGROUP);
    __syncthreads();
    fill(tiles, a);
    fill(tiles + SIZE * SIZE, b);
    for (int i = 0; i < 16; i++)
        left[i / 4][i % 4] = *(const uint32_t *)(a + (row + i % 2 * 8) * SIZE +
                                                 i / 4 * 16 + i % 4 / 2 * 8 + col);
    copies_wait<0>();
    if (sample != HOPPER_SAMPLE_UNPUBLISHED)
        hopper_publish();
    if (sample != HOPPER_SAMPLE_GATE_STAYS_CLOSED || threadIdx.x != 77)
        gate_arrive(gate);
    gate_wait(gate, 0);
    if (sample != HOPPER_SAMPLE_NO_BEGIN)
        hopper_begin();
    start(sample, d, left, tiles);
    __syncthreads();
    if (sample == HOPPER_SAMPLE_OVERWRITTEN && threadIdx.x == 5)
        tiles[SIZE * SIZE + 7] = a[0];
    if (sample == HOPPER_SAMPLE_LEFT_OVERWRITTEN)
        left[1][2] ^= 1;
    if (sample != HOPPER_SAMPLE_NO_WAIT)
        hopper_wait<0>();
    hopper_settle(d);
    for (int i = 0; i < SUMS; i++)
        out[(row + i % 4 / 2 * 8) * SIZE + i / 4 * 8 + col + i % 2] = d[i];
}

cudaError_t hopper_sample_launch(enum hopper_sample sample, float *d, const void *a,
                                 const void *b)
{
    return launch(NULL, multiply, dim3(1), dim3(WARPGROUP),
                  2 * SIZE * SIZE * sizeof(__half) + HOPPER_ATOM + sizeof(uint64_t),
                  sample, d, (const __half *)a, (const __half *)b);
}
