/* patcher/catalogue_renames.c - TS6xx: renamed and removed keys. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

#define GUIDE "transformers MIGRATION_GUIDE_V5.md; history of training_args.py"

static const struct rule rows[] = {
    { .id = "TS601",
      .title = "evaluation_strategy is now eval_strategy",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_renamed,
      .explain =
          "Renamed in transformers 4.41 and gone since 4.51: there the job stops at its "
          "first line of output. The value, its comment and its place stay. An external "
          "job whose trainspool.versions names a transformers older than 4.41 keeps the "
          "old name, as the new one would stop it.",
      .source = GUIDE },
    { .id = "TS602",
      .title = "per_gpu_*_batch_size is now per_device_*_batch_size",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain = "The name of the days when every device was a GPU, gone from "
                 "transformers 5. The value, its comment and its place stay; it always "
                 "meant the batch of one device, so nothing else changes.",
      .source = GUIDE },
    { .id = "TS603",
      .title = "warmup_ratio is now a warmup_steps below 1",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_warmup_ratio,
      .explain =
          "Gone from transformers 5.15: warmup_steps takes a share too, as long as it "
          "is below 1. So `warmup_ratio: 0.1` becomes `warmup_steps: 0.1` and means the "
          "same.\n\n"
          "The trap is `warmup_ratio: 1.0`, a warm-up over the whole run: as "
          "warmup_steps it would be one step. Such a value is left to you, and so is a "
          "file that has both keys (TS407).\n\n"
          "Only for external jobs that are known to run with 5.15 or later. "
          "LLaMA-Factory and trainspool know both keys.",
      .source = GUIDE "; vllm semantic-router#3925 and its PR #3940" },
    { .id = "TS604",
      .title = "no_cuda is now use_cpu",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "An old name with the same meaning, gone from transformers 5: there an old "
          "job stops at it. The value, its comment and its place stay.",
      .source = GUIDE },
    { .id = "TS605",
      .title = "overwrite_output_dir is gone from transformers",
      .severity = SEVERITY_ERROR,
      .run = rule_overwrite,
      .explain =
          "Trainer never read it: Hugging Face's example scripts did, to decide whether "
          "a folder with a model in it may be written to. From transformers 5 on it is "
          "no argument, and a script that parses TrainingArguments stops.\n\n"
          "What to write instead is a decision: another output_dir starts anew, "
          "resume_from_checkpoint goes on. So nothing is edited. LLaMA-Factory has a "
          "key of this name itself, and so has trainspool.",
      .source = GUIDE },
    { .id = "TS606",
      .title = "settings of apex and other backends of fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_gone,
      .explain =
          "fp16_backend, half_precision_backend, fp16_opt_level and use_apex chose "
          "between NVIDIA's apex and PyTorch's own mixed precision. apex dropped its "
          "amp in 2025, transformers 5 the keys. `fp16: true` alone is what they came "
          "to: compute in float16, trained weights in float32, a dynamic loss scale. O2 "
          "and O3, which trained float16 weights, have no successor, and need none "
          "(TS105).\n\n"
          "`--unsafe` turns the line into a comment. In a job that is trained here the "
          "key has no effect, so that is only tidier; an external one stops at it.",
      .source = GUIDE "; NVIDIA/apex PR #1896" },
    { .id = "TS607",
      .title = "torch_dtype is now dtype",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_torch_dtype,
      .explain =
          "from_pretrained takes `dtype` from transformers 4.56 on and warns of the old "
          "name; TRL's ModelConfig followed. Whether your script reads one or the other "
          "cannot be seen from the job, so the rename waits for `--unsafe`. In a job "
          "trained here torch_dtype and dtype are other names of model_dtype.",
      .source = "transformers PR #40808" },
    { .id = "TS608",
      .title = "group_by_length is now a train_sampling_strategy",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_group_by_length,
      .explain =
          "Gone from transformers 5.2, where one key says how samples are drawn: "
          "random, sequential or group_by_length. Key and value change together, and "
          "mean the same. A line that says false, the preset, becomes a comment with "
          "`--unsafe`.\n\n"
          "Only for external jobs known to run with 5.2 or later.",
      .source = "transformers PR #43138" },
    { .id = "TS609",
      .title = "keys of the hub, metrics and FSDP that are called otherwise now",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .explain =
          "push_to_hub_token is hub_token and push_to_hub_model_id is hub_model_id: "
          "renamed in place, and a token is never shown.\n\n"
          "The others changed their form as well, so the message says what to write: "
          "include_for_metrics: [inputs] for include_inputs_for_metrics, "
          "include_num_input_tokens_seen for include_tokens_per_second, debug: "
          "tpu_metrics_debug for tpu_metrics_debug, members of fsdp_config for "
          "fsdp_min_num_params and fsdp_transformer_layer_cls_to_wrap, of "
          "accelerator_config for split_batches and dispatch_batches (gone from 4.51), "
          "optim: adafactor for adafactor, and a hub_model_id with its owner for "
          "push_to_hub_organization. The others are gone from transformers 5; none has "
          "an effect on a job trained here.",
      .source = GUIDE },
    { .id = "TS610",
      .title = "a key that transformers has no more",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "use_mps_device, past_index, ray_scope, jit_mode_eval, torchdynamo, "
          "mp_parameters, tpu_num_cores, use_legacy_prediction_loop, use_ipex, "
          "save_safetensors (transformers 5), xpu_backend (4.32), sharded_ddp (4.35), "
          "tp_size (4.52) and logging_dir (5.15). Most were found out by themselves "
          "long since, or became variables of the environment, as the message says. "
          "`--unsafe` turns the line into a comment, `patch` alone never does.\n\n"
          "A script that parses TrainingArguments stops at a key it does not know: an "
          "error where trainspool.versions says that this is such a transformers, a "
          "warning where nothing is said, and nothing where the version still has it.",
      .source = GUIDE },
    { .id = "TS611",
      .title = "load_in_8bit or load_in_4bit",
      .severity = SEVERITY_ERROR,
      .explain =
          "Axolotl's and TRL's words for a base model quantised by bitsandbytes. "
          "LLaMA-Factory says quantization_bit: 8 or 4 (and quantization_type, "
          "double_quantization). Nothing is edited: a quantised base also decides what "
          "may be trained (adapters only) and which compute type it unpacks to.\n\n"
          "trainspool does quantization_bit: 4 itself, 8 it does not. A float16 or "
          "bfloat16 base under LoRA needs 2 bytes a weight instead of 1 or 0.5: "
          "`trainspool plan` says whether that fits. A whole Axolotl file is better "
          "given to `trainspool import`.",
      .source =
          "axolotl schemas/config.py; trl ModelConfig; LLaMA-Factory model_args.py" },
    { .id = "TS612",
      .title = "fp16 in a launcher's file of Accelerate",
      .severity = SEVERITY_WARNING,
      .explain =
          "A file of `accelerate config` is for the launcher and no job. In its old "
          "form it said `fp16: true`; now it is `mixed_precision: fp16`, and accelerate "
          "translates the one to the other when it loads the file.\n\n"
          "The job says fp16 or bf16 itself. Where the launcher's file says something "
          "else, the environment of the run contradicts the job (TS124).",
      .source = "accelerate commands/config/config_args.py" },
    { .id = "TS613",
      .title = "the script gives Trainer a tokenizer",
      .severity = SEVERITY_WARNING,
      .run = rule_script,
      .explain =
          "`Trainer(..., tokenizer=tokenizer)` became `processing_class=tokenizer` in "
          "transformers 4.46, and version 5 stops with a TypeError. The script is read "
          "where trainspool.command names one that lies beside the job; it is never "
          "changed.\n\n"
          "What to do: write processing_class=tokenizer. A Trainer of your own that "
          "takes a tokenizer and hands it on is fine.",
      .source = "transformers MIGRATION_GUIDE_V5.md; seed report 1" },
};
const struct rules catalogue_renames = { rows, TS_COUNT(rows) };
