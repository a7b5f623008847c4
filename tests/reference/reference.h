/*
 * tests/reference/reference.h - every operation of kernels/ops.h as plain loops that
 * follow its formula, in double.  Matrices are contiguous; NULL is absent; letters and
 * shapes as there.
 */
#ifndef TESTS_REFERENCE_REFERENCE_H
#define TESTS_REFERENCE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "kernels/ops.h"

/* out (rows, cols), summed over depth */
struct reference_matmul {
    size_t rows, cols, depth;
    const double *a, *b, *bias;
    bool trans_a, trans_b;
    double alpha, beta;
    double *out;
};
void reference_matmul(const struct reference_matmul *r);

struct reference_norm {
    size_t rows, cols;
    double eps, offset;
    const double *x, *delta, *weight;
    double *sum, *out, *rstd;
};
void reference_norm(const struct reference_norm *r);

/* x is the sum from the forward pass, rstd its rstd (or NULL: computed from x and eps);
 * dx and dweight are accumulated. */
struct reference_norm_backward {
    size_t rows, cols;
    double eps, offset;
    const double *x, *weight, *dout, *rstd;
    double *dx, *dweight;
};
void reference_norm_backward(const struct reference_norm_backward *r);

struct reference_layernorm {
    size_t rows, cols;
    double eps, offset;
    const double *x, *delta, *weight, *bias;
    double *sum, *out, *stats; /* stats (2, rows): means, then 1 / deviations */
};
void reference_layernorm(const struct reference_layernorm *r);

/* x is the sum from the forward pass, stats its stats (or NULL: computed from x and eps);
 * all three gradients are accumulated. */
struct reference_layernorm_backward {
    size_t rows, cols;
    double eps, offset;
    const double *x, *weight, *dout, *stats;
    double *dx, *dweight, *dbias;
};
void reference_layernorm_backward(const struct reference_layernorm_backward *r);

/* (rows, heads * size), weight (size); the backward pass uses rstd from the forward
 * pass */
struct reference_headnorm {
    size_t rows, heads, size;
    double eps, offset;
    const double *x, *weight, *dout;
    double *out, *rstd;
    double *dx, *dweight; /* dx is written, dweight is accumulated */
};
void reference_headnorm(const struct reference_headnorm *r);
void reference_headnorm_backward(const struct reference_headnorm *r);

/* In place; `base` is theta; cos and sin of the table are computed here.  rotary: as in
 * op_rope, but never 0. */
struct reference_rope {
    size_t rows, heads, head_size, rotary;
    double base;
    const int32_t *positions;
    bool interleaved, inverse;
    double *x;
};
void reference_rope(const struct reference_rope *r);

/* As in op_latent, with all sizes by themselves and contiguous operands; the backward pass
 * writes the gradients of up_q, up_kv and shared for those in q, k and v. */
struct reference_latent {
    size_t rows, heads, head, plain, rotated, value;
    const int32_t *positions;
    const double *table; /* (positions, rotated) */
    bool interleaved;
    double *up_q, *up_kv, *shared, *q, *k, *v;
};
void reference_latent(const struct reference_latent *r);
void reference_latent_backward(const struct reference_latent *r);

/* One value: act(x), act'(x). */
void reference_activation(enum activation kind, double x, double *value, double *slope);

struct reference_swiglu {
    size_t numbers;
    enum activation kind;
    const double *gate, *up, *dout;
    double *out;         /* or NULL */
    double *dgate, *dup; /* or NULL */
};
void reference_swiglu(const struct reference_swiglu *r);

struct reference_attention {
    size_t rows, sequences, heads, kv_heads, head_size, window;
    const int32_t *offsets;
    const int32_t *reach;       /* or NULL: causal, with key_offsets all keys */
    size_t keys;                /* rows of k and v, with key_offsets */
    const int32_t *key_offsets; /* or NULL: those of the queries */
    double scale, softcap;
    double slopes_most, slopes_factor; /* of linear biases; factor 0: none */
    const float
        *distances; /* learned biases by distance (kernels/ops_attention.h); or NULL */
    size_t distances_most;
    /* dropout: weights whose bits are below the threshold are dropped */
    uint32_t threshold;
    struct random_head bits; /* of head 0 */
    const double *q, *k, *v, *dout;
    double *out, *lse;
    double *dq, *dk, *dv; /* or NULL */
    /* or NULL: the sums of the absolute values of their terms */
    double *size_dq, *size_dk;
};
void reference_attention(const struct reference_attention *r);
void reference_attention_backward(const struct reference_attention *r);

/* keys and values are appended to k and v. */
struct reference_decode {
    size_t sequences, room, heads, kv_heads, head_size, window, chunk;
    const int32_t *lengths;
    double scale, softcap, slopes_most, slopes_factor;
    const double *q, *k, *v, *sinks; /* sinks: or NULL */
    double *keys, *values, *out;
};
void reference_decode(const struct reference_decode *r);

/* state: or NULL; read if `resumes`, and written.  before, after, bias: or NULL. */
struct reference_conv {
    size_t rows, cols, taps, sequences;
    const int32_t *offsets;
    bool resumes;
    const double *x, *weight, *dout, *before, *after, *bias;
    double *out, *state;
    double *dx, *dbefore, *dafter; /* written */
    double *dweight, *dbias;       /* accumulated */
};
void reference_conv(const struct reference_conv *r);
void reference_conv_backward(const struct reference_conv *r);

struct reference_decay {
    size_t rows, heads;
    const double *a, *b, *a_log, *bias, *ddecay, *dbeta;
    double *decay, *beta;
    double *da, *db, *da_log, *dbias; /* the last two are accumulated */
};
void reference_decay(const struct reference_decay *r);
void reference_decay_backward(const struct reference_decay *r);

/* Row by row; state: as in reference_conv. */
struct reference_delta {
    size_t rows, sequences, heads, key_heads, key, value;
    const int32_t *offsets;
    bool resumes;
    const double *q, *k, *v, *decay, *beta, *dout;
    double *out, *state;
    double *dq, *dk, *dv, *ddecay, *dbeta;
};
void reference_delta(const struct reference_delta *r);
void reference_delta_backward(const struct reference_delta *r);

/* Row by row; state: as in reference_conv. */
struct reference_scan {
    size_t rows, sequences, heads, groups, size, depth;
    const int32_t *offsets;
    bool resumes;
    double low, high;
    const double *x, *b, *c, *dt, *a_log, *bias, *skip, *dout;
    double *out, *state;
    double *dx, *db, *dc, *ddt;
    double *da_log, *dbias, *dskip; /* these are accumulated */
};
void reference_scan(const struct reference_scan *r);
void reference_scan_backward(const struct reference_scan *r);

struct reference_classifier {
    size_t rows, cols, words;
    const double *x, *w;
    const double *bias; /* or NULL */
    const int32_t *targets;
    const double *weights; /* or NULL */
    double grad_scale, smoothing, softcap;
    enum token_loss kind;
    double alpha;
    double *hits;             /* or NULL */
    double *losses, *dx, *dw; /* dx is written, dw is accumulated; or NULL */
    double *dbias;            /* is accumulated; or NULL */
};
void reference_classifier(const struct reference_classifier *r);

/* The student's dx and dw: both, or neither.  kept > 0: ids and values (rows, kept)
 * replace the teacher's x (rows, cols) and w (shared, cols). */
struct reference_distill {
    struct reference_classifier student;
    size_t shared, cols, kept;
    const double *x, *w, *values;
    const double *bias; /* or NULL */
    const int32_t *ids;
    /* applies to the teacher's logits; not to values */
    double ratio, temperature, beta, softcap;
    double *kd_losses;
};
void reference_distill(const struct reference_distill *r);

/* out (pairs, PREFERENCE_VALUES); weights (rows).  reference NULL: r is 0. */
struct reference_preference {
    double chosen_weight, rejected_weight; /* of KTO */
    size_t pairs, rows;
    const double *losses, *reference;
    const int32_t *targets, *offsets;
    enum preference_loss kind;
    double beta, ftx, smoothing, margin, center;
    double scale; /* of the weights; 0: 1 */
    double *out, *weights;
};
void reference_preference(const struct reference_preference *r);

/* values (sequences, POLICY_VALUES); weights (rows).  old NULL: it is losses; reference
 * NULL: k is 0. */
struct reference_policy {
    size_t sequences, rows;
    const double *losses, *old, *reference, *advantages, *factors;
    const int32_t *targets, *offsets;
    double low, high, delta, beta;
    bool by_sequence, corrects_kl;
    double *values, *weights;
};
void reference_policy(const struct reference_policy *r);

/* bytes NULL: absmax is that of the blocks; heads, and integer codes (bits), as in
 * op_dequantize.  fp32 values. */
struct reference_dequantize {
    size_t rows, cols, heads, kv_heads;
    const uint8_t *codes, *bytes;
    const float *map, *absmax;
    unsigned bits;
    size_t group, groups;
    const float *scales;
    const uint8_t *zeros;
    const uint32_t *columns;
    double *out;
};
void reference_dequantize(const struct reference_dequantize *r);

struct reference_adamw {
    size_t numbers;
    const double *grad;
    double *w, *m, *v;
    double lr, beta1, beta2, eps, decay, grad_scale;
    int64_t step;
};
void reference_adamw(const struct reference_adamw *r);

/*
 * Return the largest difference between grad and central differences of f over x,
 * relative to the largest element of grad.
 */
typedef double reference_function(void *context);
double reference_slope_error(reference_function *f, void *context, double *x,
                             size_t numbers, const double *grad);

#endif
