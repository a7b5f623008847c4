/*
 * kernels/cuda/hopper.cuh - instructions that only compute capability 9.0 has: matmuls of
 * a warpgroup (4 warps, the first one a multiple of 4), which run while the warps
 * continue, gates (mbarriers), and registers moved between warpgroups. Only files
 * compiled for sm_90a call them. tests/emulation/emulation_hopper.h is the twin for the
 * CPU.
 *
 * An operand in shared memory consists of 8 rows of 128 bytes (1 KiB, aligned to it)
 * after another; the 16 bytes at chunk c of row r are at chunk c ^ r % 8 (the swizzle),
 * so that neither 8 rows nor 8 chunks share a bank. A row has 64 elements of the depth of
 * the matmul (upright), or 64 of its rows or columns, and the rows are the depth
 * (turned).
 */
#ifndef KERNELS_CUDA_HOPPER_CUH
#define KERNELS_CUDA_HOPPER_CUH

#include "kernels/cuda/hardware.cuh"

enum { WARPGROUP = 128, HOPPER_ATOM = 1024 };

/* Let the lanes of the warpgroup have the same value, known to be the same. */
__device__ inline int warpgroup_index()
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0);
}

/* Return the address in the window of shared memory, whose bits the swizzle uses. */
__device__ inline uint32_t hopper_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/*
 * PTX ISA 9, "Matrix descriptor": an operand at an address in shared memory. leading:
 * bytes from one 64 rows or columns to the next of a turned operand; 8 rows of 128 bytes
 * follow each other.
 */
__device__ inline uint64_t hopper_operand(const void *at, int leading)
{
    return (uint64_t)((hopper_address(at) & 0x3ffff) >> 4) |
           (uint64_t)(leading >> 4) << 16 | (uint64_t)(HOPPER_ATOM >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* The same operand, some bytes later. */
__device__ inline uint64_t hopper_later(uint64_t operand, int bytes)
{
    return operand + (uint64_t)(bytes >> 4);
}

/*
 * Order accesses to registers, and to shared memory by ordinary instructions of this
 * thread, before the next matmuls. Matmuls between two closes are a group; wait<n>()
 * waits for all but the last n groups. The sums, and a left operand in registers, may
 * not be touched before that; hopper_settle() makes the compiler believe it.
 */
__device__ inline void hopper_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void hopper_close()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int n> __device__ inline void hopper_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}

template <int n> __device__ inline void hopper_settle(float (&d)[n])
{
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Let what follows in the program come after the computation of x, which is not negative:
 * the assembler would move it after the next wait, which it does not order otherwise. */
__device__ inline void hopper_after(float x, float *never)
{
    asm volatile("{\n.reg .pred below;\n"
                 "setp.lt.f32 below, %0, 0f00000000;\n"
                 "@below st.shared.f32 [%1], %0;\n}" ::"f"(x),
                 "r"(hopper_address(never))
                 : "memory");
}

/* Order this thread's writes to shared memory before reads by matmuls of others, which a
 * gate or a barrier must follow. */
__device__ inline void hopper_publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* A gate opens when `arrivals` threads have arrived, which begins its next phase: waiting
 * for `parity` returns once the phase with that parity (0 at first) has ended. */
__device__ inline void gate_init(uint64_t *gate, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(hopper_address(gate)),
                 "r"(arrivals)
                 : "memory");
}

__device__ inline void gate_arrive(uint64_t *gate)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(hopper_address(gate))
                 : "memory");
}

__device__ inline void gate_wait(uint64_t *gate, int parity)
{
    asm volatile("{\n"
                 ".reg .pred open;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 open, [%0], %1;\n"
                 "@open bra passed;\n"
                 "bra again;\n"
                 "passed:\n"
                 "}" ::"r"(hopper_address(gate)),
                 "r"(parity)
                 : "memory");
}

/* Set the registers of each thread of the warpgroup; all of its warps take part. */
template <int n> __device__ inline void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

template <int n> __device__ inline void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

/*
 * d (64, N) fp32 = a (64, 16) b (16, N) [+ d if `more`], by a warpgroup. Warp w of it has
 * rows 16 w .. of d, and of a in registers, in the fragments of hardware.cuh: d[4 n + i]
 * is element i of columns 8 n ... of_memory: both operands in shared memory;
 * of_registers: only b.
 */
template <typename T, int N> struct hopper_matmul;

#define HOPPER_D_64                                                               \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "     \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, " \
    "%31}, "
#define HOPPER_SUMS_64                                                                  \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),      \
        "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),   \
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),   \
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),   \
        "+f"(d[31])
#define HOPPER_D_96                                                               \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "     \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, " \
    "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
    "%46, %47}, "
#define HOPPER_SUMS_96                                                                  \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),      \
        "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),   \
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),   \
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),   \
        "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),   \
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),   \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define HOPPER_D_128                                                              \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "     \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, " \
    "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, " \
    "%61, %62, %63}, "
#define HOPPER_SUMS_128                                                                 \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),      \
        "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),   \
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),   \
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),   \
        "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),   \
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),   \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),   \
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),   \
        "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),   \
        "+f"(d[61]), "+f"(d[62]), "+f"(d[63])

#define HOPPER_MATMUL(T, N, type, o0, o1, o2, o3, o4, o5, o6)                            \
    template <> struct hopper_matmul<T, N> {                                             \
        template <bool a_turned, bool b_turned>                                          \
        __device__ static inline void of_memory(float (&d)[N / 2], uint64_t a,           \
                                                uint64_t b, bool more)                   \
        {                                                                                \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o2 ", 0;\n"               \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type \
                         " " HOPPER_D_##N "%" #o0 ", %" #o1 ", p, 1, 1, %" #o3 ", %" #o4 \
                                          ";\n}"                                         \
                         : HOPPER_SUMS_##N                                               \
                         : "l"(a), "l"(b), "r"((int)more), "n"((int)a_turned),           \
                           "n"((int)b_turned));                                          \
        }                                                                                \
        template <bool b_turned>                                                         \
        __device__ static inline void                                                    \
        of_registers(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, bool more)   \
        {                                                                                \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o5 ", 0;\n"               \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type \
                         " " HOPPER_D_##N "{%" #o0 ", %" #o1 ", %" #o2 ", %" #o3         \
                                          "}, %" #o4 ", p, 1, 1, %" #o6 ";\n}"           \
                         : HOPPER_SUMS_##N                                               \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),           \
                           "r"((int)more), "n"((int)b_turned));                          \
        }                                                                                \
    };
HOPPER_MATMUL(__half, 64, "f16", 32, 33, 34, 35, 36, 37, 38)
HOPPER_MATMUL(__half, 96, "f16", 48, 49, 50, 51, 52, 53, 54)
HOPPER_MATMUL(__half, 128, "f16", 64, 65, 66, 67, 68, 69, 70)
HOPPER_MATMUL(__nv_bfloat16, 64, "bf16", 32, 33, 34, 35, 36, 37, 38)
HOPPER_MATMUL(__nv_bfloat16, 96, "bf16", 48, 49, 50, 51, 52, 53, 54)
HOPPER_MATMUL(__nv_bfloat16, 128, "bf16", 64, 65, 66, 67, 68, 69, 70)

#endif
