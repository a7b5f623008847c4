/* bench/model_steps.h - training steps of real shapes: random weights, random tokens, of
 * which every one has a target. */
#ifndef BENCH_MODEL_STEPS_H
#define BENCH_MODEL_STEPS_H

#include "base/arena.h"
#include "train/model/model.h"

struct bench_model {
    const char *name, *config;
    size_t sequences, length;
};

struct bench_row {
    const struct bench_model *model;
    bool gpu, checkpointed;
    enum method method;
    enum format format;
    double seconds; /* of steps, after which they are enough */
};

/* `row`, `plan` and `be` are the caller's, set before it is opened. */
struct bench {
    struct bench_row row;
    struct plan plan;
    struct arena *arena;
    struct model_config config;
    struct backend *be;
    struct model *model;
    struct batch batch;
};

struct plan model_steps_plan(const struct bench_row *row);

/* Make the model and a batch; ends the program where that fails.  Returns the seconds
 * that filling the weights took. */
double model_steps_open(struct bench *bench);
void model_steps_close(struct bench *bench);
/* A whole step, counted from 1, forward to weights; its seconds. */
double model_steps_make(struct bench *bench, int64_t number);

/*
 * Model flops of a step, recomputed ones not counted: a token costs 6 for each weight of
 * a matrix it meets (4 where the matrix is frozen, as there is no gradient of it), and 6
 * L T C for causal attention.
 */
double model_steps_flops(const struct bench *bench);
/* MiB: the most this process had, or what was taken on the card. */
double model_steps_memory(const struct bench *bench);
/* MiB as planned before anything is taken: of a CPU the block alone. */
double model_steps_planned(const struct bench *bench);

#endif
