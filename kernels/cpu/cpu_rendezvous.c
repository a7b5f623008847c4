/*
 * kernels/cpu/cpu_rendezvous.c - windows in a memory file, and a futex to wait on.
 *
 * Each value is written once and read once by the rank that sums it: 8 bytes of traffic
 * per value and rank. Two sets of windows alternate, so one wait per chunk is enough: a
 * set is written again only after the next wait, which its readers reach when they have
 * read it.
 */
#include "config.h"

#include "kernels/cpu/cpu_rendezvous.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/link.h"
#include "base/size.h"
#include "precision/format.h"

enum {
    WINDOW = 256 << 10, /* of all ranks, both sets; still fits an L2 cache */
    SPINS = 2000,
    LOOK_NANOSECONDS = 20000000, /* between checks of the links of waiting ranks */
    UNWATCHED_NAPS = 3000,       /* a minute, if there are no links to check */
    ALL_RANKS = -1,
};

/* Lock-free atomics also work between processes. */
struct shared {
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint round;
    _Alignas(64) atomic_uint broken;
    _Alignas(64) char windows[];
};

struct rendezvous {
    struct shared *shared;
    size_t bytes;
    int rank, ranks, links[DEVICE_RANKS_MAX];
    int link_count;
    unsigned turn; /* the set of windows to write next */
};

static size_t shared_bytes(int ranks)
{
    return sizeof(struct shared) + 2 * (size_t)ranks * WINDOW;
}

int rendezvous_file(int ranks, struct error *err)
{
    int file = memfd_create("trainspool-ranks", MFD_CLOEXEC);

    if (file < 0) {
        error_errno(err, "cannot create shared memory");
    } else if (ftruncate(file, (off_t)shared_bytes(ranks)) != 0) {
        error_errno(err, "cannot allocate %zu KiB of shared memory",
                    shared_bytes(ranks) >> 10);
        close(file);
        file = -1;
    }
    return file;
}

struct rendezvous *rendezvous_open(int file, int rank, int ranks, const int *links,
                                   struct error *err)
{
    struct rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));

    if (!rendezvous) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    rendezvous->rank = rank;
    rendezvous->ranks = ranks;
    rendezvous->bytes = shared_bytes(ranks);
    rendezvous->link_count = !links ? 0 : rank == 0 ? ranks - 1 : 1;
    for (int i = 0; i < rendezvous->link_count; i++)
        rendezvous->links[i] = links[i];
    rendezvous->shared =
        mmap(NULL, rendezvous->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (rendezvous->shared != MAP_FAILED)
        return rendezvous;
    error_errno(err, "cannot map shared memory");
    free(rendezvous);
    return NULL;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    atomic_store(&rendezvous->shared->broken, 1);
    munmap(rendezvous->shared, rendezvous->bytes);
    free(rendezvous);
}

static void wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, DEVICE_RANKS_MAX, NULL, NULL, 0);
}

static void wait_while_equal(atomic_uint *word, unsigned value)
{
    static const struct timespec moment = { .tv_nsec = LOOK_NANOSECONDS };

    syscall(SYS_futex, word, FUTEX_WAIT, value, &moment, NULL, 0);
}

/* naps: how many timeouts the caller has waited through. */
static bool is_broken(struct rendezvous *rendezvous, int naps)
{
    struct shared *shared = rendezvous->shared;

    if (rendezvous->link_count == 0 && naps > UNWATCHED_NAPS)
        atomic_store(&shared->broken, 1);
    for (int i = 0; i < rendezvous->link_count; i++)
        if (!link_is_alive(rendezvous->links[i]))
            atomic_store(&shared->broken, 1);
    return atomic_load(&shared->broken);
}

/* The last rank to arrive releases all of them. */
bool rendezvous_wait(struct rendezvous *rendezvous)
{
    struct shared *shared = rendezvous->shared;
    unsigned round = atomic_load(&shared->round);

    if (atomic_load(&shared->broken))
        return false;
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == (unsigned)rendezvous->ranks) {
        atomic_store(&shared->arrived, 0);
        atomic_store(&shared->round, round + 1);
        wake(&shared->round);
        return true;
    }
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&shared->round, memory_order_acquire) != round)
            return true;
    for (int naps = 1; atomic_load(&shared->round) == round; naps++) {
        wait_while_equal(&shared->round, round);
        /* a rank that released the others and left afterwards blocks no one */
        if (is_broken(rendezvous, naps) && atomic_load(&shared->round) == round)
            return false;
    }
    return true;
}

static char *window(const struct rendezvous *rendezvous, int rank)
{
    size_t place =
        (size_t)(rendezvous->turn % 2) * (size_t)rendezvous->ranks + (size_t)rank;

    return rendezvous->shared->windows + place * WINDOW;
}

static void add_floats(float *sum, const float *more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += more[i];
}

/* sum = window 0 + window 1 + ... */
static void sum_windows(const struct rendezvous *rendezvous, float *sum, size_t count)
{
    memcpy(sum, window(rendezvous, 0), count * sizeof(*sum));
    for (int r = 1; r < rendezvous->ranks; r++)
        add_floats(sum, (const float *)(const void *)window(rendezvous, r), count);
}

bool rendezvous_reduce(struct rendezvous *rendezvous, float *data, size_t count, int root)
{
    const size_t most = WINDOW / sizeof(*data);

    for (size_t at = 0; at < count; at += most, rendezvous->turn++) {
        size_t part = count - at < most ? count - at : most;

        memcpy(window(rendezvous, rendezvous->rank), data + at, part * sizeof(*data));
        if (!rendezvous_wait(rendezvous))
            return false;
        if (rendezvous->rank == root)
            sum_windows(rendezvous, data + at, part);
    }
    return true;
}

/* The same of windows in bf16. */
static void sum_narrow_windows(const struct rendezvous *rendezvous, float *sum,
                               size_t count)
{
    float more[256];

    format_convert(sum, FORMAT_FP32, window(rendezvous, 0), FORMAT_BF16, count);
    for (int r = 1; r < rendezvous->ranks; r++)
        for (size_t at = 0, part; at < count; at += part) {
            const char *from = window(rendezvous, r) + at * sizeof(uint16_t);

            part = count - at < TS_COUNT(more) ? count - at : TS_COUNT(more);
            format_convert(more, FORMAT_FP32, from, FORMAT_BF16, part);
            add_floats(sum + at, more, part);
        }
}

bool rendezvous_reduce_bf16(struct rendezvous *rendezvous, float *data, size_t count,
                            int root)
{
    const size_t most = WINDOW / sizeof(uint16_t);

    for (size_t at = 0; at < count; at += most, rendezvous->turn++) {
        size_t part = count - at < most ? count - at : most;

        format_convert(window(rendezvous, rendezvous->rank), FORMAT_BF16, data + at,
                       FORMAT_FP32, part);
        if (!rendezvous_wait(rendezvous))
            return false;
        if (rendezvous->rank == root)
            sum_narrow_windows(rendezvous, data + at, part);
    }
    return true;
}

bool rendezvous_all_reduce(struct rendezvous *rendezvous, double *data, size_t count)
{
    const size_t most = WINDOW / sizeof(*data);

    for (size_t at = 0; at < count; at += most, rendezvous->turn++) {
        size_t part = count - at < most ? count - at : most;

        memcpy(window(rendezvous, rendezvous->rank), data + at, part * sizeof(*data));
        if (!rendezvous_wait(rendezvous))
            return false;
        memcpy(data + at, window(rendezvous, 0), part * sizeof(*data));
        for (int r = 1; r < rendezvous->ranks; r++) {
            const double *more = (const double *)(const void *)window(rendezvous, r);

            for (size_t i = 0; i < part; i++)
                data[at + i] += more[i];
        }
    }
    return true;
}

bool rendezvous_all_gather(struct rendezvous *rendezvous, void *data, size_t bytes)
{
    char *pieces = data;

    for (size_t at = 0; at < bytes; at += WINDOW, rendezvous->turn++) {
        size_t part = bytes - at < WINDOW ? bytes - at : WINDOW;
        size_t own = (size_t)rendezvous->rank * bytes;

        memcpy(window(rendezvous, rendezvous->rank), pieces + own + at, part);
        if (!rendezvous_wait(rendezvous))
            return false;
        for (int r = 0; r < rendezvous->ranks; r++)
            if (r != rendezvous->rank)
                memcpy(pieces + (size_t)r * bytes + at, window(rendezvous, r), part);
    }
    return true;
}

/* Copy from rank `from` to rank `to`, or to all. */
static bool copy(struct rendezvous *rendezvous, void *data, size_t bytes, int from,
                 int to)
{
    const bool receives =
        rendezvous->rank != from && (to == ALL_RANKS || rendezvous->rank == to);
    char *own = data;

    for (size_t at = 0; at < bytes; at += WINDOW, rendezvous->turn++) {
        size_t part = bytes - at < WINDOW ? bytes - at : WINDOW;

        if (rendezvous->rank == from)
            memcpy(window(rendezvous, from), own + at, part);
        if (!rendezvous_wait(rendezvous))
            return false;
        if (receives)
            memcpy(own + at, window(rendezvous, from), part);
    }
    return true;
}

bool rendezvous_broadcast(struct rendezvous *rendezvous, void *data, size_t bytes,
                          int root)
{
    return copy(rendezvous, data, bytes, root, ALL_RANKS);
}

bool rendezvous_send(struct rendezvous *rendezvous, void *data, size_t bytes, int from,
                     int to)
{
    return copy(rendezvous, data, bytes, from, to);
}
