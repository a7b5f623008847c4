/* patcher/catalogue_names.c - TS7xx: names, types, ranges. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS701",
      .title = "a known key in another spelling",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .explain = "Logging_steps, num train epochs, --learning-rate, learningRate: equal "
                 "to a key but for case, blanks, dashes and underscores. Names are "
                 "exact, so another tool stops at it or passes over it and trains with "
                 "the preset.\n\n"
                 "`patch` writes the key as it is spelt; value, comment and place stay. "
                 "Where the right name is given as well nothing is edited: only you "
                 "know which of the two counts. Members of trainspool: and of "
                 "lr_scheduler_kwargs are told, and edited by hand.",
      .source = "LLaMA-Factory#3914" },
    { .id = "TS702",
      .title = "an unknown key, one letter or two from a known one",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .explain =
          "One key, and no other, is one or two letters away; two neighbours in the "
          "wrong order count as one. LLaMA-Factory stops at such a key and names no "
          "remedy; Axolotl and torchtune pass over it and train with the preset instead "
          "of your value.\n\n"
          "That it was meant is a guess, so the edit waits for `--unsafe`; value, "
          "comment and place stay. In an external job it is a warning, as the script "
          "may have a key of that name, unless keys like stage and template say that "
          "the script is LLaMA-Factory's.",
      .source =
          "LLaMA-Factory parser.py, #3914; MakazhanAlpamys/Soup#627; Damerau, 1964" },
    { .id = "TS703",
      .title = "an unknown key",
      .severity = SEVERITY_ERROR,
      .explain = "It is in no table: not one of trainspool's keys, of LLaMA-Factory's "
                 "or of TrainingArguments, under no name they ever had there. Where "
                 "several keys are equally near, or begin with what is written, up to "
                 "three of them are named.\n\n"
                 "trainspool-job(5) lists all keys, and `trainspool schema` prints them "
                 "for an editor, which then completes and checks them while you type. A "
                 "note of your own belongs into a comment. In an external job this is a "
                 "warning: the script may have keys of its own.",
      .source = "LLaMA-Factory#5633" },
    { .id = "TS704",
      .title = "a value of the wrong type",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "The key decides what its value must be, never a reader of YAML: `1e-4` is a "
          "number where one is wanted and `dataset: no` stays a name. So what is told "
          "here fits in no way, and the message says which forms are taken, and which "
          "word was perhaps meant. An empty value means `not given`.\n\n"
          "Nothing is edited, as a wrong value says nothing of the right one. It is a "
          "warning where the key has no effect here: the tool it came from would stop.",
      .source = "trainspool-job(5)" },
    { .id = "TS705",
      .title = "a value outside its range or list",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_words,
      .explain =
          "The message says what is allowed, and the nearest word where there is one: "
          "letters changed, case and separators, and words that other tools have for "
          "the same (bf16 for bfloat16, qlora, flash_attention_2, gpu). Layers of "
          "lora_target, additional_target and freeze_trainable_modules are held against "
          "the model where its folder is there: a run would stop at a name that none of "
          "its layers has. q_proj of a Llama is in c_attn of a GPT-2 and in "
          "query_key_value of a GPT-NeoX.\n\n"
          "Bounds are those of the thing itself: a batch below 1, a share above 1, a "
          "dropout of 1. save_steps, eval_steps and logging_steps may be 0 where their "
          "strategy is no or epoch, as in transformers. The learning rate and the betas "
          "have rules of their own (TS410). It is a warning where the key has no effect "
          "here.",
      .source = "trainspool-job(5)" },
    { .id = "TS706",
      .title = "another tool's file, or another tool's word",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "Other tools use the same words for other things. batch_size is the total of "
          "a step in Axolotl and that of one device in torchtune; an empty "
          "max_grad_norm is 1.0 in Axolotl and off in LLaMA-Factory. So nothing is "
          "guessed.\n\n"
          "A whole file of Axolotl, torchtune, LLaMA-Factory v1, Accelerate, DeepSpeed, "
          "TRL, ms-swift or LitGPT is known by keys that only it has, and told once, "
          "without a list of its keys: `trainspool import` prints those of Axolotl and "
          "torchtune as jobs, with what could not be carried over as comments, and one "
          "for TRL's scripts is checked as it is with `trainspool: {target: external}`. "
          "A job with another tool's word in it stays a job: each such word is told "
          "with its place, and with the name it has here where there is one.",
      .source = "axolotl schemas/config.py; torchtune recipes; trl scripts/utils.py; "
                "DeepSpeed runtime/config.py; docs/precision.md" },
    { .id = "TS707",
      .title = "a known key that is not done here",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_not_here,
      .explain =
          "The key is LLaMA-Factory's or Hugging Face's and switches something on that "
          "this program does not do. Silence would train another job than the one "
          "written. Off, empty or at its preset it does no harm (TS708).\n\n"
          "Of stage dpo pref_bco_weight and ld_alpha are not done, nor "
          "additional_target where the reference is the model without its adapter: of "
          "modules trained whole beside it there is no original left.\n\n"
          "do_train: false asks for no training at all, as do_predict does without "
          "do_train: true: LLaMA-Factory's run is then another one. Without either a "
          "job is trained. train_on_prompt and mask_history are opposites, of which one "
          "is done.\n\n"
          "Of quantised models there are those of bitsandbytes in 4 bits (nf4) under "
          "lora: other bits, methods and fp4 are not done, nor is quantization_bit "
          "where the weights are trained, or an adapter would be merged into it "
          "(create_new_adapter), which LLaMA-Factory refuses, too.\n\n"
          "A base whose files have 4 bits already (quantization_config in its "
          "config.json, as in folders named ...-bnb-4bit) has them without "
          "quantization_bit, and goes with lora alone: neither finetuning_type: full or "
          "freeze nor create_new_adapter or export_dir. A warning is what the job says "
          "otherwise, as another quantization_bit: the files decide, as in transformers.",
      .source = "trainspool-job(5)" },
    { .id = "TS708",
      .title = "known keys without effect",
      .severity = SEVERITY_INFO,
      .explain =
          "They are right for other tools and have nothing to do here: workers of a "
          "data loader, tracking services, settings of libraries that are not used. "
          "They stay in the file. One without which results are others (num_beams, "
          "tool_format) is a warning, and says what is done.",
      .source = "trainspool-job(5)" },
    { .id = "TS709",
      .title = "a secret in the file",
      .severity = SEVERITY_WARNING,
      .explain =
          "Tokens and keys in a job end up in backups, copies and version control: "
          "hf_hub_token, swanlab_api_key, unknown keys of such names, and what "
          "trainspool.env gives an external command. The value is never printed, logged "
          "or put into a report, and backups are readable by their owner only.\n\n"
          "A job that is trained here needs none, as nothing is downloaded or uploaded: "
          "take it out. A script finds it in the environment trainspool is started in, "
          "or in a login of its own (`hf auth login`, `wandb login`); `${HF_TOKEN}` in "
          "the file says where it is and is no secret. Revoke it if the file was shared.",
      .source = "trainspool-job(5)" },
    { .id = "TS710",
      .title = "a path leads out of its folder",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_NATIVE,
      .run = rule_paths,
      .explain =
          "A relative path is relative to the job file. What a job writes to "
          "(output_dir, export_dir, tokenized_path) must not climb out of the job's "
          "folder with `..`; write the whole path if it is meant. Where a spool allows "
          "certain folders only, all paths must lie below them. `~` is a shell's word "
          "and is not expanded.",
      .source = "a job in a watched folder may come from somebody else" },
    { .id = "TS711",
      .title = "a tracker that nothing is sent to",
      .severity = SEVERITY_INFO,
      .run = rule_trackers,
      .explain =
          "report_to: wandb, use_swanlab and their like send metrics over the network; "
          "trainspool sends nothing anywhere. All there is lies beside the job: "
          "metrics.jsonl with one object a logged step, event files that TensorBoard "
          "reads, and report.html with the curves. `wandb sync` and the others can take "
          "in the event files afterwards.\n\n"
          "An external job's script does what report_to says, so there only a misspelt "
          "tracker is told.",
      .source = "transformers integrations/integration_utils.py; LLaMA-Factory "
                "finetuning_args.py: SwanLabArguments" },
    { .id = "TS712",
      .title = "keys of a method that the job does not use",
      .severity = SEVERITY_INFO,
      .run = rule_idle_method,
      .explain =
          "lora_rank in a full fine-tune, freeze_trainable_layers under LoRA, kd_ratio "
          "without stage: distill, pref_beta without stage: dpo: they are read and "
          "change nothing. Mostly a job was copied and its finetuning_type changed, or "
          "the key was meant and finetuning_type forgotten: its preset is lora, as in "
          "LLaMA-Factory. One remark for each method; take the lines out, or write the "
          "method they belong to.\n\n"
          "Arguments in lr_scheduler_kwargs are of one schedule or another: min_lr is "
          "of cosine_with_min_lr and not of cosine, which goes down to 0. Here such an "
          "argument is passed over, with a warning; transformers stops at it with a "
          "TypeError.\n\n"
          "adapter_name_or_path without LoRA is an error, as the adapter would be "
          "passed over: merge it into the model first, or train with lora.",
      .source = "LLaMA-Factory finetuning_args.py, parser.py: _verify_model_args; "
                "transformers optimization.py" },
    { .id = "TS713",
      .title = "a model folder or a data file is not there",
      .severity = SEVERITY_WARNING,
      .firm = true,
      .run = rule_missing,
      .explain =
          "Nothing is downloaded. model_name_or_path names a folder with config.json, "
          "*.safetensors and tokenizer.json; dataset names a .json, .jsonl or .txt file "
          "(also .gz), or an entry of dataset_info.json in dataset_dir. Weights in "
          "pytorch_model.bin, a pickle, and tokenizers in other files (tokenizer.model, "
          "vocab.json) are not read: transformers writes both anew. Weights that are "
          "there and are not whole are told, too: a file of several that is missing or "
          "was cut off, a pointer of Git LFS in its place. A warning while checking, as "
          "the job may be for another machine; an error for `run` and `watch`. A job "
          "that names export_dir, an adapter and no data is a merge, which wants none.",
      .source = "trainspool-job(5)" },
    { .id = "TS714",
      .title = "a suppression that suppresses nothing",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "`# trainspool: ignore[TS104]` behind a value says that this rule is known to "
          "find something there and is not to be told; `trainspool: {ignore: [TS708, "
          "TS3]}` says it of the whole job, also for a family. `# trainspool: keep` and "
          "trainspool.keep forbid edits, and findings are still told. Where a "
          "suppression fits no finding (any more), names no rule, or stands where it "
          "has no effect, it hides nothing today and may hide a new mistake tomorrow.\n"
          "\n"
          "Rules that look at the device, the model or the data may find something on "
          "another machine: for them this is an info, and the comment stays. For the "
          "others `patch --unsafe` takes the comment away; not a plain patch, since a "
          "comment is a person's word and a job must run the same without anybody "
          "there.\n\n"
          "Errors that would make a run fail, or do something else than the job says, "
          "cannot be ignored (trainspool explain says which): take the line out instead.",
      .source = "unused `noqa` comments are ruff's RUF100" },
    { .id = "TS715",
      .title = "shares that do not fit the data sets",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_shares,
      .explain =
          "interleave_probs says how often each data set of dataset has its turn with "
          "mix_strategy interleave_under, interleave_over or interleave_once: as many "
          "numbers as names, from 0 to 1, which add up to 1. With concat it has no "
          "meaning, and LLaMA-Factory refuses it. Where all data sets are to be "
          "exhausted (over, once) none may be 0. If there is eval_dataset, it is mixed "
          "with the same shares and must have as many names.",
      .source = "LLaMA-Factory hparams/data_args.py; numpy Generator.choice" },
    { .id = "TS716",
      .title = "a model that is not trained here, or an adapter of another",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_NATIVE,
      .run = rule_model_unknown,
      .explain =
          "config.json of the model names an architecture (model_type), an activation, "
          "a kind of rotation or another setting that is not there, or it cannot be "
          "read. The run would end with this message before its first step: nothing "
          "that changes the result is passed over. So it would with files that lack a "
          "tensor of the model that config.json tells of, or have it in another shape, "
          "with a chat template of the model that cannot be read, where the job names "
          "no template, and with an adapter (of the model or of a teacher) whose layers "
          "or shapes are those of another model. A warning is a template that cannot "
          "write a plain question and its answer, or writes them so that the answer "
          "cannot be told from the question, and an adapter that fits, but says that it "
          "was made for a model of another name.\n\n"
          "trainspool-job(5) lists the architectures under MODELS. For another one let "
          "transformers do the training: target: external.",
      .source =
          "train/model/architecture.c, train/model/model_config.c, train/model/weights.c, "
          "train/chat/chat.c, train/model/adapter_check.c" },
};
const struct rules catalogue_names = { rows, TS_COUNT(rows) };
