/* kernels/cuda/cuda_tuning.c - times the algorithms of a matmul, and keeps the choice. */
#include "config.h"

#include "kernels/cuda/cuda_tuning.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "kernels/cuda/cuda_group.h"
#include "kernels/matmul_choices.h"

/* A choice is worth timing if the matmul moves at least this much, which takes an H100
 * about 3 us. */
enum { WORTH_BYTES = 8 << 20 };

/* Each algorithm runs once to load its code, and then in this many rounds, in each of them
 * for about SAMPLE_SECONDS, at most REPEATS_MAX times. What takes HOPELESS times as long
 * as the best in the first round is left out of the others. */
enum { ROUNDS = 3, REPEATS_MAX = 8 };
#define SAMPLE_SECONDS 1e-4
#define HOPELESS       1.2f

/* The library's first proposal is kept unless another takes less than this share of its
 * time: repeated measurements differ by about 2 %. */
#define CLEARLY_FASTER 0.97f

/* A rough estimate: an H100 multiplies and reads at about these rates. */
#define FLOPS_PER_SECOND 6e14
#define BYTES_PER_SECOND 2.5e12

/* All timing of a process together. After that, first proposals are used. */
#define SECONDS_MAX 1.0

/* How long another process may hold the lock of the file. */
enum { LOCK_TRIES = 250 };

struct cuda_tuning {
    struct matmul_choices *choices;
    char *file, *lock; /* NULL: there is no file */
    bool reads_only;   /* nothing is timed: a choice could not be kept */
    bool everything;   /* also what is not worth it */
    double seconds;    /* spent on timing */
    size_t timed, changed;
    struct log *log;
    cudaEvent_t events[CUDA_PLAN_CHOICES + 1];
};

/* ---- The file ---- */

static char *name_file(const char *dir, const struct matmul_choices *choices,
                       const char *ending)
{
    const char *about = matmul_choices_about(choices);
    char name[64];

    snprintf(name, sizeof(name), "matmuls-%016llx%s",
             (unsigned long long)matmul_choices_digest(about, strlen(about)), ending);
    return path_join(dir, name);
}

/* Time nothing from now on, because the next run could not use the same choices. That is
 * slower, not wrong: no warning. */
static void stop_timing(struct cuda_tuning *tuning, const char *what, const char *why)
{
    if (!tuning->reads_only)
        log_line(tuning->log, LOG_INFO, "device: matmuls are not timed: %s%s", what, why);
    tuning->reads_only = true;
}

static void open_file(struct cuda_tuning *tuning, const char *dir)
{
    struct error err = { 0 };

    if (!file_make_dirs(dir, 0700, &err)) {
        stop_timing(tuning, "", err.text);
        return;
    }
    tuning->file = name_file(dir, tuning->choices, ".txt");
    tuning->lock = name_file(dir, tuning->choices, ".lock");
}

/* What to do to add a choice: append it, write again all that could be read, or begin a
 * file with what this run uses. */
enum file_state { FILE_GOOD, FILE_DAMAGED, FILE_NONE };

static enum file_state read_file(struct cuda_tuning *tuning)
{
    struct matmul_choices_text found = { .foreign = false };
    struct error err = { 0 };
    bool exists = file_exists(tuning->file), ok;
    struct text text;

    text_init(&text, 0);
    ok = exists && file_read(tuning->file, MATMUL_CHOICES_TEXT_MAX, &text, NULL, &err);
    if (ok)
        found = matmul_choices_read(tuning->choices, text.data, text.len, false);
    text_clear(&text);
    if (exists && !ok)
        stop_timing(tuning, "", err.text);
    else if (found.foreign || found.damaged > 0)
        log_line(tuning->log, LOG_WARN, "device: %s %s", tuning->file,
                 found.foreign ? "is of another device; it begins again"
                               : "has damaged lines, which are ignored");
    return !ok || found.foreign || !found.headed ? FILE_NONE
           : found.damaged > 0                   ? FILE_DAMAGED
                                                 : FILE_GOOD;
}

static bool add_to_file(struct cuda_tuning *tuning, const struct matmul_choice *choice,
                        enum file_state state)
{
    struct error err = { 0 };
    struct text text;
    bool ok;

    text_init(&text, 0);
    if (state == FILE_GOOD) {
        matmul_choices_write_one(choice, &text);
        ok = file_append_line(tuning->file, text.data, text.len, 0600, false, &err);
    } else {
        matmul_choices_write(tuning->choices, state == FILE_DAMAGED, &text);
        ok = file_replace(tuning->file, text.data, text.len, 0600, &err);
    }
    if (!ok)
        stop_timing(tuning, "", err.text);
    text_clear(&text);
    return ok;
}

/* Return the lock's descriptor, or -1. */
static int lock_file(struct cuda_tuning *tuning)
{
    static const struct timespec moment = { .tv_nsec = 15000000 };
    struct error err = { 0 };
    bool busy = true;
    int fd = -1;

    for (int i = 0; i < LOCK_TRIES && busy && fd < 0; i++) {
        fd = file_lock(tuning->lock, &busy, &err);
        if (fd < 0 && busy)
            nanosleep(&moment, NULL);
    }
    if (fd < 0)
        stop_timing(tuning, busy ? "another process holds the lock " : "",
                    busy ? tuning->lock : err.text);
    return fd;
}

/* ---- Opening and closing ---- */

struct cuda_tuning *cuda_tuning_new(const struct cuda_backend *cuda, const char *dir,
                                    struct error *err)
{
    struct cuda_tuning *tuning = calloc(1, sizeof(*tuning));
    const char *wish = getenv("TRAINSPOOL_TUNE_MATMULS");
    char about[400];

    snprintf(about, sizeof(about), "%s, %d.%d, %d multiprocessors, %s", cuda->device.name,
             cuda->launch.capability / 10, cuda->launch.capability % 10,
             cuda->launch.multiprocessors, cuda_matmul_name(cuda->matmul));
    if (tuning)
        tuning->choices = matmul_choices_new(about);
    if (!tuning || !tuning->choices) {
        error_errno(err, "cannot allocate memory");
        free(tuning);
        return NULL;
    }
    tuning->log = cuda->log;
    tuning->everything = wish && strcmp(wish, "all") == 0;
    if (dir && !(wish && strcmp(wish, "0") == 0))
        open_file(tuning, dir);
    return tuning;
}

void cuda_tuning_free(struct cuda_tuning *tuning, bool dead)
{
    if (!tuning)
        return;
    if (tuning->timed > 0)
        log_line(tuning->log, LOG_INFO,
                 "device: timed the algorithms of %zu matmuls in %.2f s; for %zu another "
                 "than the library's first proposal is faster",
                 tuning->timed, tuning->seconds, tuning->changed);
    for (size_t i = 0; i < TS_COUNT(tuning->events) && !dead; i++)
        if (tuning->events[i])
            cudaEventDestroy(tuning->events[i]);
    matmul_choices_free(tuning->choices);
    free(tuning->file);
    free(tuning->lock);
    free(tuning);
}

/* ---- Timing ---- */

struct trial {
    struct cuda_backend *cuda;
    struct cuda_plan *plan;
    const struct op_matmul *op;
    void *into; /* where the results go; NULL: nowhere to put them */
    bool owned; /* into */
    size_t repeats;
    bool used[CUDA_PLAN_CHOICES];  /* neither refused nor hopeless */
    float best[CUDA_PLAN_CHOICES]; /* milliseconds of all repeats; INFINITY: none yet */
};

static double bytes_of(const struct matmul_key *key)
{
    double a = (double)key->rows * (double)key->depth;
    double b = (double)key->cols * (double)key->depth;

    return (a + b) * (double)format_info((enum format)key->a_format)->bytes +
           (double)key->rows * (double)key->cols *
               (double)format_info((enum format)key->out_format)->bytes;
}

/* What is not worth timing is timed once, for tests. */
static size_t repeats_of(const struct matmul_key *key)
{
    double flops = 2.0 * (double)key->rows * (double)key->cols * (double)key->depth;
    double seconds = fmax(flops / FLOPS_PER_SECOND, bytes_of(key) / BYTES_PER_SECOND);

    return bytes_of(key) < WORTH_BYTES
               ? 1
               : (size_t)fmin(ceil(SAMPLE_SECONDS / seconds), REPEATS_MAX);
}

/* A matmul that overwrites its result may do so several times. One that adds to it puts the
 * sums elsewhere. */
static void begin_trial(struct trial *trial)
{
    const struct tensor *out = &trial->op->out;
    size_t bytes = out->rows * out->stride * format_info(out->format)->bytes;
    size_t available = 0, all;

    trial->into = out->data;
    trial->repeats = repeats_of(&trial->plan->key);
    for (size_t i = 0; i < CUDA_PLAN_CHOICES; i++)
        trial->best[i] = INFINITY;
    if (trial->op->beta == 0)
        return;
    trial->into = NULL;
    cuda_guard(trial->cuda->patience);
    if (cudaMemGetInfo(&available, &all) == cudaSuccess &&
        available >= bytes + CUDA_RESERVE_BYTES &&
        cudaMalloc(&trial->into, bytes) == cudaSuccess)
        trial->owned = true;
    cuda_guard(0);
    cudaGetLastError();
}

static void end_trial(struct trial *trial)
{
    if (!trial->owned || trial->cuda->dead)
        return;
    cuda_guard(trial->cuda->patience);
    cudaFree(trial->into);
    cuda_guard(0);
}

/* Put an algorithm into the stream. False if the library does not accept it. */
static bool enqueue(struct trial *trial, unsigned choice, size_t times)
{
    struct cuda_plan *plan = trial->plan;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    plan->chosen = choice;
    for (size_t i = 0; i < times && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cuda_matmul_enqueue(trial->cuda, plan, trial->op, trial->into);
    plan->chosen = 0;
    if (status != CUBLAS_STATUS_SUCCESS)
        cudaGetLastError();
    return status == CUBLAS_STATUS_SUCCESS;
}

/* Record an event after each algorithm. The one before the first comes after a matmul: the
 * host then is ahead of the card. */
static void run_round(struct trial *trial)
{
    struct cuda_backend *cuda = trial->cuda;
    cudaEvent_t *events = cuda->tuning->events;
    unsigned count = trial->plan->count;
    bool *used = trial->used;

    for (unsigned i = 0; i < count; i++)
        if (used[i]) {
            enqueue(trial, i, 1);
            break;
        }
    for (unsigned i = 0; i <= count && cuda_ok(cuda); i++) {
        if (i > 0 && used[i - 1])
            used[i - 1] = enqueue(trial, i - 1, trial->repeats);
        if (!events[i])
            cuda_check(cuda, cudaEventCreate(&events[i]), "cannot create an event");
        if (cuda_ok(cuda))
            cuda_check(cuda, cudaEventRecord(events[i], cuda->launch.stream),
                       "cannot record an event");
    }
    if (!cuda_ok(cuda) || !cuda_wait(cuda, events[count], NULL))
        return;
    for (unsigned i = 0; i < count; i++) {
        float taken = INFINITY;

        if (used[i])
            cuda_check(cuda, cudaEventElapsedTime(&taken, events[i], events[i + 1]),
                       "cannot time a matmul");
        trial->best[i] = fminf(trial->best[i], taken);
    }
}

static unsigned fastest(const struct trial *trial)
{
    unsigned best = 0;

    for (unsigned i = 1; i < trial->plan->count; i++)
        if (trial->best[i] < trial->best[best])
            best = i;
    return trial->best[best] < trial->best[0] * CLEARLY_FASTER ? best : 0;
}

static bool is_out_of_time(const struct trial *trial, double start)
{
    return trial->cuda->tuning->seconds + clock_seconds() - start > SECONDS_MAX;
}

static void report(const struct trial *trial, unsigned best)
{
    const struct matmul_key *key = &trial->plan->key;
    const double us = 1e3 / (double)trial->repeats;
    size_t available = 0, all;

    cudaMemGetInfo(&available, &all);
    log_line(
        trial->cuda->log, LOG_DEBUG,
        "device: matmul (%zu, %zu) of depth %zu: algorithm %u of %u takes %.1f us, the "
        "first %.1f us; %zu MiB are free",
        key->rows, key->cols, key->depth, best + 1, trial->plan->count,
        us * (double)trial->best[best], us * (double)trial->best[0], available >> 20);
}

/* Return the algorithm that is clearly the fastest, or the first. */
static unsigned time_all(struct trial *trial)
{
    struct cuda_tuning *tuning = trial->cuda->tuning;
    const unsigned count = trial->plan->count;
    double start = clock_seconds();
    unsigned best;

    if (!trial->into || is_out_of_time(trial, start))
        return 0;
    trial->cuda->doing = "timing a matmul";
    for (unsigned i = 0; i < count; i++)
        trial->used[i] = enqueue(trial, i, 1);
    for (int round = 0; round < ROUNDS && cuda_wait_all(trial->cuda) &&
                        cuda_ok(trial->cuda) && !is_out_of_time(trial, start);
         round++) {
        run_round(trial);
        best = fastest(trial);
        for (unsigned i = 0; i < count; i++)
            trial->used[i] =
                trial->used[i] && trial->best[i] <= trial->best[best] * HOPELESS;
    }
    best = fastest(trial);
    tuning->seconds += clock_seconds() - start;
    if (!cuda_ok(trial->cuda) || isinf(trial->best[best]))
        return 0;
    tuning->timed++;
    tuning->changed += best > 0;
    report(trial, best);
    return best;
}

/* ---- Choosing ---- */

static uint64_t digest_of(const struct cuda_plan *plan, unsigned i)
{
    return matmul_choices_digest(&plan->algos[i], sizeof(plan->algos[i]));
}

static void move_to_front(struct cuda_plan *plan, unsigned i)
{
    cublasLtMatmulAlgo_t chosen = plan->algos[i];

    memmove(&plan->algos[1], &plan->algos[0], i * sizeof(chosen));
    plan->algos[0] = chosen;
}

/* Return whether a choice is known that the library still proposes, and take it. */
static bool take_known(struct cuda_tuning *tuning, struct cuda_plan *plan)
{
    struct matmul_choice *known = matmul_choices_find(tuning->choices, &plan->key);

    for (unsigned i = 0; known && i < plan->count; i++)
        if (digest_of(plan, i) == known->algorithm) {
            known->used = true;
            move_to_front(plan, i);
            return true;
        }
    return false;
}

static void use(struct cuda_tuning *tuning, struct cuda_plan *plan, unsigned choice)
{
    move_to_front(plan, choice);
    matmul_choices_use(tuning->choices, &plan->key, digest_of(plan, 0));
}

/* Find the choice in the file, or make it and add it. The caller holds the lock if it may
 * be added. What is not kept must not depend on times. */
static void find_or_time(struct trial *trial)
{
    struct cuda_tuning *tuning = trial->cuda->tuning;
    enum file_state state = read_file(tuning);
    const struct matmul_choice *choice;
    unsigned best = 0;
    bool kept;

    if (take_known(tuning, trial->plan))
        return;
    if (!tuning->reads_only)
        best = time_all(trial);
    use(tuning, trial->plan, best);
    choice = matmul_choices_find(tuning->choices, &trial->plan->key);
    kept = choice && !tuning->reads_only && cuda_ok(trial->cuda) &&
           add_to_file(tuning, choice, state);
    if (best > 0 && !kept)
        use(tuning, trial->plan, 1); /* the library's first proposal */
}

/*
 * While one rank holds the lock, another may wait for it, and must not be needed for what
 * the first one waits for: so all work of this rank, also that with other GPUs, is
 * completed first, and device memory is allocated and released without the lock.
 */
static void settle_by_time(struct cuda_backend *cuda, struct cuda_plan *plan,
                           const struct op_matmul *op)
{
    struct trial trial = { .cuda = cuda, .plan = plan, .op = op };
    int lock = -1;

    if (cuda->tuning->reads_only) {
        find_or_time(&trial);
        return;
    }
    if (cuda->group)
        cuda_meet(&cuda->base);
    if (cuda_wait_all(cuda) && cuda_ok(cuda)) {
        begin_trial(&trial);
        lock = lock_file(cuda->tuning);
    }
    find_or_time(&trial);
    if (lock >= 0)
        close(lock);
    end_trial(&trial);
}

static bool is_captured(const struct cuda_backend *cuda)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return cudaStreamIsCapturing(cuda->launch.stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

void cuda_tuning_settle(struct cuda_backend *cuda, struct cuda_plan *plan,
                        const struct op_matmul *op)
{
    struct cuda_tuning *tuning = cuda->tuning;
    bool worth = tuning->everything || bytes_of(&plan->key) >= WORTH_BYTES;

    plan->settled = true;
    if (plan->count < 2 || take_known(tuning, plan) || !worth)
        return;
    if (tuning->file && !is_captured(cuda))
        settle_by_time(cuda, plan, op);
    else
        use(tuning, plan, 0);
}

/* ---- Checkpoints ---- */

char *cuda_choices(struct backend *be)
{
    struct cuda_tuning *tuning = cuda_backend_of(be)->tuning;
    struct text text;

    text_init(&text, 0);
    if (matmul_choices_write(tuning->choices, false, &text) == 0) {
        text_clear(&text);
        return NULL;
    }
    return text_detach(&text, NULL);
}

void cuda_replay_choices(struct backend *be, const char *text, size_t len)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_tuning *tuning = cuda->tuning;
    struct matmul_choices_text found =
        matmul_choices_replay(tuning->choices, text, len, cuda_group_rank(cuda->group));

    cuda_matmul_forget_plans(cuda->matmul);
    if (found.foreign)
        log_line(
            cuda->log, LOG_INFO,
            "resume: the checkpoint's algorithms of matmuls are not used, because they "
            "are of %s, and this is %s",
            found.about, matmul_choices_about(tuning->choices));
    else
        log_line(cuda->log, found.damaged ? LOG_WARN : LOG_INFO,
                 "resume: %zu matmuls use the algorithms that the checkpoint names%s",
                 found.read, found.damaged ? "; some of its lines are damaged" : "");
}
