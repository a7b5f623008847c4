#!/usr/bin/env python3
"""Make optimizer_curve.json: curves of curve.py with other optimizers, for test_trainer_curve.

    python3 tests/golden/optimizer_curve.py FOLDER/data/stories260K/hf > tests/golden/optimizer_curve.json

GaLore and APOLLO keep their first projection, because the signs of later ones are arbitrary; APOLLO
has the singular vectors, not random numbers.  Requires galore_torch, apollo_torch and schedulefree.
"""
import json
import sys

import curve
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import get_constant_schedule, get_cosine_schedule_with_warmup

STEPS = 12
ADAM = {"lr": curve.RATE, "betas": curve.BETAS, "eps": curve.EPSILON}
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def groups(model, projected, **settings):
    """Linear layers that a name selects have the settings; matrices decay."""
    chosen = [p for n, p in model.named_parameters()
              if p.dim() > 1 and any(part in n for part in projected)]
    ids = set(map(id, chosen))
    rest = [p for p in model.parameters() if id(p) not in ids]
    made = [{"params": [p for p in rest if p.dim() > 1], "weight_decay": curve.DECAY},
            {"params": [p for p in rest if p.dim() == 1], "weight_decay": 0.0}]
    if chosen:
        made.append({"params": chosen, "weight_decay": curve.DECAY, **settings})
    return made


def galore(model):
    from galore_torch.adamw import AdamW

    return AdamW(groups(model, LINEAR, rank=8, update_proj_gap=200, scale=2.0, proj_type="std"),
                 no_deprecation_warning=True, **ADAM)


def galore_some(model):
    from galore_torch.adamw import AdamW

    return AdamW(groups(model, ("mlp", "q_proj"), rank=4, update_proj_gap=200, scale=0.5,
                        proj_type="full"), no_deprecation_warning=True, **ADAM)


def apollo(model):
    from apollo_torch.apollo import AdamW

    return AdamW(groups(model, LINEAR, rank=8, update_proj_gap=200, scale=32.0, proj="svd",
                        proj_type="std", scale_type="channel"), **ADAM)


def apollo_mini(model):
    from apollo_torch.apollo import AdamW

    return AdamW(groups(model, LINEAR, rank=1, update_proj_gap=200, scale=128.0, proj="svd",
                        proj_type="std", scale_type="tensor"), **ADAM)


def schedule_free(model):
    from schedulefree import AdamWScheduleFree

    optimizer = AdamWScheduleFree(groups(model, ()), warmup_steps=4, **ADAM)
    optimizer.train()
    return optimizer


CASES = {
    "galore": (galore, "use_galore: true\ngalore_rank: 8\n"),
    "galore_some": (galore_some, "use_galore: true\ngalore_rank: 4\ngalore_scale: 0.5\n"
                    "galore_target: mlp,q_proj\ngalore_proj_type: full\n"),
    "apollo": (apollo, "use_apollo: true\napollo_rank: 8\napollo_proj: svd\n"),
    "apollo_mini": (apollo_mini, "use_apollo: true\napollo_rank: 1\napollo_proj: svd\n"
                    "apollo_scale: 128.0\napollo_scale_type: tensor\n"),
    "schedule_free": (schedule_free, "optim: schedule_free_adamw\n"
                      "lr_scheduler_type: constant\nwarmup_ratio: 0\nwarmup_steps: 4\n"),
}


def run(folder, tokens, make):
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager")
    model.train()
    optimizer = make(model)
    free = make is schedule_free
    schedule = get_constant_schedule(optimizer) if free else \
        get_cosine_schedule_with_warmup(optimizer, curve.WARMUP, curve.STEPS)
    texts = range(len(tokens))
    batches = [texts[i : i + curve.BATCH] for i in texts[:: curve.BATCH]]
    windows = [batches[i : i + curve.WINDOW] for i in range(0, len(batches), curve.WINDOW)]
    made = []
    for step in range(STEPS):
        window = windows[step % len(windows)]
        trained = sum(len(tokens[i]) - 1 for batch in window for i in batch)
        total = 0.0
        for batch in window:
            loss = curve.loss_of(model, tokens, batch, trained)
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), curve.CLIP).item()
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        if free:
            rate = optimizer.param_groups[0]["scheduled_lr"]
        made.append({"loss": total, "grad_norm": norm, "learning_rate": rate})
        schedule.step()
        optimizer.zero_grad()
    return made


def job(more):
    """The job of curve.py, with other values of keys."""
    keys = {line.split(":")[0] for line in more.splitlines()}
    kept = [line for line in curve.JOB.splitlines() if line.split(":")[0] not in keys]
    return "\n".join(kept) + "\n" + more


def main(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = [[tokenizer.bos_token_id] + tokenizer(t, add_special_tokens=False).input_ids
              + [tokenizer.eos_token_id] for t in curve.TEXTS]
    made = {name: {"job": job(more), "curve": run(folder, tokens, make)}
            for name, (make, more) in CASES.items()}
    json.dump(made, sys.stdout, indent=1)
    print()


main(sys.argv[1])
