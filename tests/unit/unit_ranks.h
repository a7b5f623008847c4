/*
 * tests/unit/unit_ranks.h - the ranks of a run as processes.  A backend has threads, so
 * each process opens its own after the fork.  A driver does not survive a fork: if each
 * rank has a GPU, emulated (UNIT_EMULATED) or real (UNIT_CUDA), the ranks of a
 * unit_ranks_test are new executions of this program that go straight to that test.
 */
#ifndef TESTS_UNIT_UNIT_RANKS_H
#define TESTS_UNIT_UNIT_RANKS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/link.h"
#include "kernels/backend.h"
#include "tests/unit/unit.h"

struct unit_ranks {
    struct backend_group group; /* the group of this process */
    int links[DEVICE_RANKS_MAX];
    pid_t children[DEVICE_RANKS_MAX]; /* on rank 0: the other processes; 0: none */
};

#ifdef UNIT_EMULATED
static const bool unit_ranks_emulated = true;
#else
static const bool unit_ranks_emulated = false;
#endif
#ifdef UNIT_CUDA
enum { UNIT_RANKS = 2 }; /* as many GPUs as may exist */
#else
enum { UNIT_RANKS = 3 };
#endif
#if defined(UNIT_EMULATED) || defined(UNIT_CUDA)
static const bool unit_ranks_gpus = true;
static const struct backend_ops *const unit_ranks_ops = &backend_cuda;
#else
static const bool unit_ranks_gpus = false;
static const struct backend_ops *const unit_ranks_ops = &backend_cpu;
#endif

/* Choose the device of a rank: the CPU or, in a program compiled for it, a separate
 * GPU. */
static inline void unit_ranks_device(int rank, struct device *out)
{
    struct device devices[DEVICE_RANKS_MAX] = { 0 };
    char note[256];

    devices[rank] = (struct device) { .kind = DEVICE_CPU, .name = "cpu", .ordinal = -1 };
    if (unit_ranks_gpus)
        unit_ranks_ops->devices("cpu", devices, DEVICE_RANKS_MAX, note, sizeof(note));
    *out = devices[rank];
}

/* Return whether there are as many GPUs as ranks.  If not, print the plan of a skipped
 * program. */
static inline bool unit_ranks_fit(void)
{
    struct device devices[DEVICE_RANKS_MAX];
    char note[256] = "";
    size_t count = unit_ranks_gpus
                       ? unit_ranks_ops->devices("cpu", devices, DEVICE_RANKS_MAX, note,
                                                 sizeof(note))
                       : UNIT_RANKS;

    if (count < UNIT_RANKS)
        printf("1..0 # SKIP requires %d GPUs, found %zu%s%s\n", UNIT_RANKS, count,
               *note ? ": " : "", note);
    return count >= UNIT_RANKS;
}

/* A test of a program whose ranks may have GPUs.  It must create ranks only once. */
#define unit_ranks_test(f)                  \
    {                                       \
#f, f, unit_ranks_begin, NULL, NULL \
    }
#define unit_ranks_test_of(name, f, of)     \
    {                                       \
        name, f, unit_ranks_begin, NULL, of \
    }

/* The running test and, in a process started as a rank, its rank. */
static struct {
    int test, rank, link;
} unit_ranks_this = { .test = -1 };

static inline int unit_ranks_begin(void **state)
{
    (void)state;
    unit_ranks_this.test++;
    return 0;
}

/* Call this first in main: a process started as a rank goes to its test and exits
 * there. */
static inline void unit_ranks_main(int argc, char **argv, const struct CMUnitTest *tests)
{
    const struct CMUnitTest *test;
    void *state;

    if (argc != 5 || strcmp(argv[1], "--rank") != 0)
        return;
    unit_ranks_this.test = atoi(argv[2]);
    unit_ranks_this.rank = atoi(argv[3]);
    unit_ranks_this.link = atoi(argv[4]);
    test = &tests[unit_ranks_this.test];
    state = test->initial_state;
    test->test_func(&state);
    _exit(1);
}

/* Replace a child process with a new execution of this program. */
static inline void unit_ranks_exec(int rank, int link)
{
    char words[3][16];

    snprintf(words[0], sizeof(words[0]), "%d", unit_ranks_this.test);
    snprintf(words[1], sizeof(words[1]), "%d", rank);
    snprintf(words[2], sizeof(words[2]), "%d", link);
    fcntl(link, F_SETFD, 0);
    execl("/proc/self/exe", "rank", "--rank", words[0], words[1], words[2], NULL);
    _exit(1);
}

/* Copy host values to backend memory, and back. */
static inline void *unit_ranks_put(struct backend *be, const void *from, size_t bytes)
{
    void *to = be->ops->alloc(be, bytes, NULL);

    if (to)
        be->ops->upload(be, to, from, bytes);
    return to;
}

static inline bool unit_ranks_get(struct backend *be, void *to, const void *from,
                                  size_t bytes)
{
    be->ops->download(be, to, from, bytes);
    return be->ops->sync(be, NULL);
}

/* Split into `ranks` processes; each learns its rank.  Only rank 0 may use cmocka. */
static inline void unit_ranks_fork(struct unit_ranks *out, int ranks)
{
    struct error err = { 0 };

    *out =
        (struct unit_ranks) { .group = { .rank = unit_ranks_this.rank, .ranks = ranks } };
    out->group.links = out->links;
    out->links[0] = unit_ranks_this.link;
    if (unit_ranks_this.rank > 0)
        return;
    fflush(NULL);
    for (int r = 1; r < ranks; r++) {
        int ends[2];

        if (!link_pair(ends, &err))
            fail_msg("%s", err.text);
        out->children[r] = fork();
        if (out->children[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (unit_ranks_gpus && unit_ranks_this.test >= 0)
                unit_ranks_exec(r, ends[1]);
            for (int i = 0; i < r - 1; i++)
                close(out->links[i]);
            close(ends[0]);
            out->links[0] = ends[1];
            out->group.rank = r;
            memset(out->children, 0, sizeof(out->children));
            return;
        }
        close(ends[1]);
        out->links[r - 1] = ends[0];
    }
}

/* Rank 0: wait for a rank, and return the status from waitpid. */
static inline int unit_ranks_wait(struct unit_ranks *ranks, int rank)
{
    int status;

    assert_int_equal(waitpid(ranks->children[rank], &status, 0), ranks->children[rank]);
    return status;
}

/* Rank 0: check that the others exited with status 0. */
static inline void unit_ranks_join(struct unit_ranks *ranks)
{
    for (int r = 1; r < ranks->group.ranks; r++) {
        assert_int_equal(unit_ranks_wait(ranks, r), 0);
        close(ranks->links[r - 1]);
    }
}

#endif
