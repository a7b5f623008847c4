/*
 * tests/emulation/emulation_hopper.h - the twin of kernels/cuda/hopper.cuh, included
 * before it so that its include guard excludes the original. The contract is that of the
 * original; emulation_hopper.cc has the machine.
 */
#ifndef TESTS_EMULATION_EMULATION_HOPPER_H
#define TESTS_EMULATION_EMULATION_HOPPER_H

#define KERNELS_CUDA_HOPPER_CUH
#define FLASH_HOPPER 1

enum { WARPGROUP = 128, HOPPER_ATOM = 1024 };

static inline int warpgroup_index()
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0);
}

static inline uint32_t hopper_address(const void *at)
{
    return emulation_shared_address(at);
}

static inline uint64_t hopper_operand(const void *at, int leading)
{
    return (uint64_t)((hopper_address(at) & 0x3ffff) >> 4) |
           (uint64_t)(leading >> 4) << 16 | (uint64_t)(HOPPER_ATOM >> 4) << 32 |
           (uint64_t)1 << 62;
}

static inline uint64_t hopper_later(uint64_t operand, int bytes)
{
    return operand + (uint64_t)(bytes >> 4);
}

static inline void hopper_begin()
{
    emulation_matmuls_begin();
}

static inline void hopper_close()
{
    emulation_matmuls_close();
}

template <int n> static inline void hopper_wait()
{
    emulation_matmuls_wait(n);
}

template <int n> static inline void hopper_settle(float (&)[n])
{
}

static inline void hopper_after(float, float *)
{
}

static inline void hopper_publish()
{
    emulation_publish();
}

static inline void gate_init(uint64_t *gate, int arrivals)
{
    emulation_gate_init(gate, arrivals);
}

static inline void gate_arrive(uint64_t *gate)
{
    emulation_gate_arrive(gate);
}

static inline void gate_wait(uint64_t *gate, int parity)
{
    emulation_gate_wait(gate, parity);
}

template <int n> static inline void registers_give()
{
    static_assert(n % 8 == 0 && n >= 24, "setmaxnreg");
}

template <int n> static inline void registers_take()
{
    static_assert(n % 8 == 0 && n <= 256, "setmaxnreg");
}

template <typename T, int N> struct hopper_matmul {
    static emulation_matmul describe(float *d, bool more)
    {
        emulation_matmul matmul = {};

        matmul.fp16 = std::is_same<T, __half>::value;
        matmul.columns = N;
        matmul.d = d;
        matmul.more = more;
        return matmul;
    }
    template <bool a_turned, bool b_turned>
    static inline void of_memory(float (&d)[N / 2], uint64_t a, uint64_t b, bool more)
    {
        emulation_matmul matmul = describe(d, more);

        matmul.a = a;
        matmul.a_turned = a_turned;
        matmul.b = b;
        matmul.b_turned = b_turned;
        emulation_matmul_start(&matmul);
    }
    template <bool b_turned>
    static inline void of_registers(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                    bool more)
    {
        emulation_matmul matmul = describe(d, more);

        matmul.left = a;
        matmul.b = b;
        matmul.b_turned = b_turned;
        emulation_matmul_start(&matmul);
    }
};

#endif
