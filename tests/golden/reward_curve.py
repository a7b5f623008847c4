#!/usr/bin/env python3
"""Make reward_curve.json: reward models trained by PyTorch and transformers, step by step.

    python3 tests/golden/reward_curve.py SHARED/data > tests/golden/reward_curve.json

Each run has its job without the model, the data and the adapter; records, tokens and adapter are
those of preference_curve.py, the models those of stories260K with the weights of the head in "head".
With head "score" it is LlamaForSequenceClassification, whose pad_token_id is the token after each
answer, so that it reads the score of the token before; with "value_head" the score is that of the
last token, as in TRL's AutoModelForCausalLMWithValueHead, with a bias.  The loss is LLaMA-Factory's
(train/rm/trainer.py) plus TRL's center_rewards_coefficient; the loss of a step, AdamW and the schedule
are those of preference_curve.py.  "scores" are those of all pairs after the last step.  Computed on a
CPU in double; the initial weights are exact in fp32.
"""
import json
import os
import sys

import peft
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer
from transformers import (AutoModelForCausalLM, LlamaForSequenceClassification,
                          get_cosine_schedule_with_warmup)
from transformers.models.llama import modeling_llama

from lora import LINEAR, SCALE, fill, saved
from preference import norm_in_double
from preference_curve import (BETAS, CLIP, DECAY, EPSILON, FOLDER, JOB, RECORDS, tokens_of,
                              windows_of)

RUNS = {
    "score": {"finetuning_type": "full", "max_steps": 12, "learning_rate": 3e-4},
    "value_head": {"finetuning_type": "full", "max_steps": 8, "learning_rate": 3e-4,
                   "center_rewards_coefficient": 0.05},
    "score lora": {"finetuning_type": "lora", "max_steps": 12, "learning_rate": 2e-3,
                   "center_rewards_coefficient": 0.01},
    "value_head lora": {"finetuning_type": "lora", "max_steps": 8, "learning_rate": 2e-3},
}
PAD = 13  # the token of a line's end
WEIGHTS = [((37 * i + 11) % 64 - 32) / 128 for i in range(64)]
BIAS = 0.25


class ValueHead(torch.nn.Module):
    def __init__(self, where):
        super().__init__()
        self.pretrained_model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32)
        self.v_head = torch.nn.Linear(64, 1)
        with torch.no_grad():
            self.v_head.weight.copy_(torch.tensor([WEIGHTS]))
            self.v_head.bias.fill_(BIAS)

    def scores(self, rows):
        return torch.stack([self.v_head(self.pretrained_model(
            input_ids=torch.tensor([row]), output_hidden_states=True).hidden_states[-1][0, -1])[0]
            for row in rows])


def value_model(where, lora):
    model = ValueHead(where)
    if lora:
        model.pretrained_model = get_peft_model(
            model.pretrained_model,
            LoraConfig(target_modules=LINEAR, task_type="CAUSAL_LM", r=8, lora_alpha=16))
        fill(model.pretrained_model)
    return model.double(), model.scores


def score_model(where, lora):
    model = LlamaForSequenceClassification.from_pretrained(where, num_labels=1, pad_token_id=PAD,
                                                           dtype=torch.float32)
    if lora:
        model = get_peft_model(model, LoraConfig(target_modules=LINEAR, task_type="SEQ_CLS", r=8,
                                                 lora_alpha=16))
        fill(model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "score" in name:
                p.copy_(torch.tensor([WEIGHTS]))
    model.double()

    def scores(rows):
        longest = max(map(len, rows))
        ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        return model(input_ids=ids, attention_mask=mask).logits[:, 0]
    return model, scores


def metrics_of(scores, batch, center):
    out = scores([prompt + answer for prompt, *answers in batch for answer in answers])
    chosen, rejected = out[0::2], out[1::2]
    losses = -F.logsigmoid(chosen - rejected) + center * (chosen + rejected) ** 2
    metrics = {"rewards/chosen": chosen, "rewards/rejected": rejected,
               "rewards/accuracies": (chosen > rejected).double(),
               "rewards/margins": chosen - rejected, "loss": losses}
    return losses.mean(), {key: each.detach().mean().item() for key, each in metrics.items()}


def short(x):
    return float(f"{x:.9g}")


def run(where, tokens, name, settings):
    said = {key: f"{x:.1e}" if key == "learning_rate" else x for key, x in settings.items()}
    job = JOB.replace("stage: dpo", "stage: rm") + "".join(f"{key}: {x}\n" for key, x in said.items())
    lora = settings["finetuning_type"] == "lora"
    model, scores = (value_model if name.startswith("value") else score_model)(where, lora)
    trained = [p for n, p in model.named_parameters() if p.requires_grad and "lm_head" not in n]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in trained if p.dim() > 1], "weight_decay": DECAY},
         {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}],
        lr=settings["learning_rate"], betas=BETAS, eps=EPSILON)
    steps = settings["max_steps"]
    schedule = get_cosine_schedule_with_warmup(optimizer, -(-steps // 10), steps)
    windows, curve = windows_of(tokens), []
    for step in range(steps):
        window, sums = windows[step % len(windows)], {}
        for batch in window:
            loss, metrics = metrics_of(scores, batch,
                                       settings.get("center_rewards_coefficient", 0.0))
            (loss / len(window)).backward()
            sums = {key: sums.get(key, 0) + metrics[key] / len(window) for key in metrics}
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIP).item()
        curve.append(sums | {"grad_norm": norm, "learning_rate": optimizer.param_groups[0]["lr"]})
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    with torch.no_grad():
        after = [[short(x) for x in scores([prompt + answer for answer in answers]).tolist()]
                 for prompt, *answers in tokens]
    return {"job": job, "curve": [{key: short(x) for key, x in row.items()} for row in curve],
            "scores": after}


def main(data):
    torch.set_num_threads(1)
    modeling_llama.LlamaRMSNorm.forward = norm_in_double
    where = os.path.join(data, FOLDER)
    tokenizer = Tokenizer.from_file(os.path.join(where, "tokenizer.json"))
    tokens = tokens_of(tokenizer)
    assert all(answer[-1] == PAD for _, *answers in tokens[:3] for answer in answers)
    records = [dict(zip(("prompt", "chosen", "rejected"), record)) for record in RECORDS]
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32),
                           LoraConfig(target_modules=LINEAR, task_type="CAUSAL_LM", r=8,
                                      lora_alpha=16))
    fill(model)
    config, tensors = saved(model)
    text = json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                       "peft": peft.__version__, "model": FOLDER, "records": records,
                       "head": {"weight": WEIGHTS, "bias": BIAS, "pad_token_id": PAD},
                       "adapter": {"config": config, "tensors": tensors, "scale": SCALE},
                       "runs": {name: run(where, tokens, name, settings)
                                for name, settings in RUNS.items()}})
    print(text.replace('], "', '],\n"').replace("}, ", "},\n").replace("]], [", "]],\n["))


if __name__ == "__main__":
    main(sys.argv[1])
