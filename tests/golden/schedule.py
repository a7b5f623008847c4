#!/usr/bin/env python3
"""Make schedule.json: the factors of the learning rate in transformers' schedules, step by step, for
test_schedule.

    python3 tests/golden/schedule.py > tests/golden/schedule.json

Each schedule is created as in Trainer (get_scheduler, with the arguments of lr_scheduler_kwargs) and
also evaluated three steps past its end.
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


cases = [{"name": name, "arguments": arguments, "factors": factors(name, arguments)}
         for name, arguments in CASES]
print(json.dumps({"steps": STEPS, "warmup": WARMUP, "rate": RATE, "cases": cases}))
