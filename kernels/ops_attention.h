/* kernels/ops_attention.h - attention within sequences, and of one new row over a cache (part
 * of kernels/ops.h). */
#ifndef KERNELS_OPS_ATTENTION_H
#define KERNELS_OPS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops_alibi.h"
#include "kernels/tensor.h"

/*
 * Dropout of attention weights: a weight is kept if its 16 bits, from random_weight of
 * base/random.h, are at least dropout_threshold(p) (kernels/dropout.h); it is then
 * divided by 1 - p.  0 <= p < 1; 0 drops nothing.  draw: in the backend's memory; NULL:
 * 0. Head h of the queries is head h of random_weight.  Srivastava et al., "Dropout",
 * 2014.
 */
struct attention_dropout {
    float p;
    uint32_t stream;
    uint64_t seed;
    const uint64_t *draw;
};

/*
 * A learned bias of the scaled scores by distance: values[h * 2 * most + d + most] for head h
 * and d = key - query, or the nearer of -most and most - 1 if d is outside these.
 *   values (H, 2 * most) fp32, in the backend's memory; NULL: no bias
 * Raffel et al., "Exploring the Limits of Transfer Learning", 2020, without its buckets.
 */
struct attention_distances {
    const float *values;
    size_t most; /* from 1 to 2^20 */
};

/* Largest head size, D, that attention supports. */
#define HEAD_SIZE_MAX 512

/*
 * Attention within each of `sequences` sequences of rows, offsets (sequences + 1) int32
 * from 0 to N.  Row n sees the rows max(start of its sequence, n - window + 1) .. reach[n]
 * - 1 (window 0: from the start).  Query head h reads key/value head h / (H/K).
 *   out (N, H*D) = softmax(scale * q k^T) v        q, out (N, H*D), k, v (N, K*D) compute
 *   softcap c > 0: c tanh(s / c) in place of each scaled score s (Gemma Team, "Gemma 2",
 *   2024)
 *   slopes: a bias of the scaled scores (kernels/ops_alibi.h)
 *   distances: the same, learned; not with slopes, a softcap or a backward pass
 *   lse (H, N) fp32 = log sum exp of these scores, kept for the backward pass
 *   dropout: of the softmax, before it is multiplied by v
 *   reach (N) int32, in the backend's memory: rows of the batch, as in offsets.  n < reach[n]
 *   <= the end of n's sequence, and reach[n] <= reach[n + 1].  NULL: n + 1, causal attention
 *   since (N) int32, also there: the first row n with reach[n] > k, for each row k, of which
 *   the backward pass reads one per tile or key.  NULL without reach.  kernels/reach.h makes
 *   both
 *   key_offsets (sequences + 1) int32 from 0 to M > 0, for cross-attention, in which k and v
 *   (M, K*D) have rows of their own: each row of sequence s sees the rows key_offsets[s] ..
 *   key_offsets[s + 1] - 1 of k, or those of them before reach[n], which is a row of k then:
 *   key_offsets[s] <= reach[n] <= key_offsets[s + 1], and reach does not decrease within a
 *   sequence; since (M): the first row n of the sequence with reach[n] > k, or its end.  A
 *   row that sees no key has out 0 and lse -inf and takes no part in the gradients.  Not with
 *   a window, slopes or distances.  NULL: k and v have the rows of q
 * If q is 16-bit, a backend may round the weights (and their gradients) to its format
 * before it multiplies them by v (q, k), as FlashAttention does; the sum that divides
 * them is that of the fp32 weights.  A NaN or inf in v may then also reach rows of its
 * sequence that do not see it, as 0 times NaN.
 * Sequences may be empty.  Dao, "FlashAttention-2", 2023.
 */
struct op_attention {
    struct tensor out, lse, q, k, v;
    const int32_t *offsets, *key_offsets, *reach, *since;
    size_t sequences, heads, kv_heads, head_size, window;
    size_t longest; /* upper bound of the rows of q of a sequence; 0: unknown */
    float scale, softcap;
    struct attention_slopes slopes;
    struct attention_distances distances;
    struct attention_dropout dropout;
};

/* dq, dk, dv (shapes and format of q, k, v) = gradients for dout; delta (H, N) fp32 is
 * scratch.  `forward` has the operands of the forward pass, unchanged. */
struct op_attention_backward {
    struct tensor dq, dk, dv, delta, dout;
    struct op_attention forward;
};

/*
 * Attention of one new row for each of B sequences over a cache of the earlier rows;
 * there is no backward pass.  Sequence b has `room` rows of keys and values, from row b *
 * room on, of which lengths[b] (below room) are filled.  k and v are appended to them,
 * and q sees the last `window` rows (0: all) including the new one, but none before the
 * last multiple of `chunk` rows (0: all).  Heads are shared as in op_attention.
 *   q, out (B, H*D), k, v (B, K*D), keys, values (B * room, K*D) compute; lengths (B)
 *   int32
 *   out = softmax(s) v,  s = scale * q k^T;  softcap c > 0: s = c tanh(s / c)
 *   slopes: as in op_attention
 *   sinks (H) fp32, in the backend's memory, or NULL: logits that join the softmax, as in
 *   op_sink
 */
struct op_decode {
    struct tensor out, q, k, v, keys, values;
    const int32_t *lengths;
    const float *sinks;
    size_t room, heads, kv_heads, head_size, window, chunk;
    float scale, softcap;
    struct attention_slopes slopes;
};

#endif
