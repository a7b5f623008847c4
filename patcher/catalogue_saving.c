/* patcher/catalogue_saving.c - TS5xx: checkpoints, resuming, evaluation. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS506",
      .title = "the best model cannot be found at the end",
      .severity = SEVERITY_ERROR,
      .run = rule_best,
      .explain =
          "load_best_model_at_end takes the checkpoint with the lowest evaluation loss, "
          "so "
          "there must be a checkpoint wherever there is an evaluation: eval_strategy and "
          "save_strategy must be the same, and with steps, save_steps must be a multiple "
          "of eval_steps. eval_steps that is not given is logging_steps. transformers "
          "raises a ValueError before the first step; one that is told here takes a "
          "second.\n\n"
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
          "file "
          "of their own, eval_dataset, or a share of dataset, val_size (0.1 is a tenth, "
          "100 is a hundred samples, drawn by seed). Both at once is refused by "
          "LLaMA-Factory and here: nobody could say what was evaluated.",
      .source = "LLaMA-Factory hparams/parser.py and data_args.py; train/dataset.c" },
    { .id = "TS508",
      .title = "a stream of data without max_steps",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_streaming,
      .explain =
          "A data set that is streamed is never counted, so epochs cannot be turned into "
          "steps, and neither the end nor the learning rate's schedule is known. "
          "LLaMA-Factory asks for max_steps. samples times epochs, divided by batch "
          "times "
          "accumulation times devices, is what it should be.",
      .source = "LLaMA-Factory hparams/parser.py" },
    { .id = "TS509",
      .title = "max_steps and num_train_epochs are both given",
      .severity = SEVERITY_INFO,
      .run = rule_two_ends,
      .explain = "max_steps above 0 wins, in Hugging Face's Trainer and here: the run "
                 "ends after "
                 "that many steps, in the middle of an epoch or after many, and the "
                 "learning rate "
                 "falls to its end by then. num_train_epochs has no effect. It is told "
                 "because a "
                 "line that says 3 epochs is read as 3 epochs.",
      .source = "transformers training_args.py; 9 files of the corpus have both" },
    { .id = "TS510",
      .title = "NaN and inf are left out of the log",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_filtered_log,
      .explain =
          "With logging_nan_inf_filter, which is true where it is not given, the "
          "Trainer puts the running mean in place of a loss that is NaN or inf. The "
          "log of a run that has diverged then shows loss 0.0 beside grad_norm nan, "
          "and people look for the fault in the wrong place. It changes the log alone, "
          "not the training.\n\n"
          "With false the log says what happened. This program never filters.",
      .source = "LLaMA-Factory#4202; transformers training_args.py" },
    { .id = "TS511",
      .title = "a number of steps with a fraction",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_half_steps,
      .explain =
          "save_steps, eval_steps and logging_steps count optimizer steps when they are "
          "1 "
          "or more, and are a share of all steps below 1: 0.1 saves ten times in a run. "
          "2.5 is neither. transformers raises a ValueError; the whole numbers next to "
          "it "
          "are named.",
      .source = "transformers training_args.py: __post_init__" },
    { .id = "TS512",
      .title = "resuming from adapters in float16",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_half_resume,
      .explain =
          "Adapters that were saved in float16 come back in float16 where the loader "
          "does not cast them. The first run trained them in float32 and saved them "
          "small; the resumed one stops at `Attempting to unscale FP16 gradients`. "
          "PEFT makes loaded adapters float32 from 0.12 on.\n\n"
          "The headers of adapter_model.safetensors in adapter_name_or_path and "
          "resume_from_checkpoint are read.",
      .source = "diffusers#6482; PEFT tuners_utils.py, _cast_adapter_dtype, v0.12.0" },
};
const struct rules catalogue_saving = { rows, TS_COUNT(rows) };
