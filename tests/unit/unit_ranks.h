/*
 * tests/unit/unit_ranks.h - the ranks of a run as forked processes.  A backend has
 * threads, so each process opens its own, after the fork.
 */
#ifndef TESTS_UNIT_UNIT_RANKS_H
#define TESTS_UNIT_UNIT_RANKS_H

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/link.h"
#include "kernels/backend.h"
#include "tests/unit/unit.h"

struct unit_ranks {
    struct backend_group group; /* of this process */
    int links[DEVICE_RANKS_MAX];
    pid_t children[DEVICE_RANKS_MAX]; /* of rank 0: the others; 0: none */
};

#ifdef UNIT_EMULATED
static const bool unit_ranks_emulated = true;
static const struct backend_ops *const unit_ranks_ops = &backend_cuda;
#else
static const bool unit_ranks_emulated = false;
static const struct backend_ops *const unit_ranks_ops = &backend_cpu;
#endif

/* The device of a rank: the CPU or, in a program compiled for it, an emulated GPU of its
 * own. (Not a real one: a driver does not outlive a fork.) */
static inline void unit_ranks_device(int rank, struct device *out)
{
#ifdef UNIT_EMULATED
    static struct device devices[DEVICE_RANKS_MAX];
    char note[256];

    if (devices[0].memory == 0) /* asking a device takes its memory from all */
        backend_cuda.devices("cuda", devices, DEVICE_RANKS_MAX, note, sizeof(note));
    *out = devices[rank];
#else
    (void)rank;
    *out = (struct device) { .kind = DEVICE_CPU, .name = "cpu", .ordinal = -1 };
#endif
}

/* Numbers of the host into memory of the backend, and back. */
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

/* Become `ranks` processes; tells each which it is.  Only rank 0 may use cmocka. */
static inline void unit_ranks_fork(struct unit_ranks *out, int ranks)
{
    struct error err = { 0 };

    *out = (struct unit_ranks) { .group = { .rank = 0, .ranks = ranks } };
    out->group.links = out->links;
    fflush(NULL);
    for (int r = 1; r < ranks; r++) {
        int ends[2];

        if (!link_pair(ends, &err))
            fail_msg("%s", err.text);
        out->children[r] = fork();
        if (out->children[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
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

/* Rank 0: wait for a rank, and give what waitpid says. */
static inline int unit_ranks_wait(struct unit_ranks *ranks, int rank)
{
    int status;

    assert_int_equal(waitpid(ranks->children[rank], &status, 0), ranks->children[rank]);
    return status;
}

/* Rank 0: the others have left with status 0. */
static inline void unit_ranks_join(struct unit_ranks *ranks)
{
    for (int r = 1; r < ranks->group.ranks; r++) {
        assert_int_equal(unit_ranks_wait(ranks, r), 0);
        close(ranks->links[r - 1]);
    }
}

#endif
