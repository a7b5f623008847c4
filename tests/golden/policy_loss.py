#!/usr/bin/env python3
"""Make policy_loss.json: losses of sampled answers and their slopes by the loss of each token.

    python3 tests/golden/policy_loss.py > tests/golden/policy_loss.json

The formulas are those of _compute_loss in TRL 1.16's trl/trainer/grpo_trainer.py, in double, and the
slopes are torch.autograd's.
"""
import json
import random

import torch

SETTINGS = [
    dict(low=0.2, high=0.2, delta=0, beta=0, sequence=False, old=False, reference=False),
    dict(low=0.2, high=0.2, delta=0, beta=0.04, sequence=False, old=False, reference=True),
    dict(low=0.2, high=0.2, delta=0, beta=0.3, sequence=False, old=False, reference=True, corrects=True),
    dict(low=0.2, high=0.2, delta=1.3, beta=0.3, sequence=False, old=True, reference=True, corrects=True),
    dict(low=0.003, high=0.004, delta=0, beta=0.5, sequence=True, old=True, reference=True, corrects=True),
    dict(low=0.2, high=0.28, delta=0, beta=0, sequence=False, old=True, reference=False),
    dict(low=0.2, high=0.28, delta=1.5, beta=0.1, sequence=False, old=True, reference=True),
    dict(low=0.1, high=0.4, delta=1.1, beta=0, sequence=False, old=True, reference=False),
    dict(low=0.003, high=0.004, delta=0, beta=0.01, sequence=True, old=True, reference=True),
    dict(low=0.2, high=0.2, delta=0, beta=0, sequence=True, old=True, reference=False),
]
LENGTHS = [5, 1, 0, 7, 3, 12, 4]


def loss_of(logps, old, reference, advantage, s):
    log_ratio = logps - (logps.detach() if old is None else old)
    if s["sequence"]:
        log_ratio = log_ratio.sum() / max(len(log_ratio), 1)
    ratio = whole = torch.exp(log_ratio)
    clamped = torch.clamp(ratio, 1 - s["low"], 1 + s["high"])
    low = (ratio < 1 - s["low"]) & (advantage < 0)
    high = (ratio > 1 + s["high"]) & (advantage > 0)
    clipped = (low | high).double().expand(len(logps)).sum()
    if s["delta"]:
        ratio = torch.clamp(ratio, max=s["delta"])
    loss = -torch.min(ratio * advantage, clamped * advantage)
    kl = torch.zeros(())
    if reference is not None:
        kl = torch.exp(reference - logps) - (reference - logps) - 1
        if s["corrects"]:
            kl = kl * whole
        loss = loss + s["beta"] * kl
    return loss.expand(len(logps)), kl.sum(), clipped


def number(x):
    return float(torch.tensor(x, dtype=torch.float32))


def case(s, rng):
    s = {"corrects": False} | {key: number(x) if isinstance(x, float) else x for key, x in s.items()}
    row = dict(s, lengths=LENGTHS, losses=[], slopes=[], values=[], advantages=[], factors=[])
    for key in ("old", "reference"):
        row[key] = [] if s[key] else None
    for i, length in enumerate(LENGTHS):
        losses = [number(rng.uniform(0.01, 4)) for _ in range(length)]
        near = 0.02 if s["sequence"] else 0.6
        others = {key: [number(x + rng.uniform(-near, near)) for x in losses] for key in ("old", "reference")}
        advantage = number(0 if i == 4 else rng.uniform(-1.5, 1.5))
        factor = number(1 / max(length, 1) if i % 2 else rng.uniform(0.01, 1))
        logps = torch.tensor([-x for x in losses], dtype=torch.double, requires_grad=True)
        given = {key: -torch.tensor(others[key], dtype=torch.double) if s[key] else None for key in others}
        loss, kl, clipped = loss_of(logps, given["old"], given["reference"], torch.tensor(advantage).double(), s)
        total = factor * loss.sum()
        slopes = torch.autograd.grad(total, logps)[0] if length else logps
        row["losses"] += losses
        row["slopes"] += (-slopes).tolist()
        row["values"] += [total.item(), kl.item() if length else 0, clipped.item(), length]
        row["advantages"].append(advantage)
        row["factors"].append(factor)
        for key in others:
            if s[key]:
                row[key] += others[key]
    return row


def main():
    rng = random.Random(5)
    rows = [case(s, rng) for s in SETTINGS]
    text = json.dumps({"torch": torch.__version__, "cases": rows})
    print(text.replace("}, ", "},\n").replace('], "', '],\n "'))


if __name__ == "__main__":
    main()
