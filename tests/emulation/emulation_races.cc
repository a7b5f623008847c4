/* tests/emulation/emulation_races.cc - who touched each byte last, whether that is in
 * order, and whether anybody has written it. */
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
    PAGES_MAX = TABLE_SLOTS / 4, /* then all is forgotten at the next launch */
    WIDE_BITS = 2                /* a cell is for 4 bytes, until somebody takes less */
};

/* An access: by whom, when (the clock goes on at every barrier), from which
 * instruction. */
struct record {
    uint32_t thread, time, where;
};

/*
 * The last write, the last read, the last read by another warp than that (else another
 * thread), and whether blocks other than the first have read: no more is needed to find
 * out whether some access of this launch is not in order with the next one.
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
static bool watching; /* some kernel is compiled so */
static bool running;
static const unsigned char *shared;
static size_t shared_bytes;

/* What is not looked at: the stack of the thread that runs; all, where none does.  Most
 * accesses are such. */
static uintptr_t aside;
static size_t aside_bytes = SIZE_MAX;

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

void races_thread(const struct fibre *fibre)
{
    bool looking = running && fibre;

    aside = looking ? (uintptr_t)fibre->stack : 0;
    aside_bytes = looking ? fibre->bytes : SIZE_MAX;
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
                    "emulation: a kernel touches too much memory to look for races\n");
            abort();
        }
        table[slot] = { number, WIDE_BITS, cells_new(PAGE_BYTES >> WIDE_BITS) };
        pages++;
    }
    return &table[slot];
}

/* A cell for each byte from here on, all knowing what theirs knew. */
static void split(struct page *page)
{
    struct cell *fine = cells_new(PAGE_BYTES);

    for (size_t i = 0; i < PAGE_BYTES; i++)
        fine[i] = page->cells[i >> page->bits];
    free(page->cells);
    page->cells = fine;
    page->bits = 0;
}

/* The page of a number, with cells as fine as `edges`, where an access to it begins and
 * ends. */
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

/* "norm.cu:61", or the place in the program. */
static void name_place(uint32_t where, char *room, size_t bytes)
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

static const char *const did[] = { "reads", "writes", "adds to" };

static void describe(const void *at, char *room, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *)at;

    if (byte >= shared && byte < shared + shared_bytes)
        snprintf(room, bytes, "byte %td of shared memory", byte - shared);
    else
        snprintf(room, bytes, "%p", at);
}

[[noreturn]] static void report(const void *at, int kind, uint32_t where,
                                const struct record *before, int kind_before)
{
    char here[160], there[160], place[64];

    name_place(where, here, sizeof(here));
    name_place(before->where, there, sizeof(there));
    describe(at, place, sizeof(place));
    emulation_fail(
        "race: %s %s at %s; block %u thread %u %s it at %s, in no order with this",
        did[kind], place, here, before->thread / THREADS_MAX,
        before->thread % THREADS_MAX, did[kind_before], there);
}

/* Did it happen in this launch, by another thread, with nothing between that orders? */
static inline bool unordered(const struct record *before, uint32_t self, uint32_t since)
{
    if (before->time < since || before->thread == self)
        return false;
    if (before->thread / THREADS_MAX != self / THREADS_MAX)
        return true;
    if (before->time < synced)
        return false;
    return before->thread / LANES != self / LANES ||
           before->time >= warp_synced[self % THREADS_MAX / LANES];
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

static inline void touch(struct cell *cell, const void *at, int kind,
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
    name_place(where, here, sizeof(here));
    emulation_fail("%s byte %td of shared memory, which has %zu, at %s", did[kind],
                   at - shared, shared_bytes, here);
}

/* Is some of it as memory begins?  By words, as any number may have one of its bytes; a
 * half that is read for itself, by itself. */
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
    char here[160], place[64];

    name_place(where, here, sizeof(here));
    describe(at, place, sizeof(place));
    emulation_fail("%s %s at %s, which nobody has written", did[kind], place, here);
}

/* `whole`: of a power of two bytes, and a multiple of them. */
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
            touch(&cell[i], at, kind, &mine, since);
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

[[noreturn]] [[gnu::cold]] static void report_odd(const void *at, size_t bytes, int kind,
                                                  const void *from)
{
    char here[160];

    name_place((uint32_t)((uintptr_t)from - (uintptr_t)&__executable_start - 1), here,
               sizeof(here));
    emulation_fail("%s %zu bytes at %p, which is no multiple of that, at %s", did[kind],
                   bytes, at, here);
}

static inline bool is_record(const void *at)
{
    const char *byte = (const char *)at;

    return (byte >= (const char *)emulation_block.threads &&
            byte < (const char *)(emulation_block.threads + THREADS_MAX)) ||
           at == &emulation_now;
}

/* Apart from what calls it, so that to come back at once from there saves no register. */
template <size_t bytes, int kind>
[[gnu::noinline]] static void look(const void *at, const void *from)
{
    if (!is_record(at))
        access((uint32_t)block_now()->index, at, bytes, true, kind, from);
}

[[gnu::noinline]] static void look_anywhere(const void *at, size_t bytes, int kind,
                                            const void *from)
{
    if (!is_record(at))
        access((uint32_t)block_now()->index, at, bytes, false, kind, from);
}

#define CALLED extern "C" __attribute__((visibility("default")))
#define HERE   __builtin_return_address(0)

/* What the compiler calls: of a thread's own variables and its record nothing is kept. */
template <size_t bytes, int kind>
static inline void aligned(const void *at, const void *from)
{
    if (__builtin_expect((uintptr_t)at % bytes != 0, 0))
        report_odd(at, bytes, kind, from);
    if ((uintptr_t)at - aside >= aside_bytes)
        look<bytes, kind>(at, from);
}

static inline void instrumented(const void *at, size_t bytes, int kind, const void *from)
{
    if ((uintptr_t)at - aside >= aside_bytes)
        look_anywhere(at, bytes, kind, from);
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

/* By each object, before main. */
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
