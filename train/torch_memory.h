/*
 * train/torch_memory.h - estimate of the bytes that a run of transformers' Trainer
 * (LLaMA-Factory, a script) takes on one device: low, expected, high.  It is the maximum
 * over four points of a step:
 *
 *     loss      all activations and the logits; gradients only with accumulation
 *     again     at the last layer with checkpointing: its activations and all inputs
 *     backward  at the first layer: all other gradients, activations of one layer
 *     step      all gradients, and temporary memory of the optimizer
 *
 * P parameters, T of them trained, N = batch * cutoff_len rows, V vocabulary, L layers,
 * C width, Q = heads * head size, K = the same for keys, I for the MLP, all in bytes:
 *
 *   weights      4 T in float32; frozen ones as stored, 2 P in a 16-bit compute format;
 *                2 T with pure_bf16.  1 in 8 bits; 0.5 in 4 bits, plus 4 per 64
 *                elements (Dettmers et al., QLoRA, 2023), only linear layers of blocks
 *   copies       2 per element of linear layers stored in float32, under autocast: kept
 *                for the backward pass; with checkpointing those of one layer and the
 *                head
 *   gradients    as the trained weights
 *   optimizer    2 moments like the weights (AdamW), 2 T with 8-bit moments, 0 for SGD,
 *                less for low ranks and single blocks: train/torch_optimizers.h
 *   activations  L N times a row (train/torch_activations.h); for Llama in transformers
 *   5.12,
 *                counted tensor by tensor (docs/memory.md):
 *                    float32          24 C + 8 Q + 8 K + 16 I
 *                    and with LoRA    16 C + 8 Q + 8 K + 16 I
 *                    16-bit autocast  26 C + 4 Q + 4 K +  8 I
 *                    and with LoRA    18 C + 6 Q + 4 K +  8 I
 *                    pure_bf16        16 C + 4 Q + 4 K +  8 I
 *                plus 4 heads + 8; without fused attention cutoff_len heads 6 more
 *                (float32: 4).  Korthikanti et al. (arXiv 2205.05198) give
 *                s b h (34 + 5 a s / h) for a layer of GPT-3.  With checkpointing 4 C
 *                (pure modes: 2) per layer and row, plus one whole layer
 *   logits       12 N V: the logits in float32, their softmax, their gradient; 10 if
 *                one of them is in 16 bits
 *   sharded      ZeRO (Rajbhandari et al., 2020): stage 1 divides the optimizer by the
 *                devices, 2 gradients too, 3 weights too; weights and gradients then
 *                have 16 bits and the optimizer 12 T, as DeepSpeed keeps float32
 *                masters.  FSDP like stage 3
 *   held         the context of the driver and, with several devices, NCCL (both in
 *                precision/memory.h), the workspace of cuBLAS, 8 MiB, 32 from 9.0 on
 *                (PyTorch notes, CUBLAS_WORKSPACE_CONFIG)
 *
 * Unknown: the rounding of the caching allocator (low and high count temporary memory a
 * tenth smaller and larger), which kernels are installed (high: attention repeats keys
 * and values), and anything else that a script does.
 */
#ifndef TRAIN_TORCH_MEMORY_H
#define TRAIN_TORCH_MEMORY_H

#include "train/model/model_config.h"
#include "train/plan.h"

/* Settings of an external job that affect memory and that native jobs do not have.  Zeros
 * are the defaults. */
struct torch_setup {
    const char *optim;    /* "adamw_torch", "paged_adamw_8bit"; NULL: the default */
    int quantization_bit; /* 8, 4; 0: none */
    bool plain_attention; /* flash_attn: disabled */
    int zero_stage;       /* DeepSpeed 1 to 3, FSDP 3; 0: not sharded */
    bool deepspeed;
    bool offload_optimizer, offload_weights; /* to the host */
    bool evaluates;
    const char *stage; /* not sft or pt, such as "dpo"; or NULL */
    bool reference;    /* the stage loads a second model to compare with */
    int64_t rank;      /* of the projection of GaLore and APOLLO */
    bool ranks_given;  /* the job says how many processes there are, even if it is one */
    bool sharding_unknown; /* the DeepSpeed file is not here */
    bool partly_covered;   /* BAdam by ratio, or GaLore of some matrices only */
};

/* Fails like shapes_make if the method does not fit the model. */
bool torch_memory(const struct plan *plan, const struct model_config *config,
                  struct memory_use *out, struct error *err);

/* Estimate the peak of an evaluation: weights, optimizer, for its batch the logits in
 * float32 and their softmax (under autocast also in 16 bits), and a quarter of the
 * activations of a layer.  0 if the job does not evaluate. */
bool torch_memory_eval(const struct plan *plan, const struct model_config *config,
                       struct memory_use *out, struct error *err);

/* Return the host memory for loading the model: each process holds all of it, in the
 * format that it is loaded in (precision.frozen). */
uint64_t torch_memory_load(const struct plan *plan, const struct model_config *config);

/* Return whether a job divides its state among ranks but does not say how many there are:
 * the estimate then counts all of it on one device. */
bool torch_memory_lacks_ranks(const struct plan *plan);
/* Return whether the bytes of weights, gradients and optimizer are certain. */
bool torch_memory_knows_state(const struct plan *plan);
/* Return why a run may take much less than the estimate, as a clause; NULL: no reason is
 * known. */
const char *torch_memory_doubt(const struct plan *plan);

#endif
