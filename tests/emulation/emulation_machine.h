/*
 * tests/emulation/emulation_machine.h - what a kernel sees of the machine: its indices,
 * and the operations at which threads meet. For the twin headers; C++.
 */
#ifndef TESTS_EMULATION_EMULATION_MACHINE_H
#define TESTS_EMULATION_EMULATION_MACHINE_H

#include <cuda_runtime_api.h>
#include <string.h>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
    constexpr dim3(uint3 a) : x(a.x), y(a.y), z(a.z)
    {
    }
};

/* The first members of a thread's record; the rest belongs to the machine. */
struct emulation_thread {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
};

extern struct emulation_thread *emulation_now; /* the running thread */

#define threadIdx (emulation_now->thread)
#define blockIdx  (emulation_now->block)
#define blockDim  (emulation_now->block_dim)
#define gridDim   (emulation_now->grid_dim)
static const int warpSize = 32;

/* A location in the source, which identifies a barrier or collective. */
struct emulation_location {
    const char *file;
    int line;
};
#define EMULATION_HERE (emulation_location { __FILE__, __LINE__ })

/* Report a finding and end the launch. Does not return. */
[[noreturn]] void emulation_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

enum emulation_barrier_kind { BARRIER_PLAIN, BARRIER_COUNT, BARRIER_AND, BARRIER_OR };
int emulation_barrier(emulation_location location, emulation_barrier_kind kind,
                      int predicate);

enum emulation_rendezvous {
    MEET_NOTHING,
    MEET_SYNC, /* the only one that orders memory */
    MEET_SHUFFLE,
    MEET_SHUFFLE_UP,
    MEET_SHUFFLE_DOWN,
    MEET_SHUFFLE_XOR,
    MEET_BALLOT,
    MEET_MATCH,
    MEET_MMA_FP16,
    MEET_MMA_BF16,
    MEET_LOAD,
    MEET_LOAD_TRANSPOSED,
    MEET_MATMUL,
    MEET_MATMULS_WAIT
};

/* Arguments and result of a lane in a collective. */
struct emulation_offer {
    emulation_rendezvous kind;
    emulation_location location;
    unsigned mask;
    uint64_t value, result;
    int lane, width; /* of a shuffle */
    float *d;        /* of mma */
    const uint32_t *a, *b;
    const void *row; /* of ldmatrix */
    uint32_t *out;
    const struct emulation_matmul *matmul; /* of a warpgroup */
};
void emulation_meet(emulation_offer *offer);

void *emulation_shared(void);
int emulation_capability(void);

void emulation_copy(void *to, const void *from, bool there);
void emulation_copies_close(void);
void emulation_copies_wait(int groups);

/* Instructions of 9.0, see emulation_hopper.cc. left: the lane's part of the left
 * operand, if that is in registers. */
struct emulation_matmul {
    bool fp16, a_turned, b_turned, more;
    int columns;
    float *d;
    const uint32_t *left;
    uint64_t a, b;
};
uint32_t emulation_shared_address(const void *at);
void emulation_matmul_start(const struct emulation_matmul *matmul);
void emulation_matmuls_begin(void);
void emulation_matmuls_close(void);
void emulation_matmuls_wait(int groups);
void emulation_publish(void);
void emulation_gate_init(uint64_t *gate, int arrivals);
void emulation_gate_arrive(uint64_t *gate);
void emulation_gate_wait(uint64_t *gate, int parity);

/* Record an atomic access; atomics do not race with each other. */
void emulation_atomic(const void *at, size_t bytes);

/* A launch: what each thread runs, with its arguments. */
struct emulation_launch {
    void (*run)(const emulation_launch *launch);
    void (*release)(emulation_launch *launch);
    const char *text, *file; /* of the call */
    int line;
    dim3 grid, block;
    size_t shared;
};
/* Takes ownership of the launch. */
cudaError_t emulation_enqueue(emulation_launch *launch, cudaStream_t stream);
void *emulation_memory(size_t bytes);
void emulation_memory_free(void *block);

template <typename... P> struct emulation_call : emulation_launch {
    void (*kernel)(P...);
    std::tuple<P...> arguments;

    static void apply(const emulation_launch *launch)
    {
        const emulation_call *call = static_cast<const emulation_call *>(launch);

        std::apply(call->kernel, call->arguments);
    }
    static void drop(emulation_launch *launch)
    {
        emulation_memory_free(static_cast<emulation_call *>(launch));
    }
};

template <typename... P, typename... A>
cudaError_t emulation_start(const char *text, emulation_location location,
                            cudaStream_t stream, void (*kernel)(P...), dim3 grid,
                            dim3 block, size_t shared, A... arguments)
{
    emulation_call<P...> *call = new (emulation_memory(sizeof(*call)))
        emulation_call<P...> { { emulation_call<P...>::apply, emulation_call<P...>::drop,
                                 text, location.file, location.line, grid, block,
                                 shared },
                               kernel,
                               std::tuple<P...>(P(arguments)...) };

    return emulation_enqueue(call, stream);
}

#endif
