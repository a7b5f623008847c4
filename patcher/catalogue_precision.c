/* patcher/catalogue_precision.c - TS1xx: formats, the loss scaler, what the device can do
 * with them. */
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
      .explain = "A product is computed in one format. Hugging Face and DeepSpeed "
                 "refuse such a job.\n\n"
                 "bf16 stays where the device has it (compute capability 8.0 or more, "
                 "or a CPU): it has the range of float32 and needs no loss scale. "
                 "Elsewhere fp16 stays. The other one becomes false; nothing else "
                 "changes.",
      .source = "TrainingArguments.__post_init__; DeepSpeed config" },
    { .id = "TS102",
      .title = "bf16 on a device that has none",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_no_bf16,
      .explain =
          "bf16 arithmetic begins with compute capability 8.0 (Ampere). On a T4, a V100 "
          "or a TITAN RTX PyTorch emulates it slowly, and since 2.4 its "
          "is_bf16_supported() says yes there, which is why the rule goes by compute "
          "capability and never by that function.\n\n"
          "Where the card has fp16 tensor cores, bf16 becomes false and fp16 true: "
          "float16 compute over float32 weights with a dynamic loss scale. Elsewhere "
          "only bf16 becomes false, since fp16 would be no faster. pure_bf16 is left to "
          "you: its replacement needs twice the memory. model_dtype: bfloat16 becomes "
          "float32; for weights that stay frozen (lora) it becomes float16 where "
          "float32 would not fit, and TS103 tells of the range. Learning rate and "
          "clipping stay as they are.",
      .source = CAPABILITY_SOURCE "; LLaMA-Factory#9025; pytorch#124996" },
    { .id = "TS103",
      .title = "a model trained in bfloat16 would run in fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_bf16_model,
      .explain =
          "float16 ends at 65504. Models trained in bfloat16 (files in bfloat16, or T5, "
          "Gemma, GLM4 by name) may have activations beyond it, which become inf, and "
          "then NaN. The loss scale cannot help: it scales gradients, not activations.\n"
          "\n"
          "Many such models train well in fp16 all the same. Watch grad_norm and "
          "loss_scale; if the scale falls and falls, train in float32: `--unsafe` turns "
          "fp16 off, trainspool.policy: fp32 does the same for good. It costs speed and "
          "twice the activations. A card with bf16 (8.0 and up) needs neither.",
      .source = "transformers#4586, #10956; gemma_pytorch#24; ms-swift#1099" },
    { .id = "TS104",
      .title = "fp16 on a device that has bf16",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_fp16_on_ampere,
      .explain =
          "From compute capability 8.0 on, bf16 is as fast as fp16 and needs no loss "
          "scale. It has 3 bits less of mantissa, which float32 master weights make up "
          "for.\n\n"
          "A run that is resumed, or compared with an older one, should stay as it was; "
          "so this is done with `--unsafe`, or with trainspool.policy: bf16.",
      .source = CAPABILITY_SOURCE },
    { .id = "TS105",
      .title = "trainable weights in float16 under a loss scaler",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_fp16_trainables,
      .explain =
          "This is where `ValueError: Attempting to unscale FP16 gradients` comes from. "
          "A gradient has the format of its weight; PyTorch's scaler refuses to unscale "
          "a float16 gradient. The condition is that some trained weight is stored in "
          "float16, and nothing else: not gradient checkpointing, not clipping, not "
          "accumulation, not device_map. To turn clipping off does not help, as step() "
          "unscales too.\n\n"
          "The sound remedy is what mixed precision means: weights in float32, compute "
          "in float16. It costs 2 bytes more a trained weight, and keeps clipping and "
          "grad_norm. Adam on float16 weights is no way out: with a learning rate of "
          "2e-5 a weight of 0.1 does not move at all, and its second moment "
          "underflows.\n\n"
          "With lora the base model may stay in float16 (TS106). Native runs keep "
          "trained weights in float32 whatever the file says; the edit makes the file "
          "say so.\n\n"
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
          "adapters are float32 here, and in PEFT since 0.12. The base takes half the "
          "memory that it would in float32, and nothing needs to be changed.",
      .source =
          "PEFT PR #1706 (autocast_adapter_dtype); PEFT's tests/test_gpu_examples.py" },
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
          "costs 2 bytes more a trained weight. Looked at where the installed version "
          "is known to be 5 or later (trainspool.env or trainspool.versions).",
      .source = "transformers PR #42805; modeling_utils.py, v5.0.0rc1" },
    { .id = "TS108",
      .title = "float16 weights trained without a loss scale",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_no_scaler,
      .explain = "Without fp16: true there is no scaler, so nothing raises, and what "
                 "runs is training in pure float16. Gradients below 6e-8 are zero; "
                 "Adam's epsilon of 1e-8 rounds to zero, so the first step may divide "
                 "by zero; steps below half an ulp of the weight are lost. It looks "
                 "like training and learns little.\n\n"
                 "float32 weights with bf16: true, or fp16: true where there is no "
                 "bf16, are as fast on tensor cores, and right. Policy noscaler keeps "
                 "the job as it is, with a warning.",
      .source = "AdamW in float16, emulated: docs/precision.md" },
    { .id = "TS109",
      .title = "a float16 model under fp16 went wrong in the previous run",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_trouble_in_half,
      .explain =
          "fp16 over float32 weights keeps the sums between layers in float32. Over a "
          "model that is itself float16 they are float16 too, and one value above 65504 "
          "becomes inf and then NaN in all that follows. Models trained in bf16 have "
          "such values. With adapters nothing is raised: the loss scaler skips every "
          "step, and a log that filters NaN shows a loss of exactly 0.0.\n\n"
          "So where the log of the previous run shows it, bf16 is chosen on devices "
          "that have it, and elsewhere the frozen model is kept in float32, which takes "
          "twice its memory. policy fp32 turns fp16 off as well. What counts as "
          "trouble: see TS405. Only a run with the same formats counts, so the edit is "
          "made once; a run that was interrupted and had found its way again is only "
          "told of.",
      .source =
          "transformers#10956, gemma_pytorch#24, ms-swift#1099; LLaMA-Factory#4202" },
    { .id = "TS110",
      .title = "pure_bf16 is a memory mode",
      .severity = SEVERITY_INFO,
      .run = rule_pure_bf16,
      .explain =
          "pure_bf16 stores trained weights and both moments in bfloat16: 6 bytes a "
          "weight instead of 12, and no float32 copy. bfloat16 has 8 bits of mantissa, "
          "so a step below 1/512 of its weight is lost when it is rounded to the "
          "nearest: with a learning rate of 1e-5 that is most steps of most weights.\n\n"
          "A native run rounds weights up or down by chance, with the odds of their "
          "place between two neighbours, so that lost and doubled steps even out; "
          "PyTorch rounds to the nearest. Where memory allows, bf16: true (float32 "
          "weights, bfloat16 compute) is the better mode; lora saves more memory than "
          "pure_bf16 does.",
      .source = "LLaMA-Factory#3510 and PR #5170; Gupta et al., Deep Learning with "
                "Limited Numerical Precision, 2015; docs/precision.md" },
    { .id = "TS111",
      .title = "pure_bf16 together with fp16 or fp8",
      .severity = SEVERITY_ERROR,
      .run = rule_pure_and_half,
      .explain =
          "pure_bf16 says that weights, gradients and products are all bfloat16; fp16 "
          "and fp8 ask for products of another format over float32 weights. A run can "
          "be one of them only, and which one was meant cannot be told from the file, "
          "so nothing is edited.\n\n"
          "Take pure_bf16 out for speed and precision, or the other one for memory.",
      .source = "DeepSpeed refuses fp16 with bf16; precision/policy.c" },
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
          "trainspool.keep: [fp16] keeps it, for instance to try a job before it goes "
          "to a GPU.",
      .source = "accelerate, Accelerator.__init__" },
    { .id = "TS115",
      .title = "tf32 on a device that has none",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_no_tf32,
      .explain =
          "tf32 is a mode of the tensor cores from compute capability 8.0 on: float32 "
          "in memory, 10 bits of mantissa in products. Elsewhere Hugging Face raises; "
          "here it would have no effect.",
      .source = CAPABILITY_SOURCE },
    { .id = "TS116",
      .title = "fp8 on a device that has none, or with quantised weights",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_no_fp8,
      .explain =
          "fp8: true rounds both operands of the products of a layer's matrices to 8 "
          "bits (e4m3, gradients e5m2, one scale a matrix) and goes with bf16; head, "
          "adapters, norms and attention stay as they are. Tensor cores multiply 8 bits "
          "from compute capability 8.9 on. A device without them would compute longer, "
          "not shorter: fp8 becomes false, and where the job asks for no 16-bit format "
          "the nearest one that the device has becomes true.\n\n"
          "Weights that are quantised already cannot be rounded to 8 bits once more, "
          "and LLaMA-Factory refuses the two together; which one is meant is for a "
          "person.",
      .source = "Micikevicius et al., FP8 Formats for Deep Learning, 2022; support "
                "matrix of TransformerEngine; LLaMA-Factory, hparams/parser.py" },
    { .id = "TS117",
      .title = "bf16: auto",
      .severity = SEVERITY_INFO,
      .run = rule_auto,
      .explain =
          "Decided where the job runs: bf16 from compute capability 8.0 on, fp16 with a "
          "loss scale on older cards with tensor cores, float32 elsewhere. The file "
          "stays as it is, so that it can go to another machine; `plan` and the run's "
          "manifest say what was chosen. In a job of another program the script decides.",
      .source = "precision/policy.c" },
    { .id = "TS118",
      .title = "neither bf16 nor fp16 on tensor cores",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_only_fp32,
      .explain =
          "Without fp16 and bf16 every product is float32, which leaves the tensor "
          "cores idle: 16-bit products are several times faster there, and activations "
          "take half the memory. Trained weights and moments are float32 either way.\n\n"
          "`--unsafe` adds bf16: true from compute capability 8.0 on, and fp16: true "
          "with a dynamic loss scale on older cards with tensor cores; there not for a "
          "model that was trained in bfloat16 (TS103). A run that is meant as a float32 "
          "reference stays as it is: trainspool.policy: fp32 says so and silences this.",
      .source = "LLaMA-Factory, hparams/parser.py (\"We recommend enable mixed "
                "precision training\"); Micikevicius et al., Mixed Precision Training, "
                "2018" },
    { .id = "TS119",
      .title = "Axolotl's words for half training",
      .severity = SEVERITY_WARNING,
      .explain =
          "In Axolotl `float16: true` is not fp16: it loads and trains the weights "
          "themselves in float16, without autocast, without float32 copies and without "
          "a loss scale, so training stalls and explodes (TS108). `bfloat16: true` does "
          "there what its `bf16: true` does: the weights are loaded and stepped in "
          "bfloat16, under autocast, and small steps are rounded away (TS110).\n\n"
          "Which of two things was meant must be chosen by a person: `fp16: true` or "
          "`bf16: true` compute in 16 bits and keep float32 weights, which is what most "
          "want and costs 2 to 4 bytes a trained weight more; `pure_bf16: true` keeps "
          "bfloat16 weights to save that memory. There is no pure float16 here.",
      .source = "axolotl utils/schemas/config.py: float16, bfloat16; utils/config; "
                "core/builders/base.py" },
    { .id = "TS120",
      .title = "4-bit weights multiplied in bfloat16 on a device that has none",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_4bit_dtype,
      .explain =
          "4-bit weights are only stored so: each product first brings them to "
          "bnb_4bit_compute_dtype. Below compute capability 8.0 bfloat16 is emulated, "
          "which is slow and lacks kernels (TS102). float16 is what such a card can "
          "multiply.\n\n"
          "Looked for at the top of the file and in quantization_config; a `torch.` "
          "before the name stays. A native run multiplies in the format of fp16 and "
          "bf16, so this concerns target: external.",
      .source = CAPABILITY_SOURCE "; pytorch PR #148322" },
    { .id = "TS121",
      .title = "fp16_full_eval and bf16_full_eval are both true",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_both_evals,
      .explain =
          "Evaluation runs in one format too, and Hugging Face refuses both. As with "
          "TS101, bf16_full_eval stays where the device has bf16 (compute capability "
          "8.0 or more, or a CPU), fp16_full_eval elsewhere; the other one becomes "
          "false.",
      .source = "TrainingArguments.__post_init__" },
    { .id = "TS122",
      .title = "adam_epsilon vanishes in float16",
      .severity = SEVERITY_WARNING,
      .run = rule_epsilon,
      .explain =
          "Adam divides by the root of its second moment plus epsilon. Under policy "
          "noscaler the moments are float16, whose smallest number is 6e-8: the preset "
          "epsilon of 1e-8 rounds to 0, and a second moment of a gradient below about "
          "0.005 does too. PyTorch's step is then a division by zero, and the weight is "
          "inf after the first step. A kernel that computes in float32, as a native "
          "run's, does not divide by zero, but forgets the second moment from step to "
          "step: after 1000 steps each is 25 times the learning rate.\n\n"
          "An epsilon of 1e-5 to 1e-4 bounds the step and makes Adam nearly a plain "
          "gradient step for small gradients. Leaving the policy is better: with "
          "float32 weights the preset is right.",
      .source = "AdamW in float16, emulated: docs/precision.md" },
    { .id = "TS123",
      .title = "quantised training without upcast_layernorm",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_quantised_norms,
      .explain =
          "Norms are sums of squares over a whole row, and few weights. On quantised "
          "models LLaMA-Factory computes them in the 16-bit format of the rest unless "
          "upcast_layernorm: true is given, and recommends it in a warning at the "
          "start. float32 norms cost a few kB and almost no time.\n\n"
          "For target: external alone: a native run always computes norms in float32.",
      .source = "LLaMA-Factory, hparams/parser.py (\"We recommend enable "
                "`upcast_layernorm` in quantized training\")" },
    { .id = "TS124",
      .title = "ACCELERATE_MIXED_PRECISION says another precision",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_hidden_precision,
      .explain =
          "Accelerate reads its precision from this variable, which `accelerate launch` "
          "sets from its own settings. TrainingArguments asks it only where neither "
          "fp16 nor bf16 is true: then a run that looks like float32 in the job is in "
          "half precision, with no line that says so. Where the job says fp16 or bf16 "
          "the Trainer goes by the job, and overwrites the variable; a script with an "
          "Accelerator of its own goes by the variable.\n\n"
          "Looked at are the map trainspool.env and the words of trainspool.command, "
          "`accelerate launch --mixed_precision ..`. Say the precision in the job and "
          "nowhere else.",
      .source = "transformers training_args.py, __post_init__, v4.38 to v5.15" },
    { .id = "TS125",
      .title = "policy fp32 turns 16-bit compute off",
      .severity = SEVERITY_INFO,
      .apply = APPLY_SAFE,
      .run = rule_policy_fp32,
      .explain =
          "For runs whose grad_norm is NaN in fp16. Everything is float32, so bf16, "
          "fp16, pure_bf16 and fp8 become false, and trained weights float32: 1.5 to 2 "
          "times slower, and a 16-bit base model takes twice the memory (not only the "
          "adapters, as is sometimes said). On compute capability 8.0 and more, bf16 "
          "usually cures the same trouble for nothing.",
      .source = "the fifth report; docs/precision.md" },
    { .id = "TS126",
      .title = "policy noscaler trains float16 weights without a scaler",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_policy_noscaler,
      .explain =
          "The recipe of a known report: the error goes away because nothing is "
          "unscaled any more. What stays is Adam in float16 (TS108 tells what that "
          "does). Offered to reproduce such a run, not to train well. Leave the policy "
          "and TS105 mends the job.\n\n"
          "In a job that is trained here loss_scale becomes none. The Trainer of "
          "another program makes a scaler wherever fp16 is true, so there fp16 becomes "
          "false.",
      .source = "the third report; docs/precision.md" },

};
const struct rules catalogue_precision = { rows, TS_COUNT(rows) };
