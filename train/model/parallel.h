/*
 * train/model/parallel.h - the ranks of a run, one process each.
 *
 * Rank 0 decides what happens next and sends orders; the others carry them out and return
 * the results.  Only rank 0 uses the log, the clock and files other than those that all write
 * together, so ranks cannot disagree.
 * The backend sums gradients; this module only passes orders, texts and a few numbers
 * over the links of struct backend_group.  group NULL: a run of one process, nothing to
 * do.
 */
#ifndef TRAIN_MODEL_PARALLEL_H
#define TRAIN_MODEL_PARALLEL_H

#include "kernels/backend.h"
#include "train/model/model.h"

enum parallel_work {
    PARALLEL_STEP,     /* issue the next step */
    PARALLEL_END_STEP, /* end the earliest step that was issued */
    PARALLEL_EVALUATE,
    PARALLEL_METHODS, /* send what this rank computes with */
    PARALLEL_FETCH,
    PARALLEL_SAVE_STATE,    /* save the state before a preflight */
    PARALLEL_RESTORE_STATE, /* restore it after the preflight */
    PARALLEL_CUT,           /* end the evaluation early, if it has not ended */
    PARALLEL_LOAD_BEST,     /* load the weights of the checkpoint of step span.first */
    PARALLEL_SAVE,          /* write a part of the checkpoint of step span.first */
    PARALLEL_FOLLOW,        /* take part in what rank 0 does alone */
    PARALLEL_END
};

struct parallel_order {
    enum parallel_work work;
    struct moment_span span; /* for PARALLEL_FETCH, PARALLEL_LOAD_BEST, PARALLEL_SAVE */
    double rate;             /* PARALLEL_STEP: for reduce_lr_on_plateau */
};

size_t parallel_rank(const struct backend_group *group);  /* 0 without a group */
size_t parallel_ranks(const struct backend_group *group); /* 1 without a group */
/* Return how many of `count` items this rank gets when they are distributed
 * round-robin. */
size_t parallel_share_count(const struct backend_group *group, size_t count);

/* Join the backends of the other ranks, once all ranks have opened theirs. */
bool parallel_join(const struct backend_group *group, const struct plan *plan,
                   struct backend *be, struct error *err);
/* Rank 0 waits until all ranks have loaded their model and data: during a step, a rank
 * that is absent for minutes would count as hanging. */
bool parallel_ready(const struct backend_group *group, struct error *err);

/* Rank 0: send the next order.  Other ranks: wait for it, without a time limit. */
bool parallel_send_order(const struct backend_group *group, enum parallel_work work,
                         struct error *err);
bool parallel_send_step(const struct backend_group *group, double rate,
                        struct error *err);
bool parallel_send_load(const struct backend_group *group, int64_t step,
                        struct error *err);
bool parallel_send_save(const struct backend_group *group, int64_t step,
                        struct error *err);
bool parallel_receive_order(const struct backend_group *group, struct parallel_order *out,
                            struct error *err);

/* Other ranks: return whether an order waits, or rank 0 has ended. */
bool parallel_order_waits(const struct backend_group *group);

/* Sum values over all ranks, in rank order. Rank 0 gets the sums; the other ranks keep
 * their values. */
bool parallel_sum(const struct backend_group *group, double *numbers, size_t count,
                  struct error *err);
/* Send a text (or NULL) from rank 0 to all ranks, where it is malloc'ed.  Other ranks
 * overwrite *text. */
bool parallel_share_text(const struct backend_group *group, char **text,
                         struct error *err);

/* Send a text to rank 0, which receives it, malloc'ed. */
bool parallel_send_text(const struct backend_group *group, const char *text,
                        struct error *err);
bool parallel_receive_text(const struct backend_group *group, int rank, char **text,
                           struct error *err);
/* The same from a rank that may work for minutes first: the heartbeat ticks, but does not
 * stop. */
bool parallel_await_text(const struct backend_group *group, int rank,
                         struct heartbeat *heartbeat, char **text, struct error *err);

/* Rank 0, while the others wait for it: ERROR_SYSTEM if one of them has ended. */
bool parallel_are_alive(const struct backend_group *group, struct error *err);

/* Fetch moments: model_fetch of rank 0 (context: the group), and the reply of another
 * rank to the order. */
bool parallel_fetch(const void *context, const struct moment_span *span, void *to,
                    struct error *err);
bool parallel_serve_fetch(const struct backend_group *group, struct model *model,
                          const struct moment_span *span, struct error *err);

/* A failing rank reports its error to rank 0.  Rank 0, which only sees that a link has
 * closed, finds the rank and its error and replaces *err with it. */
void parallel_report(const struct backend_group *group, const struct error *err);
void parallel_explain(const struct backend_group *group, struct error *err);

#endif
