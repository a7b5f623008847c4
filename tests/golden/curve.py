#!/usr/bin/env python3
"""Make curve.json: a training curve by PyTorch and transformers, for test_trainer_curve.

    python3 tests/golden/curve.py FOLDER/data/stories260K/hf > tests/golden/curve.json

A plain training loop in fp32: batches in file order, the loss of an accumulation window divided by
its trained tokens, clipping, AdamW with decay for matrices only, cosine schedule with warm-up.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import get_cosine_schedule_with_warmup

BATCH, WINDOW, STEPS, WARMUP = 2, 3, 30, 3
RATE, DECAY, BETAS, EPSILON, CLIP = 3e-3, 0.1, (0.9, 0.95), 1e-8, 0.5
JOB = """\
stage: pt
finetuning_type: full
packing: false
disable_shuffling: true
cutoff_len: 64
per_device_train_batch_size: 2
gradient_accumulation_steps: 3
max_steps: 30
learning_rate: 3.0e-3
lr_scheduler_type: cosine
warmup_ratio: 0.1
weight_decay: 0.1
adam_beta2: 0.95
max_grad_norm: 0.5
logging_steps: 1
save_strategy: "no"
"""
# 13 texts: 7 batches, the last with one text; 3 windows, the last with one batch.
TEXTS = [
    "A kettle stood on the stove and sang all day.",
    "Tom had a red boat. It was small, but it was fast.",
    "\"Where is my hat?\" said the old man.",
    "Rain fell on the roof of the barn, and the hens came in to stay dry.",
    "One, two, three.",
    "The moon was big and round, so the cat went out to look at it from the wall.",
    "Mia put ten stones into her bag. Ben took four of them. Now she had six.",
    "Stop! The road is wet.",
    "In winter the lake was ice, and in summer it was full of ducks and green weed.",
    "Grandma made soup with beans.",
    "He ran, he fell, he got up, and he ran again until he saw the blue gate.",
    "A bee sat on a flower.",
    "They were cold and tired, but the lamp in the window told them they were home.",
]


def loss_of(model, tokens, batch, trained):
    """Return the summed loss of a padded batch, divided by the trained tokens of the window."""
    rows = [tokens[i] for i in batch]
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = labels[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1),
        ignore_index=-100, reduction="sum") / trained


def main(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager")
    model.train()
    tokens = [[tokenizer.bos_token_id] + tokenizer(t, add_special_tokens=False).input_ids
              + [tokenizer.eos_token_id] for t in TEXTS]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY},
         {"params": others, "weight_decay": 0.0}], lr=RATE, betas=BETAS, eps=EPSILON)
    schedule = get_cosine_schedule_with_warmup(optimizer, WARMUP, STEPS)
    batches = [range(i, min(i + BATCH, len(TEXTS))) for i in range(0, len(TEXTS), BATCH)]
    windows = [batches[i : i + WINDOW] for i in range(0, len(batches), WINDOW)]
    curve = []
    for step in range(STEPS):
        window = windows[step % len(windows)]
        trained = sum(len(tokens[i]) - 1 for batch in window for i in batch)
        total = 0.0
        for batch in window:
            loss = loss_of(model, tokens, batch, trained)
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
        curve.append({"loss": total, "grad_norm": norm,
                      "learning_rate": optimizer.param_groups[0]["lr"]})
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    json.dump({"job": JOB, "texts": TEXTS, "tokens": sum(map(len, tokens)),
               "curve": curve}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
