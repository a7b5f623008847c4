/*
 * kernels/cpu/cpu_pool.c - the threads, and the counter from which they take tasks.
 *
 * The upper half of the counter holds the number of the loop. A thread reads the counter,
 * reads the loop, and takes a task by compare-and-swap. That fails if another loop has
 * begun in the meantime, so a thread that slept through a loop cannot run a task of a
 * loop that is over.
 */
#include "config.h"

#include "kernels/cpu/cpu_pool.h"

#include "base/size.h"
#include "kernels/cpu/cpu_cores.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long to wait before sleeping. A spin is about 40 cycles on Zen 4: about 25 us,
 * more than the arithmetic between two loops of a step. Each yield lets another
 * process run. */
enum { SPINS = 1500, YIELDS = 50 };

/* While the lower half of the counter is CLOSED, there are no tasks to take. */
#define CLOSED  UINT32_MAX
#define LOOP(n) ((uint64_t)(n) << 32)

struct pool_worker {
    struct pool *pool;
    pthread_t thread;
    char *scratch; /* POOL_SCRATCH_BYTES; pages are allocated when first touched */
    size_t used;
    bool busy; /* in a task: another loop must not begin */
};

struct pool {
    _Alignas(64) _Atomic uint64_t ticket; /* number of the loop, next task */
    _Alignas(64) _Atomic uint32_t left; /* tasks not done; a futex the caller sleeps on */
    _Alignas(64) _Atomic uint32_t loop; /* a futex idle threads sleep on */
    _Atomic uint32_t sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool ending;
    /* The loop: written while the counter is closed. */
    _Atomic uint32_t count;
    _Atomic(pool_task *) task;
    _Atomic(void *) context;

    int spins; /* none if there are more threads than cores */
    size_t threads;
    struct pool_worker workers[POOL_MOST_THREADS]; /* 0 is the caller's */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

#if defined(__x86_64__)
static void cpu_relax(void)
{
    __builtin_ia32_pause();
}
#else
static void cpu_relax(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}
#endif

static void run_task(struct pool_worker *worker, pool_task *task, void *context,
                     size_t number)
{
    worker->used = 0;
    worker->busy = true;
    task(context, number, worker);
    worker->busy = false;
}

/* Count one task as done; the last one wakes the caller. */
static void finish_task(struct pool *pool)
{
    if (atomic_fetch_sub(&pool->left, 1) == 1 && atomic_load(&pool->caller_sleeps))
        futex_wake(&pool->left, 1);
}

/* Run tasks until the counter has none; return false if there was none. */
static bool take_tasks(struct pool *pool, struct pool_worker *worker)
{
    uint64_t ticket = atomic_load(&pool->ticket);
    bool any = false;

    for (;;) {
        uint32_t next = (uint32_t)ticket;
        pool_task *task = atomic_load_explicit(&pool->task, memory_order_acquire);
        void *context = atomic_load_explicit(&pool->context, memory_order_acquire);

        if (next == CLOSED ||
            next >= atomic_load_explicit(&pool->count, memory_order_acquire))
            return any;
        if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1))
            continue;
        run_task(worker, task, context, next);
        finish_task(pool);
        any = true;
        ticket = atomic_load(&pool->ticket);
    }
}

/* Sleep until the loop's number is not `seen`. */
static void wait_while_equal(struct pool *pool, uint32_t seen)
{
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->loop) == seen && !atomic_load(&pool->ending))
        futex_wait(&pool->loop, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void wait_for_loop(struct pool *pool, uint32_t seen)
{
    for (int i = 0; i < pool->spins; i++) {
        if (atomic_load_explicit(&pool->loop, memory_order_relaxed) != seen)
            return;
        cpu_relax();
    }
    for (int i = 0; i < YIELDS; i++) {
        if (atomic_load_explicit(&pool->loop, memory_order_relaxed) != seen)
            return;
        sched_yield();
    }
    wait_while_equal(pool, seen);
}

static void *worker_main(void *argument)
{
    struct pool_worker *worker = argument;
    struct pool *pool = worker->pool;

    while (!atomic_load(&pool->ending)) {
        uint32_t seen = atomic_load(&pool->loop);

        if (!take_tasks(pool, worker))
            wait_for_loop(pool, seen);
    }
    return NULL;
}

static void wait_for_tasks(struct pool *pool)
{
    uint32_t left;

    for (int i = 0; i < pool->spins; i++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0)
            return;
        cpu_relax();
    }
    for (int i = 0; i < YIELDS; i++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0)
            return;
        sched_yield();
    }
    atomic_store(&pool->caller_sleeps, true);
    while ((left = atomic_load(&pool->left)) != 0)
        futex_wait(&pool->left, left);
    atomic_store(&pool->caller_sleeps, false);
}

static void open_loop(struct pool *pool, size_t count, pool_task *task, void *context)
{
    uint32_t number = atomic_load_explicit(&pool->loop, memory_order_relaxed) + 1;

    /* A thread that sees one of these three also sees that the counter was
     * closed before. */
    atomic_store_explicit(&pool->task, task, memory_order_release);
    atomic_store_explicit(&pool->context, context, memory_order_release);
    atomic_store_explicit(&pool->count, (uint32_t)count, memory_order_release);
    atomic_store_explicit(&pool->left, (uint32_t)count, memory_order_relaxed);
    atomic_store(&pool->ticket, LOOP(number));
    atomic_store(&pool->loop, number);
    if (atomic_load(&pool->sleepers))
        futex_wake(&pool->loop, INT_MAX);
}

/* After this no thread takes the loop's task, context and count for its own. */
static void close_loop(struct pool *pool)
{
    atomic_store(&pool->ticket, LOOP(atomic_load(&pool->loop)) | CLOSED);
}

void pool_run(struct pool *pool, size_t count, pool_task *task, void *context)
{
    struct pool_worker *self = &pool->workers[0];

    assert(count < CLOSED);
    assert(!self->busy); /* a task must not run a loop */
    if (pool->threads == 1 || count <= 1) {
        for (size_t i = 0; i < count; i++)
            run_task(self, task, context, i);
        return;
    }
    open_loop(pool, count, task, context);
    take_tasks(pool, self);
    wait_for_tasks(pool);
    close_loop(pool);
}

void *pool_scratch(struct pool_worker *worker, size_t bytes)
{
    char *block = worker->scratch + worker->used;

    bytes = size_round(bytes, 64);
    assert(worker->busy && bytes <= POOL_SCRATCH_BYTES - worker->used);
    worker->used += bytes;
    return block;
}

size_t pool_worker_number(const struct pool_worker *worker)
{
    return (size_t)(worker - worker->pool->workers);
}

size_t pool_threads(const struct pool *pool)
{
    return pool->threads;
}

static bool new_scratch(struct pool_worker *worker, struct error *err)
{
    worker->scratch = mmap(NULL, POOL_SCRATCH_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (worker->scratch == MAP_FAILED) {
        worker->scratch = NULL;
        return error_errno(err, "cannot allocate %d bytes for a thread",
                           POOL_SCRATCH_BYTES);
    }
    return true;
}

static bool start_thread(struct pool_worker *worker, struct error *err)
{
    int failure = pthread_create(&worker->thread, NULL, worker_main, worker);

    errno = failure;
    return failure == 0 || error_errno(err, "cannot start a thread");
}

/* The main thread handles signals; the other threads block all of them. */
static bool start_threads(struct pool *pool, size_t threads, struct error *err)
{
    sigset_t all, before;
    bool ok;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pool->workers[0].pool = pool;
    ok = new_scratch(&pool->workers[0], err);
    for (pool->threads = 1; ok && pool->threads < threads;) {
        struct pool_worker *worker = &pool->workers[pool->threads];

        worker->pool = pool;
        ok = new_scratch(worker, err) && start_thread(worker, err);
        if (ok)
            pool->threads++;
        else if (worker->scratch)
            munmap(worker->scratch, POOL_SCRATCH_BYTES);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

struct pool *pool_new(size_t threads, struct error *err)
{
    size_t usable = cores_usable();
    struct pool *pool = aligned_alloc(64, size_round(sizeof(*pool), 64));

    if (!pool) {
        error_errno(err, "cannot allocate memory for the threads");
        return NULL;
    }
    memset(pool, 0, sizeof(*pool));
    if (threads == 0)
        threads = usable;
    if (threads > POOL_MOST_THREADS)
        threads = POOL_MOST_THREADS;
    pool->spins = threads <= usable ? SPINS : 0;
    atomic_store(&pool->ticket, CLOSED);
    if (!start_threads(pool, threads, err)) {
        pool_free(pool);
        return NULL;
    }
    return pool;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->ending, true);
    atomic_fetch_add(&pool->loop, 1);
    futex_wake(&pool->loop, INT_MAX);
    for (size_t i = 0; i < pool->threads; i++) {
        if (i > 0)
            pthread_join(pool->workers[i].thread, NULL);
        if (pool->workers[i].scratch)
            munmap(pool->workers[i].scratch, POOL_SCRATCH_BYTES);
    }
    free(pool);
}
