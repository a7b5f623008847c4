/* tests/unit/test_candidates.c - which machines a job of several nodes is checked for. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "runner/spool/candidates.h"
#include "runner/spool/node_files.h"

/* This node is `b`; its folder is the working directory. */
struct cluster {
    char *dir;
    struct nodes *nodes;
    struct machine own;
    struct candidates candidates;
};

static struct probe probe_of(int major, int minor, unsigned mib, size_t gpus)
{
    struct probe probe = { .count = 1 + gpus };

    probe.devices[0] = (struct device) { .kind = DEVICE_CPU,
                                         .ordinal = -1,
                                         .here = true,
                                         .runnable = true,
                                         .threads = 4,
                                         .memory = (uint64_t)16 << 30 };
    for (size_t i = 1; i <= gpus; i++)
        probe.devices[i] = (struct device) { .kind = DEVICE_CUDA,
                                             .ordinal = (int)i - 1,
                                             .here = true,
                                             .runnable = true,
                                             .major = major,
                                             .minor = minor,
                                             .memory = (uint64_t)mib << 20 };
    for (size_t i = 0; i <= gpus; i++)
        strcpy(probe.devices[i].name, i == 0 ? "A CPU" : "A GPU");
    return probe;
}

static int set_up(void **state)
{
    struct cluster *cluster = memory_alloc(sizeof(*cluster));

    cluster->dir = unit_dir_new();
    assert_int_equal(chdir(cluster->dir), 0);
    assert_int_equal(mkdir(SPOOL_INNER, 0700), 0);
    assert_int_equal(mkdir(NODE_FILES, 0700), 0);
    *state = cluster;
    return 0;
}

static int tear_down(void **state)
{
    struct cluster *cluster = *state;

    candidates_clear(&cluster->candidates);
    nodes_close(cluster->nodes);
    unit_dir_free(cluster->dir);
    free(cluster);
    return chdir("/");
}

/* Another node of a network file system, where no lock shows that it lives. */
static void add_node(const char *name, const struct probe *probe, bool cpu)
{
    const struct node_beat beat = { .count = 1, .start = 1 };
    struct error err = { 0 };
    char *file = node_file(".", name, ".beat");
    int fd = open(file, O_RDWR | O_CREAT, 0600);

    assert_true(node_probe_write(name, probe, cpu, &err));
    assert_true(fd >= 0 && node_beat_write(fd, &beat));
    close(fd);
    free(file);
}

static void open_own(struct cluster *cluster, const struct probe *probe)
{
    struct error err = { 0 };
    bool busy = false;

    cluster->own = (struct machine) { .probe = *probe, .whole = true };
    cluster->nodes = nodes_open("b", &(struct node_devices) { "b", probe, true }, false,
                                NULL, &busy, &err);
    assert_non_null(cluster->nodes);
    candidates_make(&cluster->candidates, &cluster->own, cluster->nodes);
}

static void test_candidates_are_one_for_each_kind(void **state)
{
    struct cluster *cluster = *state;
    const struct probe small = probe_of(7, 5, 4096, 1), same = probe_of(7, 5, 4100, 1);
    const struct probe large = probe_of(8, 0, 16384, 2), none = probe_of(0, 0, 0, 0);

    add_node("a", &same, true);
    add_node("c", &large, true);
    add_node("d", &none, true);
    open_own(cluster, &small);
    assert_int_equal(cluster->candidates.count, 2);
    assert_string_equal(cluster->candidates.list[0].node, "b");
    assert_string_equal(cluster->candidates.list[1].node, "c");
    assert_int_equal(cluster->candidates.list[0].gpus, 2);
    assert_int_equal(cluster->candidates.list[1].gpus, 2);
    assert_int_equal(candidates_largest(&cluster->candidates), 1);
}

static void test_candidates_go_by_the_jobs_that_wait(void **state)
{
    struct cluster *cluster = *state;
    const struct probe none = probe_of(0, 0, 0, 0), large = probe_of(8, 0, 16384, 2);
    const struct probe small = probe_of(7, 5, 4096, 1);
    struct queue queue = { 0 };
    struct queued job = { .name = "j", .waiting.need.capability = 75 };
    uint8_t order[CANDIDATES_MAX];

    add_node("c", &small, true);
    add_node("d", &large, true);
    open_own(cluster, &none);
    assert_int_equal(cluster->candidates.count, 3);
    queue_add(&queue, &job);
    candidates_order(&cluster->candidates, &queue, order);
    assert_string_equal(cluster->candidates.list[order[0]].node, "d");
    assert_string_equal(cluster->candidates.list[order[1]].node, "c");
    assert_string_equal(cluster->candidates.list[order[2]].node, "b"); /* the CPU last */
    for (int i = 0; i < 3; i++) { /* three jobs for two GPUs */
        const char *const names[] = { "k", "l", "m" };

        job.name = names[i];
        job.waiting.need.capability = 80;
        queue_add(&queue, &job);
    }
    candidates_order(&cluster->candidates, &queue, order);
    assert_string_equal(cluster->candidates.list[order[0]].node, "c");
    queue_clear(&queue);
}

static void test_candidates_know_what_fits_elsewhere(void **state)
{
    struct cluster *cluster = *state;
    const struct probe none = probe_of(0, 0, 0, 0), large = probe_of(8, 0, 16384, 1);
    struct placement_need need = {
        .wanted = "cuda", .capability = 80, .ranks = 1, .memory = (uint64_t)8 << 30
    };

    add_node("c", &large, false);
    open_own(cluster, &none);
    assert_true(candidates_fit_elsewhere(cluster->nodes, &need));
    assert_false(candidates_fit_elsewhere(NULL, &need));
    need.capability = 75;
    assert_false(candidates_fit_elsewhere(cluster->nodes, &need));
    strcpy(need.wanted, "cuda:0"); /* a stronger GPU than it was checked for */
    assert_true(candidates_fit_elsewhere(cluster->nodes, &need));
    need.capability = 90;
    assert_false(candidates_fit_elsewhere(cluster->nodes, &need));
    need.capability = 80;
    need.memory = (uint64_t)32 << 30;
    assert_false(candidates_fit_elsewhere(cluster->nodes, &need));
    need = (struct placement_need) { .wanted = "cpu", .ranks = 1, .memory = 1 };
    assert_false(candidates_fit_elsewhere(cluster->nodes, &need)); /* --devices cuda */
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_candidates_are_one_for_each_kind),
        IN_FOLDER(test_candidates_go_by_the_jobs_that_wait),
        IN_FOLDER(test_candidates_know_what_fits_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
