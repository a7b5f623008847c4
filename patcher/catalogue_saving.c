/* patcher/catalogue_saving.c - TS5xx: checkpoints, resuming, evaluation. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS501",
      .title = "output_dir holds a model already",
      .severity = SEVERITY_ERROR,
      .run = rule_model_there,
      .explain =
          "The folder named by output_dir holds a trained model, and nothing says "
          "whether to go on from it or to begin anew. Two jobs that share a folder by a "
          "copied line lose one model to the other, so LLaMA-Factory refuses to start, "
          "and so does a run here where another job made that model.\n\n"
          "What this job made itself is no reason to refuse: a run begins anew, and "
          "`retry` and `run --resume` go on. How it is known: by the digest of the "
          "job's text in trainspool_manifest.json, or because NAME.run/job.yaml, the "
          "text of the last run, names the same folder. A job that waited is looked at "
          "again when its turn comes.\n\n"
          "Name another folder. Or write overwrite_output_dir: true; the old file is "
          "then kept as model.safetensors.old-1, it is never deleted. Neither is done "
          "by a patch.\n\n"
          "export_dir keeps what another job left there in the same way, and is refused "
          "where it is the folder of the model itself, of an adapter or a teacher that "
          "the job reads, or output_dir: all of them are wanted as they are. So is an "
          "output_dir that is the model's folder, unless train_from_scratch reads no "
          "weights there.",
      .source = "LLaMA-Factory hparams/parser.py; train/checkpoint/checkpoint.c" },
    { .id = "TS502",
      .title = "output_dir holds checkpoints, and nothing says what to do with them",
      .severity = SEVERITY_WARNING,
      .run = rule_checkpoints_there,
      .explain =
          "With checkpoints in output_dir and no resume_from_checkpoint, LLaMA-Factory "
          "goes on from the last one unasked, and a plain Trainer begins anew. People "
          "are surprised by both: by a run that ends at once because it was complete, "
          "and by one that trains for a day what was trained before.\n\n"
          "Here `run` begins anew and keeps the old checkpoints under a new name, `run "
          "--resume` goes on, and so does `retry` of a job that was interrupted, if its "
          "text is the same. The line says which checkpoint is meant. Write "
          "resume_from_checkpoint: true or overwrite_output_dir: true to say it for "
          "good. After a run that was done nothing is told.",
      .source = "LLaMA-Factory hparams/parser.py; train/run.c, runner/attempt.c" },
    { .id = "TS503",
      .title = "the run goes on from a checkpoint with other settings",
      .severity = SEVERITY_WARNING,
      .run = rule_resume_differs,
      .explain =
          "Weights, Adam's moments, the step and the loss scale come from the "
          "checkpoint; precision, optimizer, learning rate, batch, data and seed from "
          "the job. Where they differ from those that made the checkpoint the run is a "
          "mixture of both, and its curve has a kink at that step. Each difference is "
          "shown as key: was -> now.\n\n"
          "With another batch, accumulation, data set or seed the place in the data is "
          "lost as well: it is counted in steps, so some samples come twice and some "
          "not at all. It may be what you want. If not, put the old values back; "
          "torchtune does that by itself, with a warning.\n\n"
          "The old settings are read from NAME.run/job.yaml where that is the text that "
          "made the checkpoint, else the few that the checkpoint itself keeps are "
          "compared: precision, seed, batch.",
      .source = "train/run.c, train/checkpoint/progress.c; torchtune recipes (resume)" },
    { .id = "TS504",
      .title = "fp16 goes on from a checkpoint without a loss scale",
      .severity = SEVERITY_WARNING,
      .run = rule_resume_scale,
      .explain =
          "A dynamic loss scale is found by trying: it begins at 65536 and halves at "
          "each overflow. A run that goes on with the scale it had loses nothing. "
          "Without it the search begins again, and a run that was at 256 skips 8 steps "
          "first; their learning rate is not advanced here, in other tools it may be.\n"
          "\n"
          "A checkpoint has none if it was saved in bf16 or fp32, or by a script that "
          "did not save scaler.pt. Skipped steps at the start are no trouble: TS405 "
          "passes over norms that are not finite within the first ten steps.",
      .source = "transformers#34053; fairseq2#1346; train/run.c" },
    { .id = "TS505",
      .title = "checkpoints without optimizer, and a resume is expected",
      .severity = SEVERITY_WARNING,
      .run = rule_model_only,
      .explain =
          "save_only_model: true leaves Adam's moments out, two thirds of a full "
          "checkpoint's bytes. Without them no run can go on exactly, and none does: "
          "resume_from_checkpoint finds nothing, and what trainspool.max_retries starts "
          "after a crash begins at step 0. With lora the moments are small, and leaving "
          "them out saves little.",
      .source =
          "transformers training_args.py: save_only_model; train/checkpoint/checkpoint.c" },
    { .id = "TS506",
      .title = "the best model cannot be found at the end",
      .severity = SEVERITY_ERROR,
      .run = rule_best,
      .explain =
          "load_best_model_at_end takes the checkpoint with the lowest evaluation loss, "
          "so there must be a checkpoint wherever there is an evaluation: eval_strategy "
          "and save_strategy must be the same, and with steps, save_steps must be a "
          "multiple of eval_steps. eval_steps that is not given is logging_steps. "
          "transformers raises a ValueError as it reads the arguments.\n\n"
          "A native run saves at each new best besides, so there only a missing "
          "evaluation is an error, and the rest a warning that other tools refuse the "
          "file.\n\n"
          "The nearest valid values are named. No edit is made: how often to save is a "
          "question of disk and of how much work may be lost.",
      .source = "transformers training_args.py: __post_init__" },
    { .id = "TS507",
      .title = "an evaluation without data, or with two kinds",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_eval_data,
      .explain =
          "eval_strategy, eval_on_start, do_eval, do_predict and load_best_model_at_end "
          "ask for an evaluation. It needs samples that are not trained on: either a "
          "file of their own, eval_dataset, or a share of dataset, val_size (0.1 is a "
          "tenth, 100 is a hundred samples, drawn by seed). Both at once is refused by "
          "LLaMA-Factory and here: nobody could say what was evaluated.",
      .source =
          "LLaMA-Factory hparams/parser.py and data_args.py; train/dataset/dataset.c" },
    { .id = "TS508",
      .title = "a stream of data without max_steps",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_EXTERNAL,
      .run = rule_streaming,
      .explain =
          "A data set that is streamed is never counted, so epochs cannot be turned "
          "into steps, and neither the end nor the learning rate's schedule is known. "
          "LLaMA-Factory asks for max_steps. samples times epochs, divided by batch "
          "times accumulation times devices, is what it should be. Here data are "
          "counted before they are learnt, streamed or not, so a run of trainspool's "
          "own knows its end.",
      .source = "LLaMA-Factory hparams/parser.py; train/dataset/dataset.c" },
    { .id = "TS509",
      .title = "max_steps and num_train_epochs are both given",
      .severity = SEVERITY_INFO,
      .run = rule_two_ends,
      .explain = "max_steps above 0 wins, in Hugging Face's Trainer and here: the run "
                 "ends after that many steps, in the middle of an epoch or after many, "
                 "and the learning rate falls to its end by then. num_train_epochs has "
                 "no effect. It is told because a line that says 3 epochs is read as 3 "
                 "epochs.",
      .source = "transformers training_args.py; 9 files of the corpus have both" },
    { .id = "TS510",
      .title = "NaN and inf are left out of the log",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_filtered_log,
      .explain =
          "With logging_nan_inf_filter, which is true where it is not given, the "
          "Trainer puts the running mean in place of a loss that is NaN or inf. The log "
          "of a run that has diverged then shows loss 0.0 beside grad_norm nan, and "
          "people look for the fault in the wrong place. It changes the log alone, not "
          "the training.\n\n"
          "With false the log says what happened. This program never filters.",
      .source = "LLaMA-Factory#4202; transformers training_args.py" },
    { .id = "TS511",
      .title = "a number of steps with a fraction",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_steps,
      .explain =
          "save_steps, eval_steps and logging_steps count optimizer steps when they are "
          "1 or more, and are a share of all steps below 1: 0.1 saves ten times in a "
          "run. 2.5 is neither. transformers raises a ValueError; the whole numbers "
          "next to it are named.",
      .source = "transformers training_args.py: __post_init__" },
    { .id = "TS512",
      .title = "resuming from adapters in float16",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_half_resume,
      .explain =
          "Adapters that were saved in float16 come back in float16 where the loader "
          "does not cast them. The first run trained them in float32 and saved them "
          "small; the resumed one stops at `Attempting to unscale FP16 gradients`. PEFT "
          "makes loaded adapters float32 from 0.12 on.\n\n"
          "The headers of adapter_model.safetensors in adapter_name_or_path and "
          "resume_from_checkpoint are read.",
      .source = "diffusers#6482; PEFT tuners_utils.py, _cast_adapter_dtype, v0.12.0" },
    { .id = "TS513",
      .title = "resume_from_checkpoint names nothing to go on from",
      .severity = SEVERITY_WARNING,
      .firm = true,
      .run = rule_resume_nothing,
      .explain =
          "A folder that is not there is a warning in `check`, since the job may be for "
          "another machine, and an error in `run`. A folder that is there and is no "
          "checkpoint of ours, lost a file, or was saved with save_only_model, is an "
          "error: the training would fail after the model and the data are read. To "
          "train its weights further with a new optimizer, name it in "
          "model_name_or_path.\n\n"
          "resume_from_checkpoint: true with no checkpoint yet is information: the run "
          "begins anew, so the line may stand in a job from its first run on. Hugging "
          "Face's Trainer stops there.",
      .source =
          "train/checkpoint/checkpoint.c, train/files/manifest.c; transformers trainer.py" },
    { .id = "TS514",
      .title = "a metric that no evaluation takes",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_metric,
      .explain =
          "load_best_model_at_end and early_stopping_steps go by metric_for_best_model. "
          "Every evaluation takes the loss; accuracy wants compute_accuracy (of tokens) "
          "or predict_with_generate (of answers), and answer_rate the second. Metrics "
          "that Python code makes, as rouge, are not taken here. early_stopping_steps "
          "counts evaluations, so it wants some.\n\n"
          "predict_with_generate in a job that is not evaluated, or of plain text, is a "
          "warning: nothing is answered. answer_tag is the name of a tag, as answer for "
          "<answer>..</answer>; with brackets no answer would ever be found.",
      .source = "train/criterion.c; transformers trainer_callback.py: "
                "EarlyStoppingCallback" },
};
const struct rules catalogue_saving = { rows, TS_COUNT(rows) };
