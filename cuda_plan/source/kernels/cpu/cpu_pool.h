/*
 * kernels/cpu/cpu_pool.h - the only threads of the trainer.
 *
 * A loop is a number of tasks, handed out by one atomic counter.  It ends when its tasks
 * are done, not when every thread has reported: a thread that a busy neighbour keeps from
 * running costs nothing.  Which thread runs a task, and when, is chance; so a result must
 * depend on the task's number alone, and tasks must be cut by shapes, never by the number
 * of threads.
 */
#ifndef KERNELS_CPU_CPU_POOL_H
#define KERNELS_CPU_CPU_POOL_H

#include "base/error.h"

enum { POOL_MOST_THREADS = 64 };

struct pool;
struct pool_worker; /* one of its threads, as a task sees it */

/* Task number `task` of a loop.  Must not run another loop. */
typedef void pool_task(void *context, size_t task, struct pool_worker *worker);

/* `threads` with the caller's own, 1 to POOL_MOST_THREADS; 0: cores_usable.
 * ERROR_SYSTEM if they cannot be had. */
struct pool *pool_new(size_t threads, struct error *err);
void pool_free(struct pool *pool); /* NULL is allowed */
size_t pool_threads(const struct pool *pool);

/* Run task 0 .. count - 1, each once, in any order; returns when all are done.  What was
 * written before is seen by the tasks, what they write is seen after.  One caller at a
 * time. */
void pool_run(struct pool *pool, size_t count, pool_task *task, void *context);

/*
 * Memory for this task alone: 64-byte aligned, contents undefined, gone when the task
 * ends. Several blocks may be taken, POOL_SCRATCH_BYTES in all (more is a broken
 * promise).
 */
enum { POOL_SCRATCH_BYTES = 32 << 20 };
void *pool_scratch(struct pool_worker *worker, size_t bytes);

/* 0 .. pool_threads - 1: for what a thread keeps from task to task, which must be a copy
 * of what another thread would make. */
size_t pool_worker_number(const struct pool_worker *worker);

#endif
