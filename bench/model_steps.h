/* bench/model_steps.h - training steps of real shapes, with random weights and random
 * tokens, each with a target. */
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
    bool profile;            /* print the operations of a step instead of the row */
    bool tuned;              /* run it with and without choices_dir */
    const char *choices_dir; /* of the algorithms of matmuls, or NULL */
    enum method method;
    enum format format;
    bool fp8;       /* bf16, and matmuls of layers in fp8 */
    double seconds; /* stop after this time */
};

/* The caller sets `row`, and `plan` and `be` before opening it. */
struct bench {
    struct bench_row row;
    struct plan plan;
    struct arena *arena;
    struct model_config config;
    struct backend *be;
    struct model *model;
    struct batch batch;
    double loss; /* of the last step, summed over its tokens */
};

struct plan model_steps_plan(const struct bench_row *row);
/* Return the name of the row's format. */
const char *model_steps_format(const struct bench_row *row);
/* Open the device that the row asks for. */
struct backend *model_steps_backend(const struct bench *bench);

/* Make the model and a batch, or end the program. Returns the seconds that filling the
 * weights took. */
double model_steps_open(struct bench *bench);
void model_steps_close(struct bench *bench);
/* Run a whole step, forward to weights, numbered from 1; returns its seconds. */
double model_steps_run(struct bench *bench, int64_t number);
/* Run 1 + count steps, each put into the stream before the previous one has ended;
 * seconds: between the ends of two. */
void model_steps_overlap(struct bench *bench, int64_t number, double *seconds, int count);

/*
 * Return the model FLOPs of a step without recomputation: a token costs 6 for each weight
 * of a matrix it passes (4 if the matrix is frozen and has no gradient), and 6 L T C for
 * causal attention.
 */
double model_steps_flops(const struct bench *bench);
/* Return MiB: the peak of this process, or the memory allocated on the GPU. */
double model_steps_memory(const struct bench *bench);
/* Return MiB as planned in advance: on a CPU the block alone. */
double model_steps_planned(const struct bench *bench);

#endif
