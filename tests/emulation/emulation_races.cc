/* tests/emulation/emulation_races.cc - records the last accesses to each byte and finds
 * races and uninitialized reads. */
#include "tests/emulation/emulation_races.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/emulation/emulation_block.h"

enum {
    PAGE_BITS = 12,
    PAGE_BYTES = 1 << PAGE_BITS,
    TABLE_SLOTS = 1 << 16,
    PAGES_MAX = TABLE_SLOTS / 4, /* beyond that, the next launch starts empty */
    WIDE_BITS = 2                /* a cell covers 4 bytes until a smaller access */
};

/* An access: the thread, the time (the clock advances at every barrier), and the
 * instruction. */
struct record {
    uint32_t thread, time, where;
};

/*
 * The last write, the last read, the last read by another warp (otherwise by another
 * thread), and whether blocks other than the first have read. That is enough to decide
 * whether some access of this launch is unordered with the next one.
 */
struct cell {
    struct record write, read, other;
    uint32_t block, block_time;
    bool atomic, blocks;
};

struct page {
    uintptr_t number;
    int bits;
    struct cell *cells;
};

static struct page table[TABLE_SLOTS];
static size_t pages;
static struct page recent[256]; /* copies */

static uint32_t now = 1, launched, begun, synced, warp_synced[THREADS_MAX / LANES];
static bool watching; /* some kernel is instrumented */
static bool running;
static const unsigned char *shared;
static size_t shared_bytes;

/* Ignored addresses: the stack of the running thread; all, if none runs. Most accesses
 * are of this kind. */
static uintptr_t ignored;
static size_t ignored_bytes = SIZE_MAX;

static void forget(void)
{
    for (size_t i = 0; i < TABLE_SLOTS && pages; i++) {
        free(table[i].cells);
        table[i] = {};
    }
    pages = 0;
    memset(recent, 0, sizeof(recent));
}

bool races_watching(void)
{
    return watching;
}

void races_begin_launch(void)
{
    if (pages > PAGES_MAX)
        forget();
    launched = ++now;
    running = watching;
}

void races_end_launch(void)
{
    running = false;
}

void races_thread(const struct fiber *fiber)
{
    bool checking = running && fiber;

    ignored = checking ? (uintptr_t)fiber->stack : 0;
    ignored_bytes = checking ? fiber->bytes : SIZE_MAX;
}

void races_begin_block(const void *at, size_t bytes)
{
    shared = (const unsigned char *)at;
    shared_bytes = bytes;
    begun = ++now;
    races_barrier();
}

void races_barrier(void)
{
    synced = ++now;
    memset(warp_synced, 0, sizeof(warp_synced));
}

void races_sync_warp(int warp)
{
    warp_synced[warp] = ++now;
}

static struct cell *cells_new(size_t count)
{
    struct cell *cells = (struct cell *)calloc(count, sizeof(*cells));

    if (!cells)
        abort();
    return cells;
}

static struct page *page_of(uintptr_t number)
{
    size_t slot = (number * 0x9e3779b97f4a7c15u) >> 48;

    while (table[slot].cells && table[slot].number != number)
        slot = (slot + 1) % TABLE_SLOTS;
    if (!table[slot].cells) {
        if (pages + 1 == TABLE_SLOTS) {
            fprintf(stderr,
                    "emulation: a kernel accesses too much memory to check for races\n");
            abort();
        }
        table[slot] = { number, WIDE_BITS, cells_new(PAGE_BYTES >> WIDE_BITS) };
        pages++;
    }
    return &table[slot];
}

/* Give each byte a cell of its own; all start with what the wide cell recorded. */
static void split(struct page *page)
{
    struct cell *fine = cells_new(PAGE_BYTES);

    for (size_t i = 0; i < PAGE_BYTES; i++)
        fine[i] = page->cells[i >> page->bits];
    free(page->cells);
    page->cells = fine;
    page->bits = 0;
}

/* Return the page of a number; its cells are fine enough for an access that begins and
 * ends at `edges`. */
static inline const struct page *page_for(uintptr_t number, size_t edges)
{
    struct page *cached = &recent[number % 256];

    if (__builtin_expect(cached->number != number, 0))
        *cached = *page_of(number);
    if (__builtin_expect((edges & ((1u << cached->bits) - 1)) != 0, 0)) {
        struct page *page = page_of(number);

        split(page);
        *cached = *page;
    }
    return cached;
}

extern char __executable_start;

/* "norm.cu:61", or the address in the program. */
static void name_location(uint32_t where, char *room, size_t bytes)
{
    char program[256], command[320];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    FILE *pipe;

    snprintf(room, bytes, "+0x%x", where);
    if (length <= 0 || where == 0)
        return;
    program[length] = '\0';
    snprintf(command, sizeof(command), "addr2line -s -e '%s' 0x%x 2>/dev/null", program,
             where);
    pipe = popen(command, "r");
    if (!pipe)
        return;
    if (fgets(room, (int)bytes, pipe))
        room[strcspn(room, "\n")] = '\0';
    pclose(pipe);
}

static const char *const verbs[] = { "reads", "writes", "adds to" };

static void describe(const void *at, char *room, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *)at;

    if (byte >= shared && byte < shared + shared_bytes)
        snprintf(room, bytes, "byte %td of shared memory", byte - shared);
    else
        snprintf(room, bytes, "%p", at);
}

[[noreturn]] static void report(const void *at, int kind, uint32_t where,
                                const struct record *earlier, int kind_earlier)
{
    char here[160], there[160], what[64];

    name_location(where, here, sizeof(here));
    name_location(earlier->where, there, sizeof(there));
    describe(at, what, sizeof(what));
    emulation_fail("race: %s %s at %s; block %u thread %u %s it at %s, unordered",
                   verbs[kind], what, here, earlier->thread / THREADS_MAX,
                   earlier->thread % THREADS_MAX, verbs[kind_earlier], there);
}

/* Return whether it happened in this launch, by another thread, with nothing that orders
 * the two. */
static inline bool unordered(const struct record *earlier, uint32_t self, uint32_t since)
{
    if (earlier->time < since || earlier->thread == self)
        return false;
    if (earlier->thread / THREADS_MAX != self / THREADS_MAX)
        return true;
    if (earlier->time < synced)
        return false;
    return earlier->thread / LANES != self / LANES ||
           earlier->time >= warp_synced[self % THREADS_MAX / LANES];
}

static inline void note_read(struct cell *cell, const struct record *mine, uint32_t since)
{
    uint32_t block = mine->thread / THREADS_MAX;

    if (cell->block_time < since) {
        cell->block = block;
        cell->blocks = false;
    } else if (cell->block != block) {
        cell->blocks = true;
    }
    cell->block_time = mine->time;
    if (cell->read.thread != mine->thread || cell->read.time < since) {
        bool apart = cell->other.time >= synced &&
                     cell->other.thread / LANES != mine->thread / LANES;

        if (!apart || cell->read.thread / LANES != mine->thread / LANES)
            cell->other = cell->read;
    }
    cell->read = *mine;
}

static inline void record_access(struct cell *cell, const void *at, int kind,
                                 const struct record *mine, uint32_t since)
{
    uint32_t self = mine->thread;

    if (!(kind == RACES_ATOMIC && cell->atomic) && unordered(&cell->write, self, since))
        report(at, kind, mine->where, &cell->write,
               cell->atomic ? RACES_ATOMIC : RACES_WRITE);
    if (kind == RACES_READ) {
        note_read(cell, mine, since);
        return;
    }
    if (unordered(&cell->read, self, since))
        report(at, kind, mine->where, &cell->read, RACES_READ);
    if (unordered(&cell->other, self, since))
        report(at, kind, mine->where, &cell->other, RACES_READ);
    if (cell->block_time >= since && (cell->blocks || cell->block != self / THREADS_MAX))
        report(at, kind, mine->where, &cell->read, RACES_READ);
    cell->write = *mine;
    cell->atomic = kind == RACES_ATOMIC;
}

static void check_shared(const unsigned char *at, size_t bytes, int kind, uint32_t where)
{
    char here[160];

    if (at >= shared && at + bytes <= shared + shared_bytes)
        return;
    name_location(where, here, sizeof(here));
    emulation_fail("%s byte %td of shared memory of %zu bytes, at %s", verbs[kind],
                   at - shared, shared_bytes, here);
}

/* Return whether part of it is uninitialized. Compares whole words, because any value may
 * contain one of the bytes; a 16-bit access compares its half word. */
__attribute__((no_sanitize("address"))) static bool unwritten(const void *at,
                                                              size_t bytes)
{
    const uintptr_t first = (uintptr_t)at, end = first + bytes;

    if (bytes == 2 && first % 2 == 0)
        return *(const uint16_t *)at == UNWRITTEN_HALF;
    for (uintptr_t word = first & ~(uintptr_t)3; word < end; word += 4)
        if (*(const uint32_t *)word == UNWRITTEN_WORD)
            return true;
    return false;
}

[[noreturn]] static void report_unwritten(const void *at, int kind, uint32_t where)
{
    char here[160], what[64];

    name_location(where, here, sizeof(here));
    describe(at, what, sizeof(what));
    emulation_fail("%s %s at %s, which is uninitialized", verbs[kind], what, here);
}

/* `whole`: the size is a power of two and the address a multiple of it. */
[[gnu::always_inline]] static inline void access(uint32_t thread, const void *at,
                                                 size_t bytes, bool whole, int kind,
                                                 const void *from)
{
    uintptr_t first = (uintptr_t)at, last = first + bytes - 1;
    uint32_t where = (uint32_t)((uintptr_t)from - (uintptr_t)&__executable_start - 1);
    struct record mine = { (uint32_t)emulation_block.number * THREADS_MAX + thread, now,
                           where };
    const unsigned char *byte = (const unsigned char *)at;
    uint32_t since = launched;

    if (byte + SHARED_SLACK > shared && byte < shared + SHARED_SLACK + SHARED_MOST) {
        check_shared(byte, bytes, kind, where);
        since = begun;
    }
    if (kind != RACES_WRITE && unwritten(at, bytes))
        report_unwritten(at, kind, where);
    while (first <= last) {
        size_t offset = first % PAGE_BYTES;
        size_t end = !whole && last >> PAGE_BITS > first >> PAGE_BITS
                         ? PAGE_BYTES
                         : offset + (last - first) + 1;
        const struct page *page = page_for(first >> PAGE_BITS, offset | end);
        struct cell *cell = &page->cells[offset >> page->bits];

        for (size_t i = 0; i < (end - offset) >> page->bits; i++)
            record_access(&cell[i], at, kind, &mine, since);
        if (whole)
            break;
        first += end - offset;
    }
}

void races_access(int thread, const void *at, size_t bytes, int kind, const void *where)
{
    if (running)
        access((uint32_t)thread, at, bytes, false, kind, where);
}

[[noreturn]] [[gnu::cold]] static void report_misaligned(const void *at, size_t bytes,
                                                         int kind, const void *from)
{
    char here[160];

    name_location((uint32_t)((uintptr_t)from - (uintptr_t)&__executable_start - 1), here,
                  sizeof(here));
    emulation_fail("%s %zu bytes at %p, which is misaligned, at %s", verbs[kind], bytes,
                   at, here);
}

static inline bool is_record(const void *at)
{
    const char *byte = (const char *)at;

    return (byte >= (const char *)emulation_block.threads &&
            byte < (const char *)(emulation_block.threads + THREADS_MAX)) ||
           at == &emulation_now;
}

/* Not inlined, so that the early return of the caller saves no registers. */
template <size_t bytes, int kind>
[[gnu::noinline]] static void check_access(const void *at, const void *from)
{
    if (!is_record(at))
        access((uint32_t)block_now()->index, at, bytes, true, kind, from);
}

[[gnu::noinline]] static void check_unaligned(const void *at, size_t bytes, int kind,
                                              const void *from)
{
    if (!is_record(at))
        access((uint32_t)block_now()->index, at, bytes, false, kind, from);
}

#define CALLED extern "C" __attribute__((visibility("default")))
#define HERE   __builtin_return_address(0)

/* Entry points of the instrumentation. A thread's own variables and its record are
 * ignored. */
template <size_t bytes, int kind>
static inline void aligned(const void *at, const void *from)
{
    if (__builtin_expect((uintptr_t)at % bytes != 0, 0))
        report_misaligned(at, bytes, kind, from);
    if ((uintptr_t)at - ignored >= ignored_bytes)
        check_access<bytes, kind>(at, from);
}

static inline void instrumented(const void *at, size_t bytes, int kind, const void *from)
{
    if ((uintptr_t)at - ignored >= ignored_bytes)
        check_unaligned(at, bytes, kind, from);
}

#define SIZED(bytes)                                    \
    CALLED void __tsan_read##bytes(void *at)            \
    {                                                   \
        aligned<bytes, RACES_READ>(at, HERE);           \
    }                                                   \
    CALLED void __tsan_write##bytes(void *at)           \
    {                                                   \
        aligned<bytes, RACES_WRITE>(at, HERE);          \
    }                                                   \
    CALLED void __tsan_unaligned_read##bytes(void *at)  \
    {                                                   \
        instrumented(at, bytes, RACES_READ, HERE);      \
    }                                                   \
    CALLED void __tsan_unaligned_write##bytes(void *at) \
    {                                                   \
        instrumented(at, bytes, RACES_WRITE, HERE);     \
    }
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)

CALLED void __tsan_read_range(void *at, size_t bytes)
{
    if (bytes)
        instrumented(at, bytes, RACES_READ, HERE);
}

CALLED void __tsan_write_range(void *at, size_t bytes)
{
    if (bytes)
        instrumented(at, bytes, RACES_WRITE, HERE);
}

/* Called by each object earlier main. */
CALLED void __tsan_init(void)
{
    watching = true;
}

CALLED void __tsan_func_entry(void *)
{
}
CALLED void __tsan_func_exit(void)
{
}
CALLED void __tsan_vptr_update(void **, void *)
{
}
CALLED void __tsan_vptr_read(void **)
{
}

CALLED void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    __tsan_read_range(const_cast<void *>(from), bytes);
    __tsan_write_range(to, bytes);
    return memcpy(to, from, bytes);
}

CALLED void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    __tsan_read_range(const_cast<void *>(from), bytes);
    __tsan_write_range(to, bytes);
    return memmove(to, from, bytes);
}

CALLED void *__tsan_memset(void *to, int value, size_t bytes)
{
    __tsan_write_range(to, bytes);
    return memset(to, value, bytes);
}
