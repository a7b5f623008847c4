/*
 * kernels/cuda/cuda_wait.c - waiting for the card with an end.
 *
 * cudaStreamSynchronize waits for ever for a card that hangs, and so does a launch into a
 * full queue.  So an event goes behind every BEAT operations, the host keeps at most
 * BEATS of them ahead, and waiting is asking and sleeping: as long as events come, the
 * card lives.
 *
 * What the driver does itself, a context or memory, cannot be waited for like this.  A
 * process that is stuck there is of no use any more, and is ended from outside: by the
 * alarm clock, so that others who wait for it, or for its lock, do so with an end too.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "kernels/cuda/cuda_group.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { BEATS = 4, BEAT = 48 };

/* Asking costs a microsecond; sleeping less than this is not worth it. */
enum { SPIN_NS = 50000, NAP_LEAST_NS = 20000, NAP_MOST_NS = 500000 };

#define WHILE_WAITING(cuda) \
    "%s%s", (cuda)->named ? "" : "waiting for the card, last asked for: ", (cuda)->doing

struct cuda_beats {
    cudaEvent_t events[BEATS + 1]; /* the last is for cuda_wait_all */
    size_t made, seen;             /* beats recorded, and of those how many have come */
    size_t since;                  /* operations behind the last */
};

void cuda_guard(double seconds)
{
    alarm(seconds > 0 && seconds < 1 ? 1 : (unsigned)seconds);
}

struct cuda_beats *cuda_beats_new(struct error *err)
{
    struct cuda_beats *beats = calloc(1, sizeof(*beats));

    /* Linux may end a nap 50 us late, to wake for several at once: more than the nap.  It
     * is this thread that will wait, and those it starts have as much. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (!beats) {
        error_errno(err, "cannot get memory");
        return NULL;
    }
    for (size_t i = 0; i <= BEATS; i++) {
        cudaError_t status =
            cudaEventCreateWithFlags(&beats->events[i], cudaEventDisableTiming);

        if (!cuda_status(status, err, "making an event")) {
            cuda_beats_free(beats, false);
            return NULL;
        }
    }
    return beats;
}

void cuda_beats_free(struct cuda_beats *beats, bool dead)
{
    if (!beats)
        return;
    for (size_t i = 0; i <= BEATS && !dead; i++)
        if (beats->events[i])
            cudaEventDestroy(beats->events[i]);
    free(beats);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* "Not yet" is kept as the last error, which the next launch would take for its own. */
static cudaError_t ask(cudaEvent_t event)
{
    cudaError_t status = cudaEventQuery(event);

    if (status == cudaErrorNotReady)
        cudaGetLastError();
    return status;
}

/* Has a beat come since the last time this was asked? */
static bool moved(struct cuda_beats *beats)
{
    size_t was = beats->seen;

    while (beats->seen < beats->made &&
           ask(beats->events[beats->seen % BEATS]) == cudaSuccess)
        beats->seen++;
    return beats->seen != was;
}

/* Short naps at first, longer ones the longer it takes: late by a hundredth at most. */
static void nap(int64_t waited)
{
    int64_t ns = waited / 128;

    if (waited < SPIN_NS)
        return;
    ns = ns < NAP_LEAST_NS ? NAP_LEAST_NS : ns > NAP_MOST_NS ? NAP_MOST_NS : ns;
    nanosleep(&(struct timespec) { .tv_nsec = ns }, NULL);
}

static bool hangs(struct cuda_backend *cuda)
{
    cuda->dead = true;
    return error_set(
        &cuda->failed, ERROR_DEVICE,
        "%s (cuda:%d) has not answered for %.0f s, last asked for: %s; it hangs: look "
        "for Xid lines in dmesg, and reset the card or restart the machine",
        cuda->device.name, cuda->device.ordinal, cuda->patience, cuda->doing);
}

bool cuda_wait(struct cuda_backend *cuda, cudaEvent_t event)
{
    int64_t begin = now_ns(), alive = begin, now;
    bool parted =
        false; /* what the ranks did together has been given up, and ends soon */
    cudaError_t status;

    if (cuda->dead)
        return false;
    cudaSetDevice(cuda->device.ordinal);
    while ((status = ask(event)) == cudaErrorNotReady) {
        now = now_ns();
        parted = parted || (cuda->group && !cuda_group_well(cuda));
        if (moved(cuda->beats))
            alive = now;
        else if ((double)(now - alive) > cuda->patience * 1e9)
            return hangs(cuda);
        nap(now - begin);
    }
    cuda_check(cuda, status, WHILE_WAITING(cuda));
    return status == cudaSuccess;
}

bool cuda_wait_all(struct cuda_backend *cuda)
{
    cudaEvent_t event = cuda->beats->events[BEATS];
    cudaError_t status;

    if (cuda->dead)
        return false;
    status = cudaEventRecord(event, cuda->launch.stream);
    cuda_check(cuda, status, WHILE_WAITING(cuda));
    return status == cudaSuccess && cuda_wait(cuda, event);
}

void cuda_beat(struct cuda_backend *cuda, size_t operations)
{
    struct cuda_beats *beats = cuda->beats;
    cudaError_t status;

    beats->since += operations;
    if (beats->since < BEAT || cuda->dead)
        return;
    beats->since = 0;
    if (beats->made >= BEATS && beats->seen + BEATS <= beats->made &&
        !cuda_wait(cuda, beats->events[beats->made % BEATS]))
        return;
    moved(beats);
    status = cudaEventRecord(beats->events[beats->made % BEATS], cuda->launch.stream);
    beats->made++;
    cuda_check(cuda, status, "asking for an event");
}
