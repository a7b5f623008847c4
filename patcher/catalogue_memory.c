/* patcher/catalogue_memory.c - TS3xx: memory and batch. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS301",
      .title = "the job will not fit into memory",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_memory,
      .explain =
          "The estimate counts weights, 16-bit copies, gradients, both moments, "
          "activations and workspace, as the trainer will lay them out, for batches "
          "full of cutoff_len tokens, against memory_limit (95 % of what is free). For "
          "target: external it counts what PyTorch keeps, and what is expected decides; "
          "that it may yet be too much is told as a warning without an edit.\n\n"
          "`--unsafe` takes the first of these that fits, and no more of it than is "
          "needed: checkpointing on (computes each layer twice, about 20 to 30 % "
          "slower); a smaller micro batch with more accumulation, which keeps the "
          "effective batch exactly (TS302); for LoRA of another program, frozen weights "
          "that it would load in float32 in the compute format. Learning rate and "
          "effective batch are never touched.\n\n"
          "Where none fits it is an error, and the message names what would: the "
          "longest cutoff_len, a smaller lora_rank, lora instead of full, quantisation "
          "where the other program has it, the smallest card of `trainspool devices "
          "--known`. Shorter samples than cutoff_len take less: where all of yours are, "
          "lower cutoff_len to the longest and the estimate is exact.",
      .source = "train/model/shapes.h; train/torch_memory.h and docs/memory.md; arXiv "
                "2205.05198 for activations" },
    { .id = "TS302",
      .title = "a smaller micro batch with more accumulation",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "The largest divisor of per_device_train_batch_size that fits; accumulation "
          "is multiplied by the same factor, so that batch times accumulation stays "
          "what it was. The loss is divided by the trained tokens of the whole window, "
          "so the result is the same but for rounding (transformers does so from 4.46 "
          "on). The next larger divisor would not fit. An evaluation of another program "
          "that does not fit has per_device_eval_batch_size made smaller; here it takes "
          "care of itself.",
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
    { .id = "TS304",
      .title = "checkpointing that is not needed",
      .severity = SEVERITY_INFO,
      .run = rule_idle_checkpointing,
      .explain =
          "The file turns gradient checkpointing on, and the job would fit twice into "
          "the memory without it. Checkpointing forgets the activations of each layer "
          "and computes them again for the backward pass: about a fifth of the time for "
          "nothing where memory is plenty.\n\n"
          "`gradient_checkpointing: false` turns it off; the numbers stay the same. It "
          "is never a cure for the loss scaler's error, on or off.",
      .source =
          "transformers, gradient_checkpointing: about 20 % slower; train/model/shapes.h" },
    { .id = "TS305",
      .title = "the batch is to be found",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_find_batch,
      .explain =
          "auto_find_batch_size lets accelerate try: each time memory runs out the "
          "batch is multiplied by 0.9 and training begins again. Accumulation stays, so "
          "the effective batch, and with it the training, becomes another one "
          "silently.\n\n"
          "Here the memory is known before the start. A job that asks for it and does "
          "not fit gets the largest divisor of its batch that does, and accumulation "
          "multiplied by the same factor: the effective batch is exactly what was asked "
          "for. That is what was wished, so it is a safe edit. For another program it "
          "is only told, with the split that would fit where the model is there to be "
          "counted.",
      .source = "accelerate utils/memory.py; transformers PR #33281" },
    { .id = "TS306",
      .title = "a batch of the evaluation is larger than one of the training",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_eval_batch,
      .explain =
          "The preset of per_device_eval_batch_size is 8, whatever the training's batch "
          "is. A script that trains with 1 sample at once and evaluates with 8 may run "
          "out of memory at its first evaluation, hours later. Logits are the large "
          "part: batch x cutoff_len x vocabulary numbers.\n\n"
          "Trained here, an evaluation that would want more memory than the training "
          "takes smaller batches by itself, so it is only information. `--unsafe` makes "
          "both equal. The evaluation loss is a mean over tokens and stays the same but "
          "for rounding.",
      .source = "transformers training_args.py: presets; train/run.c: eval_size" },
    { .id = "TS307",
      .title = "an 8-bit or paged Adam",
      .severity = SEVERITY_WARNING,
      .run = rule_optimizer,
      .target = RULE_NATIVE,
      .explain = "Moments are float32 here: 8 bytes a trained weight. With lora that is "
                 "little. The file stays as it is; `plan` shows the memory.",
      .source = "train/model/optimizer.c" },
    { .id = "TS308",
      .title = "cutoff_len is beyond the model's positions",
      .severity = SEVERITY_WARNING,
      .run = rule_positions,
      .explain =
          "max_position_embeddings of config.json is the longest text the model was "
          "made for. With rotary positions (Llama, Qwen) a longer one runs, at angles "
          "it never saw, and the loss behind that point is high. With learned positions "
          "(GPT-2) there is no row to read, and a script fails with an index out of "
          "range.\n\n"
          "Samples that are shorter are not concerned, so this may be harmless: look at "
          "the longest sample in train.log. Else lower cutoff_len, or take a model that "
          "was extended (rope_scaling in its config.json). cutoff_len is never changed "
          "by a patch.",
      .source = "config.json of the model; train/model/rope.c" },
    { .id = "TS309",
      .title = "accumulated batches are averaged as if equally long",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_mean_of_means,
      .explain =
          "Before 4.46 the Trainer takes the mean loss of each micro batch and divides "
          "by their number. Where texts differ in length, a token of a short batch "
          "counts for more than one of a long batch, so 8 x 4 does not train what 32 x "
          "1 trains. Since 4.46 the loss is divided by the tokens of the whole step. "
          "This program does that always.\n\n"
          "Upgrade transformers, or make per_device_train_batch_size larger where "
          "memory allows.",
      .source = "transformers#34191; trl#2175; Trainer at v4.45.0 and v4.46.0" },
    { .id = "TS310",
      .title = "the batch cannot be split without changing the loss",
      .severity = SEVERITY_WARNING,
      .run = rule_batch_loss,
      .explain =
          "Most losses are a mean over samples or tokens, and accumulating 4 micro "
          "batches of 2 is the same as one of 8. KTO is not such a loss: it compares "
          "each sample with a reference point that is estimated from the others of its "
          "micro batch. auto_find_batch_size makes the micro batch smaller when memory "
          "runs out, and so changes what is minimised, silently. For the same reason "
          "TS302 offers no split of such a job.\n\n"
          "Find the batch that fits once and write it into the file.",
      .source =
          "KTO, arXiv 2402.01306, the reference point; accelerate utils/memory.py" },
    { .id = "TS311",
      .title = "activations are offloaded without checkpointing",
      .severity = SEVERITY_ERROR,
      .run = rule_offloading,
      .explain =
          "Offloading moves the activations that checkpointing keeps, one a layer, to "
          "the host's memory while they are not needed. Without checkpointing every "
          "activation would have to go there and come back, so torchtune and Axolotl "
          "refuse the pair. Turn checkpointing on, or offloading off. A native run has "
          "no offloading; checkpointing alone is usually enough.",
      .source = "torchtune recipes; Axolotl schemas/validation.py" },
    { .id = "TS312",
      .title = "reentrant checkpointing with frozen inputs",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_no_input_gradients,
      .explain =
          "With use_reentrant: true, which is the preset before transformers 5, "
          "PyTorch's checkpoint runs a block without recording it, and calls backward "
          "only if an input wants a gradient. With LoRA the embedding is frozen and no "
          "input wants one: adapters get no gradient, and the loss does not fall, or "
          "backward raises `element 0 of tensors does not require grad`.\n\n"
          "Either gradient_checkpointing_kwargs: {use_reentrant: false}, or "
          "model.enable_input_require_grads() before training. LLaMA-Factory and "
          "Axolotl do one of them by themselves, so it is told for other scripts only.",
      .source = "torch.utils.checkpoint; transformers modeling_utils.py, "
                "gradient_checkpointing_enable, v4.57 and v5.0" },
    { .id = "TS313",
      .title = "the disk has no room for the checkpoints",
      .severity = SEVERITY_WARNING,
      .run = rule_disk,
      .explain =
          "A checkpoint holds the trained weights and Adam's two moments of them: 12 "
          "bytes a trained parameter, with freeze also the frozen weights. One more "
          "than save_total_limit lie there for a moment, since an old one goes only "
          "after the new one is whole, and the model itself comes last. "
          "save_total_limit 0 keeps all. What that takes is compared with what is free "
          "where output_dir is.\n\n"
          "A full disk does not end a run here: the last good checkpoint stays, and it "
          "is tried again. But what is trained since then can be lost.",
      .source =
          "train/checkpoint/checkpoint.c, train/model/shapes.h; statvfs of output_dir" },
    { .id = "TS314",
      .title = "the host has too little memory to load the model",
      .severity = SEVERITY_WARNING,
      .run = rule_host_memory,
      .explain =
          "PyTorch loads a model into the host's memory before it goes to the device, "
          "in the format of its files or, with model_dtype: float32, in float32; and "
          "each process of a run does so for itself. The kernel ends a process that "
          "takes more than there is, often without a word in the log (`Killed`, status "
          "137).\n\n"
          "Here files are mapped and read tensor by tensor, so that one tensor and its "
          "conversion are enough, whatever the model's size. Compared with what is free "
          "on this machine; for a device named by --device the host is not known.",
      .source = "train/model/model_load.c; train/torch_memory.h" },
};
const struct rules catalogue_memory = { rows, TS_COUNT(rows) };
