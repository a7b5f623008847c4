/* kernels/ops_sinks.h - attention sinks (part of kernels/ops.h). */
#ifndef KERNELS_OPS_SINKS_H
#define KERNELS_OPS_SINKS_H

#include <stddef.h>

#include "kernels/tensor.h"

/*
 * A sink is a logit s of a head.  It joins the softmax of every row, but has no value, so it
 * takes away a share of the weights.  This operation follows op_attention and reads its out
 * and lse:
 *   out (N, H*D) *= 1 / (1 + e^(s_h - lse)),  lse (H, N) = log(e^lse + e^s_h)
 *   out compute, H heads of D columns;  lse, sinks (1, H) fp32
 * op_attention_backward with the new out and lse computes the gradients of q, k and v:
 * their weights are e^(score - lse), and the sink adds 0 to its delta.
 * Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023; learned
 * logits: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025.
 */
struct op_sink {
    struct tensor out, lse, sinks;
    size_t heads;
};

/*
 * dsinks (1, H) fp32 += the gradient of the sinks for dout:
 *   - sum over rows of e^(s_h - lse) * (sum over the D columns of head h of dout * out)
 * out and lse are those that op_sink wrote; dout has the shape of out, each any format.
 */
struct op_sink_backward {
    struct tensor dsinks, dout, out, lse, sinks;
    size_t heads;
};

#endif
