/*
 * bench/bench_save.c - measures how long ranks take to save a checkpoint together, without
 * data and training.
 *
 *     bench_save FOLDER [RANKS...]
 *
 * The model has 49 million weights in fp32, the optimizer two moments of each: 590 MB.  Its
 * ranks are on CPUs, and divide weights and moments (zero_stage 2, bf16).  `busiest` is the
 * processor time of the rank that takes most: what a save takes at least where each rank has
 * a core of its own and the file system is fast.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/link.h"
#include "kernels/backend.h"
#include "train/checkpoint/checkpoint.h"
#include "train/model/parallel.h"

enum { REPEATS = 3, RANKS_TRIED = 16 };

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 8192, \"hidden_size\": 512, "
    "\"intermediate_size\": 1536, \"num_hidden_layers\": 12, \"num_attention_heads\": 8, "
    "\"tie_word_embeddings\": false}";

struct result {
    double seconds;           /* the shortest save */
    double busy[RANKS_TRIED]; /* processor time of each rank in that time */
};

struct member {
    struct backend_group group;
    int links[RANKS_TRIED];
    struct plan plan;
    struct model_config config;
    struct arena *arena;
    struct model *model;
    struct result *result; /* shared */
};

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "bench_save: %s\n", err->text);
        _exit(1);
    }
}

static double processor_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void open_member(struct member *m)
{
    struct model_options options = { .plan = &m->plan,
                                     .config = &m->config,
                                     .rows_max = 2048,
                                     .sequences_max = 1,
                                     .rank = (size_t)m->group.rank };
    struct error err = { 0 };

    m->arena = arena_new();
    m->plan.device = (struct device) { .kind = DEVICE_CPU, .name = "cpu", .ordinal = -1 };
    check(model_config_parse(config_text, strlen(config_text), "llama", m->arena,
                             &m->config, &err),
          &err);
    options.backend = backend_open(
        &(struct backend_options) { .device = &m->plan.device, .threads = 1 }, &err);
    check(options.backend != NULL, &err);
    if (m->group.ranks > 1)
        check(parallel_join(&m->group, &m->plan, options.backend, &err), &err);
    m->model = model_new(&options, &err);
    check(m->model != NULL, &err);
    model_set_fetch(m->model, parallel_fetch, &m->group);
}

static struct plan plan_for(const char *folder, int ranks)
{
    return (struct plan) { .model_name_or_path = "",
                           .output_dir = folder,
                           .job_digest = "bench",
                           .method = METHOD_FULL,
                           .ranks = ranks,
                           .zero_stage = 2,
                           .max_shard_mb = ranks > 1 ? 25 : 0,
                           .precision = { .mode = MODE_BF16_MIXED,
                                          .compute = FORMAT_BF16,
                                          .trainable = FORMAT_FP32,
                                          .loss_scale = 1,
                                          .max_grad_norm = 1 },
                           .per_device_train_batch_size = 1,
                           .cutoff_len = 2048,
                           .gradient_accumulation_steps = 1 };
}

static void save(struct member *m, int64_t step)
{
    const struct backend_group *group = m->group.ranks > 1 ? &m->group : NULL;
    struct checkpoint_saving saving = { .model = m->model,
                                        .plan = &m->plan,
                                        .group = group };
    struct parallel_order order;
    struct error err = { 0 };

    if (m->group.rank == 0)
        check(checkpoint_save(&saving, &(struct progress) { .step = step },
                              &(struct progress_history) { 0 }, &err),
              &err);
    else
        check(parallel_receive_order(group, &order, &err) &&
                  checkpoint_follow(&saving, (int64_t)order.span.first, &err),
              &err);
}

static void run(struct member *m)
{
    open_member(m);
    for (int64_t step = 1; step <= REPEATS; step++) {
        double from, busy = processor_seconds();
        char *name = checkpoint_name(m->plan.output_dir, step);

        if (m->group.ranks > 1)
            check(parallel_ready(&m->group, NULL), &(struct error) { 0 });
        from = clock_seconds();
        save(m, step);
        from = clock_seconds() - from;
        if (m->group.rank == 0) {
            if (m->result->seconds == 0 || from < m->result->seconds)
                m->result->seconds = from;
            file_remove_tree(name, NULL);
        }
        busy = processor_seconds() - busy;
        if (step == 1 || busy < m->result->busy[m->group.rank])
            m->result->busy[m->group.rank] = busy;
        free(name);
    }
    model_free(m->model);
    arena_free(m->arena);
    _exit(0);
}

/* Start a rank; each has links as struct backend_group says. */
static pid_t start(struct member *m, int rank, int ends[][2])
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    m->group.rank = rank;
    for (int r = 1; r < m->group.ranks; r++) {
        if (rank == 0)
            m->links[r - 1] = ends[r][0];
        else if (r == rank)
            m->links[0] = ends[r][1];
        close(ends[r][rank == 0]);
        if (rank > 0 && r != rank)
            close(ends[r][1]);
    }
    m->group.links = m->links;
    run(m);
    return 0;
}

static void measure(const char *folder, int ranks)
{
    struct member m = { .group = { .ranks = ranks }, .plan = plan_for(folder, ranks) };
    int ends[RANKS_TRIED][2], status = 0, failed = 0;
    struct error err = { 0 };
    double busiest = 0;

    m.result = mmap(NULL, sizeof(*m.result), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(m.result != MAP_FAILED, &err);
    for (int r = 1; r < ranks; r++)
        check(link_pair(ends[r], &err), &err);
    for (int r = 0; r < ranks; r++)
        start(&m, r, ends);
    for (int r = 1; r < ranks; r++) {
        close(ends[r][0]);
        close(ends[r][1]);
    }
    while (wait(&status) > 0)
        failed |= status;
    if (failed)
        exit(1);
    for (int r = 0; r < ranks; r++)
        busiest = m.result->busy[r] > busiest ? m.result->busy[r] : busiest;
    printf("%5d  %7.2f  %8.2f\n", ranks, m.result->seconds, busiest);
    fflush(stdout);
    munmap(m.result, sizeof(*m.result));
}

int main(int argc, char **argv)
{
    static const int usual[] = { 1, 2, 4 };

    if (argc < 2) {
        fprintf(stderr, "usage: bench_save FOLDER [RANKS...]\n");
        return 2;
    }
    printf("a checkpoint of 590 MB in %s, seconds (best of %d)\n%5s  %7s  %8s\n", argv[1],
           REPEATS, "ranks", "save", "busiest");
    for (int i = 2; i < argc; i++) {
        int ranks = atoi(argv[i]);

        if (ranks < 1 || ranks > RANKS_TRIED) {
            fprintf(stderr, "bench_save: 1 to %d ranks\n", RANKS_TRIED);
            return 2;
        }
        measure(argv[1], ranks);
    }
    for (int i = 0; argc == 2 && i < 3; i++)
        measure(argv[1], usual[i]);
    return 0;
}
