/* tests/unit/test_placement.c - which job starts, where, and what the others wait for. */
#include "config.h"

#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "runner/spool/placement.h"

enum { MOST = 8 };

/*
 * A machine with 8 cores, 16 GiB and some GPUs, what runs, and what waits, in order. Words
 * are separated by blanks, memory is in GiB.
 *     a GPU          TOTAL/FREE, then @7 for capability 7.0, not 8.0, "ill", or "old" if
 *                    this build has no code for it
 *     a job          DEVICE=MEMORY, then x2 for ranks, t4 for threads, @8 for the
 *                    capability, "new" if the memory was measured before it ran
 */
struct row {
    const char *what, *gpus, *running, *queue;
    size_t slots;
    size_t starts;       /* index; the number of jobs: none */
    const char *devices; /* of the job that starts */
    const char *says;    /* of the first job, if it does not start */
};

struct world {
    struct placement_device devices[1 + MOST];
    struct placement_running running[MOST];
    struct placement_waiting jobs[MOST], *queue[MOST];
    size_t jobs_count;
    struct placement placement;
    struct placement_answer answers[MOST];
};

static uint64_t bytes_of(double gib)
{
    return (uint64_t)(gib * 1024) << 20;
}

/* The number after a character of a word, or another value. */
static int number_after(const char *word, char character, int otherwise)
{
    const char *at = strchr(word, character);

    return at ? atoi(at + 1) : otherwise;
}

static void add_gpu(struct world *world, const char *word)
{
    int ordinal = (int)world->placement.device_count - 1;
    double total = 0, free = 0;

    sscanf(word, "%lf/%lf", &total, &free);
    world->devices[world->placement.device_count++] =
        (struct placement_device) { .device = { .kind = DEVICE_CUDA,
                                                .ordinal = ordinal,
                                                .major = number_after(word, '@', 8),
                                                .runnable = !strstr(word, "old"),
                                                .memory = bytes_of(total),
                                                .available = bytes_of(free) },
                                    .usable = !strstr(word, "ill") };
}

static struct placement_need need_of(const char *word)
{
    size_t len = strcspn(word, "=");
    struct placement_need need = { .memory = bytes_of(atof(word + len + 1)),
                                   .capability = 10 * number_after(word, '@', 0),
                                   .ranks = number_after(word + len, 'x', 1),
                                   .threads = number_after(word + len, 't', 0) };

    snprintf(need.wanted, sizeof(need.wanted), "%.*s", (int)len, word);
    return need;
}

static void add_running(struct world *world, const char *word)
{
    struct placement_need need = need_of(word);

    world->running[world->placement.running_count++] =
        (struct placement_running) { .need = need,
                                     .devices =
                                         placement_read(&world->placement, need.wanted),
                                     .started = 1,
                                     .measured = !strstr(word, "new") };
}

static void add_job(struct world *world, const char *word)
{
    world->jobs[world->jobs_count].need = need_of(word);
    world->queue[world->jobs_count] = &world->jobs[world->jobs_count];
    world->jobs_count++;
}

static void each_word(struct world *world, const char *words,
                      void (*add)(struct world *world, const char *word))
{
    char copy[256], *rest, *word;

    snprintf(copy, sizeof(copy), "%s", words ? words : "");
    for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        add(world, word);
}

static void make_world(const struct row *row, struct world *world)
{
    *world = (struct world) { .placement = { .devices = world->devices,
                                             .device_count = 1,
                                             .running = world->running,
                                             .slots = row->slots } };
    world->devices[0] =
        (struct placement_device) { .device = { .kind = DEVICE_CPU,
                                                .threads = 8,
                                                .ordinal = -1,
                                                .memory = bytes_of(16),
                                                .available = bytes_of(16) },
                                    .usable = true };
    each_word(world, row->gpus, add_gpu);
    each_word(world, row->running, add_running);
    each_word(world, row->queue, add_job);
}

static size_t choose_at(struct world *world, double now)
{
    return placement_choose(&world->placement, world->queue, world->jobs_count, now,
                            world->answers);
}

/* A job may use 95 % of a GPU of 4 GiB, 3.8 GiB; a second process on a GPU takes 400 MiB
 * more. */
static const struct row rows[] = {
    { .what = "an idle GPU", .gpus = "4/4 4/4", .queue = "auto=1", .devices = "cuda:0" },
    { .what = "the other GPU, while one is used",
      .gpus = "4/4 4/4",
      .running = "cuda:0=1",
      .queue = "cuda=1",
      .devices = "cuda:1" },
    { .what = "the fuller GPU, if both are used",
      .gpus = "4/3 4/2.5",
      .running = "cuda:0=1 cuda:1=1.5",
      .queue = "auto=1",
      .devices = "cuda:1" },
    { .what = "the named GPU",
      .gpus = "4/4 4/4",
      .queue = "cuda:1=1",
      .devices = "cuda:1" },
    { .what = "a named GPU that is used",
      .gpus = "4/1 4/4",
      .running = "cuda:0=3",
      .queue = "cuda:0=2",
      .starts = 1,
      .says = "waits for 1.6 GiB on cuda:0" },
    { .what = "memory that other programs use",
      .gpus = "4/1",
      .queue = "auto=2",
      .starts = 1,
      .says = "waits for 1.1 GiB on cuda:0" },
    { .what = "memory of a job that has not allocated it yet",
      .gpus = "4/4",
      .running = "cuda:0=3new",
      .queue = "auto=1",
      .starts = 1,
      .says = "waits for 605 MiB on cuda:0" },
    { .what = "memory that a running job may still take",
      .gpus = "4/3.9",
      .running = "cuda:0=3",
      .queue = "auto=1",
      .starts = 1,
      .says = "waits for 605 MiB on cuda:0" },
    { .what = "three small jobs on one GPU",
      .gpus = "4/2.2",
      .running = "cuda:0=0.6 cuda:0=0.6",
      .queue = "auto=0.6",
      .devices = "cuda:0" },
    { .what = "a job without a plan, alone",
      .gpus = "4/3",
      .running = "cuda:0=1",
      .queue = "auto=0",
      .starts = 1,
      .says = "waits for a GPU" },
    { .what = "a job without a plan on an idle GPU",
      .gpus = "4/3",
      .queue = "auto=0",
      .devices = "cuda:0" },
    { .what = "a job next to one without a plan",
      .gpus = "4/3",
      .running = "cuda:0=0",
      .queue = "auto=1",
      .starts = 1,
      .says = "waits for a GPU" },
    { .what = "a job of Slurm, although all slots are taken",
      .gpus = "4/4",
      .running = "cuda:0=1",
      .queue = "slurm=0",
      .slots = 1,
      .devices = "" },
    { .what = "a job of Slurm after jobs that wait",
      .gpus = "4/1",
      .running = "cuda:0=3",
      .queue = "cuda:0=2 =1 slurm=0x64",
      .starts = 2,
      .devices = "" },
    { .what = "a job while those of Slurm take neither slot nor device",
      .gpus = "4/4",
      .running = "slurm=0 slurm=3 slurm=3",
      .queue = "auto=3",
      .slots = 1,
      .devices = "cuda:0" },
    { .what = "an unknown job while only jobs of Slurm run",
      .gpus = "4/4",
      .running = "slurm=0",
      .queue = "=0",
      .devices = "" },
    { .what = "a job whose devices are unknown",
      .gpus = "4/4 4/4",
      .running = "=1",
      .queue = "cuda:1=1",
      .starts = 1,
      .says = "waits for cuda:1" },
    { .what = "a job too large for any GPU",
      .gpus = "4/4 4/4",
      .queue = "auto=5",
      .starts = 1,
      .says = "cuda:1 has 4.0 GiB, which is too little" },
    { .what = "a job that may use more than the usual share, alone",
      .gpus = "4/3.9",
      .queue = "auto=3.85",
      .devices = "cuda:0" },
    { .what = "the same, while another program uses memory",
      .gpus = "4/3",
      .queue = "auto=3.85",
      .starts = 1,
      .says = "waits for 870 MiB on cuda:0" },
    { .what = "the same next to another job",
      .gpus = "4/3.8",
      .running = "cuda:0=.1",
      .queue = "auto=3.85",
      .starts = 1,
      .says = "waits for 646 MiB on cuda:0" },
    { .what = "two ranks",
      .gpus = "4/4 4/4",
      .queue = "auto=1x2",
      .devices = "cuda:0,1" },
    { .what = "two ranks, while one GPU is full",
      .gpus = "4/0.5 4/4",
      .running = "cuda:0=3.4",
      .queue = "auto=1x2",
      .starts = 1,
      .says = "waits for 1014 MiB on cuda:0" },
    { .what = "two ranks without a plan, while one GPU is used",
      .gpus = "4/3 4/4",
      .running = "cuda:0=1",
      .queue = "auto=.0x2",
      .starts = 1,
      .says = "waits for 2 GPUs" },
    { .what = "two ranks on GPUs of one capability",
      .gpus = "4/4@7 4/4 4/4",
      .queue = "cuda=1x2",
      .devices = "cuda:1,2" },
    { .what = "two named GPUs, in any order",
      .gpus = "4/4 4/4",
      .queue = "cuda:1,0=1x2",
      .devices = "cuda:0,1" },
    { .what = "three ranks on two GPUs",
      .gpus = "4/4 4/4",
      .queue = "auto=1x3",
      .starts = 1,
      .says = "waits for a device that this watch does not have" },
    { .what = "the capability that the job was checked for",
      .gpus = "4/4@7 4/4",
      .queue = "auto=1@8",
      .devices = "cuda:1" },
    { .what = "an ill GPU",
      .gpus = "4/4ill 4/4",
      .queue = "auto=1",
      .devices = "cuda:1" },
    { .what = "a named ill GPU",
      .gpus = "4/4ill 4/4",
      .queue = "cuda:0=1",
      .starts = 1,
      .says = "waits for a device that does not work now" },
    { .what = "a GPU without code in this build",
      .gpus = "4/4old",
      .queue = "auto=1",
      .starts = 1,
      .says = "waits for a device that this watch does not have" },
    { .what = "a job of which nothing is known",
      .gpus = "4/4",
      .queue = "=0",
      .devices = "" },
    { .what = "a job of which nothing is known, while another one runs",
      .gpus = "4/4",
      .running = "cpu=1",
      .queue = "=0",
      .starts = 1,
      .says = "waits for the jobs before it" },
    { .what = "a job of which nothing is known, after one that waits",
      .gpus = "4/1",
      .queue = "auto=3 =0",
      .starts = 2,
      .says = "waits for 2.1 GiB on cuda:0" },
    { .what = "the CPU", .gpus = "4/4", .queue = "cpu=1", .devices = "cpu" },
    { .what = "a second job on the CPU",
      .running = "cpu=1",
      .queue = "cpu=1",
      .starts = 1,
      .says = "waits for 8 cores" },
    { .what = "two jobs that share the cores",
      .running = "cpu=1t4",
      .queue = "cpu=1t4",
      .devices = "cpu" },
    { .what = "too few cores left",
      .running = "cpu=1t5",
      .queue = "cpu=1t4",
      .starts = 1,
      .says = "waits for 4 cores" },
    { .what = "slots share the cores",
      .slots = 2,
      .running = "cpu=1",
      .queue = "cpu=1",
      .devices = "cpu" },
    { .what = "too little memory of the CPU",
      .running = "cpu=10newt1",
      .queue = "cpu=6t1",
      .starts = 1,
      .says = "waits for 819 MiB on the cpu" },
    { .what = "a job on the CPU while a GPU is used",
      .gpus = "4/1",
      .running = "cuda:0=3",
      .queue = "cpu=1",
      .devices = "cpu" },
    { .what = "no slot",
      .gpus = "4/4 4/4",
      .slots = 1,
      .running = "cuda:0=1",
      .queue = "auto=1",
      .starts = 1,
      .says = "waits for a slot" },
    { .what = "a small job passes a large one",
      .gpus = "4/2",
      .running = "cuda:0=2",
      .queue = "auto=3 auto=1",
      .starts = 1,
      .devices = "cuda:0",
      .says = "waits for 1.6 GiB on cuda:0" },
};

static void test_placement_chooses_job_and_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct world world;
        char name[64] = "", said[160] = "";
        size_t starts;

        make_world(row, &world);
        starts = choose_at(&world, 100);
        if (starts < world.jobs_count)
            placement_name(&world.placement, world.answers[starts].devices, name);
        if (starts > 0)
            placement_describe(&world.placement, &world.jobs[0].need, &world.answers[0],
                               said);
        if (starts != row->starts || (row->devices && strcmp(name, row->devices) != 0) ||
            (row->says && strcmp(said, row->says) != 0))
            fail_msg("%s: job %zu starts on '%s'; the first '%s'", row->what, starts,
                     name, said);
    }
}

/* A GPU is used, and a job that needs all of it waits. */
static const struct row large_waits = { .gpus = "4/2 4/2",
                                        .running = "cuda:0=2 cuda:1=2",
                                        .queue = "cuda:0=3.8 cuda:0=1" };

static void test_placement_limits_passes(void **state)
{
    struct world world;

    (void)state;
    make_world(&large_waits, &world);
    for (int i = 0; i < PLACEMENT_PASSES; i++)
        assert_int_equal(choose_at(&world, 100 + i), 1);
    assert_int_equal(world.jobs[0].passes, PLACEMENT_PASSES);
    assert_int_equal(choose_at(&world, 200), 2);
    assert_int_equal(world.answers[1].verdict, PLACEMENT_RESERVED);
}

static void test_placement_limits_the_time_of_passes(void **state)
{
    struct world world;

    (void)state;
    make_world(&large_waits, &world);
    assert_int_equal(choose_at(&world, 100), 1);
    assert_true(world.jobs[0].since == 100);
    assert_int_equal(choose_at(&world, 99 + PLACEMENT_PASS_SECONDS), 1);
    assert_int_equal(choose_at(&world, 100 + PLACEMENT_PASS_SECONDS), 2);
    assert_int_equal(world.answers[1].verdict, PLACEMENT_RESERVED);
}

static void test_placement_uses_other_devices_than_the_reserved(void **state)
{
    struct row row = large_waits;
    struct world world;

    (void)state;
    row.queue = "cuda:0=3.8 auto=1";
    make_world(&row, &world);
    for (int i = 0; i < 2 * PLACEMENT_PASSES; i++) {
        assert_int_equal(choose_at(&world, 100 + i), 1);
        assert_int_equal(world.answers[1].devices, 1 << 2);
    }
    assert_int_equal(world.jobs[0].passes, 0);
}

/* 2 GiB wait, and 0.5 GiB fit next to them, but not next to another 2.5 GiB. */
static void test_placement_counts_no_pass_that_delays_no_job(void **state)
{
    static const struct row row = { .gpus = "4/1.5",
                                    .running = "cuda:0=2.2",
                                    .queue = "cuda:0=2 cuda:0=0.5" };
    struct world world;

    (void)state;
    make_world(&row, &world);
    assert_int_equal(choose_at(&world, 100), 1);
    assert_int_equal(world.jobs[0].passes, 0);
    world.running[0].started = 100; /* it took what the job waits for */
    assert_int_equal(choose_at(&world, 101), 1);
    assert_int_equal(world.jobs[0].passes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement_chooses_job_and_devices),
        cmocka_unit_test(test_placement_limits_passes),
        cmocka_unit_test(test_placement_limits_the_time_of_passes),
        cmocka_unit_test(test_placement_uses_other_devices_than_the_reserved),
        cmocka_unit_test(test_placement_counts_no_pass_that_delays_no_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
