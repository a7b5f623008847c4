#!/usr/bin/env python3
"""Make feedback_loss.json: KTO's loss of answers and its derivatives with respect to the loss of each
token, by TRL's own kto_loss in float64, for tests/unit/test_cpu_preference.c.

    python3 tests/golden/feedback_loss.py trl-0.24/trl/trainer/kto_trainer.py >tests/golden/feedback_loss.json

The function is taken from the file without importing TRL.  What LLaMA-Factory adds in
get_batch_loss_metrics (train/kto/trainer.py, pref_ftx) follows it line by line.  A sequence has one
row more than tokens: the last one has no target.
"""
import ast
import json
import random
import struct
import sys
import types

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def kto_loss_of(path):
    with open(path) as file:
        tree = ast.parse(file.read())
    found = [node for node in ast.walk(tree)
             if isinstance(node, ast.FunctionDef) and node.name == "kto_loss"]
    assert len(found) == 1
    tree.body = found
    space = {"torch": torch, "F": F}
    exec(compile(tree, path, "exec"), space)
    return space["kto_loss"]


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def case(kto_loss, seed, good, beta=0.1, ftx=0.0, weights=(1.0, 1.0), scale=1.0):
    draw = random.Random(seed)
    sizes = [draw.randrange(1, 6) for _ in range(2 * len(good))]
    made = {"kind": "kto", "beta": single(beta), "ftx": single(ftx), "good": good,
            "chosen_weight": single(weights[0]), "rejected_weight": single(weights[1]),
            "lengths": [n + 1 for n in sizes], "losses": [], "reference": [], "pairs": [],
            "slopes": []}
    tokens, before = [[torch.tensor([single(scale * draw.expovariate(1.0)) for _ in range(n)])
                       for n in sizes] for _ in range(2)]
    for each in tokens:
        each.requires_grad_()
    policy = torch.stack([-each.sum() for each in tokens])
    reference = torch.stack([-each.sum() for each in before])
    mask = torch.tensor(good, dtype=torch.bool)
    accelerator = types.SimpleNamespace(gather_for_metrics=lambda x: x, device="cpu")
    trainer = types.SimpleNamespace(
        beta=made["beta"], loss_type="kto", calculate_KL=True, accelerator=accelerator,
        desirable_weight=made["chosen_weight"], undesirable_weight=made["rejected_weight"])
    own, own_before = policy[::2], reference[::2]
    losses, _, _, kl = kto_loss(trainer, own[mask], own[~mask], policy[1::2].detach(),
                                own_before[mask], own_before[~mask], reference[1::2])
    total = losses.nanmean()
    averages = torch.stack([-each.mean() for each in tokens[::2]])[mask]
    if made["ftx"] > 1e-6 and len(averages) > 0:
        total = total + made["ftx"] * (-averages).nanmean() / len(averages) * len(good)
    (total * len(good)).backward()  # a sum over answers, not the mean
    each = torch.empty(len(good))
    each[mask], each[~mask] = losses[:mask.sum()], losses[mask.sum():]
    for i in range(len(good)):
        if good[i] and made["ftx"] > 1e-6:
            share = len(good) / len(averages)
            each[i] += made["ftx"] * share ** 2 * tokens[2 * i].mean()
        made["pairs"] += [each[i].item(), made["beta"] * (own[i] - own_before[i]).item(),
                          float(good[i]), own[i].item(), kl.item()]
    assert abs(each.mean() - total) < 1e-12
    for new, old in zip(tokens, before):
        made["losses"] += new.tolist() + [0.0]
        made["reference"] += old.tolist() + [0.0]
        made["slopes"] += (new.grad.tolist() if new.grad is not None else [0.0] * len(new)) + [0.0]
    return made


def main():
    kto_loss = kto_loss_of(sys.argv[1])
    make = lambda *args, **more: case(kto_loss, *args, **more)
    cases = [make(1, [1, 0]), make(2, [1, 1, 0], beta=0.5), make(3, [0, 0, 1, 0], scale=5.0),
             make(4, [1, 0, 1], beta=2.0, ftx=0.5, weights=(0.5, 1.5)),
             make(5, [1], ftx=0.25), make(6, [0, 0], ftx=0.5, weights=(2.0, 3.0)),
             make(7, [1, 0, 0, 1], beta=1.0, scale=2.0)]
    print('{"cases": [\n' + ",\n".join(json.dumps(each) for each in cases) + "\n]}")


if __name__ == "__main__":
    main()
