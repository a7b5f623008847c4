/*
 * train/tower/tower_layers.h - layers of an encoder, which its forward and its backward pass
 * compute alike.
 */
#ifndef TRAIN_TOWER_TOWER_LAYERS_H
#define TRAIN_TOWER_TOWER_LAYERS_H

#include "train/tower/tower_pass.h"

/* Return a parameter; without data if there is none. */
struct tensor tower_parameter_of(const struct tower_pass *pass, enum tower_layer layer,
                                 size_t index, bool bias);
/* Return the same rows, of which several make one. */
struct tensor tower_joined(struct tensor t, size_t group);
/* The opposite: rows of fewer columns. */
struct tensor tower_parted(struct tensor t, size_t columns);
/* Return the residual stream that the pass has kept after `done` blocks. */
struct tensor tower_kept(const struct tower_pass *pass, size_t done);
/* Return the gradient of a parameter; without data: it is frozen, or there is none. */
struct tensor tower_gradient_of(const struct tower_pass *pass, enum tower_layer layer,
                                size_t index, bool bias);

/* y = x W^T + b, or x W; and what adapters add */
void tower_linear(const struct tower_pass *pass, enum tower_layer layer, size_t index,
                  struct tensor x, struct tensor y);
/* dW += dy^T x, db += the sum of the rows of dy, unless they are frozen; and the gradients of
 * adapters */
void tower_weight_gradient(const struct tower_pass *pass, enum tower_layer layer,
                           size_t index, struct tensor x, struct tensor dy);
/* dx = dy W, and what passes through adapters */
void tower_input_gradient(const struct tower_pass *pass, enum tower_layer layer,
                          size_t index, struct tensor dy, struct tensor dx);

/* sum = x + delta, unless delta is absent; out = norm(sum).  sum may be absent: it is x.
 * second: the statistics are kept in TOWER_STATS_2. */
struct tower_norm {
    enum tower_layer layer;
    size_t index;
    struct tensor x, delta, sum, out;
    bool rms, second;
    double eps;
    float offset;
};

void tower_norm(const struct tower_pass *pass, const struct tower_norm *norm);
/* Normalize queries and keys, all heads of a row at once. */
void tower_norm_heads(const struct tower_pass *pass, size_t block, struct tensor heads);
/* dx += the gradient of the sum for dout, with the statistics of tower_norm; also add those of
 * the weights. */
void tower_norm_backward(const struct tower_pass *pass, const struct tower_norm *norm,
                         struct tensor dout, struct tensor dx);

/* Return whether the pass multiplies by a gate of a block, of TOWER_ATTENTION_GATE or
 * TOWER_DOWN_GATE. */
bool tower_has_gate(const struct tower_pass *pass, enum tower_layer gate, size_t block);
/* x = tanh(gate) x, if there is one. */
void tower_gate(const struct tower_pass *pass, enum tower_layer gate, size_t block,
                struct tensor x);
/* dx = tanh(gate) dout, for an x from before; also add the gradient of the gate. */
void tower_gate_backward(const struct tower_pass *pass, enum tower_layer gate,
                         size_t block, struct tensor x, struct tensor dout,
                         struct tensor dx);

/* TOWER_X = patches and positions, before the first norm. */
void tower_embed_patches(const struct tower_pass *pass);
void tower_embed_tiles(const struct tower_pass *pass);
/* Add the gradients of what tower_tiles_places adds to the rows of tiles, or
 * tower_tiles_places_last, for that of the rows in TOWER_DX; TOWER_X is scratch.  Return false if
 * they cannot be read from the device. */
bool tower_tiles_backward(const struct tower_pass *pass);
bool tower_tiles_backward_last(const struct tower_pass *pass);
/* Turn queries and keys by the angles of their rows, or back. */
void tower_turn(const struct tower_pass *pass, struct tensor heads, bool inverse);
/* Return the attention of a block over TOWER_HEADS, which has one part, or two. */
size_t tower_attention_parts(const struct tower_pass *pass);
struct op_attention tower_attention(const struct tower_pass *pass, size_t block,
                                    size_t part, struct tensor out);
/* From the rows h after the first norm to TOWER_HEADS and the output of attention. */
void tower_attend(const struct tower_pass *pass, size_t block, struct tensor h,
                  struct tensor out);

#endif
