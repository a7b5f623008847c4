/*
 * train/model/rope.h - rotary positions: the types of scaling that config.json names, and
 * the tables of angles that follow from them.
 *
 * As in transformers/modeling_rope_utils.py (5.24).  Su et al., "RoFormer", 2021; yarn:
 * Peng et al., "YaRN", 2023; longrope: Ding et al., "LongRoPE", 2024.
 */
#ifndef TRAIN_MODEL_ROPE_H
#define TRAIN_MODEL_ROPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_LLAMA3,
    ROPE_PROPORTIONAL,
};

struct rope {
    enum rope_kind kind;
    double theta;                             /* base; default 10000 */
    double factor;                            /* linear, dynamic, yarn, llama3 */
    double attention_factor;                  /* of cos and sin; 0: 1 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_max_positions;            /* yarn, longrope, llama3 */
    double max_positions;                     /* dynamic */
    double query_beta;                        /* llama_4_scaling_beta; 0: none */
    /* yarn: a column that turns at least beta_fast times in the original positions keeps
     * its frequency, one that turns at most beta_slow times is divided by factor;
     * truncate: both bounds are rounded outwards to a whole column */
    double beta_fast, beta_slow;
    bool truncate;
    /* proportional: only the first of the frequencies are not 0 */
    size_t turning;
    /* longrope: divisors of the frequencies, columns / 2 of each, up to the original
     * positions and beyond */
    const double *short_factors, *long_factors;
    /* of cos and sin in place of attention_factor, at the same lengths; 0: none */
    double short_scale, long_scale;
};

/* What a type of scaling reads besides its own object. */
struct rope_source {
    const char *file;              /* in errors */
    size_t columns;                /* that are rotated */
    double max_positions;          /* of the model */
    double original_max_positions; /* in config.json next to the object; 0: none */
    struct arena *arena;
    struct error *err;
};

/* Read the object rope_parameters or rope_scaling into *out, except theta, which must be
 * set; another value means no scaling.  ERROR_DATA names the file and the key. */
void rope_read(const struct rope_source *source, const json_t *from, struct rope *out);

/* Return the same number for all lengths of sequences that have the same frequencies. */
size_t rope_reach(const struct rope *rope, size_t length);

/* Return the frequency of column i < columns / 2 in a sequence of this length. */
double rope_frequency(const struct rope *rope, size_t columns, size_t length, size_t i);

struct rope_table {
    float *data; /* (rows, columns) */
    size_t rows, columns;
};

/*
 * Fill row p: cos(p f) for the columns / 2 frequencies f, then sin, both times the
 * attention factor or the scale.  A row has the frequencies of sequences of `length`, or, beyond it, of
 * p + 1: those of a sequence that grows token by token.
 */
void rope_fill(const struct rope *rope, size_t length, const struct rope_table *to);

#endif
