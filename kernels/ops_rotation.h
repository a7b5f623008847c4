/*
 * kernels/ops_rotation.h - operations of orthogonal adapters (part of kernels/ops.h): the
 * columns of an input are divided into blocks, and each block is multiplied by a matrix of
 * its own.  Qiu et al., "Controlling Text-to-Image Diffusion by Orthogonal Finetuning", 2023;
 * Qiu et al., "Orthogonal Finetuning Made Scalable", 2025 (OFTv2).
 *
 * With R blocks of size b, a stack of matrices is a tensor (R b, b): block i is rows
 * i b .. i b + b.
 */
#ifndef KERNELS_OPS_ROTATION_H
#define KERNELS_OPS_ROTATION_H

#include "kernels/tensor.h"

/*
 * out (R b, b) fp32 = skew(x) + diagonal * identity, in each block
 *   x  (R, b (b - 1) / 2) any format: row i has the elements of block i above its diagonal,
 *      row by row; those below it are the same with the other sign
 */
struct op_skew {
    struct tensor out, x;
    float diagonal;
};

/* dx (R, b (b - 1) / 2) fp32 = beta * dx + dout[j][k] - dout[k][j] of each pair j < k of each
 * block;  dout (R b, b) fp32, beta is 0 (not read) or 1 */
struct op_skew_backward {
    struct tensor dx, dout;
    float beta;
};

/*
 * In each block: out = alpha * a b + beta * out + diagonal * identity
 *   a, b, out  a stack (R b, b), or a matrix (N, R b), whose block i is columns
 *              i b .. i b + b; any format.  With several blocks, a tensor of `size` columns
 *              is a stack.
 *   trans_a, trans_b  use the transposed block; beta is 0 (not read) or 1
 * Sums are fp32, in an order that depends on the shapes only.
 */
struct op_block_matmul {
    struct tensor out, a, b;
    size_t blocks, size; /* R and b */
    bool trans_a, trans_b;
    float alpha, beta, diagonal;
};

/* x (R b, b) fp32 = the inverse of each block, without pivoting: for identity + skew, whose
 * pivots are at least 1 */
struct op_block_inverse {
    struct tensor x;
};

#endif
