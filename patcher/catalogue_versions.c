/* patcher/catalogue_versions.c - TS8xx: jobs of another program, and its versions. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS801",
      .title = "adapters would be trained in float16",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .target = RULE_EXTERNAL,
      .run = rule_half_adapters,
      .explain =
          "PEFT before 0.12 gives adapters the format of the layer they sit on; since "
          "then float16 and bfloat16 adapters are made float32, unless "
          "autocast_adapter_dtype is false. Adapters in float16 are trained weights in "
          "float16: the loss scaler refuses their gradients.\n\n"
          "Where the script reads model_dtype it becomes float32, which costs 2 bytes "
          "for each weight of the base model. The cheaper way is to upgrade PEFT, or to "
          "call cast_mixed_precision_params(model, torch.float16) after get_peft_model: "
          "the base stays float16 and only the adapters, a few MB, become float32.",
      .source = "PEFT 0.12.0, PR 1706; its troubleshooting page" },
    { .id = "TS802",
      .title = "a probe for bf16 that says yes where there is none",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_permissive_probe,
      .explain =
          "Since torch 2.4 torch.cuda.is_bf16_supported() counts emulation, and is true "
          "on a T4, a V100 and a TITAN RTX. A script that asks it, and LLaMA-Factory "
          "where neither fp16 nor bf16 is said, then computes in bfloat16 that the card "
          "has no units for: slow, and some kernels are missing.\n\n"
          "Say bf16: false and fp16: true, or let the script ask for compute capability "
          "8.0. TS102 does that where bf16: true is written.",
      .source =
          "torch.cuda.is_bf16_supported(including_emulation=True); "
          "MakazhanAlpamys/Soup#385; LLaMA-Factory extras/misc.py, infer_optim_dtype" },
    { .id = "TS803",
      .title = "versions that are said to be at fault",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_blamed_versions,
      .explain =
          "A report says that PyTorch 2.0 to 2.2 and Accelerate 0.20 to 0.27 cannot "
          "clip gradients of checkpointed float16 models. No such defect was found in "
          "their histories, and the issues it names could not be found under those "
          "titles. The error `Attempting to unscale FP16 gradients` comes in every "
          "version, if and only if a trained weight is stored in float16.\n\n"
          "So nothing is changed: keep clipping and checkpointing, and see TS105 and "
          "TS801 for what is trained. Policy noclip (TS404) does what that report "
          "advises.",
      .source = "torch/amp/grad_scaler.py; Accelerate's history 0.20 to 0.28; "
                "docs/precision.md" },
    { .id = "TS804",
      .title = "device_map is blamed for the loss scaler's error",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_device_map_blamed,
      .explain =
          "Reports of the error often show device_map=\"auto\" beside float16 weights. "
          "It decides where weights lie, not what they are: taken out, the error stays. "
          "The weights' format is the cause, and TS105 or TS107 mends it. device_map is "
          "left as it is.",
      .source = "torch/amp/grad_scaler.py; PEFT tests/test_gpu_examples.py, which "
                "raises without any device_map" },
    { .id = "TS805",
      .title = "DeepSpeed's or FSDP's settings contradict the job",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_launch,
      .explain =
          "The Trainer compares DeepSpeed's settings with the job's and stops with a "
          "list of what differs: fp16 and bf16, gradient_clipping, the batch and its "
          "accumulation, learning rate, betas, epsilon and weight decay. All of it can "
          "be known before anything is loaded. The file is looked for behind the job's "
          "folder; nested settings and JSON in a text are read too. The number of "
          "processes is not known here, so train_batch_size is only held to be a "
          "multiple.\n\n"
          "\"auto\" takes the job's value and is the best thing to write. With FSDP, "
          "activation_checkpointing there and gradient_checkpointing here exclude each "
          "other. No file but the job is ever edited.",
      .source =
          "transformers integrations/deepspeed.py, trainer_config_process; trainer.py; "
          "Accelerate dataclasses.py, fill_match" },
    { .id = "TS806",
      .title = "FSDP over float16 weights",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_fsdp_half,
      .explain =
          "FSDP1 has a scaler of its own, ShardedGradScaler, which allows float16 "
          "gradients: nothing raises. Accelerate makes trained weights float32 from "
          "0.30 on, unless mixed precision is off; where it does not, Adam steps in "
          "float16, which stalls and may divide by zero.\n\n"
          "model_dtype: float32 says what is meant.",
      .source =
          "torch/distributed/fsdp/sharded_grad_scaler.py; Accelerate accelerator.py, "
          "v0.29 and v0.30" },
    { .id = "TS807",
      .title = "an argument that the installed transformers does not have",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_young_key,
      .explain =
          "TrainingArguments and HfArgumentParser stop at a name they do not know, "
          "after the program has started and imported everything. Which version brought "
          "which name is known. A name that a version has dropped is told under TS601 "
          "to TS610; one that is younger than the installed version is told here.\n\n"
          "Upgrade transformers, take the line out, or write the older name where there "
          "is one.",
      .source = "transformers training_args.py at the tags v4.30.0 to v5.15.0" },
    { .id = "TS808",
      .title = "packages that do not go together",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_pairs,
      .explain =
          "Each package says which versions of the others it wants; pip lets an "
          "environment drift from that, and the failure then looks like a fault of the "
          "job. The table holds what the releases of transformers, Accelerate, PEFT and "
          "LLaMA-Factory demand of each other and of torch, and the CUDA toolkits that "
          "PyTorch's builds are made with. A version that is cut short, 4.57, is given "
          "the benefit of the doubt.\n\n"
          "torch built with CUDA 13 has no code for cards before Turing (P100, V100): "
          "that is an error, as no kernel will start.",
      .source =
          "setup.py of transformers v4.30 to v5.15, Accelerate v0.21 to v1.14, PEFT "
          "v0.6 to v0.20; LLaMA-Factory check_dependencies v0.6 to v0.9.5; PyTorch "
          "RELEASE.md" },
    { .id = "TS809",
      .title = "versions differ from those of the environment",
      .severity = SEVERITY_WARNING,
      .run = rule_versions,
      .explain =
          "trainspool.versions gives a version of a package, and the environment that "
          "trainspool.env names holds another. What versions says is believed, since it "
          "may be meant for another machine; if it is not, rules speak of a program "
          "other than the one that will run.\n\n"
          "A version that is cut short, 2.4, agrees with 2.4.1 and with 2.4.1+cu121. "
          "Take the package out of versions to have it read from the environment. "
          "Nothing there is executed: only METADATA of *.dist-info folders is read.",
      .source = "PEP 440, PEP 503; the packaging guide, Recording installed projects" },
    { .id = "TS810",
      .title = "no versions are known",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_no_versions,
      .explain =
          "Much of what another program does depends on its versions: whether float16 "
          "files are loaded as float16, whether adapters are made float32, which "
          "arguments exist. Nothing is guessed. trainspool.env names the folder of a "
          "Python environment, whose metadata are read and nothing of it run; "
          "trainspool.versions gives them by hand.",
      .source = "trainspool-job(5)" },
    { .id = "TS811",
      .title = "keys that LLaMA-Factory does not know",
      .severity = SEVERITY_INFO,
      .target = RULE_EXTERNAL,
      .run = rule_unread_keys,
      .explain =
          "LLaMA-Factory stops at keys it does not know, and it knows neither the block "
          "trainspool nor what only this program reads. From 0.9.2 on it passes over "
          "them with ALLOW_EXTRA_ARGS=1 in its environment. What it does with weights "
          "does not hang on them: it makes all trained weights float32, unless "
          "pure_bf16 or use_badam is on.",
      .source = "LLaMA-Factory hparams/parser.py, v0.9.2; model/adapter.py" },
};
const struct rules catalogue_versions = { rows, TS_COUNT(rows) };
