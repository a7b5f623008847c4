/*
 * bench/bench_meet.c - measures how ranks find each other, and what their collective
 * operations cost, without a model.
 *
 *     bench_meet [-n NAMESPACE]... RANKS [VALUES]
 *
 * Starts RANKS processes that meet as those of a launcher do (runner/cluster/assembly.c),
 * connect in pairs and, with VALUES, sum and copy so many floats.  Ranks are divided evenly
 * among the network namespaces (files such as /run/netns/NAME), in order.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/link.h"
#include "kernels/cpu/cpu_mesh.h"
#include "precision/memory.h"
#include "runner/cluster/assembly.h"

enum { SPACES_MAX = 64, ROUNDS = 11, PINGS = 51 };

static const char *spaces[SPACES_MAX];
static int space_count;

static void stop(int rank, const char *doing, const struct error *err)
{
    fprintf(stderr, "bench_meet: rank %d: %s: %s\n", rank, doing, err->text);
    _exit(1);
}

static void enter_space(int rank, int ranks)
{
    const char *name = space_count ? spaces[rank * space_count / ranks] : NULL;
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

    if (name && (fd < 0 || setns(fd, CLONE_NEWNET) != 0)) {
        perror(name);
        _exit(77);
    }
    if (fd >= 0)
        close(fd);
}

static int compare(const void *a, const void *b)
{
    double one = *(const double *)a, two = *(const double *)b;

    return (one > two) - (one < two);
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = -3; /* itself, and the two names of a folder */

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* ---- Collectives ---- */

struct work {
    struct mesh *mesh;
    int rank, ranks;
    float *data; /* of `count` values for each rank, so that all can be gathered */
    size_t count;
};

static bool sum_one(struct work *w)
{
    double one = 1;

    return mesh_all_reduce(w->mesh, &one, 1);
}

static bool sum_all(struct work *w)
{
    return mesh_reduce(w->mesh, w->data, w->count, 0);
}

static bool copy_all(struct work *w)
{
    return mesh_broadcast(w->mesh, w->data, w->count * sizeof(float), 0);
}

static bool gather_all(struct work *w)
{
    return mesh_all_gather(w->mesh, w->data, w->count / (size_t)w->ranks * sizeof(float));
}

static const struct {
    const char *name;
    bool (*run)(struct work *w);
} operations[] = {
    { "all_reduce of one double", sum_one },
    { "reduce", sum_all },
    { "broadcast", copy_all },
    { "all_gather", gather_all },
};

static void measure(struct work *w)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++) {
        double seconds[ROUNDS];

        for (int round = 0; round < ROUNDS; round++) {
            double from;

            if (!sum_one(w)) /* all start together */
                _exit(1);
            from = clock_seconds();
            if (!operations[i].run(w) || !sum_one(w))
                _exit(1);
            seconds[round] = clock_seconds() - from;
        }
        qsort(seconds, ROUNDS, sizeof(*seconds), compare);
        if (w->rank == 0)
            printf("%s: %.3f ms, best %.3f\n", operations[i].name,
                   1e3 * seconds[ROUNDS / 2], 1e3 * seconds[0]);
    }
}

/* Send `bytes` to the last rank, which sends a byte back; return the seconds. */
static double round_trip(const struct work *w, int peer, size_t bytes)
{
    double from = clock_seconds();
    char byte = 0;

    if (w->rank == 0 ? !link_send(peer, w->data, bytes, 0, NULL) ||
                           !link_receive(peer, &byte, 1, 0, NULL)
                     : !link_receive(peer, w->data, bytes, 0, NULL) ||
                           !link_send(peer, &byte, 1, 0, NULL))
        _exit(1);
    return clock_seconds() - from;
}

static double median(const struct work *w, int peer, size_t bytes, int times)
{
    double seconds[PINGS];

    for (int i = 0; i < times; i++)
        seconds[i] = round_trip(w, peer, bytes);
    qsort(seconds, (size_t)times, sizeof(*seconds), compare);
    return seconds[times / 2];
}

/* What the link to the last rank does: half of the time of a byte there and back, and the rate
 * of long messages.  The first of those does not count: TCP starts slowly. */
static void ping(const struct work *w, int peer)
{
    const size_t bytes = w->count * sizeof(*w->data);
    double one_way, seconds;

    if (w->rank != 0 && w->rank != w->ranks - 1)
        return;
    one_way = median(w, peer, 1, PINGS) / 2;
    round_trip(w, peer, bytes);
    seconds = median(w, peer, bytes, ROUNDS);
    if (w->rank == 0)
        printf("link: one way %.3f ms, %.0f MB at %.0f Mbit/s\n", 1e3 * one_way,
               1e-6 * (double)bytes, 8e-6 * (double)bytes / (seconds - one_way));
}

/* ---- Ranks ---- */

static void be_rank(int rank, int ranks, const char *file, size_t values, double start)
{
    const struct world world = {
        .rank = rank, .size = ranks, .local_size = 1, .nodes = ranks, .start = "bench"
    };
    struct work work = { .rank = rank, .ranks = ranks, .count = values };
    int *links = memory_alloc((size_t)ranks * sizeof(*links));
    int *peers = memory_alloc((size_t)ranks * sizeof(*peers));
    struct assembly assembly;
    struct error err = { 0 };
    struct rusage usage;
    double met, paired;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enter_space(rank, ranks);
    assembly_init(&assembly, &world, file);
    if (!assembly_meet(&assembly, NULL, NULL, links, &err))
        stop(rank, "cannot meet", &err);
    met = clock_seconds();
    if (!assembly_connect_pairs(&assembly, links, peers, &err))
        stop(rank, "cannot connect", &err);
    work.mesh = mesh_open(rank, ranks, peers, MEMORY_MESH_VALUES, &err);
    if (!work.mesh || !sum_one(&work))
        stop(rank, "cannot sum", &err);
    paired = clock_seconds();
    getrusage(RUSAGE_SELF, &usage);
    if (rank == 0)
        printf(
            "%d ranks: met after %.3f s, connected in pairs %.3f s later; rank 0 has %d "
            "open files and %.2f s of CPU time\n",
            ranks, met - start, paired - met, open_files(),
            (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
    if (values > 0) {
        work.data = memory_alloc((values + (size_t)ranks) * sizeof(*work.data));
        ping(&work, peers[rank == 0 ? ranks - 1 : 0]);
        measure(&work);
    }
    sum_one(&work);
    fflush(stdout);
    assembly_end(&assembly);
    _exit(0);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/bench-meet-XXXXXX", file[64];
    int option, ranks, failed = 0, status;
    double start = clock_seconds();
    size_t values;

    while ((option = getopt(argc, argv, "n:")) == 'n' && space_count < SPACES_MAX)
        spaces[space_count++] = optarg;
    ranks = optind < argc ? atoi(argv[optind]) : 0;
    values = optind + 1 < argc ? (size_t)atoll(argv[optind + 1]) : 0;
    if (option != -1 || ranks < 2 || ranks > RANKS_MAX || !mkdtemp(dir)) {
        fprintf(stderr, "usage: bench_meet [-n NAMESPACE]... RANKS [VALUES]\n");
        return 2;
    }
    snprintf(file, sizeof(file), "%s/ranks.json", dir);
    for (int rank = 0; rank < ranks; rank++) {
        pid_t pid = fork();

        if (pid == 0)
            be_rank(rank, ranks, file, values, start);
        if (pid < 0) {
            perror("bench_meet: fork");
            return 1;
        }
    }
    while (wait(&status) > 0)
        failed |= status;
    unlink(file);
    rmdir(dir);
    return failed != 0;
}
