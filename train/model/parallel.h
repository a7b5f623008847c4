/*
 * train/model/parallel.h - the ranks of a run, one process each.
 *
 * Rank 0 decides what happens next and tells the others; they do it and tell what came of
 * it. What touches files, the log and the clock is rank 0's alone, so that they cannot
 * disagree. What a step adds up goes through the backend; here are only words and a few
 * numbers, over the links of struct backend_group.  group NULL: a run of one process,
 * nothing to do.
 */
#ifndef TRAIN_MODEL_PARALLEL_H
#define TRAIN_MODEL_PARALLEL_H

#include "kernels/backend.h"
#include "train/model/model.h"

enum parallel_work {
    PARALLEL_STEP,
    PARALLEL_EVALUATE,
    PARALLEL_FETCH,
    PARALLEL_KEEP,     /* before a preflight, */
    PARALLEL_PUT_BACK, /* and after it */
    PARALLEL_END
};

struct parallel_order {
    enum parallel_work work;
    struct moment_span span; /* to fetch */
};

size_t parallel_rank(const struct backend_group *group);  /* 0 alone */
size_t parallel_ranks(const struct backend_group *group); /* 1 alone */
/* Of `count` things dealt out in turn, how many come to this rank. */
size_t parallel_share(const struct backend_group *group, size_t count);

/* Join the others' backends, once all have opened theirs. */
bool parallel_join(const struct backend_group *group, struct backend *be,
                   struct error *err);
/* Rank 0 waits until all have loaded what they work with: in a step, a rank that is not
 * there for minutes would be one that hangs. */
bool parallel_ready(const struct backend_group *group, struct error *err);

/* Rank 0: what all do next.  The others: hear it, however long it takes. */
bool parallel_tell(const struct backend_group *group, enum parallel_work work,
                   struct error *err);
bool parallel_hear(const struct backend_group *group, struct parallel_order *out,
                   struct error *err);

/* Numbers of all ranks, in the order of the ranks: the sum is rank 0's, the others keep
 * their own. */
bool parallel_sum(const struct backend_group *group, double *numbers, size_t count,
                  struct error *err);
/* A text of rank 0's to all, malloc'ed; NULL is one too.  Takes over *text. */
bool parallel_share_text(const struct backend_group *group, char **text,
                         struct error *err);

/* Rank 0's model_fetch (context: the group), and its answer: an order to fetch. */
bool parallel_fetch(const void *context, const struct moment_span *span, void *to,
                    struct error *err);
bool parallel_answer(const struct backend_group *group, struct model *model,
                     const struct moment_span *span, struct error *err);

/* A rank that fails tells rank 0 why; rank 0, which sees no more than that somebody has
 * ended, looks for who and why, and puts that into *err instead. */
void parallel_report(const struct backend_group *group, const struct error *err);
void parallel_explain(const struct backend_group *group, struct error *err);

#endif
