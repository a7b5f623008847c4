/* train/model/shapes_buffers.c - every buffer of a run, its count and its offset. */
#include "config.h"

#include "train/model/shapes.h"

#include <math.h>

#include "base/size.h"
#include "train/model/shapes_internal.h"

enum kind { KIND_FP32, KIND_COMPUTE };
/* Lifetime of a buffer: one per block even with checkpointing, one per block unless
 * blocks are recomputed, one per block if it is kept (struct shapes: keeps), or one in
 * total. */
enum life {
    LIFE_BLOCK,
    LIFE_KEPT,
    LIFE_QKV_IN,
    LIFE_GATE_UP_IN,
    LIFE_DOWN_IN,
    LIFE_CACHE, /* one per block, always */
    LIFE_ROOM,  /* of layers with a window, and of those without one */
    LIFE_ONCE
};

/* The blocks that have it. */
enum mixers {
    MIXERS_ALL,
    MIXERS_FULL,
    MIXERS_LINEAR,
    MIXERS_CROSS,
    MIXERS_KEYS /* that have attention with keys of their own */
};

static const struct buffer_row {
    const char *name;
    enum kind kind;
    enum dim rows, cols;
    enum life life;
    bool activation;
    enum mixers mixers; /* of those with one per block */
} buffer_rows[BUFFERS] = {
    [BUFFER_X_IN] = { "block input", KIND_FP32, DIM_N, DIM_C, LIFE_BLOCK, true },
    [BUFFER_RSTD1] = { "first norm", KIND_FP32, DIM_STATS, DIM_N, LIFE_KEPT, true },
    [BUFFER_QKV] = { "q, k, v", KIND_COMPUTE, DIM_N, DIM_QKV_U, LIFE_KEPT, true },
    [BUFFER_QK] = { "norms of heads", KIND_COMPUTE, DIM_N, DIM_QK, LIFE_KEPT, true,
                    MIXERS_FULL },
    [BUFFER_RSTD_Q] = { "norms of heads", KIND_FP32, DIM_N, DIM_HEADS, LIFE_KEPT, true,
                        MIXERS_FULL },
    [BUFFER_RSTD_K] = { "norms of heads", KIND_FP32, DIM_N, DIM_K, LIFE_KEPT, true,
                        MIXERS_FULL },
    [BUFFER_RSTD_VALUES] = { "norms of heads", KIND_FP32, DIM_N, DIM_VALUE_NORMS,
                             LIFE_KEPT, true, MIXERS_FULL },
    [BUFFER_CONV] = { "convolution", KIND_COMPUTE, DIM_N, DIM_FILTERED, LIFE_KEPT, true,
                      MIXERS_LINEAR },
    [BUFFER_DECAY] = { "decays", KIND_FP32, DIM_N, DIM_BETA, LIFE_KEPT, true,
                       MIXERS_LINEAR },
    [BUFFER_BETA] = { "decays", KIND_FP32, DIM_N, DIM_BETA, LIFE_KEPT, true,
                      MIXERS_LINEAR },
    [BUFFER_RSTD_V] = { "norms of heads", KIND_FP32, DIM_N, DIM_VALUE_HEADS, LIFE_KEPT,
                        true, MIXERS_LINEAR },
    [BUFFER_LATENTS] = { "latents", KIND_COMPUTE, DIM_N, DIM_LATENTS, LIFE_KEPT, true },
    [BUFFER_HEADS] = { "q, k, v", KIND_COMPUTE, DIM_N, DIM_WHOLE, LIFE_KEPT, true },
    [BUFFER_SCAN] = { "state space", KIND_COMPUTE, DIM_N, DIM_SCANNED, LIFE_KEPT, true,
                      MIXERS_LINEAR },
    [BUFFER_ATT] = { "attention", KIND_COMPUTE, DIM_N, DIM_ATT, LIFE_KEPT, true },
    [BUFFER_LSE] = { "attention", KIND_FP32, DIM_H, DIM_N, LIFE_KEPT, true, MIXERS_FULL },
    [BUFFER_CROSS_Q] = { "cross-attention", KIND_COMPUTE, DIM_N, DIM_CROSS_Q, LIFE_KEPT,
                         true, MIXERS_CROSS },
    [BUFFER_RSTD_CROSS_Q] = { "cross-attention", KIND_FP32, DIM_N, DIM_CROSS_HEADS,
                              LIFE_KEPT, true, MIXERS_CROSS },
    [BUFFER_CROSS_KV] = { "cross-attention", KIND_COMPUTE, DIM_MEDIA, DIM_CROSS_KV,
                          LIFE_KEPT, true, MIXERS_CROSS },
    [BUFFER_CROSS_K] = { "cross-attention", KIND_COMPUTE, DIM_MEDIA, DIM_CROSS_K,
                         LIFE_KEPT, true, MIXERS_CROSS },
    [BUFFER_RSTD_CROSS_K] = { "cross-attention", KIND_FP32, DIM_MEDIA, DIM_CROSS_KEYS,
                              LIFE_KEPT, true, MIXERS_CROSS },
    [BUFFER_CROSS_ATT] = { "cross-attention", KIND_FP32, DIM_N, DIM_CROSS_C, LIFE_KEPT,
                           true, MIXERS_CROSS },
    [BUFFER_CROSS_MLP] = { "cross-attention", KIND_FP32, DIM_N, DIM_CROSS_C, LIFE_KEPT,
                           true, MIXERS_CROSS },
    [BUFFER_POST1] = { "added by attention", KIND_FP32, DIM_N, DIM_POST, LIFE_KEPT,
                       true },
    [BUFFER_RSTD_POST1] = { "added by attention", KIND_FP32, DIM_POST_STATS, DIM_N,
                            LIFE_KEPT, true },
    [BUFFER_X_MID] = { "after attention", KIND_FP32, DIM_N, DIM_MID, LIFE_KEPT, true },
    [BUFFER_RSTD2] = { "second norm", KIND_FP32, DIM_STATS_2, DIM_N, LIFE_KEPT, true },
    [BUFFER_GATE_UP] = { "gate, up", KIND_COMPUTE, DIM_N, DIM_GATE_UP_U, LIFE_KEPT,
                         true },
    [BUFFER_POST2] = { "added by the mlp", KIND_FP32, DIM_N, DIM_POST, LIFE_KEPT, true },
    [BUFFER_RSTD_POST2] = { "added by the mlp", KIND_FP32, DIM_POST_STATS, DIM_N,
                            LIFE_KEPT, true },
    [BUFFER_INPUT_X] = { "after the mlp", KIND_COMPUTE, DIM_N, DIM_INPUT_C, LIFE_KEPT,
                         true },
    [BUFFER_INPUT_GATE] = { "gate of the layer's input", KIND_COMPUTE, DIM_N, DIM_INPUT,
                            LIFE_KEPT, true },
    [BUFFER_POST3] = { "added by the layer's input", KIND_FP32, DIM_N, DIM_INPUT_C,
                       LIFE_KEPT, true },
    [BUFFER_RSTD_POST3] = { "added by the layer's input", KIND_FP32, DIM_INPUT_STATS,
                            DIM_N, LIFE_KEPT, true },
    [BUFFER_ROUTED] = { "router", KIND_FP32, DIM_N, DIM_EXPERTS, LIFE_KEPT, true },
    [BUFFER_PAIR_WEIGHTS] = { "router", KIND_FP32, DIM_N, DIM_CHOSEN, LIFE_KEPT, true },
    [BUFFER_PAIR_EXPERTS] = { "router", KIND_FP32, DIM_N, DIM_CHOSEN, LIFE_KEPT, true },
    [BUFFER_PAIR_ORDER] = { "router", KIND_FP32, DIM_N, DIM_CHOSEN, LIFE_KEPT, true },
    [BUFFER_PAIR_SLOTS] = { "router", KIND_FP32, DIM_N, DIM_CHOSEN, LIFE_KEPT, true },
    [BUFFER_PAIR_FACTORS] = { "router", KIND_FP32, DIM_N, DIM_SCALED, LIFE_KEPT, true },
    [BUFFER_EXPERT_STARTS] = { "router", KIND_FP32, DIM_ONE, DIM_EXPERT_STARTS, LIFE_KEPT,
                               true },
    [BUFFER_EXPERT_GATE_UP] = { "experts' gate, up", KIND_COMPUTE, DIM_N,
                                DIM_CHOSEN_GATE_UP, LIFE_KEPT, true },
    [BUFFER_EXPERT_OUT] = { "experts", KIND_COMPUTE, DIM_N, DIM_CHOSEN_C, LIFE_KEPT,
                            true },
    [BUFFER_MLP_OUT] = { "added by the mlp", KIND_FP32, DIM_N, DIM_BRANCH, LIFE_KEPT,
                         true },
    [BUFFER_RSTD_MLP] = { "added by the mlp", KIND_FP32, DIM_BRANCH_STATS, DIM_N,
                          LIFE_KEPT, true },
    [BUFFER_EXPERTS_OUT] = { "experts", KIND_FP32, DIM_N, DIM_BRANCH, LIFE_KEPT, true },
    [BUFFER_RSTD_EXPERTS] = { "experts", KIND_FP32, DIM_BRANCH_STATS, DIM_N, LIFE_KEPT,
                              true },
    [BUFFER_SHARED_OUT] = { "shared expert", KIND_COMPUTE, DIM_N, DIM_SHARED_C, LIFE_KEPT,
                            true },
    [BUFFER_SHARED_WEIGHT] = { "shared expert", KIND_FP32, DIM_N, DIM_SHARED_2, LIFE_KEPT,
                               true },
    [BUFFER_SHARED_SLOTS] = { "shared expert", KIND_FP32, DIM_N, DIM_SHARED, LIFE_KEPT,
                              true },
    [BUFFER_U_EXPERT_GATE_UP] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_EXPERT_GATE_UP,
                                  LIFE_KEPT, true },
    [BUFFER_U_EXPERT_DOWN] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_EXPERT_DOWN, LIFE_KEPT,
                               true },
    [BUFFER_U_SCAN_OUT] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_SCAN_OUT, LIFE_KEPT,
                            true },
    [BUFFER_U_ROUTER] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_ROUTER, LIFE_KEPT, true },
    [BUFFER_U_QKV] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_QKV, LIFE_KEPT, true },
    [BUFFER_U_Q_B] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_Q_B, LIFE_KEPT, true },
    [BUFFER_U_KV_B] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_KV_B, LIFE_KEPT, true },
    [BUFFER_U_CROSS_KV] = { "lora", KIND_COMPUTE, DIM_MEDIA, DIM_U_CROSS_KV, LIFE_KEPT,
                            true, MIXERS_CROSS },
    [BUFFER_U_O] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_O, LIFE_KEPT, true },
    [BUFFER_U_GATE_UP] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_GATE_UP, LIFE_KEPT, true },
    [BUFFER_U_DOWN] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_DOWN, LIFE_KEPT, true },
    [BUFFER_U_INPUT_GATE] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_INPUT_GATE, LIFE_KEPT,
                              true },
    [BUFFER_U_INPUT_OUT] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_INPUT_OUT, LIFE_KEPT,
                             true },
    [BUFFER_U_LAYER_INPUTS] = { "lora", KIND_COMPUTE, DIM_N, DIM_U_LAYER_INPUTS,
                                LIFE_ONCE, true },
    [BUFFER_Z_QKV] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_QKV, LIFE_KEPT, true },
    [BUFFER_Z_Q_B] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_Q_B, LIFE_KEPT, true },
    [BUFFER_Z_KV_B] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_KV_B, LIFE_KEPT, true },
    [BUFFER_Z_SCAN_OUT] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_SCAN_OUT, LIFE_KEPT,
                            true },
    [BUFFER_Z_O] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_O, LIFE_KEPT, true },
    [BUFFER_Z_GATE_UP] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_GATE_UP, LIFE_KEPT, true },
    [BUFFER_Z_DOWN] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_DOWN, LIFE_KEPT, true },
    [BUFFER_Z_INPUT_GATE] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_INPUT_GATE, LIFE_KEPT,
                              true },
    [BUFFER_Z_INPUT_OUT] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_INPUT_OUT, LIFE_KEPT,
                             true },
    [BUFFER_Z_LAYER_INPUTS] = { "dora", KIND_COMPUTE, DIM_N, DIM_Z_LAYER_INPUTS,
                                LIFE_ONCE, true },
    [BUFFER_INPUTS] = { "inputs of layers", KIND_COMPUTE, DIM_N, DIM_INPUTS, LIFE_ONCE,
                        true },
    [BUFFER_PROJECTED] = { "inputs of layers", KIND_COMPUTE, DIM_N, DIM_INPUTS, LIFE_ONCE,
                           true },
    [BUFFER_RSTD_INPUTS] = { "inputs of layers", KIND_FP32, DIM_N, DIM_INPUT_LAYERS,
                             LIFE_ONCE, true },
    [BUFFER_INPUT_ACT] = { "gate of the layer's input", KIND_COMPUTE, DIM_N, DIM_INPUT,
                           LIFE_ONCE, true },
    [BUFFER_SHARED_KEYS] = { "shared k, v", KIND_COMPUTE, DIM_N, DIM_SHARED_KEYS,
                             LIFE_ROOM, true },
    [BUFFER_H1] = { "first norm", KIND_COMPUTE, DIM_N, DIM_C, LIFE_QKV_IN, true },
    [BUFFER_H2] = { "second norm", KIND_COMPUTE, DIM_N, DIM_C_2, LIFE_GATE_UP_IN, true },
    [BUFFER_ACT] = { "activation", KIND_COMPUTE, DIM_N, DIM_MLP, LIFE_DOWN_IN, true },
    [BUFFER_ROUTER_LOGITS] = { "router", KIND_FP32, DIM_N, DIM_EXPERTS, LIFE_ONCE, true },
    [BUFFER_EXPERT_H] = { "experts' input", KIND_COMPUTE, DIM_N, DIM_BRANCH, LIFE_ONCE,
                          true },
    [BUFFER_EXPERT_X] = { "experts' input", KIND_COMPUTE, DIM_N, DIM_CHOSEN_C, LIFE_ONCE,
                          true },
    [BUFFER_EXPERT_ACT] = { "experts' activation", KIND_COMPUTE, DIM_N, DIM_CHOSEN_I,
                            LIFE_ONCE, true },
    [BUFFER_SHARED_IDS] = { "shared expert", KIND_FP32, DIM_N, DIM_SHARED_4, LIFE_ONCE,
                            true },
    [BUFFER_NORMED] = { "norms of heads", KIND_COMPUTE, DIM_N, DIM_GATED, LIFE_ONCE,
                        true },
    [BUFFER_GATED] = { "gated attention", KIND_COMPUTE, DIM_N, DIM_GATED, LIFE_ONCE,
                       true },
    [BUFFER_EXPANDED] = { "parts of heads", KIND_COMPUTE, DIM_N, DIM_EXPANDED, LIFE_ONCE,
                          true },
    [BUFFER_ROTATED] = { "rotated input", KIND_COMPUTE, DIM_N, DIM_ROTATED, LIFE_ONCE,
                         true },
    [BUFFER_X_LAST] = { "last norm", KIND_FP32, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_EMBEDDED] = { "embeddings", KIND_FP32, DIM_N, DIM_EMBED_NORM, LIFE_ONCE,
                          true },
    [BUFFER_RSTD_EMBED] = { "embeddings", KIND_FP32, DIM_EMBED_STATS, DIM_N, LIFE_ONCE,
                            true },
    [BUFFER_RSTD] = { "last norm", KIND_FP32, DIM_STATS, DIM_N, LIFE_ONCE, true },
    [BUFFER_H_LAST] = { "last norm", KIND_COMPUTE, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_DELTA] = { "residual", KIND_FP32, DIM_N, DIM_C, LIFE_ONCE, true },
    [BUFFER_DELTA_POST] = { "residual", KIND_COMPUTE, DIM_N, DIM_POST, LIFE_ONCE, true },
    [BUFFER_DX] = { "gradient", KIND_FP32, DIM_N, DIM_DX, LIFE_ONCE, true },
    [BUFFER_DX_COPY] = { "gradient", KIND_COMPUTE, DIM_N, DIM_COPY, LIFE_ONCE, true },
    [BUFFER_DH] = { "gradient", KIND_COMPUTE, DIM_N, DIM_WIDE, LIFE_ONCE, true },
    [BUFFER_DQKV] = { "gradient", KIND_COMPUTE, DIM_N, DIM_QKV_U, LIFE_ONCE, true },
    [BUFFER_DACT] = { "gradient", KIND_COMPUTE, DIM_N, DIM_DACT, LIFE_ONCE, true },
    [BUFFER_DSHARED_KEYS] = { "gradient", KIND_FP32, DIM_N, DIM_SHARED_KEYS, LIFE_ROOM,
                              true },
    [BUFFER_DHEADS] = { "gradient", KIND_COMPUTE, DIM_N, DIM_WHOLE, LIFE_ONCE, true },
    [BUFFER_DLATENTS] = { "gradient", KIND_COMPUTE, DIM_N, DIM_LATENTS, LIFE_ONCE, true },
    [BUFFER_DCROSS_KV] = { "gradient", KIND_COMPUTE, DIM_MEDIA, DIM_CROSS_KV, LIFE_ONCE,
                           true },
    [BUFFER_DCROSS_ROWS] = { "gradient", KIND_COMPUTE, DIM_CROSS_DROWS, DIM_C, LIFE_ONCE,
                             true },
    [BUFFER_DCROSS_SUM] = { "gradient", KIND_FP32, DIM_CROSS_DROWS, DIM_C, LIFE_ONCE,
                            true },
    [BUFFER_DCONV] = { "gradient", KIND_COMPUTE, DIM_N, DIM_FILTERED, LIFE_ONCE, true },
    [BUFFER_DDECAY] = { "gradient", KIND_FP32, DIM_N, DIM_BETA, LIFE_ONCE, true },
    [BUFFER_DBETA] = { "gradient", KIND_FP32, DIM_N, DIM_BETA, LIFE_ONCE, true },
    [BUFFER_STATES] = { "states", KIND_FP32, DIM_CHUNKS, DIM_STATE, LIFE_ONCE, true },
    [BUFFER_DSTATES] = { "states", KIND_FP32, DIM_DCHUNKS, DIM_STATE, LIFE_ONCE, true },
    [BUFFER_SCAN_SUMS] = { "states", KIND_FP32, DIM_CHUNKS, DIM_SCAN_SUMS, LIFE_ONCE,
                           true },
    [BUFFER_DEMBED] = { "gradient", KIND_FP32, DIM_N, DIM_EMBED_NORM, LIFE_ONCE, true },
    [BUFFER_DPOST] = { "gradient", KIND_FP32, DIM_N, DIM_POST_DX, LIFE_ONCE, true },
    [BUFFER_DPOST_COPY] = { "gradient", KIND_COMPUTE, DIM_N, DIM_POST_COPY, LIFE_ONCE,
                            true },
    [BUFFER_DBRANCH] = { "gradient", KIND_FP32, DIM_N, DIM_BRANCH_DX, LIFE_ONCE, true },
    [BUFFER_DBRANCH_COPY] = { "gradient", KIND_COMPUTE, DIM_N, DIM_BRANCH_COPY, LIFE_ONCE,
                              true },
    [BUFFER_DROUTER] = { "gradient", KIND_COMPUTE, DIM_N, DIM_EXPERTS, LIFE_ONCE, true },
    [BUFFER_DPAIR_WEIGHTS] = { "gradient", KIND_FP32, DIM_N, DIM_CHOSEN, LIFE_ONCE,
                               true },
    [BUFFER_DEXPERT] = { "gradient", KIND_COMPUTE, DIM_N, DIM_CHOSEN_C, LIFE_ONCE, true },
    [BUFFER_DLSE] = { "gradient", KIND_FP32, DIM_H, DIM_N, LIFE_ONCE, true },
    [BUFFER_LORA_G] = { "lora gradient", KIND_COMPUTE, DIM_ADAPTER_ROWS, DIM_LORA_G,
                        LIFE_ONCE, true },
    [BUFFER_DORA_G] = { "dora gradient", KIND_COMPUTE, DIM_N, DIM_DORA_G, LIFE_ONCE,
                        true },
    [BUFFER_DROTATED] = { "oft gradient", KIND_COMPUTE, DIM_N, DIM_DROTATED, LIFE_ONCE,
                          true },
    [BUFFER_DROPPED] = { "dropout", KIND_COMPUTE, DIM_N, DIM_DROPPED, LIFE_ONCE, true },
    [BUFFER_LORA_X] = { "lora dropout", KIND_COMPUTE, DIM_ADAPTER_ROWS, DIM_LORA_X,
                        LIFE_ONCE, true },
    [BUFFER_ROUNDED_DY] = { "gradient in 8 bits", KIND_FP32, DIM_ONE, DIM_ROUNDED_DY,
                            LIFE_ONCE, true },
    [BUFFER_ROUNDED_W] = { "weights in 8 bits", KIND_FP32, DIM_ONE, DIM_ROUNDED_W,
                           LIFE_CACHE, false },
    [BUFFER_ROUNDED_X] = { "inputs in 8 bits", KIND_FP32, DIM_ONE, DIM_ROUNDED_X,
                           LIFE_KEPT, true },
    [BUFFER_WEIGHT] = { "weight", KIND_COMPUTE, DIM_ONE, DIM_WEIGHT, LIFE_ONCE, false },
    [BUFFER_BIAS] = { "bias", KIND_FP32, DIM_ONE, DIM_BIAS, LIFE_ONCE, false },
    [BUFFER_LOGITS] = { "logits", KIND_FP32, DIM_CHUNK, DIM_V_ROW, LIFE_ONCE, false },
    [BUFFER_DLOGITS] = { "logits", KIND_COMPUTE, DIM_DCHUNK, DIM_V_ROW, LIFE_ONCE,
                         false },
    [BUFFER_GATHERED] = { "labeled", KIND_COMPUTE, DIM_CHUNK, DIM_C, LIFE_ONCE, false },
    [BUFFER_DGATHERED] = { "labeled", KIND_COMPUTE, DIM_CHUNK, DIM_C, LIFE_ONCE, false },
    [BUFFER_LOSSES] = { "losses", KIND_FP32, DIM_WINDOW, DIM_N, LIFE_ONCE, false },
    [BUFFER_ROPE] = { "rotations", KIND_FP32, DIM_POSITIONS, DIM_ROTARY, LIFE_ONCE,
                      false },
    [BUFFER_ROPE_LOCAL] = { "rotations", KIND_FP32, DIM_POSITIONS, DIM_ROTARY_LOCAL,
                            LIFE_ONCE, false },
    [BUFFER_ONES] = { "ones", KIND_FP32, DIM_ONE, DIM_BARE, LIFE_ONCE, false },
    [BUFFER_TOKENS] = { "tokens", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_POSITIONS] = { "positions", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_TARGETS] = { "targets", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_WEIGHTS] = { "weights", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_OFFSETS] = { "offsets", KIND_FP32, DIM_ONE, DIM_OFFSETS, LIFE_ONCE, false },
    [BUFFER_CHUNK_STARTS] = { "offsets", KIND_FP32, DIM_ONE, DIM_CHUNK_STARTS, LIFE_ONCE,
                              false },
    [BUFFER_QUERY_SCALES] = { "scales", KIND_FP32, DIM_POSITIONS, DIM_QUERY_SCALES,
                              LIFE_ONCE, false },
    [BUFFER_KD_LOSSES] = { "losses", KIND_FP32, DIM_KD_WINDOW, DIM_N, LIFE_ONCE, false },
    [BUFFER_TEACHER_LOGITS] = { "teacher", KIND_FP32, DIM_N, DIM_TEACHER_LOGITS,
                                LIFE_ONCE, false },
    [BUFFER_TEACHER_IDS] = { "teacher", KIND_FP32, DIM_N, DIM_TEACHER_LOGITS, LIFE_ONCE,
                             false },
    [BUFFER_PAIRS] = { "preferences", KIND_FP32, DIM_PAIR_WINDOW, DIM_PAIRS, LIFE_ONCE,
                       false },
    [BUFFER_REFERENCE] = { "preferences", KIND_FP32, DIM_ONE, DIM_REFERENCE, LIFE_ONCE,
                           false },
    [BUFFER_ADVANTAGES] = { "advantages", KIND_FP32, DIM_ADVANTAGES, DIM_OFFSETS,
                            LIFE_ONCE, false },
    [BUFFER_OLD] = { "preferences", KIND_FP32, DIM_ONE, DIM_OLD, LIFE_ONCE, false },
    [BUFFER_DSCORES] = { "gradient", KIND_COMPUTE, DIM_SCORES, DIM_ONE, LIFE_ONCE,
                         false },
    [BUFFER_LABELED_ROWS] = { "labeled", KIND_FP32, DIM_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_EXPERT_COUNTS] = { "load balancing", KIND_FP32, DIM_BALANCE_WINDOW,
                               DIM_EXPERTS, LIFE_ONCE, false },
    [BUFFER_EXPERT_SUMS] = { "load balancing", KIND_FP32, DIM_BALANCE_WINDOW, DIM_EXPERTS,
                             LIFE_ONCE, false },
    [BUFFER_STEP_SCALARS] = { "numbers", KIND_FP32, DIM_ONE, DIM_STEP_SCALARS, LIFE_ONCE,
                              false },
    [BUFFER_CORRECT] = { "hits", KIND_FP32, DIM_ONE, DIM_CORRECT, LIFE_ONCE, false },
    [BUFFER_MEDIA_ROWS] = { "media", KIND_COMPUTE, DIM_MEDIA, DIM_C, LIFE_ONCE, false },
    [BUFFER_MEDIA_X] = { "projector", KIND_FP32, DIM_MEDIA_NORMED, DIM_PROJECTOR_NORM,
                         LIFE_ONCE, true },
    [BUFFER_RSTD_MEDIA] = { "projector", KIND_FP32, DIM_MEDIA_STATS, DIM_MEDIA_NORMED,
                            LIFE_ONCE, true },
    [BUFFER_DMEDIA_X] = { "projector", KIND_FP32, DIM_MEDIA_NORMED, DIM_PROJECTOR_NORM,
                          LIFE_ONCE, true },
    [BUFFER_MEDIA_IN] = { "projector", KIND_COMPUTE, DIM_MEDIA, DIM_PROJECTOR_IN,
                          LIFE_ONCE, true },
    [BUFFER_MEDIA_MERGED] = { "projector", KIND_COMPUTE, DIM_MEDIA, DIM_PROJECTOR_MERGED,
                              LIFE_ONCE, true },
    [BUFFER_MEDIA_INNER] = { "projector", KIND_COMPUTE, DIM_MEDIA, DIM_PROJECTOR_INNER,
                             LIFE_ONCE, true },
    [BUFFER_MEDIA_ACT] = { "projector", KIND_COMPUTE, DIM_MEDIA, DIM_PROJECTOR_INNER,
                           LIFE_ONCE, true },
    [BUFFER_MEDIA_MIDDLE] = { "projector", KIND_FP32, DIM_MEDIA, DIM_PROJECTOR_MIDDLE,
                              LIFE_ONCE, true },
    [BUFFER_RSTD_MEDIA_MIDDLE] = { "projector", KIND_FP32, DIM_MEDIA_MIDDLE_STATS,
                                   DIM_MEDIA, LIFE_ONCE, true },
    [BUFFER_DMEDIA_MIDDLE] = { "projector", KIND_FP32, DIM_MEDIA, DIM_PROJECTOR_MIDDLE,
                               LIFE_ONCE, true },
    [BUFFER_MEDIA_GATES] = { "projector", KIND_COMPUTE, DIM_MEDIA, DIM_PROJECTOR_GATES,
                             LIFE_ONCE, true },
    [BUFFER_MEDIA_GATED] = { "projector", KIND_COMPUTE, DIM_MEDIA, DIM_PROJECTOR_GATED,
                             LIFE_ONCE, true },
    [BUFFER_MEDIA_DEEP] = { "media", KIND_COMPUTE, DIM_MEDIA_DEEP, DIM_C, LIFE_ONCE,
                            false },
    [BUFFER_MEDIA_AT] = { "media", KIND_FP32, DIM_ONE, DIM_MEDIA, LIFE_ONCE, false },
    [BUFFER_CROSS_SEEN] = { "media", KIND_FP32, DIM_CROSS_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_CROSS_OFFSETS] = { "media", KIND_FP32, DIM_ONE, DIM_CROSS_PARTS, LIFE_ONCE,
                               false },
    [BUFFER_CROSS_KEY_OFFSETS] = { "media", KIND_FP32, DIM_ONE, DIM_CROSS_PARTS,
                                   LIFE_ONCE, false },
    [BUFFER_CROSS_REACH] = { "media", KIND_FP32, DIM_CROSS_ONE, DIM_N, LIFE_ONCE, false },
    [BUFFER_CROSS_SINCE] = { "media", KIND_FP32, DIM_CROSS_ONE, DIM_MEDIA, LIFE_ONCE,
                             false },
    [BUFFER_REACH] = { "media", KIND_FP32, DIM_ONE, DIM_BLOCK_ROWS, LIFE_ONCE, false },
    [BUFFER_SINCE] = { "media", KIND_FP32, DIM_ONE, DIM_BLOCK_ROWS, LIFE_ONCE, false },
    [BUFFER_ROPE_ROWS] = { "media", KIND_FP32, DIM_ROPE_ROWS, DIM_ROTARY, LIFE_ONCE,
                           false },
    [BUFFER_ROPE_AT] = { "media", KIND_FP32, DIM_ONE, DIM_ROPE_ROWS, LIFE_ONCE, false },
    [BUFFER_DORA_NORM] = { "norms of weights", KIND_FP32, DIM_ONE, DIM_DORA_NORM,
                           LIFE_CACHE, false },
    [BUFFER_ROTATIONS] = { "rotations of inputs", KIND_FP32, DIM_ONE, DIM_ROTATIONS,
                           LIFE_CACHE, false },
    [BUFFER_ROTATION_SCRATCH] = { "rotations of inputs", KIND_FP32, DIM_ONE,
                                  DIM_ROTATION_SCRATCH, LIFE_ONCE, false },
    [BUFFER_CROSS_KEYS] = { "cache", KIND_COMPUTE, DIM_CROSS_CACHE, DIM_CROSS_K,
                            LIFE_CACHE, true, MIXERS_CROSS },
    [BUFFER_CROSS_VALUES] = { "cache", KIND_COMPUTE, DIM_CROSS_CACHE, DIM_CROSS_K,
                              LIFE_CACHE, true, MIXERS_CROSS },
    [BUFFER_KEYS] = { "cache", KIND_COMPUTE, DIM_CACHE, DIM_KV, LIFE_CACHE, true,
                      MIXERS_KEYS },
    [BUFFER_VALUES] = { "cache", KIND_COMPUTE, DIM_CACHE, DIM_KV, LIFE_CACHE, true,
                        MIXERS_KEYS },
    [BUFFER_CONV_STATE] = { "cache", KIND_FP32, DIM_CONV_ROWS, DIM_CONV, LIFE_CACHE, true,
                            MIXERS_LINEAR },
    [BUFFER_DELTA_STATE] = { "cache", KIND_FP32, DIM_SLOTS, DIM_STATE, LIFE_CACHE, true,
                             MIXERS_LINEAR },
};

/* Return how many blocks have a buffer. */
static size_t blocks_with(const struct shapes_builder *m, enum mixers mixers)
{
    size_t layers = m->config->layers, linear = m->out->linear_layers;

    if (!m->config->linear && m->config->ssm.heads > 0) /* blocks have both */
        return layers;
    return mixers == MIXERS_CROSS    ? m->config->cross_layers
           : mixers == MIXERS_LINEAR ? linear
           : mixers == MIXERS_FULL   ? layers - linear
           : mixers == MIXERS_KEYS   ? layers - linear - m->config->sharing_layers
                                     : layers;
}

static size_t instances(const struct shapes_builder *m, const struct buffer_row *row)
{
    bool alone = m->plan->generation.alone; /* there is no backward pass */
    size_t layers = blocks_with(m, row->mixers);

    switch (row->life) {
    case LIFE_BLOCK:
        return alone ? 1 : layers;
    case LIFE_CACHE:
        return layers;
    case LIFE_KEPT:
        return m->out->checkpointing || alone ? 1 : layers;
    case LIFE_QKV_IN:
        return m->out->keeps[STACK_QKV] ? layers : 1;
    case LIFE_GATE_UP_IN:
        return m->out->keeps[STACK_GATE_UP] ? layers : 1;
    case LIFE_DOWN_IN:
        return m->out->keeps[STACK_DOWN] ? layers : 1;
    case LIFE_ROOM:
        return 2;
    case LIFE_ONCE:
        break;
    }
    return 1;
}

/* Return by layer the instance of a buffer; NULL: its number. */
static const size_t *index_of(const struct shapes_builder *m,
                              const struct buffer_row *row)
{
    if (row->life == LIFE_ROOM)
        return m->out->key_room;
    if (row->mixers == MIXERS_CROSS)
        return m->out->cross_index;
    if (row->mixers == MIXERS_KEYS && m->out->key_index)
        return m->out->key_index;
    return row->mixers == MIXERS_ALL ? NULL : m->out->mixer_index;
}

/* Return whether a buffer is needed.  Without training, gradients and their scratch are
 * not; most of these are consecutive in the list. */
static bool is_needed(const struct shapes_builder *m, enum buffer buffer)
{
    return !m->plan->generation.alone ||
           ((buffer < BUFFER_DX || buffer > BUFFER_LORA_X) && buffer != BUFFER_DLOGITS &&
            buffer != BUFFER_DGATHERED && buffer != BUFFER_DSCORES);
}

void shapes_add_buffers(struct shapes_builder *m)
{
    size_t at = 0;

    for (enum buffer i = 0; i < BUFFERS; i++) {
        const struct buffer_row *row = &buffer_rows[i];
        struct shape_buffer *b = &m->out->buffers[i];
        size_t bytes;

        *b = (struct shape_buffer) {
            .name = row->name,
            .format = row->kind == KIND_COMPUTE ? m->out->compute : FORMAT_FP32,
            .rows = is_needed(m, i) ? m->dims[row->rows] : 0,
            .cols = m->dims[row->cols],
            .rows_are_n = row->rows == DIM_N,
            .cols_are_n = row->cols == DIM_N,
            .activation = row->activation,
            .count = instances(m, row),
            .index = index_of(m, row),
            .at = at,
        };
        bytes = shapes_times(m, shapes_times(m, b->rows, b->cols),
                             format_info(b->format)->bytes);
        b->step = size_round(bytes, SHAPES_ALIGNMENT);
        if (!size_add(at, shapes_times(m, b->step, b->count), &at))
            m->overflow = true;
    }
    m->out->buffer_bytes = at;
}
