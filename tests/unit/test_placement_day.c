/*
 * tests/unit/test_placement_day.c - simulates a day of 10,000 jobs on 8 cards of 80 GiB,
 * and compares the use of their memory with the best possible and with strict order.
 *
 * The bound: no schedule can use more than all of the memory from the time on at which
 * jobs wait, nor start a job before it arrives. Strict order places a job exactly like
 * the watch, but no job passes another.
 */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "runner/spool/placement.h"

enum { CARDS = 8, JOBS = 10000, RUNNING_MAX = 1024 };

static const double gib = (double)((uint64_t)1 << 30), card_gib = 80;
static const double day = 86400;

struct day_job {
    double arrives, seconds, starts, ends;
    struct placement_waiting waiting;
    int started; /* how often */
};

struct schedule {
    double utilization; /* of all memory, until the last job ends */
    double longest_wait, longest_large_wait, mean_wait;
};

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    return sqrt(-2 * log(1 - uniform(seed))) * cos(2 * 3.14159265358979 * uniform(seed));
}

/* Most jobs are small, as in the traces of shared GPU clusters; some need a whole card, and
 * a few several. */
static void draw_size(struct placement_need *need, uint64_t *seed)
{
    double kind = uniform(seed), share = uniform(seed), size;

    size = kind < 0.60   ? 4 + 12 * share
           : kind < 0.85 ? 16 + 24 * share
           : kind < 0.97 ? 40 + 35 * share
                         : 30 + 40 * share;
    need->memory = (uint64_t)(size * gib);
    need->ranks = kind < 0.97 ? 1 : kind < 0.985 ? 2 : kind < 0.995 ? 4 : 8;
    snprintf(need->wanted, sizeof(need->wanted), "auto");
}

/* The work of all jobs is as much as the cards can do in a day: a queue grows and shrinks
 * with the hour. */
static void draw_jobs(struct day_job *jobs, uint64_t seed)
{
    double area = 0, scale;

    for (int i = 0; i < JOBS; i++) {
        struct day_job *job = &jobs[i];

        *job = (struct day_job) { .arrives = day * (i + uniform(&seed)) / JOBS };
        draw_size(&job->waiting.need, &seed);
        job->seconds = exp(normal(&seed));
        area += job->seconds * (double)job->waiting.need.memory / gib *
                (double)job->waiting.need.ranks;
    }
    scale = day * CARDS * card_gib * 0.95 / area;
    for (int i = 0; i < JOBS; i++)
        jobs[i].seconds *= scale;
}

struct simulation {
    struct day_job *jobs;
    struct placement_device devices[1 + CARDS];
    struct placement_running running[RUNNING_MAX];
    struct day_job *runs[RUNNING_MAX];
    size_t running_count;
    struct day_job *waits[JOBS];
    size_t waits_count;
    bool strict;
    double now;
};

static void open_cards(struct simulation *simulation)
{
    for (int i = 0; i <= CARDS; i++)
        simulation->devices[i] =
            (struct placement_device) { .usable = true,
                                        .device = { .kind = i ? DEVICE_CUDA : DEVICE_CPU,
                                                    .ordinal = i - 1,
                                                    .threads = 64,
                                                    .major = i ? 8 : 0,
                                                    .runnable = true,
                                                    .memory =
                                                        (uint64_t)(card_gib * gib) } };
}

/* The cards report what the jobs have taken, and never less than nothing. */
static void measure(struct simulation *simulation)
{
    for (int i = 1; i <= CARDS; i++) {
        uint64_t used = 0, total = simulation->devices[i].device.memory;

        for (size_t j = 0; j < simulation->running_count; j++)
            if (simulation->running[j].devices >> i & 1)
                used += simulation->running[j].need.memory;
        assert_true(used <= total);
        simulation->devices[i].device.available = total - used;
    }
}

static void start(struct simulation *simulation, size_t at, device_set devices)
{
    struct day_job *job = simulation->waits[at];

    assert_true(simulation->running_count < RUNNING_MAX);
    simulation->runs[simulation->running_count] = job;
    simulation->running[simulation->running_count++] =
        (struct placement_running) { job->waiting.need, devices, simulation->now, true };
    job->started++;
    job->starts = simulation->now;
    job->ends = simulation->now + job->seconds;
    memmove(simulation->waits + at, simulation->waits + at + 1,
            (simulation->waits_count - at - 1) * sizeof(simulation->waits[0]));
    simulation->waits_count--;
}

static void start_jobs(struct simulation *simulation)
{
    static struct placement_answer answers[PLACEMENT_LOOK];
    struct placement_waiting *queue[PLACEMENT_LOOK];
    size_t count, chosen;

    do {
        const struct placement placement = { .devices = simulation->devices,
                                             .device_count = 1 + CARDS,
                                             .running = simulation->running,
                                             .running_count = simulation->running_count };

        measure(simulation);
        count = simulation->waits_count < PLACEMENT_LOOK ? simulation->waits_count
                                                         : PLACEMENT_LOOK;
        if (simulation->strict && count > 1)
            count = 1;
        for (size_t i = 0; i < count; i++)
            queue[i] = &simulation->waits[i]->waiting;
        chosen = placement_choose(&placement, queue, count, simulation->now, answers);
        if (chosen < count)
            start(simulation, chosen, answers[chosen].devices);
    } while (chosen < count);
}

static double next_end(const struct simulation *simulation)
{
    double next = INFINITY;

    for (size_t i = 0; i < simulation->running_count; i++)
        next = fmin(next, simulation->runs[i]->ends);
    return next;
}

static void end_jobs(struct simulation *simulation)
{
    size_t kept = 0;

    for (size_t i = 0; i < simulation->running_count; i++)
        if (simulation->runs[i]->ends > simulation->now) {
            simulation->runs[kept] = simulation->runs[i];
            simulation->running[kept++] = simulation->running[i];
        }
    simulation->running_count = kept;
}

static double area_of(const struct day_job *job)
{
    return job->seconds * (double)job->waiting.need.memory *
           (double)job->waiting.need.ranks;
}

static struct schedule summarize(const struct day_job *jobs)
{
    struct schedule sum = { 0 };
    double area = 0, end = 0;

    for (int i = 0; i < JOBS; i++) {
        double wait = jobs[i].starts - jobs[i].arrives;

        assert_int_equal(jobs[i].started, 1);
        area += area_of(&jobs[i]);
        end = fmax(end, jobs[i].ends);
        sum.longest_wait = fmax(sum.longest_wait, wait);
        sum.mean_wait += wait / JOBS;
        if (jobs[i].waiting.need.ranks == CARDS)
            sum.longest_large_wait = fmax(sum.longest_large_wait, wait);
    }
    sum.utilization = area / (end * CARDS * card_gib * gib);
    return sum;
}

static struct schedule simulate(uint64_t seed, bool strict)
{
    struct simulation *simulation = calloc(1, sizeof(*simulation));
    struct day_job *jobs = calloc(JOBS, sizeof(*jobs));
    struct schedule sum;
    int arrived = 0;

    draw_jobs(jobs, seed);
    simulation->strict = strict;
    open_cards(simulation);
    while (arrived < JOBS || simulation->running_count > 0) {
        double arrives = arrived < JOBS ? jobs[arrived].arrives : INFINITY;

        simulation->now = fmin(arrives, next_end(simulation));
        end_jobs(simulation);
        if (arrives <= simulation->now)
            simulation->waits[simulation->waits_count++] = &jobs[arrived++];
        start_jobs(simulation);
    }
    assert_int_equal(simulation->waits_count, 0);
    sum = summarize(jobs);
    free(simulation);
    free(jobs);
    return sum;
}

/* The utilization of a schedule that ends as early as any can. */
static double best(uint64_t seed)
{
    struct day_job *jobs = calloc(JOBS, sizeof(*jobs));
    double area = 0, left, end = 0, all = CARDS * card_gib * gib;

    draw_jobs(jobs, seed);
    for (int i = 0; i < JOBS; i++)
        area += area_of(&jobs[i]);
    left = area;
    for (int i = 0; i < JOBS; i++) { /* what arrives from now on must still be done */
        end = fmax(end, jobs[i].arrives + fmax(left / all, jobs[i].seconds));
        left -= area_of(&jobs[i]);
    }
    free(jobs);
    return area / (end * all);
}

static void test_placement_fills_a_day(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct schedule ours = simulate(seed, false), strict = simulate(seed, true);
        double bound = best(seed);

        print_message("utilization %.1f %%, best possible %.1f %%, strict order %.1f %%; "
                      "mean wait %.0f s, strict order %.0f s; longest wait %.0f s, on 8 "
                      "cards %.0f s, strict order %.0f s\n",
                      100 * ours.utilization, 100 * bound, 100 * strict.utilization,
                      ours.mean_wait, strict.mean_wait, ours.longest_wait,
                      ours.longest_large_wait, strict.longest_wait);
        assert_true(ours.utilization > 0.7 * bound);
        assert_true(ours.utilization > 1.2 * strict.utilization);
        assert_true(ours.longest_wait < strict.longest_wait);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_placement_fills_a_day) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
