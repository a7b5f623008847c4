/* patcher/catalogue_distill.c - TS9xx: distillation. */
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
                 "model_name_or_path, on the "
                 "data and on what a larger one says at each token. The larger one is "
                 "teacher_model_name_or_path, a folder. Without it there is nothing to "
                 "learn from "
                 "but the data, which is stage: sft. trainspool.teacher_logits, a file of "
                 "what a teacher has said of these data, takes its place.",
      .source = "TRL GKDConfig: teacher_model_name_or_path" },
    { .id = "TS902",
      .title = "the student or what is trained with it would be float16",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .run = rule_half_student,
      .explain =
          "The rule of TS105 for a distillation: a gradient has its parameter's format, "
          "and "
          "the loss scaler refuses float16 ones. It looks at every parameter in the "
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
          "bfloat16 is the right way to keep it: half the memory of float32. Its softmax "
          "is taken in float32. A model trained in bf16 can overflow in float16 (TS103); "
          "then keep it in bfloat16, or float32 on a card without it.\n\n"
          "Its bytes come on top of the student's. The estimate of TS301 counts them.",
      .source = "the third report; docs/precision.md" },
    { .id = "TS904",
      .title = "a share or temperature out of range",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_kd_numbers,
      .explain =
          "The loss is (1 - kd_ratio) times that of the data plus kd_ratio times that of "
          "the teacher, so kd_ratio is a share. Logits are divided by kd_temperature: 1 "
          "leaves them, 2 softens them, 0 divides by zero, and below 0 the least likely "
          "token would be the best. kd_beta goes from forward KL (0) to reverse KL "
          "(1).\n\n"
          "With kd_topk only the teacher's largest logits are kept, and its other words "
          "are "
          "0. Reverse KL divides by them: it is infinite, so kd_topk needs a kd_beta "
          "below "
          "1. A kd_topk above the teacher's vocabulary leaves nothing out.",
      .source = "torchtune kd_ratio; TRL GKDConfig: temperature, beta" },
    { .id = "TS905",
      .title = "teacher and student do not share a vocabulary",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_vocabularies,
      .explain =
          "The student's probability of token 17 is compared with the teacher's of token "
          "17. If that is another word, the student learns noise, and nothing fails. So "
          "tokenizer.json of both is compared: every token and its number, added ones "
          "too.\n\n"
          "Models of one family often share their tokens and differ in vocab_size, as "
          "its "
          "rows are padded to a round number (Qwen2.5: 151936 and 152064). That is a "
          "warning: the padding is never a token, but a script must cut both to the "
          "shorter length, or it fails at the first batch. A native run does: both "
          "softmaxes of the distance are over the shorter length, the cross-entropy of "
          "the "
          "data over all of the student's. Where a tokenizer.json is missing, vocab_size "
          "alone is compared.",
      .source = "TRL gkd_trainer.py compares logits by index; config.json of Qwen2.5" },
    { .id = "TS906",
      .title = "the teacher has dropout",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_teacher_dropout,
      .explain =
          "A model that was just loaded by from_pretrained is in evaluation mode, but "
          "one "
          "that is a part of the trained module goes to training mode with it, by one "
          "call "
          "of train(). With dropout in its configuration, or in its adapter, its logits "
          "then differ from look to look, and the student is taught the noise. Call "
          "eval() on it, and compute it under no_grad, which saves its activations too. "
          "The teacher of a native run drops nothing.",
      .source = "PyTorch nn.Module.train; transformers modeling_utils.py" },
};
const struct rules catalogue_distill = { rows, TS_COUNT(rows) };
