/* runner/job/job_lock.c - the lock of a job, and the end of a process that lost it. */
#include "config.h"

#include "runner/job/job.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/shared_lock.h"
#include "runner/output/report.h"

int job_lock(const struct job *job, bool *busy, struct error *err)
{
    return shared_lock(job->lock, busy, err);
}

int job_lock_patiently(const struct job *job, void (*waits_for)(const char *host),
                       bool *busy, struct error *err)
{
    const struct timespec pause = { .tv_nsec = 100000000 };
    int lock = job_lock(job, busy, err);
    char host[SHARED_HOST];

    if (lock >= 0 || !*busy || !shared_lock_is_doubtful(job->lock))
        return lock;
    job_holder(job, host);
    waits_for(host[0] ? host : "another machine");
    while (lock < 0 && *busy && shared_lock_is_doubtful(job->lock)) {
        nanosleep(&pause, NULL);
        lock = job_lock(job, busy, err);
    }
    return lock;
}

void job_unlock(const struct job *job, int lock)
{
    shared_unlock(lock, job->lock);
}

void job_pass_lock(const struct job *job, int lock)
{
    shared_lock_pass(lock, job->lock);
}

bool job_is_locked(const struct job *job)
{
    return shared_is_locked(job->lock);
}

void job_holder(const struct job *job, char host[65])
{
    shared_lock_holder(job->lock, host);
}

static atomic_bool told;

static void *tell(void *context)
{
    dprintf(STDERR_FILENO, "trainspool: %s; this process ends\n", (const char *)context);
    told = true;
    return NULL;
}

/* Nothing may be written but the reason, which may be in a file that hangs. */
static void end_at_once(const char *why)
{
    const struct timespec moment = { .tv_nsec = 10000000 };
    pthread_t thread;

    if (pthread_create(&thread, NULL, tell, (void *)why) == 0)
        for (int waited = 0; waited < 100 && !told; waited++)
            nanosleep(&moment, NULL);
    _exit(EXIT_AGAIN);
}

bool job_keep_lock(const struct job *job, int lock, bool inherited, struct error *err)
{
    if (inherited && fcntl(lock, F_SETFD, FD_CLOEXEC) != 0)
        return error_errno(err, "descriptor %d does not hold the lock", lock);
    return (!inherited || shared_lock_adopt(lock, job->lock, err)) &&
           shared_lock_keep(job->lock, end_at_once, err);
}
