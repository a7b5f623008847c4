/*
 * patcher/rules.c - the table of what is looked at, with what a person can learn from
 * each.
 *
 * Rules decide nothing about precision: they compare what the job says with the facts of
 * the device (precision/device.h) and with what policy_decide makes of it, and propose
 * edits.
 */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "base/size.h"
#include "patcher/dialect.h"

#define SCALER_SOURCE                                                   \
    "torch/amp/grad_scaler.py: _unscale_grads_; PEFT troubleshooting; " \
    "transformers#23165"
#define CAPABILITY_SOURCE                                                         \
    "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; " \
    "docs/precision.md"

static const struct rule rules[] = {
    { .id = "TS001",
      .title = "the text is not UTF-8",
      .severity = SEVERITY_ERROR,
      .explain =
          "A job must be UTF-8 without NUL bytes. UTF-16 and Latin-1 files come from "
          "some "
          "editors.\n\n"
          "Nothing is converted here, because a wrong guess would change names and paths "
          "silently. Save the file as UTF-8 in your editor, or use iconv.",
      .source = "YAML 1.2, 5.2 Character Encodings" },
    { .id = "TS002",
      .title = "the file begins with a byte order mark",
      .severity = SEVERITY_INFO,
      .explain =
          "Some editors put the three bytes EF BB BF before a UTF-8 text. They do no "
          "harm, and they stay: a patch keeps every byte it does not mean to change.",
      .source = "YAML 1.2, 5.2 Character Encodings" },
    { .id = "TS003",
      .title = "lines end in CR LF, or in several ways",
      .severity = SEVERITY_INFO,
      .explain =
          "The file was written on Windows, or by several editors. Line ends stay as "
          "they "
          "are, and a line that a patch adds ends as the one before it, so that a diff "
          "shows the change and nothing else.",
      .source = "ruamel.yaml ticket 566, where such files were damaged" },
    { .id = "TS004",
      .title = "a tab in the indentation",
      .severity = SEVERITY_ERROR,
      .explain =
          "YAML forbids tabs before a key, since nobody can tell how wide they are. "
          "Replace them by blanks.",
      .source = "YAML 1.2, 6.1 Indentation Spaces" },
    { .id = "TS005",
      .title = "a key is given twice",
      .severity = SEVERITY_ERROR,
      .explain =
          "Most readers of YAML silently take the last one, others refuse the file, so "
          "two tools would train two different jobs from the same text. The same goes "
          "for "
          "a key and its other name, as torch_dtype and model_dtype.\n\n"
          "Which one is meant is for you to say: delete the other.",
      .source = "PyYAML takes the last one; OmegaConf raises" },
    { .id = "TS006",
      .title = "several documents in one file",
      .severity = SEVERITY_ERROR,
      .explain =
          "A line `---` in the middle begins a second document. A job is one document; "
          "put the second into a file of its own.",
      .source = "YAML 1.2, 9.1 Documents" },
    { .id = "TS007",
      .title = "an edit would go into an anchor, an alias or a merge",
      .severity = SEVERITY_WARNING,
      .explain = "The value is shared by name (&x, *x, <<). To change it in one place "
                 "changes it "
                 "in all, and to write it out takes it away from the others, so a patch "
                 "leaves it "
                 "alone and says what it would have changed. Edit it by hand.",
      .source = "mikefarah/yq#877, #2404: edits that went into the wrong place" },
    { .id = "TS008",
      .title = "a value holds ${...}",
      .severity = SEVERITY_WARNING,
      .explain = "OmegaConf and shells fill such a hole in; nothing does here. In a key "
                 "that has "
                 "an effect it is an error, since nobody knows the value; where an edit "
                 "would go, "
                 "the edit is left to you.",
      .source = "OmegaConf interpolation" },
    { .id = "TS009",
      .title = "no job: empty, too large, or not YAML",
      .severity = SEVERITY_ERROR,
      .explain =
          "A job is a mapping of keys to values, of at most 1 MiB, 32 levels, 20,000 "
          "events, 100 aliases and 4 KiB a value. The limits are far above any real job; "
          "they keep a hostile or broken file from costing minutes: libyaml needs 28 "
          "seconds for 200 kB of opening brackets.",
      .source = "measured with libyaml 0.2.5; `billion laughs`" },
    { .id = "TS010",
      .title = "the file changed while it was being patched",
      .severity = SEVERITY_ERROR,
      .explain =
          "Between reading and replacing, somebody else wrote the file: an editor, or a "
          "copy that still runs. It is read once more; if it changes again it is left as "
          "it is. Patch it when the writer is done.",
      .source = "inode, time and digest are compared before the rename" },
    { .id = "TS011",
      .title = "the file is not replaced: a link, read-only, or of another owner",
      .severity = SEVERITY_WARNING,
      .explain =
          "A patch replaces the file as a whole, by a rename, so that no reader ever "
          "sees "
          "half of it. That would cut a symbolic or hard link off from its other end, "
          "change the owner, or override a read-only mark. Patch the file itself.",
      .source = "rename(2)" },
    { .id = "TS012",
      .title = "yes, no, on, off, 1_000, 017, 12:30: readers of YAML differ",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "YAML 1.1 takes yes and off for booleans, 017 for 15 and 12:30 for 750; "
          "YAML 1.2 takes them for texts, or for 17. Python's PyYAML is of the first "
          "kind, "
          "so that is how they are read here.\n\n"
          "Words are rewritten as true or false, which mean the same everywhere. Numbers "
          "are left to you.",
      .source = "yaml.org/type/bool.html, int.html; PyYAML, tried" },
    { .id = "TS013",
      .title = "a number that PyYAML takes for a text",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_exponents,
      .explain =
          "For PyYAML `2e-5` and `1.0e4` are texts: it wants a point and a signed "
          "exponent. The text then fails deep in the optimizer. For target: external the "
          "number is written out, 2.0e-5; here both are the same number, and nothing is "
          "changed.",
      .source = "LLaMA-Factory#4149, #4014; trl#1450" },
    { .id = "TS014",
      .title = "a number or a boolean in quotes",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .explain =
          "In quotes it is a text for most tools. The key says what is wanted, so it is "
          "read here as meant. `patch --unsafe` takes the quotes away.",
      .source = "the type of the key decides" },

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
          "weights in float32 whatever the file says; the edit makes the file say so.",
      .source = SCALER_SOURCE },
    { .id = "TS106",
      .title = "a float16 base under LoRA",
      .severity = SEVERITY_INFO,
      .run = rule_fp16_base,
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
      .explain =
          "Since version 5, from_pretrained takes the format of the files where none is "
          "given. A float16 checkpoint, such as opt-125m, then has float16 weights to "
          "train, and an old script fails as in TS105 without having changed. Looked at "
          "for target: external with `versions: {transformers: 5...}` only.",
      .source = "transformers PR #42805" },
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
      .run = rule_idle_scale,
      .explain =
          "The scale lifts gradients into the range of float16. bf16 and float32 reach "
          "down to 1e-38, so there is nothing to lift. `--unsafe` comments the line out.",
      .source = "Micikevicius et al., Mixed Precision Training, 2018" },
    { .id = "TS113",
      .title = "fp16 with the loss scale off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
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
          "say what was chosen.",
      .source = "precision/policy.c" },
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
          "the job.",
      .source = "the third report; docs/precision.md" },

    { .id = "TS201",
      .title = "a GPU that this build has no code for",
      .severity = SEVERITY_ERROR,
      .run = rule_no_code,
      .explain =
          "A program has code for the compute capabilities it was built for, and runs on "
          "no other. CUDA 13 makes none for P100, V100 and GTX 10xx any more, CUDA 12 "
          "does: configure with `--with-cuda=DIR` of such a toolkit and "
          "`--with-cuda-archs` of the card. A job that asks for the card by device: cuda "
          "is refused; one that leaves the choice (auto) runs on the CPU, with a warning. "
          "`trainspool devices` shows what the build can use. Only a card found in this "
          "machine counts, not one named by --device.",
      .source = "CUDA 13.0 release notes; kaggle-cli#1151" },
    { .id = "TS202",
      .title = "fp16 on a GTX 16xx",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_no_tensor_cores,
      .explain =
          "These cards are of compute capability 7.5 but have no tensor cores, and fp16 "
          "is "
          "reported to give NaN on them. float32 is as fast. Done with `--unsafe`, since "
          "fp16 halves the activations on a card of 4 or 6 GB.",
      .source = "pytorch#58123, #77955; kohya_ss#436" },
    { .id = "TS203",
      .title = "fp16 at 1/64 of the rate",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_slow_fp16,
      .explain =
          "GTX 10xx, P40 and P4 (compute capability 6.1) have one fp16 unit for 64 of "
          "float32. fp16 pays there as storage of frozen weights only.",
      .source = "CUDA C++ Programming Guide, arithmetic throughput" },
    { .id = "TS204",
      .title = "fp16 on a P100",
      .severity = SEVERITY_INFO,
      .run = rule_p100,
      .explain =
          "Compute capability 6.0 does fp16 at twice the float32 rate (21.2 to 10.6 "
          "TFLOPS), without tensor cores. fp16 with a loss scale is worth it, mostly for "
          "memory. Ready-made PyTorch has no code for this card any more; check the "
          "device "
          "before the job.",
      .source = "CUDA C++ Programming Guide; kaggle-cli#1151" },
    { .id = "TS207",
      .title = "more ranks than GPUs",
      .severity = SEVERITY_ERROR,
      .run = rule_ranks,
      .explain =
          "Each rank trains on a GPU of its own, and GPUs that train together are of one "
          "compute capability. Two processes on one GPU would take turns and need twice "
          "the memory. To keep the batch of a step with fewer ranks, multiply "
          "gradient_accumulation_steps by what ranks is divided by.",
      .source = "trainspool-job(5)" },

    { .id = "TS301",
      .title = "the job will not fit into memory",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_memory,
      .explain = "The estimate counts weights, 16-bit copies, gradients, both moments, "
                 "activations and "
                 "workspace, as the trainer will lay them out, against memory_limit (95 "
                 "% of what is "
                 "free).\n\n"
                 "`--unsafe` does, until it fits: checkpointing on (computes each layer "
                 "twice, about "
                 "20 to 30 % slower), then a smaller micro batch with more accumulation, "
                 "which keeps the "
                 "effective batch exactly (TS302). If nothing helps it is an error: "
                 "use lora or a smaller model, or shorten cutoff_len where it is the "
                 "activations that do not fit. Learning rate and effective batch are "
                 "never touched.",
      .source = "train/shapes.h; arXiv 2205.05198 for activations" },
    { .id = "TS302",
      .title = "a smaller micro batch with more accumulation",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "The largest divisor of per_device_train_batch_size that fits; accumulation is "
          "multiplied by the same factor, so that batch times accumulation stays what it "
          "was. The loss is divided by the trained tokens of the whole window, so the "
          "result is the same but for rounding.",
      .source =
          "transformers PR #33281: a batch that shrank by 0.9 and changed the training" },
    { .id = "TS303",
      .title = "two keys contradict each other about checkpointing",
      .severity = SEVERITY_ERROR,
      .run = rule_checkpointing,
      .explain =
          "gradient_checkpointing is Hugging Face's key (preset: off), "
          "disable_gradient_checkpointing LLaMA-Factory's (preset: on). Without either, "
          "checkpointing is on here. Keep the one you mean. Neither has to do with the "
          "loss scaler's error.",
      .source = "LLaMA-Factory model_args.py; TrainingArguments" },
    { .id = "TS307",
      .title = "an 8-bit or paged Adam",
      .severity = SEVERITY_WARNING,
      .run = rule_optimizer,
      .explain =
          "Moments are float32 here: 8 bytes a trained weight. With lora that is little. "
          "The file stays as it is; `plan` shows the memory.",
      .source = "train/optimizer.c" },

    { .id = "TS401",
      .title = "max_grad_norm is empty",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_null_clip,
      .explain =
          "Empty means off for Hugging Face and LLaMA-Factory, 1.0 for Axolotl, and a "
          "TypeError for DeepSpeed. 0.0 means off everywhere, so that is written.\n\n"
          "If it was emptied against `Attempting to unscale FP16 gradients`: it does not "
          "help (TS105). Put 1.0 back.",
      .source = "transformers trainer.py; deepspeed/runtime/engine.py" },
    { .id = "TS402",
      .title = "clipping is off with fp16",
      .severity = SEVERITY_WARNING,
      .run = rule_no_clip,
      .explain =
          "Gradients are unscaled before the step whether they are clipped or not, so "
          "this avoids nothing. Without clipping one bad batch moves the weights as far "
          "as "
          "it likes. grad_norm is logged here either way, so you can see what clipping "
          "would do.",
      .source = "torch/amp/grad_scaler.py: step" },
    { .id = "TS403",
      .title = "max_grad_norm is negative",
      .severity = SEVERITY_ERROR,
      .run = rule_negative_clip,
      .explain =
          "Gradients are multiplied by max_grad_norm / norm. A negative one turns them "
          "round, and the training climbs. 0.0 is off, 1.0 the preset.",
      .source = "torchtitan PR #4295" },
    { .id = "TS404",
      .title = "policy noclip turns clipping off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_policy_noclip,
      .explain =
          "The recipe of a known report. It avoids the loss scaler's error only with a "
          "fused AdamW of torch, which unscales inside its kernel, and then float16 "
          "weights are trained by float16 Adam (TS108). With float32 weights, which a "
          "native run always has, clipping does no harm and costs nothing.",
      .source = "the first report; torch/amp/grad_scaler.py: step" },
    { .id = "TS410",
      .title = "a learning rate, beta or decay out of range",
      .severity = SEVERITY_ERROR,
      .run = rule_rates,
      .explain =
          "learning_rate must be above 0 and at most 1 (full fine-tuning: about 1e-5, "
          "LoRA: about 1e-4), both betas from 0 to below 1, weight_decay 0 or more. "
          "Outside, the run diverges or stands still.",
      .source = "Kingma and Ba, Adam, 2015; Loshchilov and Hutter, 2019" },

    { .id = "TS601",
      .title = "evaluation_strategy is now eval_strategy",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "Renamed in transformers 4.41 and gone in 5. The value, its comment and its "
          "place stay.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },
    { .id = "TS602",
      .title = "per_gpu_*_batch_size is now per_device_*_batch_size",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain = "The name of the days when every device was a GPU, gone from "
                 "transformers 5. The "
                 "value, its comment and its place stay.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },
    { .id = "TS604",
      .title = "no_cuda is now use_cpu",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "An old name with the same meaning, gone from transformers 5: there an old job "
          "stops at it. The value, its comment and its place stay.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },
    { .id = "TS609",
      .title = "push_to_hub_token and push_to_hub_model_id have new names",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "hub_token and hub_model_id. The value stays, and a token is never shown.",
      .source = "transformers MIGRATION_GUIDE_V5.md" },

    { .id = "TS701",
      .title = "a known key in another spelling",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .explain = "Logging_steps, num train epochs, --learning-rate: equal to a key but "
                 "for case, "
                 "blanks, dashes. Names are exact; the key is renamed, the value stays.",
      .source = "LLaMA-Factory#3914" },
    { .id = "TS702",
      .title = "an unknown key, one letter or two from a known one",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .explain =
          "Many tools pass over what they do not know, and train with the preset instead "
          "of your value. There is one key at distance 1 or 2; `--unsafe` takes it.",
      .source = "MakazhanAlpamys/Soup#627; Damerau, 1964" },
    { .id = "TS703",
      .title = "an unknown key",
      .severity = SEVERITY_ERROR,
      .explain =
          "It is in no table: not one of trainspool's, not of LLaMA-Factory's, not of "
          "TrainingArguments. Where several keys are equally near they are named. "
          "trainspool-job(5) lists all.",
      .source = "LLaMA-Factory#5633" },
    { .id = "TS704",
      .title = "a value of the wrong type",
      .severity = SEVERITY_ERROR,
      .explain = "The key decides what its value must be; the message says which forms "
                 "it takes. "
                 "An empty value means `not given`.",
      .source = "trainspool-job(5)" },
    { .id = "TS705",
      .title = "a value outside its range or list",
      .severity = SEVERITY_ERROR,
      .run = rule_wanted_device,
      .explain =
          "The message says what is allowed, and the nearest word where there is one.",
      .source = "trainspool-job(5)" },
    { .id = "TS706",
      .title = "another tool's file, or another tool's word",
      .severity = SEVERITY_ERROR,
      .explain =
          "Axolotl, torchtune, LLaMA-Factory v1 and Accelerate use the same words for "
          "other things. batch_size is the total of a step in Axolotl and that of one "
          "device in torchtune; an empty max_grad_norm is 1.0 in Axolotl and off in "
          "LLaMA-Factory. So nothing is guessed: `trainspool import` prints an Axolotl "
          "or "
          "torchtune file as a job, with what could not be carried over as comments.",
      .source = "axolotl schemas/config.py; torchtune recipes; docs/precision.md" },
    { .id = "TS707",
      .title = "a known key that is not done here",
      .severity = SEVERITY_ERROR,
      .run = rule_later,
      .explain =
          "The key is LLaMA-Factory's or Hugging Face's and switches something on that "
          "this program does not do. Silence would train another job than the one "
          "written. Off, empty or at its preset it does no harm (TS708).",
      .source = "trainspool-job(5)" },
    { .id = "TS708",
      .title = "known keys without effect",
      .severity = SEVERITY_INFO,
      .explain =
          "They are right for other tools and have nothing to do here: workers of a data "
          "loader, tracking services, settings of libraries that are not used. They stay "
          "in the file.",
      .source = "trainspool-job(5)" },
    { .id = "TS709",
      .title = "a secret in the file",
      .severity = SEVERITY_WARNING,
      .explain =
          "Tokens and keys in a job end up in backups, copies and version control. "
          "Nothing is downloaded or uploaded here, so none is needed. The value is never "
          "printed or logged, and backups are readable by their owner only. Take it out, "
          "and revoke it if the file was shared.",
      .source = "trainspool-job(5)" },
    { .id = "TS710",
      .title = "a path leads out of its folder",
      .severity = SEVERITY_ERROR,
      .run = rule_paths,
      .explain =
          "A relative path is relative to the job file. What a job writes to "
          "(output_dir, export_dir) must not climb out of the job's folder with `..`; "
          "write the whole path if it is meant. Where a spool allows certain folders "
          "only, "
          "all paths must lie below them. `~` is a shell's word and is not expanded.",
      .source = "a job in a watched folder may come from somebody else" },
    { .id = "TS713",
      .title = "a model folder or a data file is not there",
      .severity = SEVERITY_WARNING,
      .run = rule_missing,
      .explain =
          "Nothing is downloaded. model_name_or_path names a folder with config.json, "
          "*.safetensors and tokenizer.json; dataset names a .json, .jsonl or .txt file "
          "(also .gz), or an entry of dataset_info.json in dataset_dir. A warning while "
          "checking, as the job may be for another machine; an error for `run` and "
          "`watch`.",
      .source = "trainspool-job(5)" },
};

size_t rules_all(const struct rule **out)
{
    *out = rules;
    return TS_COUNT(rules);
}

const struct rule *rules_find(const char *id)
{
    for (size_t i = 0; i < TS_COUNT(rules); i++)
        if (strcmp(rules[i].id, id) == 0)
            return &rules[i];
    return NULL;
}

/* The text, names, renames, then the device, then precision and what follows from it. */
static const char run_order[] = "0762143";

static void run_group(struct rule_context *context, char group)
{
    for (size_t i = 0; i < TS_COUNT(rules); i++)
        if (rules[i].id[2] == group && rules[i].run)
            rules[i].run(context);
}

static bool is_job(const struct rule_context *context)
{
    const struct entry *marker;

    return context->document->root &&
           dialect_find(context->document, &marker) == DIALECT_NATIVE;
}

void rules_run(struct rule_context *context)
{
    if (!is_job(context))
        return;
    for (const char *group = run_order; *group; group++)
        run_group(context, *group);
    propose_settle_groups(context->findings);
}
