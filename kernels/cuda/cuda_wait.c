/*
 * kernels/cuda/cuda_wait.c - waits for the GPU with a timeout.
 *
 * cudaStreamSynchronize waits forever if the GPU hangs, and so does a launch into a full
 * queue. So an event is recorded after every BEAT operations, the host keeps at most
 * BEATS of them ahead, and it waits by polling and sleeping: as long as events complete,
 * the GPU is alive. (On an H100 a blocking event ends 0.1 to 0.3 ms late, naps around the
 * usual end of a wait less than 0.1: bench/results/gpu-h100.md.)
 *
 * Driver calls that create a context or allocate memory cannot be polled like this. A
 * process that is stuck in one is useless and is ended from outside by the alarm
 * clock, so that others who wait for it, or for its lock, do not wait forever either.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "kernels/cuda/cuda_group.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { BEATS = 4, BEAT = 48 };

/* A poll costs a microsecond; shorter sleeps are not worth it. */
enum { SPIN_NS = 50000, NAP_LEAST_NS = 20000, NAP_MOST_NS = 500000 };

/* The end of a wait may be this part of its usual time early or late. */
enum { EARLY_NS = 50000, EARLY_PART = 48, NAP_END_NS = 30000 };

#define WHILE_WAITING(cuda) \
    "%s%s", (cuda)->named ? "" : "waiting for the card, last asked for: ", (cuda)->doing

struct cuda_beats {
    cudaEvent_t events[BEATS + 1]; /* the last is for cuda_wait_all */
    size_t made, seen; /* beats recorded, and how many of them have completed */
    size_t since;      /* operations after the last */
};

void cuda_guard(double seconds)
{
    alarm(seconds > 0 && seconds < 1 ? 1 : (unsigned)seconds);
}

struct cuda_beats *cuda_beats_new(struct error *err)
{
    struct cuda_beats *beats = calloc(1, sizeof(*beats));

    /* Linux may end a sleep 50 us late to combine wakeups: more than the sleep itself.
     * This thread will wait, and the threads it starts inherit the setting. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (!beats) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    for (size_t i = 0; i <= BEATS; i++) {
        cudaError_t status =
            cudaEventCreateWithFlags(&beats->events[i], cudaEventDisableTiming);

        if (!cuda_status(status, err, "cannot create an event")) {
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

/* "Not ready" is kept as the last error, which the next launch would report as
 * its own. */
static cudaError_t ask(cudaEvent_t event)
{
    cudaError_t status = cudaEventQuery(event);

    if (status == cudaErrorNotReady)
        cudaGetLastError();
    return status;
}

/* Return whether a beat has completed since the last call. */
static bool has_progressed(struct cuda_beats *beats)
{
    size_t was = beats->seen;

    while (beats->seen < beats->made &&
           ask(beats->events[beats->seen % BEATS]) == cudaSuccess)
        beats->seen++;
    return beats->seen != was;
}

static int64_t within(int64_t ns)
{
    return ns < NAP_LEAST_NS ? NAP_LEAST_NS : ns > NAP_MOST_NS ? NAP_MOST_NS : ns;
}

int64_t cuda_nap(int64_t waited, int64_t usual)
{
    int64_t early = usual / EARLY_PART > EARLY_NS ? usual / EARLY_PART : EARLY_NS;

    if (waited < SPIN_NS)
        return 0;
    if (waited < usual - early)
        return within(usual - early - waited);
    if (waited < usual + early)
        return NAP_END_NS;
    return within(waited / 128);
}

static bool is_hung(struct cuda_backend *cuda)
{
    cuda->dead = true;
    return error_set(
        &cuda->failed, ERROR_CARD,
        "%s (cuda:%d) has not answered for %.0f s, last asked for: %s; it hangs: look "
        "for Xid lines in dmesg, and reset the card or restart the machine",
        cuda->device.name, cuda->device.ordinal, cuda->patience, cuda->doing);
}

static void back_off(int64_t ns)
{
    if (ns > 0)
        nanosleep(&(struct timespec) { .tv_nsec = ns }, NULL);
}

bool cuda_wait(struct cuda_backend *cuda, cudaEvent_t event, int64_t *usual)
{
    int64_t begin = now_ns(), alive = begin, now = begin;
    bool parted =
        false; /* collective work of the ranks has been aborted, and ends soon */
    cudaError_t status;

    if (cuda->dead)
        return false;
    cudaSetDevice(cuda->device.ordinal);
    while ((status = ask(event)) == cudaErrorNotReady) {
        now = now_ns();
        parted = parted || (cuda->group && !cuda_group_well(cuda));
        if (has_progressed(cuda->beats))
            alive = now;
        else if ((double)(now - alive) > cuda->patience * 1e9)
            return is_hung(cuda);
        back_off(cuda_nap(now - begin, usual ? *usual : 0));
    }
    if (usual)
        *usual = now_ns() - begin;
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
    return status == cudaSuccess && cuda_wait(cuda, event, &cuda->usual_wait);
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
        !cuda_wait(cuda, beats->events[beats->made % BEATS], NULL))
        return;
    has_progressed(beats);
    status = cudaEventRecord(beats->events[beats->made % BEATS], cuda->launch.stream);
    beats->made++;
    cuda_check(cuda, status, "cannot record an event");
}
