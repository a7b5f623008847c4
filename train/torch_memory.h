/*
 * train/torch_memory.h - the bytes that a run of transformers' Trainer (LLaMA-Factory,
 * a script) takes on one device: low, expected, high.  Of the fullest moment of a step,
 * which is one of four:
 *
 *     loss      all activations and the logits; gradients only with accumulation
 *     again     at the last layer with checkpointing: its activations beside all inputs
 *     backward  at the first layer: all other gradients, one layer's activations
 *     step      all gradients, and what the optimizer needs for a moment
 *
 * P parameters, T of them trained, N = batch * cutoff_len rows, V vocabulary, L layers,
 * C width, Q = heads * head size, K = the same of keys, I of the MLP, all in bytes:
 *
 *   weights      4 T in float32; frozen ones as stored, 2 P in a compute format of 16
 *                bits; 2 T with pure_bf16.  In 8 bits 1, in 4 bits 0.5 and 4 more for 64
 *                numbers (Dettmers et al., QLoRA, 2023), linear layers of blocks alone
 *   copies       2 a number of linear layers stored in float32, under autocast: kept
 *                for the backward pass; with checkpointing one layer's and the head's
 *   gradients    as the weights that are trained
 *   optimizer    2 moments as the weights (AdamW), 2 T with 8-bit moments, 0 for SGD;
 *                a table of names in torch_memory.c
 *   activations  L N times a row (train/torch_row.h), of Llama in transformers 5.12,
 *   counted
 *                there tensor by tensor (docs/memory.md):
 *                    float32          24 C + 8 Q + 8 K + 16 I
 *                    and with LoRA    16 C + 8 Q + 8 K + 16 I
 *                    16-bit autocast  26 C + 4 Q + 4 K +  8 I
 *                    and with LoRA    18 C + 6 Q + 4 K +  8 I
 *                    pure_bf16        16 C + 4 Q + 4 K +  8 I
 *                and 4 heads + 8; cutoff_len heads 6 more (float32: 4) without a fused
 *                attention.  Korthikanti et al. (arXiv 2205.05198) have for GPT-3's
 *                layer s b h (34 + 5 a s / h).  With checkpointing 4 C (pure modes: 2) a
 *                layer and row, and one layer's
 *   logits       12 N V: the logits in float32, their softmax, their gradient; 10 where
 *                one of them is in 16 bits
 *   sharded      ZeRO (Rajbhandari et al., 2020): stage 1 divides the optimizer by the
 *                devices, 2 gradients too, 3 weights too; weights and gradients have 16
 *                bits then and the optimizer 12 T, as DeepSpeed keeps float32 masters.
 *                FSDP as stage 3
 *   held         the driver's context and, of several devices, NCCL (both in
 *                precision/memory.h), cuBLAS' workspace, 8 MiB, 32 from 9.0 on (PyTorch
 *                notes, CUBLAS_WORKSPACE_CONFIG)
 *
 * What cannot be known: the rounding of the caching allocator (low and high count a tenth
 * less and more of what comes and goes), which kernels are installed (high: attention
 * repeats keys and values), what a script does besides.
 */
#ifndef TRAIN_TORCH_MEMORY_H
#define TRAIN_TORCH_MEMORY_H

#include "train/model/model_config.h"
#include "train/plan.h"

/* What an external job says about memory that a native one cannot.  Zeros are the
 * defaults. */
struct torch_setup {
    const char *optim;    /* "adamw_torch", "paged_adamw_8bit"; NULL: the default */
    int quantization_bit; /* 8, 4; 0: none */
    bool plain_attention; /* flash_attn: disabled */
    int zero_stage;       /* DeepSpeed 1 to 3, FSDP 3; 0: each device holds all */
    bool deepspeed;
    bool offload_optimizer, offload_weights; /* to the host */
    bool evaluates;
    const char *stage; /* "dpo": with other models or samples, not counted; NULL */
};

/* Errors as shapes_make: what the method and the model do not go together in. */
bool torch_memory(const struct plan *plan, const struct model_config *config,
                  struct memory_use *out, struct error *err);

/* The most an evaluation takes: weights, optimizer, and of its batch the logits in
 * float32 and their softmax (in 16 bits too under autocast), and of one layer a quarter.
 * 0 where the job evaluates nothing. */
bool torch_memory_eval(const struct plan *plan, const struct model_config *config,
                       struct memory_use *out, struct error *err);

/* What the host takes while the model is loaded: each process the whole of it, in the
 * format it is loaded in (precision.frozen). */
uint64_t torch_memory_load(const struct plan *plan, const struct model_config *config);

/* What an optimizer keeps, a row by name; AdamW's where the name is not known. */
struct torch_optimizer {
    const char *name; /* what `optim` begins with */
    double moments;   /* bytes a trained number, in float32 */
    bool paged;       /* may lie on the host */
    const char *source;
};
const struct torch_optimizer *torch_optimizer_find(const char *optim);

#endif
