/*
 * kernels/operations.h - the list of operations, one line each.
 *
 * The members of struct backend_ops, the prototypes, the tables and the wrappers of the
 * backends are generated from it.  X(name, tensors, cpu, cuda, reference,
 * watch):
 *
 *   name       NAME; its operands are struct op_NAME of kernels/ops.h, or of a header it includes
 *   tensors    how many tensors struct op_NAME begins with: error messages list them, and
 *              the operation does nothing if one of them is empty
 *   cpu        EACH_ISA: the file is built for every instruction set and defines
 *              CPU_OP(NAME); ONCE: it defines cpu_NAME
 *   cuda       LAUNCH: a .cu file defines launch_NAME (cuda_launch.h); STEPS: a C file
 *              defines cuda_NAME_put, which calls several launchers or a library
 *   reference  DOUBLE: tests/reference/double_ops.c defines double_NAME; NO_DOUBLE: no
 *              forward or backward pass in fp32 needs it
 *   watch      WATCHED: train/model/model_watch.c has a row with its outputs and
 *              inputs, so that the search for the first NaN or inf checks it; UNWATCHED:
 *              it is not part of a forward or backward pass, or writes no values of its
 *              own
 */
#ifndef KERNELS_OPERATIONS_H
#define KERNELS_OPERATIONS_H

#define OPERATIONS(X)                                            \
    X(matmul, 4, ONCE, STEPS, DOUBLE, WATCHED)                   \
    X(sum_rows, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)            \
    X(embedding, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(embedding_backward, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)  \
    X(rmsnorm, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED)             \
    X(rmsnorm_backward, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)    \
    X(layernorm, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(layernorm_backward, 8, EACH_ISA, LAUNCH, DOUBLE, WATCHED)  \
    X(headnorm, 4, EACH_ISA, LAUNCH, DOUBLE, WATCHED)            \
    X(headnorm_backward, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED)   \
    X(headlayer, 5, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(headlayer_backward, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)  \
    X(clip, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(clip_backward, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)       \
    X(rope, 1, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(latent, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)              \
    X(latent_backward, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)     \
    X(pad_heads, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(attention, 5, EACH_ISA, STEPS, DOUBLE, WATCHED)            \
    X(attention_backward, 5, EACH_ISA, STEPS, DOUBLE, WATCHED)   \
    X(activation, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)          \
    X(activation_backward, 4, EACH_ISA, LAUNCH, DOUBLE, WATCHED) \
    X(decode, 6, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)         \
    X(place_rows, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)          \
    X(place_rows_backward, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED) \
    X(pool_rows, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(pool_rows_backward, 1, EACH_ISA, LAUNCH, DOUBLE, WATCHED)  \
    X(unfold, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)              \
    X(unfold_backward, 1, EACH_ISA, LAUNCH, DOUBLE, WATCHED)     \
    X(filter_rows, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)         \
    X(conv, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(conv_backward, 11, EACH_ISA, LAUNCH, DOUBLE, WATCHED)      \
    X(decay, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED)               \
    X(decay_backward, 10, EACH_ISA, LAUNCH, DOUBLE, WATCHED)     \
    X(delta, 7, EACH_ISA, LAUNCH, DOUBLE, WATCHED)               \
    X(delta_backward, 8, EACH_ISA, LAUNCH, DOUBLE, WATCHED)      \
    X(scan, 9, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(scan_backward, 11, EACH_ISA, LAUNCH, DOUBLE, WATCHED)      \
    X(sink, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(sink_backward, 5, EACH_ISA, LAUNCH, DOUBLE, WATCHED)       \
    X(clamped, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)             \
    X(clamped_backward, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED)    \
    X(xielu, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED)               \
    X(xielu_backward, 10, EACH_ISA, LAUNCH, DOUBLE, WATCHED)     \
    X(gate, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(gate_backward, 5, EACH_ISA, LAUNCH, DOUBLE, WATCHED)       \
    X(group_bias, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)          \
    X(group_bias_backward, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED) \
    X(swiglu, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)              \
    X(swiglu_backward, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED)     \
    X(classifier, 7, EACH_ISA, STEPS, DOUBLE, WATCHED)           \
    X(topk, 4, EACH_ISA, STEPS, NO_DOUBLE, UNWATCHED)            \
    X(distill, 7, EACH_ISA, STEPS, DOUBLE, WATCHED)              \
    X(preference, 3, ONCE, LAUNCH, DOUBLE, WATCHED)              \
    X(policy, 6, ONCE, LAUNCH, DOUBLE, WATCHED)                  \
    X(add, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                 \
    X(scale, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)               \
    X(convert, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)             \
    X(dequantize, 1, EACH_ISA, LAUNCH, NO_DOUBLE, WATCHED)       \
    X(zero, 1, EACH_ISA, LAUNCH, DOUBLE, UNWATCHED)              \
    X(dropout, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)             \
    X(dora_norm, 4, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(dora_scale, 5, EACH_ISA, LAUNCH, DOUBLE, WATCHED)          \
    X(dora_scale_backward, 6, EACH_ISA, LAUNCH, DOUBLE, WATCHED) \
    X(skew, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)                \
    X(skew_backward, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)       \
    X(block_matmul, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)        \
    X(block_inverse, 1, EACH_ISA, LAUNCH, DOUBLE, WATCHED)       \
    X(noise, 1, EACH_ISA, LAUNCH, DOUBLE, WATCHED)               \
    X(jitter, 1, EACH_ISA, LAUNCH, DOUBLE, WATCHED)              \
    X(square_sum, 1, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)     \
    X(decide, 0, ONCE, LAUNCH, NO_DOUBLE, UNWATCHED)             \
    X(adamw, 5, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)          \
    X(sgd, 3, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)            \
    X(route, 4, EACH_ISA, LAUNCH, DOUBLE, WATCHED)               \
    X(route_backward, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)      \
    X(grouped_matmul, 3, ONCE, LAUNCH, DOUBLE, WATCHED)          \
    X(gather_pairs, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)        \
    X(sum_pairs, 2, EACH_ISA, LAUNCH, DOUBLE, WATCHED)           \
    X(combine, 4, EACH_ISA, LAUNCH, DOUBLE, WATCHED)             \
    X(combine_backward, 5, EACH_ISA, LAUNCH, DOUBLE, WATCHED)    \
    X(pair_scale, 3, EACH_ISA, LAUNCH, DOUBLE, WATCHED)          \
    X(pair_scale_backward, 4, EACH_ISA, LAUNCH, DOUBLE, WATCHED) \
    X(adamw_8bit, 7, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)     \
    X(lion, 4, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)           \
    X(lion_8bit, 5, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)      \
    X(adafactor, 6, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)      \
    X(muon_begin, 3, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)     \
    X(muon_end, 3, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)       \
    X(adam_mini, 5, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)      \
    X(projected_adam, 4, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED) \
    X(apollo_factors, 3, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED) \
    X(apollo_limit, 4, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)   \
    X(projected_end, 5, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)  \
    X(schedule_free, 6, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)  \
    X(exchange, 2, EACH_ISA, LAUNCH, NO_DOUBLE, UNWATCHED)

#endif
