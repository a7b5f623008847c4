/*
 * kernels/cuda/hardware.cuh - operations that only the hardware has: launches, shared
 * memory of a size chosen at run time, and instructions that CUDA C cannot express.
 * Kernels use them only through these functions, so that a test can replace this file and
 * run the kernels on the CPU (tests/emulation/).
 *
 * Fragments are PTX's (ISA 9, "Warp-level matrix instructions"): with lane = 4 g + t, a
 * register holds two neighbors of a row, the lower column in the lower 16 bits.
 */
#ifndef KERNELS_CUDA_HARDWARE_CUH
#define KERNELS_CUDA_HARDWARE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* Enqueue a kernel on a stream. Arguments are converted to the kernel's
 * parameter types. */
template <typename... P, typename... A>
static inline cudaError_t launch(cudaStream_t stream, void (*kernel)(P...), dim3 grid,
                                 dim3 block, size_t shared, A... arguments)
{
    if (shared > 48 << 10) {
        cudaError_t status = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
            (int)shared);

        if (status != cudaSuccess)
            return status;
    }
    kernel<<<grid, block, shared, stream>>>(P(arguments)...);
    return cudaGetLastError();
}

/* The block's shared memory, as large as the launch requested, aligned to 16 bytes; a
 * kernel takes all it needs from here and declares no __shared__ array. */
__device__ inline void *shared_memory()
{
    extern __shared__ uint4 shared_bytes[];
    return shared_bytes;
}

/*
 * d (16, 8) fp32 += a (16, 16) b (16, 8).  a: rows g and g + 8, columns 2t and 2t + 8 in
 * the order (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); b: column g, rows 2t and
 * 2t + 8; d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
 * fp16 from 7.5 on (in two halves before 8.0), bf16 from 8.0 on.
 */
__device__ inline void mma_fp16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif __CUDA_ARCH__ >= 750
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#else
    __trap();
#endif
}

__device__ inline void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap();
#endif
}

/*
 * Load four 8x8 matrices of 16-bit elements from shared memory: lane 8 i + r points at
 * row r of matrix i (16 bytes, aligned); out[i] is row g, columns 2t and 2t + 1 of matrix
 * i, or, of the transposed one, column g, rows 2t and 2t + 1. From 7.5 on.
 */
__device__ inline void load_matrices(uint32_t out[4], const void *row)
{
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#else
    __trap();
#endif
}

__device__ inline void load_matrices_transposed(uint32_t out[4], const void *row)
{
#if __CUDA_ARCH__ >= 750
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#else
    __trap();
#endif
}

/*
 * Copy 16 bytes from global to shared memory, both aligned to 16, without waiting: zeros
 * if `there` is false (from is not read then). copies_close() ends a group;
 * copies_wait<n>() waits until at most the last n groups of this thread are in flight; a
 * barrier then makes them visible to the others. Before 8.0 the copy is synchronous.
 */
__device__ inline void copy_16_bytes(void *to, const void *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
                   "r"(there ? 16 : 0)
                 : "memory");
#else
    *(uint4 *)to = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
#endif
}

__device__ inline void copies_close()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int n> __device__ inline void copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}

/* Two values rounded to nearest even in one register, the first in the lower 16 bits. */
__device__ inline uint32_t pack_fp16(float low, float high)
{
    __half2 pair = __floats2half2_rn(low, high);

    return *(uint32_t *)&pair;
}

__device__ inline uint32_t pack_bf16(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);

    return *(uint32_t *)&pair;
}

/* 2^x, to 2 units in the last place; 0 where that is below 2^-126: with subnormals it
 * would be four instructions instead of one */
__device__ inline float exp2_fast(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2(x) within 2^-22 from 1/2 to 2, elsewhere to 2 units in the last place; -inf for 0
 * and subnormals, which exp2_fast does not give */
__device__ inline float log2_fast(float x)
{
    float y;

    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
