#!/usr/bin/env python3
"""Make schedule.json: the factors of the learning rate in transformers' schedules, step by step, for
test_schedule.

    python3 tests/golden/schedule.py > tests/golden/schedule.json

Each schedule is created as in Trainer (get_scheduler, with the arguments of lr_scheduler_kwargs) and
also evaluated three steps past its end.  plateau has the rates of reduce_lr_on_plateau after each
of a list of metrics.
"""
import json

import torch
from transformers import get_scheduler

STEPS, WARMUP, RATE = 60, 7, 1e-3
CASES = [
    ("linear", {}),
    ("cosine", {}),
    ("cosine", {"num_cycles": 1.25}),
    ("constant", {}),
    ("constant_with_warmup", {}),
    ("polynomial", {"power": 3.0, "lr_end": 1e-5}),
    ("cosine_with_restarts", {}),
    ("cosine_with_restarts", {"num_cycles": 3}),
    ("cosine_with_restarts", {"num_cycles": 5}),
    ("cosine_with_min_lr", {"min_lr": 1e-4}),
    ("cosine_with_min_lr", {"min_lr_rate": 0.25, "num_cycles": 1.5}),
    ("warmup_stable_decay", {"num_decay_steps": 20}),
    ("warmup_stable_decay", {"num_decay_steps": 20, "num_stable_steps": 10,
                             "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", {"num_decay_steps": 20, "decay_type": "linear", "warmup_type": "cosine",
                             "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", {"num_decay_steps": 20, "decay_type": "1-sqrt",
                             "warmup_type": "1-sqrt"}),
    ("inverse_sqrt", {}),
    ("inverse_sqrt", {"timescale": 25}),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-4}),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.25, "warmup_lr_rate": 0.1}),
]


def factors(name, arguments):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    schedule = get_scheduler(name, optimizer, num_warmup_steps=WARMUP, num_training_steps=STEPS,
                             scheduler_specific_kwargs=dict(arguments))
    out = []
    for _ in range(STEPS + 4):
        out.append(float("%.12g" % (schedule.get_last_lr()[0] / RATE)))
        optimizer.step()
        schedule.step()
    return out


PLATEAU = [
    {"patience": 0},
    {"patience": 1, "factor": 0.5, "threshold": 0.01},
    {"patience": 1, "factor": 0.5, "threshold": 0.02, "threshold_mode": "abs"},
    {"patience": 2, "factor": 0.3, "cooldown": 3},
    {"patience": 0, "factor": 0.5, "min_lr": 2e-4},
    {"patience": 0, "factor": 0.1, "eps": 5e-5},
    {"mode": "max", "patience": 1, "factor": 0.5, "threshold": 0.03},
    {"mode": "max", "patience": 0, "factor": 0.7, "threshold": 0.1, "threshold_mode": "abs",
     "cooldown": 1},
    {},
]
NOT_A_NUMBER = 9  # the index of a metric


def metrics(at):
    """A curve with noise that falls, stays and rises; of loss and accuracy alike."""
    return [round(1.5 - 0.12 * min(n, 14) + 0.05 * max(n - 24, 0)
                  + 0.09 * ((n * 7 + at * 5) % 11 - 5) / 5, 3) for n in range(40)]


def plateau(at, arguments):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    schedule = get_scheduler("reduce_lr_on_plateau", optimizer, scheduler_specific_kwargs=dict(arguments))
    rates, given = [], metrics(at)
    if arguments.get("mode") == "max":
        given = [round(2 - metric, 3) for metric in given]
    for n, metric in enumerate(given):
        optimizer.step()
        schedule.step(float("nan") if n == NOT_A_NUMBER else metric)
        rates.append(schedule.get_last_lr()[0])
    return {"arguments": arguments, "metrics": given, "rates": rates}


cases = [{"name": name, "arguments": arguments, "factors": factors(name, arguments)}
         for name, arguments in CASES]
print(json.dumps({"steps": STEPS, "warmup": WARMUP, "rate": RATE, "cases": cases,
                  "not_a_number": NOT_A_NUMBER,
                  "plateau": [plateau(at, arguments) for at, arguments in enumerate(PLATEAU)]}))
