/* tests/emulation/emulation_block.cc - schedules the threads of a block. */
#include "tests/emulation/emulation_block.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/emulation/emulation_races.h"

#ifdef EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define FORBID(at, bytes) __asan_poison_memory_region(at, bytes)
#define ALLOW(at, bytes)  __asan_unpoison_memory_region(at, bytes)
enum { STACK_BYTES = 256 << 10 };
#else
#define FORBID(at, bytes) memset(at, GUARD, bytes)
#define ALLOW(at, bytes)  ((void)0)
enum { STACK_BYTES = 64 << 10 };
#endif

enum { GUARD = 0xa7 };

struct emulation_thread *emulation_now;
struct block emulation_block;

static struct block *const block = &emulation_block;
static uint64_t state = 1;
static unsigned char *arena; /* guard, shared memory, guard */

void block_seed(uint64_t seed)
{
    state = seed;
}

/* splitmix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
 * 2014. */
uint64_t block_random(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void block_unwritten(void *at, size_t bytes)
{
    static const uint32_t word = UNWRITTEN_WORD;
    uint32_t *words = (uint32_t *)at;
    size_t count = bytes / sizeof(word);

    for (size_t i = 0; i < count; i++)
        words[i] = word;
    memcpy(words + count, &word, bytes % sizeof(word));
}

template <typename T> static void shuffle(T *order, T count)
{
    for (T i = 0; i < count; i++)
        order[i] = i;
    for (T i = count; i > 1; i--)
        std::swap(order[i - 1], order[block_random() % (uint64_t)i]);
}

/* From "CUDA C++ Programming Guide", 13.0, table "Technical Specifications per Compute
 * Capability". */
size_t block_shared_max(int capability)
{
    static const struct {
        int capability;
        size_t kib;
    } most[] = { { 60, 48 },   { 70, 96 },   { 75, 64 },   { 80, 163 },
                 { 86, 99 },   { 87, 163 },  { 89, 99 },   { 90, 227 },
                 { 100, 227 }, { 103, 227 }, { 110, 227 }, { 120, 99 } };
    size_t kib = 48;

    for (const auto &row : most)
        if (capability >= row.capability)
            kib = row.kib;
    return kib << 10;
}

static const char *name_of(const block_thread *t, char *room, size_t bytes)
{
    snprintf(room, bytes, "block (%u, %u, %u) thread (%u, %u, %u)", t->block.x,
             t->block.y, t->block.z, t->thread.x, t->thread.y, t->thread.z);
    return room;
}

/* The second argument of launch(), as written in the source. */
static void kernel_name(const emulation_launch *launch, char *room, size_t bytes)
{
    const char *from = strchr(launch->text, ',');
    size_t length = 0;
    int depth = 0;

    from = from ? from + 1 + strspn(from + 1, " ") : launch->text;
    while (from[length] && (depth || from[length] != ',')) {
        depth += (from[length] == '<') - (from[length] == '>');
        length++;
    }
    snprintf(room, bytes, "%.*s (%s:%d)", (int)length, from, launch->file, launch->line);
}

/* Report a finding of a thread or of the scheduler (then emulation_now is NULL). */
static void report_finding(const char *text)
{
    char kernel[256], who[96] = "", whole[1024];

    kernel_name(block->launch, kernel, sizeof(kernel));
    if (emulation_now)
        name_of(block_now(), who, sizeof(who));
    snprintf(whole, sizeof(whole), "%s%s%s: %s", kernel, *who ? ", " : "", who, text);
    emulation_report(whole);
    block->failed = true;
}

void emulation_fail(const char *format, ...)
{
    char text[640];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    report_finding(text);
    fiber_switch(&block_now()->fiber, &block->main, true);
    __builtin_unreachable();
}

void block_wait(void)
{
    fiber_switch(&block_now()->fiber, &block->main, false);
}

int emulation_barrier(emulation_location location, emulation_barrier_kind kind,
                      int predicate)
{
    block_thread *self = block_now();

    if (block->left > 0)
        emulation_fail(
            "waits at a barrier (%s:%d), but %d threads of its block have exited",
            location.file, location.line, block->left);
    self->barrier = location;
    self->barrier_kind = kind;
    self->predicate = predicate;
    self->state = THREAD_AT_BARRIER;
    block->waiting++;
    block_wait();
    return block->barrier_result;
}

void *emulation_shared(void)
{
    return block->shared;
}

static void thread_main(void)
{
    block_thread *self = block_now();

    block->launch->run(block->launch);
    self->state = THREAD_LEFT;
    block->left++;
    if (block->waiting > 0)
        emulation_fail("exits, but %d threads of its block wait at a barrier",
                       block->waiting);
    fiber_switch(&self->fiber, &block->main, true);
}

/* All threads wait: open the barrier if it is the same one for all. */
static bool barrier_open(void)
{
    const block_thread *first = &block->threads[0];
    int count = 0;

    for (int i = 0; i < block->count; i++) {
        block_thread *t = &block->threads[i];
        char text[320];

        if (t->barrier.line != first->barrier.line ||
            t->barrier.file != first->barrier.file) {
            snprintf(
                text, sizeof(text),
                "threads wait at different barriers: thread 0 at %s:%d, thread %d at "
                "%s:%d",
                first->barrier.file, first->barrier.line, i, t->barrier.file,
                t->barrier.line);
            report_finding(text);
            return false;
        }
        count += t->predicate;
        t->state = THREAD_READY;
    }
    block->barrier_result = first->barrier_kind == BARRIER_AND  ? count == block->count
                            : first->barrier_kind == BARRIER_OR ? count > 0
                                                                : count;
    block->waiting = 0;
    races_barrier();
    return true;
}

/* Name the first thread that waits at a gate, if there is one. */
static void name_gate(char *text, size_t bytes)
{
    for (int i = 0; i < block->count; i++) {
        const block_thread *t = &block->threads[i];

        if (t->state != THREAD_AT_GATE)
            continue;
        snprintf(
            text, bytes,
            "the threads are deadlocked: thread %d waits for parity %d of the gate at "
            "byte %td of shared memory",
            i, t->parity, (const unsigned char *)t->gate - block->shared);
        return;
    }
}

/* No thread can continue: name one that waits in its warp, and for which lane. */
static void report_deadlock(void)
{
    char text[640] = "the threads are deadlocked";

    name_gate(text, sizeof(text));

    for (int i = 0; i < block->count * LANES; i++) {
        const block_thread *t = &block->threads[i / LANES];
        int lane = i % LANES, other = i / LANES / LANES * LANES + lane;
        const block_thread *o = &block->threads[other];

        if (t->state != THREAD_MEETING || !(t->offer->mask >> lane & 1) ||
            (other < block->count && o->state == THREAD_MEETING))
            continue;
        snprintf(text, sizeof(text),
                 "thread %d waits for lane %d of its warp (%s:%d), which %s", i / LANES,
                 lane, t->offer->location.file ? t->offer->location.file : "a fragment",
                 t->offer->location.line,
                 other >= block->count     ? "is not in the block"
                 : o->state == THREAD_LEFT ? "has exited"
                                           : "waits at a barrier");
        break;
    }
    report_finding(text);
}

static void block_run(void)
{
    int order[THREADS_MAX];

    block->left = block->waiting = 0;
    memset(block->arrived, 0, sizeof(block->arrived));
    shuffle(order, block->count);
    while (block->left < block->count) {
        bool moved = false;

        for (int i = 0; i < block->count; i++) {
            block_thread *t = &block->threads[order[i]];

            if (i + 2 < block->count) {
                fiber_expect(&block->threads[order[i + 1]].fiber);
                __builtin_prefetch(&block->threads[order[i + 2]].fiber);
                __builtin_prefetch(&block->threads[order[i + 2]].state);
            }
            if (t->state == THREAD_AT_GATE && hopper_gate_open(t))
                t->state = THREAD_READY;
            if (t->state != THREAD_READY)
                continue;
            moved = true;
            emulation_now = t;
            races_thread(&t->fiber);
            fiber_switch(&block->main, &t->fiber, false);
            emulation_now = NULL;
            races_thread(NULL);
            if (block->failed)
                return;
        }
        if (block->waiting == block->count) {
            if (!barrier_open())
                return;
            shuffle(order, block->count);
        } else if (!moved) {
            report_deadlock();
            return;
        }
    }
}

static char *stack_new(void)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (stack == MAP_FAILED)
        abort();
    mprotect(stack, 4096, PROT_NONE); /* guard page: the stack grows down into it */
    return (char *)stack;
}

static void threads_prepare(uint3 block_index)
{
    const emulation_launch *launch = block->launch;

    for (int i = 0; i < block->count; i++) {
        block_thread *t = &block->threads[i];
        bool ended = t->state == THREAD_LEFT;
        unsigned x = (unsigned)i % launch->block.x, rest = (unsigned)i / launch->block.x;

        if (!t->fiber.stack) {
            t->fiber.stack = stack_new() + 4096;
            /* stack tops in the same cache set would evict each other */
            t->fiber.bytes = STACK_BYTES - 4096 - (size_t)i * 5 * 64 % 8192;
        }
        t->thread = { x, rest % launch->block.y, rest / launch->block.y };
        t->block = block_index;
        t->block_dim = launch->block;
        t->grid_dim = launch->grid;
        t->index = i;
        t->state = THREAD_READY;
        t->offer = NULL;
        t->copies_count = t->group = t->matmul_group = 0;
        t->begun = false;
        fiber_prepare(&t->fiber, thread_main, ended);
    }
}

/* Exactly the requested size, for all blocks of a launch. */
static void shared_prepare(size_t bytes)
{
    block->shared = arena + SHARED_SLACK;
    ALLOW(block->shared, bytes);
    FORBID(arena, (size_t)SHARED_SLACK);
    FORBID(block->shared + bytes, SHARED_MOST - bytes + SHARED_SLACK);
}

#ifndef EMULATION_ADDRESS_SANITIZER
static bool is_guard(const unsigned char *at, size_t bytes)
{
    return at[0] == GUARD && memcmp(at, at + 1, bytes - 1) == 0;
}
#endif

static void shared_check(size_t bytes)
{
#ifndef EMULATION_ADDRESS_SANITIZER
    size_t whole = 2 * (size_t)SHARED_SLACK + SHARED_MOST, end = SHARED_SLACK + bytes;

    if (is_guard(arena, SHARED_SLACK) && is_guard(arena + end, whole - end))
        return;
    for (size_t i = 0; i < whole; i++)
        if ((i < SHARED_SLACK || i >= SHARED_SLACK + bytes) && arena[i] != GUARD) {
            char text[128];

            snprintf(text, sizeof(text),
                     "out-of-bounds write at byte %td of %zu bytes of shared memory",
                     (ptrdiff_t)i - SHARED_SLACK, bytes);
            report_finding(text);
            return;
        }
#else
    (void)bytes;
#endif
}

static void machine_open(void)
{
    struct copy *copies;

    arena =
        (unsigned char *)mmap(NULL, 2 * (size_t)SHARED_SLACK + SHARED_MOST,
                              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block->threads = (block_thread *)calloc(THREADS_MAX, sizeof(*block->threads));
    copies = (struct copy *)calloc((size_t)THREADS_MAX * COPIES_MAX, sizeof(*copies));
    if (arena == MAP_FAILED || !block->threads || !copies)
        abort();
    for (int i = 0; i < THREADS_MAX; i++)
        block->threads[i].copies = copies + i * COPIES_MAX;
}

/* Return the step of a walk b -> b + step that visits all blocks: it is coprime to their
 * number. */
static uint64_t choose_step(uint64_t blocks)
{
    for (;;) {
        uint64_t step = block_random() % blocks + 1, a = step, b = blocks;

        while (b) {
            uint64_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

bool block_run_launch(const emulation_launch *launch)
{
    uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    uint64_t step = choose_step(blocks), number = block_random() % blocks;

    if (!arena)
        machine_open();
    block->launch = launch;
    block->count = (int)(launch->block.x * launch->block.y * launch->block.z);
    block->failed = false;
    shared_prepare(launch->shared);
    races_begin_launch();
    for (uint64_t i = 0; i < blocks && !block->failed; i++) {
        uint64_t rest = number / launch->grid.x;

        block->number = number;
        threads_prepare({ (unsigned)(number % launch->grid.x),
                          (unsigned)(rest % launch->grid.y),
                          (unsigned)(rest / launch->grid.y) });
        block_unwritten(block->shared, launch->shared);
        races_begin_block(block->shared, launch->shared);
        hopper_begin_block();
        block_run();
        number = (number + step) % blocks;
    }
    races_end_launch();
    emulation_now = NULL;
    if (!block->failed)
        shared_check(launch->shared);
    return !block->failed;
}
