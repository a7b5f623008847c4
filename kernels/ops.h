/*
 * kernels/ops.h - every operation: its operands, shapes, formula and source.  The headers
 * ops_*.h, which this one includes, have the operations of one topic each.
 *
 * Letters: B sequences, T positions, N = B*T rows, C width, H query heads, K key/value
 * heads, D head size, I inner width, V vocabulary, r LoRA rank.
 * "compute" is the format of activations and matmuls (fp32, fp16, bf16); "fp32" is fp32.
 * All arithmetic inside an operation is fp32 or better; a matmul accumulates in fp32.
 * "+=" adds to the present contents; "=" overwrites them.  No operation allocates.
 * Results depend on shapes and values only, never on the number of threads.
 * inf and NaN propagate as in IEEE arithmetic: the loss scaler depends on seeing them.
 */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include <stdbool.h>

#include "kernels/ops_attention.h"
#include "kernels/ops_clamped.h"
#include "kernels/ops_conv.h"
#include "kernels/ops_delta.h"
#include "kernels/ops_dora.h"
#include "kernels/ops_rotation.h"
#include "kernels/ops_experts.h"
#include "kernels/ops_gate.h"
#include "kernels/ops_heads.h"
#include "kernels/ops_latent.h"
#include "kernels/ops_loss.h"
#include "kernels/ops_media.h"
#include "kernels/ops_noise.h"
#include "kernels/ops_policy.h"
#include "kernels/ops_pair_scale.h"
#include "kernels/ops_scan.h"
#include "kernels/ops_sinks.h"
#include "kernels/ops_xielu.h"
#include "kernels/row_order.h"
#include "kernels/tensor.h"
#include "precision/scaler.h"

/*
 * The scalars of one optimizer step, in the backend's memory.  Operations read them
 * there, so the list of operations is the same in every step (a CUDA graph replays it)
 * and no step waits for the host.  The host writes the struct before a step and reads it
 * after.
 */
struct step_scalars {
    /* from the host */
    double learning_rate;
    double max_grad_norm; /* 0: no clipping */
    int64_t step;         /* Adam's count if this step is applied, from 1 */
    double average_share; /* of this step in the average of op_schedule_free */
    uint64_t draw, rows;  /* of the micro-batch: they select the dropout masks */
    float noise;          /* on the embeddings of the micro-batch: op_noise */
    float grad_scale;     /* loss scale / trained tokens of the window */
    float loss_scale;     /* of what is not divided by them: the load balancing loss */
    /* by op_decide */
    int32_t finite;       /* 0: the step is skipped */
    double square_sum;    /* of the scaled gradients */
    double norm;          /* of the unscaled gradients */
    double factor;        /* of the gradients: clip / loss scale */
    struct scaler scaler; /* from the host, updated */
    /* Last: a step that the host issues before it has read the results of the step before
     * leaves this as it is.  By op_decide: 1 from a skipped step on, so that all steps
     * after it are skipped too until the host has read that and issues them again. */
    int32_t halted;
};

/*
 * Runs after square_sum of the complete gradients of a window:
 *   norm = sqrt(square_sum) / scaler.scale;  finite = norm is finite and not halted
 *   factor = min(1, max_grad_norm / (norm + 1e-6)) / scaler.scale
 * (torch/nn/utils/clip_grad.py), then updates the scaler like scaler_update, without its
 * diagnosis, and halts if the step is not finite.
 */
struct op_decide {
    struct step_scalars *numbers;
};

/*
 * A matrix that several matmuls read in 8 bits, so that it is read and rounded once.  A
 * backend that does not use the room rounds for each matmul, to the same values.
 */
struct rounded_matrix {
    /* rounded_matrix_bytes of the backend's memory, at 256 bytes, for the scale, the
     * transpose and the matrix; NULL: it is rounded for one matmul */
    void *room;
    bool turned_only; /* no room for the matrix itself, which only the first reads */
    bool ready;       /* not the first: an earlier matmul has filled the room */
    bool measured;    /* what made the matrix has put its largest |x| into the room */
};

/* Return where in a room the largest |x| is. */
static inline float *rounded_matrix_largest(void *room)
{
    return room ? (float *)room + 16 : NULL;
}

/* Return the bytes of room for a matrix of this many elements. */
static inline size_t rounded_matrix_bytes(size_t elements, bool turned_only)
{
    return 256 + (turned_only ? 1 : 2) * ((elements + 255) / 256 * 256);
}

/*
 * out (M, N) = beta * out + alpha * op(a) * op(b) + bias
 *   a     (M, K), or (K, M) if trans_a   compute or fp32
 *   b     (K, N), or (N, K) if trans_b   the format of a; or, if a is 16-bit and the
 *                                        backend rounds_b, fp32, rounded to a's format
 *   bias  (1, N) fp32, or absent; a GPU may round it to the format of out
 *   out   fp32 or the format of a;  beta is 0 (out is not read) or 1
 * forward   Y = X W^T:     a = X, b = W, trans_b    W is (out, in), as in Hugging Face
 * backward  dX = dY W:     a = dY, b = W
 *           dW += dY^T X:  a = dY, trans_a, b = X, beta 1, out fp32
 *
 * round_a, round_b: FORMAT_FP8_E4M3 or FORMAT_FP8_E5M2 rounds that operand to the format
 * first, with one factor for the whole matrix that maps its largest value to the format's
 * (both operands or none; Micikevicius et al., "FP8 Formats for Deep Learning", 2022).
 * FORMAT_FP32, which is zero, does not round.  A GPU omits the rounding if it cannot
 * multiply the shape in 8 bits (dimensions that are not multiples of 16), and logs that
 * once; when it adds a bias to a 16-bit result, it processes blocks of rows one by one,
 * each with its own factor.
 *
 * rounded_a, rounded_b: room for that operand, if it is rounded for other matmuls, too;
 * for a, not with a bias.
 */
struct op_matmul {
    struct tensor out, a, b, bias;
    bool trans_a, trans_b;
    float alpha, beta;
    enum format round_a, round_b;
    struct rounded_matrix rounded_a, rounded_b;
};

/* out (1, C) fp32 += sum over rows of x (N, C).  Gradient of a bias. */
struct op_sum_rows {
    struct tensor out, x;
};

/* out (N, C) fp32 = scale * table[tokens[n]];  table (V, C) fp32 or 16-bit, tokens (1, N)
 * int32 >= 0;  scale 0 means 1 */
struct op_embedding {
    struct tensor out, table;
    const int32_t *tokens;
    float scale;
};

/* dtable (V, C) fp32, row tokens[n] += scale * dout (N, C) fp32, rows of equal token in
 * order of n;  scale 0 means 1.  padding: if `padded`, the token whose row receives no
 * gradient (padding_idx of torch.nn.Embedding). */
struct op_embedding_backward {
    struct tensor dtable, dout;
    const int32_t *tokens;
    float scale;
    int32_t padding;
    bool padded;
};

/*
 * sum = x + delta;  out = sum / rms * (offset + weight),  rms = sqrt(mean over C of sum^2
 * + eps)
 *   x      (N, C) fp32       the residual stream
 *   delta  (N, C) compute or fp32, or absent (then sum = x and `sum` is not written)
 *   sum    (N, C) fp32       the residual stream after the addition; may be x itself
 *   weight (1, C) fp32 or 16-bit (frozen)
 *   out    (N, C) compute
 *   rstd   (1, N) fp32       1 / rms, kept for the backward pass
 *   offset 0, or 1 for weights that are stored minus 1 (Gemma)
 * out may be absent: then only sum is computed.
 * Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
 */
struct op_rmsnorm {
    struct tensor out, sum, rstd, x, delta, weight;
    float eps, offset;
};

/*
 * dx (N, C) fp32 += gradient of op_rmsnorm with respect to its sum, for dout (N, C)
 * compute
 * dcopy (N, C) compute = dx, or absent: input of the next matmul
 * dweight (1, C) fp32 += ..., or absent (frozen)
 *   x is the `sum` of the forward pass; rstd, weight and offset are those of op_rmsnorm
 */
struct op_rmsnorm_backward {
    struct tensor dx, dcopy, dweight, dout, x, weight, rstd;
    float offset;
};

/*
 * sum = x + delta;  out = (sum - mean) * rstd * (offset + weight) + bias,
 * rstd = 1 / sqrt(var + eps), mean and var over C: var = mean of (sum - mean)^2, computed in
 * a separate pass
 *   x, delta, sum, out   as in op_rmsnorm: delta or out may be absent; out, if fp32, may be
 *   x itself where delta is absent
 *   weight, bias (1, C) fp32 or 16-bit (frozen); bias may be absent (0)
 *   stats  (2, N) fp32   row 0 mean, row 1 rstd, kept for the backward pass
 * Ba, Kiros and Hinton, "Layer Normalization", 2016.
 */
struct op_layernorm {
    struct tensor out, sum, stats, x, delta, weight, bias;
    float eps, offset;
};

/*
 * With g = dout * (offset + weight) and h = (x - mean) * rstd:
 *   dx (N, C) fp32 += rstd * (g - mean of g - h * mean of g h)
 *   dcopy (N, C) compute = dx, or absent;  dout (N, C) compute
 *   dweight (1, C) fp32 += sum over rows of dout * h;  dbias (1, C) fp32 += sum over rows
 *   of dout; each may be absent
 *   x is the `sum` of the forward pass; stats and weight are those of op_layernorm
 */
struct op_layernorm_backward {
    struct tensor dx, dcopy, dweight, dbias, dout, x, weight, stats;
    float offset;
};

/*
 * RMSNorm of each of `heads` heads of D columns, side by side in x and out (N, heads * D)
 * compute:
 *   out = x / rms * (offset + weight),  rms = sqrt(mean over the head's D of x^2 + eps)
 *   weight (1, D) fp32 or 16-bit (frozen), the same for all heads;  D is at most 8192
 *   rstd   (N, heads) fp32    1 / rms, kept for the backward pass
 * out may share its data with x, but the backward pass requires the original x.
 * Qwen3's and Gemma 3's norm of queries and keys; Henry et al., "Query-Key Normalization
 * for Transformers", 2020.
 */
struct op_headnorm {
    struct tensor out, rstd, x, weight;
    float eps, offset;
    size_t heads;
};

/*
 * With g = dout * (offset + weight) and h = x * rstd:
 *   dx (N, heads * D) compute = rstd * (g - h * mean over D of g h);  may share dout's
 *   data dweight (1, D) fp32 += sum over rows and heads of dout * h, or absent (frozen)
 *   x, rstd and weight are those of the forward pass
 */
struct op_headnorm_backward {
    struct tensor dx, dweight, dout, x, weight, rstd;
    float offset;
    size_t heads;
};

/*
 * In place, on the first R columns of each of `heads` heads of D columns, side by side in
 * x (N, heads * D) compute; the other D - R do not change:
 *   (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin),  x1 = x[d], x2 = x[d + R/2], d < R/2
 * interleaved: x1 = x[2 d], x2 = x[2 d + 1].
 * table (P, R): row p has cos for d < R/2, then sin, both times a factor that a model may
 * have; positions (1, N) int32 < P.
 * rotary: R, even; 0: all of D.
 * inverse: the transposed matrix, which is the backward pass.
 * Su et al., "RoFormer", 2021, which interleaves, and Hugging Face's two-halves layout;
 * rotation of a part of a head: Black et al., "GPT-NeoX-20B", 2022.
 */
struct op_rope {
    struct tensor x, table;
    const int32_t *positions;
    size_t heads, rotary;
    bool interleaved, inverse;
};

/*
 * Elementwise functions:
 *   SILU       x / (1 + e^-x)
 *   GELU       x Phi(x), Phi the normal distribution: x (1 + erf(x / sqrt 2)) / 2
 *   GELU_TANH  x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
 *   RELU       x, or 0 below 0
 *   RELU2      the square of RELU (So et al., "Primer", 2021)
 *   SIGMOID    1 / (1 + e^-x)
 *   QUICK_GELU x / (1 + e^(-1.702 x)): the encoders of CLIP and Qwen2-VL
 * GELU, GELU_TANH: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
 */
enum activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_RELU,
    ACTIVATION_RELU2,
    ACTIVATION_SIGMOID,
    ACTIVATION_QUICK_GELU
};

/* out (N, I) = act(x);  x, out compute; out may be x */
struct op_activation {
    struct tensor out, x;
    enum activation kind;
};

/* dx = dout * act'(x); dx may share its data with x or dout.  out, if present, = act(x) to
 * the bits of op_activation, and may share its data with the other of the two. */
struct op_activation_backward {
    struct tensor dx, out, dout, x;
    enum activation kind;
};

/* out (N, I) = act(gate) * up, act by `kind` (SwiGLU: silu, the default; GeGLU: gelu;
 * the gate of an attention's output: sigmoid);
 * gate, up, out compute.  Shazeer, "GLU Variants Improve Transformer", 2020.
 * largest: if not NULL, a GPU sets it to the largest |out|, NaN apart. */
struct op_swiglu {
    struct tensor out, gate, up;
    enum activation kind;
    float *largest;
};

/* dgate, dup = gradients for dout; each may share its data with gate or up.  out, if
 * present, = act(gate) * up to the bits of op_swiglu, and may share its data with dout:
 * the gradient of the next matmul's weight needs it after dout.  largest: if not NULL, a
 * GPU sets it to the largest |dgate| or |dup|, NaN apart. */
struct op_swiglu_backward {
    struct tensor dgate, dup, out, dout, gate, up;
    enum activation kind;
    float *largest;
};

/*
 * The last matmul and the loss in one, in chunks of rows, so that the logits of all rows
 * never exist at once:
 *   logits = x W^T + b;  loss[n] = log sum exp(logits[n]) - logits[n][targets[n]]
 *   dx (N, C) compute = grad_scale * (softmax - onehot) W       rows without a target: 0
 *   dw (V, C) fp32   += grad_scale * (softmax - onehot)^T x     or absent
 *   bias (1, V) fp32 = b, or absent;  dbias (1, V) fp32 += the sum over rows of
 *   grad_scale * (softmax - onehot), or absent
 *   x (N, C), w (V, C) compute; targets (N) int32, negative: no target, the row is not
 *   computed
 *   losses (1, N) fp32: natural log, 0 without a target
 *   weights (N) fp32, or NULL for 1: factors of loss[n] and of the gradients from row n
 *   hits (N) fp32, or NULL: 1 if no logit is larger than that of the target, else 0
 *   logits (R, V) fp32 scratch and rows (R, C) twice in scratch: R >= 1 is the chunk.
 *   The result depends on R only by rounding: on the CPU only in dw, on a GPU also in
 *   losses and dx, because a matmul with another number of rows uses another kernel.
 *   dlogits may be logits if compute is fp32.  A GPU is faster if the rows of both begin
 *   on multiples of 16 bytes; it sums dx over as many tokens as make tiles of 64 and, if
 *   V is not a multiple of 8, over the rest, which is rounded to compute first.
 *   gathered, dgathered (R, C) compute: scratch for the rows that have a target
 *   rows (N) scratch: their positions.  labeled: upper bound of their count; 0: unknown.
 *   scale: one more factor of grad_scale, in the backend's memory; NULL: 1
 * dx absent: loss only.  label smoothing e: target (1 - e) onehot + e / V.
 * softcap c > 0: c tanh(l / c) in place of each logit l (Gemma Team, "Gemma 2", 2024);
 * the scratch may then contain either.
 * kind: one more factor of loss[n] and of the gradients from row n, with `alpha`
 * (kernels/ops_loss.h); op_distill takes TOKEN_LOSS_DFT, too, for CE alone, not EAFT.
 */
struct op_classifier {
    struct tensor losses, dx, dw, dbias, x, w, bias;
    /* scratch; dlogits (R, V) compute */
    struct tensor logits, dlogits, gathered, dgathered;
    const int32_t *targets;
    const float *weights;
    float *hits;
    int32_t *rows; /* scratch; NULL if the backend needs none */
    size_t labeled;
    const float *scale;
    float grad_scale, smoothing, softcap;
    enum token_loss kind;
    float alpha;
};

/*
 * The k largest logits of each row that has a target, to store those of a teacher.
 *   logits = x W^T + b;  ids (N, k) int32, ascending in each row, are the tokens of the k
 *   largest, values (N, k) fp32 their logits.  Among equal logits the lower ids win; NaN
 *   is larger than all.  1 <= k <= V, k = values.cols.  Rows without a target are not
 *   written.  x (N, C), w (V, C), bias, targets, softcap and scratch: as in op_classifier
 */
struct op_topk {
    struct tensor values, x, w, bias;
    struct tensor logits, gathered; /* scratch */
    int32_t *ids;
    const int32_t *targets;
    int32_t *rows; /* scratch; NULL if the backend needs none */
    size_t labeled;
    float softcap;
};

/*
 * Knowledge distillation: op_classifier with a teacher, in the same chunks.
 *   loss[n] = (1 - ratio) CE + ratio KD;  CE is student.losses, KD = T^2 D(p, q) is
 *   kd_losses
 *   p = softmax(z / T), q = softmax(t / T), over the first V' tokens, V' <= V;
 *   z the student's logits (CE is over all V of them), t = x W^T + b the teacher's
 *   beta 0: D = sum q log(q / p)    1: D = sum p log(p / q)
 *   between: D = beta sum q log(q / m) + (1 - beta) sum p log(p / m),
 *            m = beta q + (1 - beta) p
 *   where 0 log 0 = 0: TRL's generalized_jsd_loss (trl/trainer/gkd_trainer.py) times T^2
 *   (Hinton et al., "Distilling the Knowledge in a Neural Network", 2015; Agarwal et al.,
 *   "On-Policy Distillation of Language Models", 2024).  As in TRL, beta 0 is not the
 *   limit of small beta.
 *   x (N, C'), w (V', C') of one format, which may differ from the student's;  bias
 *   (1, V') fp32, or absent
 *   logits (R', V') fp32, gathered (R', C'): scratch, as the student's
 *   values (N, k) fp32, ids (N, k): output of op_topk for the teacher, in place of x and
 *   w, which are absent; then q is the softmax over these k tokens and 0 elsewhere, p is
 *   still over V', and beta must be below 1 (D would be infinite).  words: V', which
 *   cannot be read from w then.
 * The gradient is that of the loss with respect to the student's x and w, times
 * student.grad_scale and *scale; student.weights apply to both losses; its logits and
 * dlogits must not share their data.  softcap: of the teacher's logits t (not of values),
 * as student.softcap limits z.
 */
struct op_distill {
    struct op_classifier student;
    struct tensor kd_losses, x, w, bias, values;
    struct tensor logits, gathered; /* scratch */
    const int32_t *ids;
    size_t words;
    float ratio, temperature, beta, softcap;
};

/*
 * The loss of preference pairs, and its gradient with respect to the loss of each token.
 * A pair is two answers to one prompt, of which a person chose one (Rafailov et al.,
 * "Direct Preference Optimization", 2023).  Sequence 2p of the batch is the chosen answer
 * of pair p, sequence 2p + 1 the rejected one.
 *   l[s] = - sum of losses[n] over the rows of sequence s with a target; for IPO, ORPO
 *   and SimPO divided by the number of these rows.  r[s] likewise from reference.  C and
 *   R: sequences 2p and 2p + 1.
 *   d = (l[C] - r[C]) - (l[R] - r[R])
 *   sigmoid  - (1 - e) log s(beta d) - e log s(-beta d)       s the logistic function
 *   hinge    max(0, 1 - beta d)
 *   IPO      (d - 1 / (2 beta))^2
 *   ORPO     - l[C] - beta log s(l[C] - log(1 - exp l[C]) - l[R] + log(1 - exp l[R]))
 *   SimPO    - log s(beta (l[C] - l[R]) - margin)
 *   plus ftx times the mean of the chosen answer's losses.
 *   KTO, reward    kernels/ops_loss.h
 * As LLaMA-Factory (train/dpo/trainer.py) and TRL's dpo_loss; IPO: Azar et al., 2023,
 * ORPO: Hong et al., 2024, SimPO: Meng et al., 2024, e: Mitchell, "A note on DPO with
 * noisy preferences", 2023.
 *   pairs (P, PREFERENCE_VALUES) fp32: enum preference_value of each;  P >= 1
 *   losses (1, N) fp32: from op_classifier with weights NULL, read for rows with a target
 *   reference (1, N) fp32: the same from the reference model; absent for ORPO and SimPO
 *   weights (N) fp32: d loss[p] / d losses[n], of any sign, one value for all rows of a
 *   sequence that have a target; 0 for the other rows and those after sequence 2 P - 1.
 *   With them op_classifier computes the gradient of the sum of the pairs' losses.
 *   offsets (2 P + 1 or more) int32 from 0 up to N, targets (N) int32: as in
 *   op_classifier.  A sequence may have no rows, or none with a target: its l, its r and
 *   the mean of its losses are 0.
 * log(1 - exp l) and its slope are those at l = -2^-23 for larger l, and hinge's slope at
 * its corner is 0, so everything is finite if the losses are.  A NaN in the losses of an
 * answer, or in those of its reference, propagates to the loss of the pair and to the
 * weights of both its answers.
 */
enum preference_loss {
    PREFERENCE_SIGMOID,
    PREFERENCE_HINGE,
    PREFERENCE_IPO,
    PREFERENCE_ORPO,
    PREFERENCE_SIMPO,
    PREFERENCE_KTO,
    PREFERENCE_REWARD
};
enum preference_value {
    PREFERENCE_LOSS,
    /* the reward: beta (l[C] - r[C]), for ORPO and SimPO beta l[C] */
    PREFERENCE_CHOSEN,
    PREFERENCE_REJECTED,
    PREFERENCE_LOGP_CHOSEN, /* l[C] */
    PREFERENCE_LOGP_REJECTED,
    PREFERENCE_VALUES
};
struct op_preference {
    struct tensor pairs, losses, reference;
    float *weights;
    const int32_t *targets, *offsets;
    enum preference_loss kind;
    float beta, ftx, smoothing, margin;
    float chosen_weight, rejected_weight; /* of KTO */
    float center;                         /* of a reward */
    const float *scale; /* factor of the weights, in the backend's memory; NULL: 1 */
};

/* out = a + b, any of the three formats each, same shape; out may be a or b */
struct op_add {
    struct tensor out, a, b;
};

/* out = factor * x, any of the three formats each, same shape; out may be x.  by (1, 1)
 * fp32: one more factor, unless it is absent */
struct op_scale {
    struct tensor out, x;
    float factor;
    struct tensor by;
};

/* out = x converted to another format, or copied if the format is the same */
struct op_convert {
    struct tensor out, x;
};

/*
 * A matrix of n = rows * cols elements, row after row, in few bits: its codes and their
 * factors.  In NF4 (precision/nf4.h):
 *   codes  nf4_bytes(n), at a multiple of 4
 *   bytes  NULL, or nf4_blocks(n): the absmax of a block is map[byte] * absmax of its
 *          group of 256 blocks + map[256], each of the two rounded to fp32
 *   map    (257) fp32, with bytes: the value of each byte, then the mean
 *   absmax fp32 of each group, or, without bytes, of each block
 * Or integer codes of 4 or 8 bits (precision/affine.h), if bits is not 0:
 *   codes   at a multiple of 16
 *   scales  (rows, groups) fp32, zeros (rows, groups): of each row and group of columns
 *   columns NULL, or (cols): the group of each column, below groups; NULL: column / group
 */
struct quantized {
    const uint8_t *codes, *bytes;
    const float *map, *absmax;
    unsigned bits;
    size_t group, groups;
    const float *scales;
    const uint8_t *zeros;
    const uint32_t *columns;
};

/*
 * out (rows, cols) any format = the elements of x, first rounded to `through` (FP32, FP16
 * or BF16), as in the 4-bit layers of a model loaded in that format.
 *   order  of the rows of x, which are those of the file
 */
struct op_dequantize {
    struct tensor out;
    struct quantized x;
    enum format through;
    struct row_order order;
};

/* out = 0 */
struct op_zero {
    struct tensor out;
};

/*
 * out = keep ? x / (1 - p) : 0.  Element i is kept if random_uniform(seed,
 * RANDOM_DROPOUT, stream, step * size + i) >= p: a function of position and step, without
 * state.  out may be x; the backward pass is the same operation on the gradient.  draw:
 * added to step, in the backend's memory; NULL: 0.  rows: also there, the number of rows
 * counted in size if x has more; NULL: those of x.
 */
struct op_dropout {
    struct tensor out, x;
    float p;
    uint64_t seed, step;
    const uint64_t *draw, *rows;
    uint32_t stream;
};

/*
 * *sum (in the backend's memory, double) = sum of squares of x, fp32, any size, in blocks
 * of fixed size added in a fixed order.  Not finite if an element is not finite (or is
 * beyond 1.8e19).
 */
struct op_square_sum {
    struct tensor x;
    double *sum;
};

/*
 * AdamW on one tensor, all fp32 (or fp16/bf16 in the pure modes), Loshchilov and Hutter
 * 2019, as torch.optim.AdamW computes it:
 *   g = grad_scale * grad;  w -= lr * decay * w
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   w -= lr / (1 - b1^step) * m / (sqrt(v) / sqrt(1 - b2^step) + eps)
 * copy = w in any of the three formats, or absent.  step counts from 1.
 *
 * correct_eps: eps / sqrt(1 - b2^step) instead of eps, as in LLaMA-Factory's Muon.
 * decay_last: w is decayed after its update instead of before, as in galore_torch.
 *
 * numbers: if given (in the backend's memory), the operation does nothing unless
 * numbers->finite; lr is multiplied by numbers->learning_rate, grad_scale by
 * numbers->factor, and step is numbers->step.
 *
 * stochastic: a 16-bit w is rounded up or down with the odds of its position between the
 * two neighbors, so that small updates are not lost on average; m and v round to nearest.
 * The draw for element i is random_bits(seed, RANDOM_ROUNDING, (uint32_t)step, first +
 * i), whose upper 16 bits are compared with the truncated part.  first: the position of w
 * among all weights of the step, so that the draws do not depend on how these are split
 * into operations.  Gupta et al., "Deep Learning with Limited Numerical Precision", 2015.
 */
struct op_adamw {
    struct tensor w, grad, m, v, copy;
    double lr, beta1, beta2, eps, decay, grad_scale;
    bool correct_eps, decay_last;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

/*
 * Plain gradient descent on one tensor, as torch.optim.SGD without momentum; formats,
 * numbers and rounding as above (step is read only for the draw):
 *   w -= lr * (grad_scale * grad + decay * w);  copy = w in any format, or absent
 */
struct op_sgd {
    struct tensor w, grad, copy;
    double lr, decay, grad_scale;
    int64_t step;
    const struct step_scalars *numbers;
    bool stochastic;
    uint64_t seed, first;
};

#include "kernels/ops_optimizers.h"

#endif
