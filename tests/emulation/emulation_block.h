/*
 * tests/emulation/emulation_block.h - the block that runs: for the files of the machine.
 */
#ifndef TESTS_EMULATION_EMULATION_BLOCK_H
#define TESTS_EMULATION_EMULATION_BLOCK_H

#include "tests/emulation/emulation_fibre.h"
#include "tests/emulation/emulation_machine.h"

enum {
    THREADS_MAX = 1024,
    COPIES_MAX = 64, /* under way, of one thread */
    LANES = 32,
    SHARED_MOST = 227 << 10, /* of any device known here */
    SHARED_SLACK = 64 << 10  /* before and behind it, where no one may go */
};

enum thread_state { THREAD_READY, THREAD_AT_BARRIER, THREAD_MEETING, THREAD_LEFT };

struct copy {
    void *to;
    const void *from;
    bool there;
    int group;
};

struct block_thread : emulation_thread {
    struct fibre fibre;
    int index; /* in the block */
    enum thread_state state;
    emulation_offer *offer;  /* while meeting */
    emulation_place barrier; /* while at one */
    emulation_barrier_kind barrier_kind;
    int predicate;
    struct copy *copies; /* COPIES_MAX */
    int copies_count, group;
};

struct block {
    struct block_thread *threads;
    int count, left, waiting;
    int barrier_result;
    unsigned arrived[THREADS_MAX / LANES]; /* lanes that are meeting, by warp */
    struct fibre main;
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

/* What a lane that is meeting has brought. */
static inline emulation_offer *block_offer(int warp, int lane)
{
    return emulation_block.threads[warp * LANES + lane].offer;
}

/* Each lane's row of 16 bytes in shared memory into the parts of it that lanes take
 * away. */
void copy_rows(int warp, bool transposed);

/*
 * What memory that nobody has written holds, in every half word: NaN as fp32, fp16 and
 * bf16, far from any index as an integer, and no NaN that a kernel makes.
 */
enum : uint32_t { UNWRITTEN_HALF = 0xffa5, UNWRITTEN_WORD = 0xffa5ffa5 };
/* `at` is a multiple of 4. */
void block_unwritten(void *at, size_t bytes);

/* Let the others go on, until somebody makes this thread ready again. */
void block_wait(void);

/* All blocks of a launch; false after a finding. */
bool block_run_launch(const emulation_launch *launch);
void block_seed(uint64_t seed);
uint64_t block_random(void);
/* What a block of the current device may ask for. */
size_t block_shared_max(int capability);

/* What emulation_fail does to the text, with the kernel, block and thread added. */
void emulation_found(const char *text);

#endif
