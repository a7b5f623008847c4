/*
 * kernels/cpu/cpu_pool.h - the only threads of the trainer.
 *
 * A loop is a number of tasks, handed out by one atomic counter. It ends when its tasks
 * are done, not when every thread has reported: a thread that other processes keep from
 * running costs nothing. Which thread runs a task, and when, is random. A result must
 * therefore depend on the task's number alone, and tasks must be divided by shapes, never
 * by the number of threads.
 */
#ifndef KERNELS_CPU_CPU_POOL_H
#define KERNELS_CPU_CPU_POOL_H

#include "base/error.h"

enum { POOL_MOST_THREADS = 64 };

struct pool;
struct pool_worker; /* one of its threads, as seen by a task */

/* Run task number `task` of a loop. It must not run another loop. */
typedef void pool_task(void *context, size_t task, struct pool_worker *worker);

/* Start `threads` including the caller's own, 1 to POOL_MOST_THREADS; 0: cores_usable.
 * ERROR_SYSTEM if they cannot be started. */
struct pool *pool_new(size_t threads, struct error *err);
void pool_free(struct pool *pool); /* NULL is allowed */
size_t pool_threads(const struct pool *pool);

/* Run task 0 .. count - 1, each once, in any order; return when all are done. The tasks
 * see what was written before the call, and the caller sees what they wrote. One caller
 * at a time. */
void pool_run(struct pool *pool, size_t count, pool_task *task, void *context);

/*
 * Allocate memory for this task only: 64-byte aligned, contents undefined, freed when the
 * task ends. A task may allocate several blocks, POOL_SCRATCH_BYTES in total (exceeding
 * it is a bug).
 */
enum { POOL_SCRATCH_BYTES = 32 << 20 };
void *pool_scratch(struct pool_worker *worker, size_t bytes);

/* Return 0 .. pool_threads - 1: an index for data that a thread keeps from task to task,
 * which must equal what any other thread would compute. */
size_t pool_worker_number(const struct pool_worker *worker);

#endif
