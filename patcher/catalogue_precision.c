/* patcher/catalogue_precision.c - TS1xx: formats, the loss scaler, what the device can do with them. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

#define SCALER_SOURCE                                                   \
    "torch/amp/grad_scaler.py: _unscale_grads_; PEFT troubleshooting; " \
    "transformers#23165"
#define CAPABILITY_SOURCE                                                         \
    "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; " \
    "docs/precision.md"

static const struct rule rows[] = {
    { .id = "TS101",
      .title = "fp16 and bf16 are both true",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_both_halves,
      .explain = "A product is computed in one format. Hugging Face and DeepSpeed refuse "
                 "such a job.\n\n"
                 "bf16 stays where the device has it (compute capability 8.0 or more, or "
                 "a CPU): it has "
                 "the range of float32 and needs no loss scale. Elsewhere fp16 stays. "
                 "The other one "
                 "becomes false; nothing else changes.",
      .source = "TrainingArguments.__post_init__; DeepSpeed config" },
    { .id = "TS102",
      .title = "bf16 on a device that has none",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_no_bf16,
      .explain =
          "bf16 arithmetic begins with compute capability 8.0 (Ampere). On a T4, a V100 "
          "or a "
          "TITAN RTX PyTorch emulates it slowly, and since 2.4 its is_bf16_supported() "
          "says yes "
          "there, which is why the rule goes by compute capability and never by that "
          "function.\n\n"
          "Where the card has fp16 tensor cores, bf16 becomes false and fp16 true: "
          "float16 "
          "compute over float32 weights with a dynamic loss scale. Elsewhere only bf16 "
          "becomes "
          "false, since fp16 would be no faster. pure_bf16 is left to you: its "
          "replacement needs "
          "twice the memory. Learning rate and clipping stay as they are.",
      .source = CAPABILITY_SOURCE "; LLaMA-Factory#9025; pytorch#124996" },
    { .id = "TS103",
      .title = "a model trained in bfloat16 would run in fp16",
      .severity = SEVERITY_WARNING,
      .run = rule_bf16_model,
      .explain = "float16 ends at 65504. Models trained in bfloat16 (T5, Gemma, GLM4 and "
                 "others) have "
                 "activations beyond it, which become inf, and then NaN. The loss scale "
                 "cannot help: it "
                 "scales gradients, not activations.\n\n"
                 "Many such models train well in fp16 all the same. Watch grad_norm and "
                 "loss_scale; if "
                 "the scale falls and falls, use trainspool.policy: fp32.",
      .source = "transformers#10956, #4586; ms-swift#1099; gemma_pytorch#24" },
    { .id = "TS104",
      .title = "fp16 on a device that has bf16",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_fp16_on_ampere,
      .explain =
          "From compute capability 8.0 on, bf16 is as fast as fp16 and needs no loss "
          "scale. It "
          "has 3 bits less of mantissa, which float32 master weights make up for.\n\n"
          "A run that is resumed, or compared with an older one, should stay as it was; "
          "so this "
          "is done with `--unsafe`, or with trainspool.policy: bf16.",
      .source = CAPABILITY_SOURCE },
    { .id = "TS105",
      .title = "trainable weights in float16 under a loss scaler",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_fp16_trainables,
      .explain =
          "This is where `ValueError: Attempting to unscale FP16 gradients` comes from. "
          "A "
          "gradient has the format of its weight; PyTorch's scaler refuses to unscale a "
          "float16 "
          "gradient. The condition is that some trained weight is stored in float16, and "
          "nothing "
          "else: not gradient checkpointing, not clipping, not accumulation, not "
          "device_map. "
          "To turn clipping off does not help, as step() unscales too.\n\n"
          "The sound remedy is what mixed precision means: weights in float32, compute "
          "in "
          "float16. It costs 2 bytes more a trained weight, and keeps clipping and "
          "grad_norm. "
          "Adam on float16 weights is no way out: with a learning rate of 2e-5 a weight "
          "of 0.1 "
          "does not move at all, and its second moment underflows.\n\n"
          "With lora the base model may stay in float16 (TS106). Native runs keep "
          "trained "
          "weights in float32 whatever the file says; the edit makes the file say so.\n\n"
          "In a job of another program it decides whether the job runs. LLaMA-Factory "
          "makes trained weights float32 by itself, and DeepSpeed keeps float32 copies, "
          "so neither is told; for FSDP see TS806, for adapters of an older PEFT TS801, "
          "and for a fused AdamW without clipping, where nothing raises, TS408.",
      .source = SCALER_SOURCE },
    { .id = "TS106",
      .title = "a float16 base under LoRA",
      .severity = SEVERITY_INFO,
      .run = rule_fp16_base,
      .target = RULE_NATIVE,
      .explain =
          "Frozen weights have no gradient, so the loss scaler never sees them. The "
          "adapters are float32 here, and in PEFT since 0.12. Half the memory of a "
          "float32 "
          "base, and right.",
      .source = "PEFT PR #1706 (autocast_adapter_dtype); tests/test_gpu_examples.py" },
    { .id = "TS107",
      .title = "transformers 5 would load a float16 checkpoint as float16",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_dtype_auto,
      .target = RULE_EXTERNAL,
      .explain =
          "Since version 5, from_pretrained takes the format of the files where none is "
          "given. A float16 checkpoint, such as opt-125m, then has float16 weights to "
          "train, and an old script fails as in TS105 without having changed.\n\n"
          "Where the job has a line model_dtype, the script is taken to read it, and it "
          "becomes float32; else the call is for you to change: dtype=torch.float32. It "
          "costs 2 bytes more a trained weight. Looked at where the installed version is "
          "known to be 5 or later (trainspool.env or trainspool.versions).",
      .source = "transformers PR #42805; modeling_utils.py, v5.0.0rc1" },
    { .id = "TS108",
      .title = "float16 weights trained without a loss scale",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_no_scaler,
      .explain = "Without fp16: true there is no scaler, so nothing raises, and what "
                 "runs is training in "
                 "pure float16. Gradients below 6e-8 are zero; Adam's epsilon of 1e-8 "
                 "rounds to zero, so "
                 "the first step may divide by zero; steps below half an ulp of the "
                 "weight are lost. "
                 "It looks like training and learns little.\n\n"
                 "float32 weights with fp16: true are as fast on tensor cores, and "
                 "right. Policy "
                 "noscaler keeps the job as it is, with a warning.",
      .source = "AdamW in float16, emulated: docs/precision.md" },
    { .id = "TS112",
      .title = "a loss scale without fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_NATIVE,
      .run = rule_idle_scale,
      .explain =
          "The scale lifts gradients into the range of float16. bf16 and float32 reach "
          "down to 1e-38, so there is nothing to lift. `--unsafe` comments the line out.",
      .source = "Micikevicius et al., Mixed Precision Training, 2018" },
    { .id = "TS113",
      .title = "fp16 with the loss scale off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_NATIVE,
      .run = rule_scale_off,
      .explain =
          "The smallest float16 is 6e-8; many gradients are smaller and become zero. A "
          "dynamic scale starts at 65536, halves when something overflows (that step is "
          "skipped) and doubles after 2000 good steps. It costs nothing.",
      .source =
          "Micikevicius et al., Mixed Precision Training, 2018; torch.amp.GradScaler" },
    { .id = "TS114",
      .title = "fp16 without a GPU",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_fp16_on_cpu,
      .explain =
          "CPUs convert float16 and compute in float32. It saves memory for activations "
          "and takes longer. Accelerate refuses it (an error for target: external). "
          "trainspool.keep: [fp16] keeps it, for instance to try a job before it goes to "
          "a GPU.",
      .source = "accelerate, Accelerator.__init__" },
    { .id = "TS115",
      .title = "tf32 on a device that has none",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_no_tf32,
      .explain =
          "tf32 is a mode of the tensor cores from compute capability 8.0 on: float32 in "
          "memory, 10 bits of mantissa in products. Elsewhere Hugging Face raises; here "
          "it "
          "would have no effect.",
      .source = CAPABILITY_SOURCE },
    { .id = "TS116",
      .title = "fp8 on a device that has none",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_no_fp8,
      .explain =
          "fp8: true rounds both operands of the products of a layer's matrices to 8 bits "
          "(e4m3, gradients e5m2, one scale a matrix) and goes with bf16; head, adapters, "
          "norms and attention stay as they are. Tensor cores multiply 8 bits from "
          "compute capability 8.9 on. A device without them would compute longer, not "
          "shorter.",
      .source = "Micikevicius et al., FP8 Formats for Deep Learning, 2022; support matrix "
                "of TransformerEngine" },
    { .id = "TS117",
      .title = "bf16: auto",
      .severity = SEVERITY_INFO,
      .run = rule_auto,
      .explain =
          "Decided where the job runs: bf16 from compute capability 8.0 on, fp16 with a "
          "loss scale on older cards with tensor cores, float32 elsewhere. The file "
          "stays "
          "as it is, so that it can go to another machine; `plan` and the run's manifest "
          "say what was chosen. In a job of another program the script decides.",
      .source = "precision/policy.c" },
    { .id = "TS119",
      .title = "Axolotl's words for half training",
      .severity = SEVERITY_WARNING,
      .explain =
          "In Axolotl `float16: true` and `bfloat16: true` are not fp16 and bf16: they "
          "load and train the weights themselves in 16 bits, without autocast, without "
          "float32 copies and, for float16, without a loss scale. So float16 stalls and "
          "explodes (TS108), and bfloat16 rounds small steps away (TS110).\n\n"
          "Which of two things was meant must be chosen by a person: `fp16: true` or "
          "`bf16: true` compute in 16 bits and keep float32 weights, which is what most "
          "want and costs 2 to 4 bytes a trained weight more; `pure_bf16: true` keeps "
          "bfloat16 weights to save that memory. There is no pure float16 here.",
      .source = "axolotl utils/schemas/config.py: float16, bfloat16; utils/config" },
    { .id = "TS124",
      .title = "ACCELERATE_MIXED_PRECISION says another precision",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_hidden_precision,
      .explain =
          "Accelerate reads its precision from this variable, which `accelerate "
          "launch` sets from its own settings. TrainingArguments asks it only where "
          "neither fp16 nor bf16 is true: then a run that looks like float32 in the "
          "job is in half precision, with no line that says so. Where the job says "
          "fp16 or bf16 the Trainer goes by the job, and overwrites the variable; a "
          "script with an Accelerator of its own goes by the variable.\n\n"
          "Looked at is the map trainspool.env. Say the precision in the job and "
          "nowhere else.",
      .source =
          "transformers training_args.py, __post_init__, v4.38 to v5.15" },
    { .id = "TS125",
      .title = "policy fp32 turns 16-bit compute off",
      .severity = SEVERITY_INFO,
      .apply = APPLY_SAFE,
      .run = rule_policy_fp32,
      .explain =
          "For runs whose grad_norm is NaN in fp16. Everything is float32: 1.5 to 2 "
          "times "
          "slower, and a 16-bit base model takes twice the memory (not only the "
          "adapters, "
          "as is sometimes said). On compute capability 8.0 and more, bf16 usually cures "
          "the same trouble for nothing.",
      .source = "the fifth report; docs/precision.md" },
    { .id = "TS126",
      .title = "policy noscaler trains float16 weights without a scaler",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_policy_noscaler,
      .explain =
          "The recipe of a known report: the error goes away because nothing is unscaled "
          "any more. What stays is Adam in float16 (TS108 tells what that does). Offered "
          "to reproduce such a run, not to train well. Leave the policy and TS105 mends "
          "the job.\n\n"
          "In a job that is trained here loss_scale becomes none. The Trainer of another "
          "program makes a scaler wherever fp16 is true, so there fp16 becomes false.",
      .source = "the third report; docs/precision.md" },

};
const struct rules catalogue_precision = { rows, TS_COUNT(rows) };
