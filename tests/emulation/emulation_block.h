/*
 * tests/emulation/emulation_block.h - the running block, for the files of the machine.
 */
#ifndef TESTS_EMULATION_EMULATION_BLOCK_H
#define TESTS_EMULATION_EMULATION_BLOCK_H

#include "tests/emulation/emulation_fiber.h"
#include "tests/emulation/emulation_machine.h"

enum {
    THREADS_MAX = 1024,
    COPIES_MAX = 128, /* pending, of one thread */
    LANES = 32,
    SHARED_MOST = 227 << 10, /* of any known device */
    SHARED_SLACK = 64 << 10  /* guard before and after it */
};

enum thread_state {
    THREAD_READY,
    THREAD_AT_BARRIER,
    THREAD_AT_GATE,
    THREAD_MEETING,
    THREAD_LEFT
};

struct copy {
    void *to;
    const void *from;
    bool there;
    int group;
};

struct block_thread : emulation_thread {
    struct fiber fiber;
    int index; /* in the block */
    enum thread_state state;
    emulation_offer *offer;     /* while at a collective */
    emulation_location barrier; /* while at a barrier */
    emulation_barrier_kind barrier_kind;
    int predicate;
    struct copy *copies; /* COPIES_MAX */
    int copies_count, group;
    const uint64_t *gate; /* while at a gate */
    int parity, matmul_group;
    bool begun; /* matmuls may start */
};

struct block {
    struct block_thread *threads;
    int count, left, waiting;
    int barrier_result;
    unsigned arrived[THREADS_MAX / LANES]; /* lanes at a collective, by warp */
    struct fiber main;
    const emulation_launch *launch;
    uint64_t number; /* of the block in its grid */
    unsigned char *shared;
    bool failed;
};
extern struct block emulation_block;

static inline struct block_thread *block_now(void)
{
    return static_cast<struct block_thread *>(emulation_now);
}

/* Return what a lane at a collective has passed in. */
static inline emulation_offer *block_offer(int warp, int lane)
{
    return emulation_block.threads[warp * LANES + lane].offer;
}

/* Distribute the row of 16 bytes of each lane in shared memory to the fragments of the
 * lanes. */
void copy_rows(int warp, bool transposed);

/* Matmuls of a warpgroup, by one of its warps: start one, and finish those of all but the
 * last groups. */
void hopper_start(int warp);
void hopper_finish(int warp);
/* A block starts; it ends. */
void hopper_begin_block(void);
/* Return whether the gate at which a thread waits is open. */
bool hopper_gate_open(const struct block_thread *t);
/* An ordinary write to shared memory, which a matmul may not read before it is
 * published. */
void hopper_note_write(const struct block_thread *t, const void *at, size_t bytes);

/*
 * Content of uninitialized memory, in every 16-bit word: NaN as fp32, fp16 and bf16, far
 * from any index as an integer, and not a NaN that a kernel computes.
 */
enum : uint32_t { UNWRITTEN_HALF = 0xffa5, UNWRITTEN_WORD = 0xffa5ffa5 };
/* Fill memory with that content. `at` is a multiple of 4. */
void block_unwritten(void *at, size_t bytes);

/* Let the other threads run until one of them makes this thread ready again. */
void block_wait(void);

/* Run all blocks of a launch; false after a finding. */
bool block_run_launch(const emulation_launch *launch);
void block_seed(uint64_t seed);
uint64_t block_random(void);
/* Return the most shared memory that a block may request. */
size_t block_shared_max(int capability);

/* Report a finding; emulation_fail adds the kernel, block and thread. */
void emulation_report(const char *text);

#endif
