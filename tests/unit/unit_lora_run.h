/*
 * tests/unit/unit_lora_run.h - run some LoRA steps over a base model and collect the
 * results.
 */
#ifndef TESTS_UNIT_UNIT_LORA_RUN_H
#define TESTS_UNIT_UNIT_LORA_RUN_H

#include "tests/unit/unit_architectures.h"
#include "train/model/shapes.h"

struct found {
    double losses[4], norm;
};

/* B starts at zero, which would leave A without a gradient. */
static inline void fill_b(struct unit_model *u)
{
    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        struct parameter *p = model_trained(u->model, i);
        float *w = p->weight.data;

        if (!strstr(p->name, "lora_B"))
            continue;
        for (size_t j = 0; j < p->rows * p->cols; j++)
            w[j] = (float)(0.1 * hashed(p->name, j));
        if (p->copy.data)
            u->be->ops->convert(u->be,
                                &(struct op_convert) { .out = p->copy, .x = p->weight });
    }
}

/* Train by the plan of `u`, and release `u`; the block of memory is as large as
 * estimated. */
static inline struct found run_adapted(struct unit_model *u)
{
    struct memory_use estimate;
    struct error err = { 0 };
    struct found found = { 0 };

    unit_must(
        shapes_memory(&u->plan, &u->config, batch.rows, batch.sequences, &estimate, &err),
        &err);
    start(u);
    assert_int_equal(model_memory(u->model)->low, estimate.total);
    fill_b(u);
    for (size_t i = 0; i < TS_COUNT(found.losses); i++) {
        found.losses[i] = unit_train(u, &batch);
        found.norm = unit_norm(u);
        unit_step(u, (int64_t)i + 1);
    }
    unit_model_stop(u);
    return found;
}

#endif
