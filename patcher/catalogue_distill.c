/* patcher/catalogue_distill.c - TS9xx: stages with a second model, distill and dpo. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"

static const struct rule rows[] = {
    { .id = "TS901",
      .title = "a distillation without a teacher",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_teacher_missing,
      .explain = "stage: distill trains a small model, the student in "
                 "model_name_or_path, on the data and on what a larger one says at each "
                 "token. The larger one is teacher_model_name_or_path, a folder. "
                 "Without it there is nothing to learn from but the data, which is "
                 "stage: sft. trainspool.teacher_logits, a file of what a teacher has "
                 "said of these data, takes its place.",
      .source = "TRL GKDConfig: teacher_model_name_or_path" },
    { .id = "TS902",
      .title = "the student or what is trained with it would be float16",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_half_student,
      .explain =
          "The rule of TS105 for a distillation: a gradient has its parameter's format, "
          "and the loss scaler refuses float16 ones. It looks at every parameter in the "
          "optimizer. Making the student float32 is not enough where a router, a "
          "projector or the modules of additional_target are optimized with it: one "
          "float16 parameter among them stops the run with the same error.\n\n"
          "The student goes to float32 and stays in fp16 compute, with scaler and "
          "clipping. A script makes the others float32 with module.float(), or PEFT's "
          "cast_mixed_precision_params. The teacher is frozen and may stay float16. "
          "Turning the scaler off is no cure: see TS108.",
      .source = "the third report; torch/amp/grad_scaler.py, _unscale_grads_" },
    { .id = "TS903",
      .title = "the teacher is a half format",
      .severity = SEVERITY_INFO,
      .run = rule_half_teacher,
      .explain =
          "Nothing of the teacher is trained, so it has no gradients, and float16 or "
          "bfloat16 is the right way to keep it: half the memory of float32. Its "
          "softmax is taken in float32. A model trained in bf16 can overflow in float16 "
          "(TS103); then keep it in bfloat16, or float32 on a card without it.\n\n"
          "Its bytes come on top of the student's. The estimate of TS301 counts them.\n"
          "\n"
          "The same holds of the reference of stage dpo: ref_model, or where all "
          "weights are trained the model itself, which is then there twice. With lora "
          "it is the model without its adapter, and takes nothing.",
      .source = "the third report; docs/precision.md" },
    { .id = "TS904",
      .title = "a share or temperature out of range",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_kd_numbers,
      .explain =
          "The loss is (1 - kd_ratio) times that of the data plus kd_ratio times that "
          "of the teacher, so kd_ratio is a share. Logits are divided by "
          "kd_temperature: 1 leaves them, 2 softens them, 0 divides by zero, and below "
          "0 the least likely token would be the best. kd_beta goes from forward KL (0) "
          "to reverse KL (1).\n\n"
          "With kd_topk only the teacher's largest logits are kept, and its other words "
          "are 0. Reverse KL divides by them: it is infinite, so kd_topk needs a "
          "kd_beta below 1. A kd_topk above the teacher's vocabulary leaves nothing out.",
      .source = "torchtune kd_ratio; TRL GKDConfig: temperature, beta" },
    { .id = "TS905",
      .title = "teacher and student do not share a vocabulary",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_vocabularies,
      .explain =
          "The student's probability of token 17 is compared with the teacher's of "
          "token 17. If that is another word, the student learns noise, and nothing "
          "fails. So tokenizer.json of both is compared: every token and its number, "
          "added ones too.\n\n"
          "Models of one family often share their tokens and differ in vocab_size, as "
          "its rows are padded to a round number (Qwen2.5: 151936 and 152064). That is "
          "a warning: the padding is never a token, but a script must cut both to the "
          "shorter length, or it fails at the first batch. A native run does: both "
          "softmaxes of the distance are over the shorter length, the cross-entropy of "
          "the data over all of the student's. Where a tokenizer.json is missing, "
          "vocab_size alone is compared.\n\n"
          "A ref_model of stage dpo reads the tokens of the model that is trained, so "
          "it must have them. How many rows its logits have does not matter there.",
      .source = "TRL gkd_trainer.py compares logits by index; config.json of Qwen2.5" },
    { .id = "TS906",
      .title = "the teacher has dropout",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_teacher_dropout,
      .explain =
          "A model that was just loaded by from_pretrained is in evaluation mode, but "
          "one that is a part of the trained module goes to training mode with it, by "
          "one call of train(). With dropout in its configuration, or in its adapter, "
          "its logits then differ from look to look, and the student is taught the "
          "noise. Call eval() on it, and compute it under no_grad, which saves its "
          "activations too. The teacher of a native run drops nothing.",
      .source = "PyTorch nn.Module.train; transformers modeling_utils.py" },
    { .id = "TS907",
      .title = "what preferences are held against",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_NATIVE,
      .run = rule_reference,
      .explain =
          "pref_loss sigmoid, hinge and ipo ask how much likelier an answer has become "
          "than a reference finds it, a model that stays as it is. That is ref_model "
          "where the job names one. Without it, and with lora, it is the model without "
          "its adapter; where weights of the model itself are trained, the model as it "
          "begins, which is read a second time. With train_from_scratch it begins with "
          "numbers drawn at random, and to stay near those is no aim.\n\n"
          "adapter_name_or_path goes on with an adapter, and the reference is the model "
          "without any. So LLaMA-Factory has it, and it is told (info), as mostly the "
          "model of stage sft is meant, which is the model with that adapter. "
          "create_new_adapter: true merges it and trains a new one; ref_model with "
          "ref_model_adapters takes a second model's memory.",
      .source = "LLaMA-Factory train/trainer_utils.py: create_ref_model; "
                "train/dpo/trainer.py: compute_reference_log_probs" },
    { .id = "TS908",
      .title = "a setting of another loss of preferences",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_other_loss,
      .explain =
          "dpo_label_smoothing is of pref_loss: sigmoid: LLaMA-Factory stops where it "
          "stands beside another. simpo_gamma is read with simpo alone. orpo and simpo "
          "have no reference, so that ref_model has no effect with them; nor has "
          "ref_model_adapters where no ref_model is named.",
      .source = "LLaMA-Factory hparams/finetuning_args.py: FinetuningArguments" },
    { .id = "TS909",
      .title = "a setting that has no place in stage dpo",
      .severity = SEVERITY_WARNING,
      .run = rule_strangers,
      .explain =
          "Two answers to one question are compared, the whole of each and no other "
          "token. So there is nothing that train_on_prompt or mask_history could add or "
          "leave out, nothing is packed, nothing is generated, and "
          "label_smoothing_factor and compute_accuracy, which are of the cross-entropy, "
          "have nothing to work on: dpo_label_smoothing and rewards/accuracies are "
          "their likes. Dropout, that of adapters and of the model, is off: what it "
          "does to an answer's probability would count as a preference.\n\n"
          "LLaMA-Factory stops at predict_with_generate, train_on_prompt, mask_history "
          "and neat_packing outside of stage sft, and passes over the others; so in a "
          "job for it (target: external) the first are errors.",
      .source = "LLaMA-Factory hparams/parser.py: get_train_args; train/dpo/trainer.py; "
                "data/processor/pairwise.py; TRL DPOConfig: disable_dropout" },
};
const struct rules catalogue_distill = { rows, TS_COUNT(rows) };
