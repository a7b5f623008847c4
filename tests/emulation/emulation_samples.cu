/* tests/emulation/emulation_samples.cu - kernels that test the emulator. */
#include "tests/emulation/emulation_samples.h"

#include "kernels/cuda/block.cuh"

/* a: the results of each lane, 5 per lane */
static __global__ void shuffles(float *a, const float *)
{
    int lane = threadIdx.x % WARP;
    float x = (float)lane;

    a[5 * lane] = __shfl_sync(FULL_WARP_MASK, x, 3);
    a[5 * lane + 1] = __shfl_up_sync(FULL_WARP_MASK, x, 2, 8);
    a[5 * lane + 2] = __shfl_down_sync(FULL_WARP_MASK, x, 3);
    a[5 * lane + 3] = __shfl_xor_sync(FULL_WARP_MASK, x, 5);
    if (lane < 16)
        a[5 * lane + 4] = __shfl_xor_sync(0xffffu, x, 1);
    else
        a[5 * lane + 4] = __shfl_xor_sync(0xffff0000u, x, 2);
}

static __global__ void votes(unsigned *a, const float *)
{
    int lane = threadIdx.x % WARP;

    a[3 * lane] = __ballot_sync(FULL_WARP_MASK, lane % 3 == 0);
    a[3 * lane + 1] = __any_sync(FULL_WARP_MASK, lane == 7);
    a[3 * lane + 2] = __all_sync(FULL_WARP_MASK, lane < 31);
}

/* a: d of 32 lanes; b: their a and b in fragment order */
template <bool bf> static __global__ void multiply(float *a, const uint32_t *b)
{
    int lane = threadIdx.x;

    if (bf)
        mma_bf16(a + 4 * lane, b + 6 * lane, b + 6 * lane + 4);
    else
        mma_fp16(a + 4 * lane, b + 6 * lane, b + 6 * lane + 4);
}

/* Four 8 x 8 matrices from b, through shared memory. */
template <bool transposed> static __global__ void load_four(uint32_t *a, const uint4 *b)
{
    uint4 *rows = (uint4 *)shared_memory();
    uint32_t out[4];

    rows[threadIdx.x] = b[threadIdx.x];
    __syncwarp();
    if (transposed)
        load_matrices_transposed(out, &rows[threadIdx.x]);
    else
        load_matrices(out, &rows[threadIdx.x]);
    for (int i = 0; i < 4; i++)
        a[4 * threadIdx.x + i] = out[i];
}

/* Two groups; the wait for the later one comes at the end. */
template <bool waits> static __global__ void copies(float *a, const float *b)
{
    float *shared = (float *)shared_memory();
    int i = threadIdx.x;

    copy_16_bytes(shared + 4 * i, b + 4 * i, true);
    copies_close();
    copy_16_bytes(shared + 4 * (i + 32), b + 4 * i, i < 16);
    copies_close();
    copies_wait<1>();
    a[i] = shared[4 * i + 1];
    if (waits)
        copies_wait<0>();
    a[i + 32] = shared[4 * (i + 32) + 1];
}

static __global__ void sum(float *a, const float *b)
{
    float x =
        block_sum(b[blockIdx.x * blockDim.x + threadIdx.x], (float *)shared_memory());

    if (threadIdx.x == 0)
        a[blockIdx.x] = x;
}

static __global__ void count(int *a, const float *)
{
    atomicAdd(a, 1);
    atomicMax(a + 1, (int)(blockIdx.x * blockDim.x + threadIdx.x));
}

/* Each thread writes its own byte of a word: no race. */
static __global__ void bytes(unsigned char *a, const float *)
{
    a[blockIdx.x * blockDim.x + threadIdx.x] = (unsigned char)threadIdx.x;
}

template <bool waits> static __global__ void neighbor(float *a, const float *)
{
    float *shared = (float *)shared_memory();

    shared[threadIdx.x] = 0;
    __syncthreads();
    shared[threadIdx.x] = (float)threadIdx.x;
    if (waits)
        __syncthreads();
    a[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

template <bool waits> static __global__ void warp_neighbor(float *a, const float *)
{
    float *shared = (float *)shared_memory();
    int other = (threadIdx.x & ~31u) + (threadIdx.x + 1) % WARP;

    shared[threadIdx.x] = 0;
    __syncthreads();
    shared[threadIdx.x] = (float)threadIdx.x;
    if (waits)
        __syncwarp();
    a[threadIdx.x] = shared[other];
}

/* A shuffle between a write and a read does not order them. */
static __global__ void shuffle_between(float *a, const float *)
{
    float *shared = (float *)shared_memory();

    shared[threadIdx.x] = 0;
    __syncthreads();
    shared[threadIdx.x] = warp_sum(1.0f);
    a[threadIdx.x] = warp_sum(shared[threadIdx.x]) + shared[threadIdx.x ^ 1];
}

/* All threads may happen to read before one writes. */
static __global__ void read_then_write(float *a, const float *)
{
    float *shared = (float *)shared_memory();

    shared[threadIdx.x] = 1;
    __syncthreads();
    a[threadIdx.x] = shared[5];
    if (threadIdx.x == 70)
        shared[5] = 2;
}

static __global__ void blocks_write(float *a, const float *)
{
    if (threadIdx.x == 0)
        a[0] = (float)blockIdx.x;
}

static __global__ void blocks_read(float *a, const float *)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        a[0] = 1;
    if (threadIdx.x == 1 && blockIdx.x == 1)
        a[1] = a[0];
}

static __global__ void atomic_and_not(int *a, const float *)
{
    if (threadIdx.x == 0)
        a[0] = 5;
    else
        atomicAdd(a, 1);
}

static __global__ void leaves(float *a, const float *)
{
    if (threadIdx.x == 40)
        return;
    __syncthreads();
    a[threadIdx.x] = 1;
}

static __global__ void two_barriers(float *a, const float *)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    a[threadIdx.x] = 1;
}

static __global__ void lane_left(float *a, const float *)
{
    if (threadIdx.x == 9)
        return;
    a[threadIdx.x] = warp_sum(1.0f);
}

static __global__ void two_collectives(float *a, const float *)
{
    if (threadIdx.x < 8)
        a[threadIdx.x] = __shfl_xor_sync(FULL_WARP_MASK, 1.0f, 1);
    else
        a[threadIdx.x] = __shfl_down_sync(FULL_WARP_MASK, 1.0f, 1);
}

static __global__ void outside_mask(float *a, const float *)
{
    if (threadIdx.x < 16)
        a[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 20);
}

static __global__ void overrun(float *a, const float *)
{
    float *shared = (float *)shared_memory();

    shared[threadIdx.x + 1] = 1;
    a[threadIdx.x] = shared[threadIdx.x + 1];
}

static __global__ void overread(float *a, const float *)
{
    const float *shared = (const float *)shared_memory();

    a[threadIdx.x] = threadIdx.x == 31 ? shared[threadIdx.x + 1] : 0;
}

static __global__ void misaligned(float *a, const float *b)
{
    *(pack<float, 4> *)a = *(const pack<float, 4> *)(b + 1);
}

static __global__ void unwritten(float *a, const float *)
{
    a[threadIdx.x] = ((const float *)shared_memory())[threadIdx.x];
}

/* fmaxf returns the other operand for a NaN: the result does not show it. */
static __global__ void unwritten_and_lost(float *a, const float *b)
{
    a[threadIdx.x] = fmaxf(b[threadIdx.x], 0.0f);
}

static __global__ void unwritten_index(float *a, const int *b)
{
    if (b[threadIdx.x] >= 0)
        a[threadIdx.x] = 1;
}

/* Only every other half of a word. */
static __global__ void unwritten_half(uint16_t *a, const float *)
{
    uint16_t *shared = (uint16_t *)shared_memory();

    shared[2 * threadIdx.x] = 7;
    a[threadIdx.x] = shared[2 * threadIdx.x + 1];
}

static __global__ void unwritten_byte(unsigned char *a, const unsigned char *b)
{
    a[threadIdx.x] = b[threadIdx.x];
}

static __global__ void unwritten_count(int *a, const float *)
{
    atomicMax(a, 1);
}

/* All rows but the last. */
static __global__ void unwritten_row(uint32_t *a, const float *)
{
    uint4 *rows = (uint4 *)shared_memory();
    uint32_t out[4];

    if (threadIdx.x < 31)
        rows[threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    load_matrices(out, &rows[threadIdx.x]);
    a[threadIdx.x] = out[0];
}

/* A variable that only thread 99 sets. */
static __global__ void unwritten_variable(float *a, const float *b)
{
    float x;

    if (threadIdx.x == 99)
        x = b[0];
    a[threadIdx.x] = x;
}

/* a[0] counts, a[1 ..] are the threads in the order of their arrival. */
static __global__ void order(int *a, const float *)
{
    a[1 + atomicAdd(a, 1)] = (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

static __global__ void add_one(float *a, const float *)
{
    a[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

template <typename A, typename B>
static cudaError_t put(void (*kernel)(A *, const B *), struct sample_size size,
                       cudaStream_t stream, void *a, void *b)
{
    return launch(stream, kernel, dim3(size.blocks, size.blocks_y), dim3(size.threads),
                  size.shared, (A *)a, (const B *)b);
}

cudaError_t sample_launch(enum sample sample, struct sample_size size,
                          cudaStream_t stream, void *a, void *b)
{
#define IS(name, kernel) \
    case name:           \
        return put(kernel, size, stream, a, b);
    switch (sample) {
        IS(SAMPLE_SHUFFLES, shuffles)
        IS(SAMPLE_VOTES, votes)
        IS(SAMPLE_MMA_FP16, multiply<false>)
        IS(SAMPLE_MMA_BF16, multiply<true>)
        IS(SAMPLE_LOAD, load_four<false>)
        IS(SAMPLE_LOAD_TRANSPOSED, load_four<true>)
        IS(SAMPLE_COPIES, copies<true>)
        IS(SAMPLE_COPIES_UNWAITED, copies<false>)
        IS(SAMPLE_SUM, sum)
        IS(SAMPLE_ATOMIC, count)
        IS(SAMPLE_BYTES, bytes)
        IS(SAMPLE_NEIGHBOR, neighbor<true>)
        IS(SAMPLE_NEIGHBOR_RACE, neighbor<false>)
        IS(SAMPLE_WARP_NEIGHBOR, warp_neighbor<true>)
        IS(SAMPLE_WARP_NEIGHBOR_RACE, warp_neighbor<false>)
        IS(SAMPLE_SHUFFLE_IS_NO_BARRIER, shuffle_between)
        IS(SAMPLE_READ_THEN_WRITE_RACE, read_then_write)
        IS(SAMPLE_BLOCKS_RACE, blocks_write)
        IS(SAMPLE_BLOCKS_READ_RACE, blocks_read)
        IS(SAMPLE_ATOMIC_RACE, atomic_and_not)
        IS(SAMPLE_LEAVES_BEFORE_BARRIER, leaves)
        IS(SAMPLE_TWO_BARRIERS, two_barriers)
        IS(SAMPLE_LANE_HAS_LEFT, lane_left)
        IS(SAMPLE_TWO_COLLECTIVES, two_collectives)
        IS(SAMPLE_SOURCE_NOT_IN_MASK, outside_mask)
        IS(SAMPLE_SHARED_OVERRUN, overrun)
        IS(SAMPLE_SHARED_OVERREAD, overread)
        IS(SAMPLE_MISALIGNED, misaligned)
        IS(SAMPLE_READS_SHARED_UNWRITTEN, unwritten)
        IS(SAMPLE_READS_UNWRITTEN_AND_LOST, unwritten_and_lost)
        IS(SAMPLE_READS_UNWRITTEN_INDEX, unwritten_index)
        IS(SAMPLE_READS_UNWRITTEN_HALF, unwritten_half)
        IS(SAMPLE_READS_UNWRITTEN_BYTE, unwritten_byte)
        IS(SAMPLE_READS_UNWRITTEN_COUNT, unwritten_count)
        IS(SAMPLE_READS_UNWRITTEN_ROW, unwritten_row)
        IS(SAMPLE_READS_VARIABLE_UNWRITTEN, unwritten_variable)
        IS(SAMPLE_ORDER, order)
        IS(SAMPLE_ADD_ONE, add_one)
    case SAMPLES:
        break;
    }
    return cudaErrorInvalidValue;
}

bool samples_checked(void)
{
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}

bool samples_filled(void)
{
#ifdef EMULATION_FILLED
    return true;
#else
    return false;
#endif
}

float sample_from_fp16(uint16_t bits)
{
    return to_float(__ushort_as_half(bits));
}

float sample_from_bf16(uint16_t bits)
{
    return to_float(__ushort_as_bfloat16(bits));
}

uint16_t sample_to_fp16(float x)
{
    return __half_as_ushort(from_float<fp16>(x));
}

uint16_t sample_to_bf16(float x)
{
    return __bfloat16_as_ushort(from_float<bf16>(x));
}
