/* patcher/catalogue_optimizer.c - TS4xx: optimizer, clipping, learning rate. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS401",
      .title = "max_grad_norm is empty",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_null_clip,
      .explain =
          "Empty means off for Hugging Face and LLaMA-Factory, 1.0 for Axolotl, and a "
          "TypeError for DeepSpeed. 0.0 means off everywhere, so that is written.\n\n"
          "If it was emptied against `Attempting to unscale FP16 gradients`: it does "
          "not help (TS105). Put 1.0 back.",
      .source = "transformers trainer.py; deepspeed/runtime/engine.py" },
    { .id = "TS402",
      .title = "clipping is off with fp16",
      .severity = SEVERITY_WARNING,
      .run = rule_no_clip,
      .explain =
          "Gradients are unscaled before the step whether they are clipped or not, so "
          "this avoids nothing. Without clipping one bad batch moves the weights as far "
          "as it likes. grad_norm is logged here either way, so you can see what "
          "clipping would do; the Trainer of another program logs it only where it "
          "clips. With a fused AdamW or DeepSpeed, which unscale by themselves, nothing "
          "is said here (TS408).",
      .source = "torch/amp/grad_scaler.py: step" },
    { .id = "TS403",
      .title = "max_grad_norm is negative",
      .severity = SEVERITY_ERROR,
      .firm = true,
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
    { .id = "TS405",
      .title = "the previous run's gradients went wrong",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_trouble_before,
      .explain =
          "The log of the job's previous run (NAME.run/metrics.jsonl, or log_history of "
          "an external job's trainer_state.json) has a loss or norm that is NaN or inf, "
          "or a norm of more than 100 times the median. The first is a run to look at, "
          "the second a batch that pushes as much as a hundred others; both are mended "
          "by smaller steps more often than by another precision. `--unsafe` writes "
          "max_grad_norm: 0.5. A tenth of the learning rate is the other remedy, and is "
          "never written: the learning rate is yours.\n\n"
          "A loss scale is found by overflowing, so with fp16 a norm that is NaN now "
          "and then is no trouble: in the first ten steps, or alone. It counts without "
          "a loss scale, three times in a row, or where more steps were skipped than "
          "the search explains. Nothing is told once the learning rate, max_grad_norm "
          "or the precision differ from the previous run's: then you have acted.",
      .source = "PyTorch clip_grad_norm_, amp GradScaler; precision/scaler.h" },
    { .id = "TS406",
      .title = "a learning rate far from what is usual",
      .severity = SEVERITY_INFO,
      .run = rule_far_rate,
      .explain =
          "Above 1e-4 when all weights are trained, or above 1e-3 with LoRA, Adam tends "
          "to forget what a pretrained model knows, or to diverge. It may still be "
          "meant, so this is only said, and never edited. Examples of LLaMA-Factory use "
          "1e-5 for all weights and 1e-4 with LoRA, those of Axolotl mostly 2e-4 with "
          "LoRA. In stage dpo it is told above 5e-5: there LLaMA-Factory's example "
          "takes 5e-6 with LoRA.\n\n"
          "Not said of a run from scratch, of other optimizers than Adam, and of models "
          "narrower than 512, which want more.",
      .source = "the example jobs of LLaMA-Factory and Axolotl" },
    { .id = "TS407",
      .title = "a warm-up that means different things",
      .severity = SEVERITY_WARNING,
      .run = rule_warmup,
      .explain =
          "Given both, transformers 4 lets warmup_steps win over warmup_ratio, "
          "transformers 5 writes the ratio over the steps, and here a ratio above 0 "
          "wins. A ratio of 1 makes the whole run a warm-up. warmup_steps below 1 is a "
          "share of all steps here and in transformers 5; before, it was an error or no "
          "warm-up. And when warmup_ratio: 1.0 was moved to warmup_steps by a script, "
          "one step was left.\n\n"
          "Keep one of the two keys. As only a person knows the length that was meant, "
          "nothing is edited.",
      .source = "transformers, training_args.py (4: get_warmup_steps, 5: "
                "__post_init__); vllm semantic-router PR #3940" },
    { .id = "TS408",
      .title = "fused AdamW over float16 weights, without clipping",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .target = RULE_EXTERNAL,
      .run = rule_fused_adam,
      .explain =
          "The loss scaler unscales gradients itself and refuses float16 ones. torch's "
          "fused AdamW does the unscaling in its own kernel, so where nothing else asks "
          "for unscaled gradients, as clipping does, no check is made and nothing "
          "raises. What runs is Adam in float16: its second moment underflows below a "
          "gradient of about 0.005, and steps below half an ulp of a weight are lost. "
          "adamw_torch_fused is the Trainer's preset from transformers 4.54 with torch "
          "2.8 on, so the same script raises with one torch and trains badly with the "
          "next.\n\n"
          "The weights go to float32: 4 bytes each instead of 2, as fast on tensor "
          "cores.",
      .source = "torch/amp/grad_scaler.py, step; transformers training_args.py, "
                "default_optim; docs/precision.md" },
    { .id = "TS409",
      .title = "a fused optimizer hides skipped steps from the schedule",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_skipped_schedule,
      .explain =
          "When gradients overflow, the scaler skips a step, and Accelerate then holds "
          "the learning rate's schedule back. With a fused optimizer it does not see "
          "that a step was skipped, so the schedule runs ahead by as many steps: a few "
          "at the start of a run, while the scale is found.\n\n"
          "Nothing needs to be done as a rule. If many steps are skipped, look at the "
          "loss scale first.",
      .source = "accelerate#4242" },
    { .id = "TS410",
      .title = "a learning rate, beta or decay out of range",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_rates,
      .explain =
          "learning_rate must be above 0 and at most 1 (full fine-tuning: about 1e-5, "
          "LoRA: about 1e-4), both betas from 0 to below 1, weight_decay 0 or more. "
          "Outside, the run diverges or stands still.",
      .source = "Kingma and Ba, Adam, 2015; Loshchilov and Hutter, 2019" },
    { .id = "TS411",
      .title = "an optimizer inside the backward pass, with clipping or accumulation",
      .severity = SEVERITY_ERROR,
      .run = rule_in_backward,
      .explain =
          "optimizer_in_bwd (torchtune), layerwise GaLore and APOLLO, LOMO and AdaLOMO "
          "step each weight as soon as its gradient is there and then free the "
          "gradient. That saves the memory of all gradients, and leaves nothing to add "
          "up over several micro-batches, nor a norm over all weights to clip to. "
          "torchtune and LLaMA-Factory refuse accumulation with it; clipping is refused "
          "by torchtune and without effect elsewhere.\n\n"
          "Set gradient_accumulation_steps: 1 and leave max_grad_norm out, or take an "
          "optimizer that steps after the backward pass. Native runs have none of these "
          "optimizers (TS707), so this concerns target: external.",
      .source = "torchtune, recipes/full_finetune_single_device.py; LLaMA-Factory, "
                "train/trainer_utils.py (\"Per-layer GaLore does not support gradient "
                "accumulation\")" },
    { .id = "TS412",
      .title = "the guard against inf and NaN is off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_guard_off,
      .explain =
          "In fp16 the loss scaler skips a step whose gradients are not finite. bf16 "
          "and float32 have no scaler: one inf makes the norm inf, clipping then "
          "multiplies it by 0, which is NaN, and every weight is NaN after one bad "
          "batch.\n\n"
          "A native run looks at every step, in every format, and skips it; there is no "
          "switch. Hugging Face's Trainer has no such guard. Programs that have one, "
          "and whose key a job for target: external may carry: Megatron-LM "
          "(check_for_nan_in_loss_and_grad), DeepSpeed's bf16 block "
          "(check_grad_overflow), PyTorch's clip_grad_norm_ (error_if_nonfinite), NeMo "
          "(skip_nan_grad). Where one of them is false without fp16, `--unsafe` makes "
          "it true.",
      .source = "torch/nn/utils/clip_grad.py; Megatron-LM, training/arguments.py; "
                "DeepSpeed, bfloat16 config; docs/precision.md" },
};
const struct rules catalogue_optimizer = { rows, TS_COUNT(rows) };
