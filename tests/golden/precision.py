#!/usr/bin/env python3
"""Make precision.json: how PyTorch handles float16 weights, one non-finite gradient, and its loss
scale.  docs/precision.md quotes these values, and tests/unit/test_claims.c compares ours with them.

    python3 tests/golden/precision.py >tests/golden/precision.json        (on a CPU)
"""
import itertools
import json
import warnings

import torch
from torch.utils.checkpoint import checkpoint

warnings.filterwarnings("ignore")


def number(value):
    """Return a value that JSON can represent, which has no infinity."""
    value = float(value)
    return value if value == value and abs(value) != float("inf") else str(value)


def weights_after(dtype, gradient, start, steps, fused):
    """Train one weight by AdamW: lr 2e-5, no decay, torch's other defaults, a constant gradient."""
    weight = torch.nn.Parameter(torch.full((8,), start, dtype=dtype))
    optimizer = torch.optim.AdamW([weight], lr=2e-5, weight_decay=0.0, fused=fused,
                                  foreach=None if fused else False)
    after, at = [], []
    for step in range(1, steps + 1):
        weight.grad = torch.full((8,), gradient, dtype=dtype)
        optimizer.step()
        if step in (1, 10, 100, 1000):
            at.append(step)
            after.append(number(weight.detach()[0].float()))
    return {"dtype": str(dtype).split(".")[1], "gradient": gradient, "start": start,
            "fused": fused, "steps": at, "weights": after}


def adamw():
    rows = []
    for dtype, fused in itertools.product((torch.float16, torch.float32), (False, True)):
        for gradient, start in ((1e-2, 0.0), (6e-3, 0.0), (5.4e-3, 0.0), (1e-3, 0.0),
                                (1e-2, 0.1)):
            rows.append(weights_after(dtype, gradient, start, 1000, fused))
    return rows


def raises(trained, frozen, fused, clipped, checkpointed):
    """Make one step with GradScaler; return the message of the error, or None."""
    inner = torch.nn.Linear(4, 4).to(trained)
    outer = torch.nn.Linear(4, 4).to(frozen).requires_grad_(False)
    optimizer = torch.optim.AdamW(inner.parameters(), lr=1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    x = torch.ones(2, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        y = checkpoint(inner, x, use_reentrant=False) if checkpointed else inner(x)
        loss = outer(y).float().square().mean()
    try:
        scaler.scale(loss).backward()
        if clipped:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(inner.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    except ValueError as error:
        return str(error)
    return None


def unscale():
    rows = []
    for trained, frozen, fused, clipped, checkpointed in itertools.product(
            (torch.float32, torch.float16), (torch.float32, torch.float16), (False, True),
            (False, True), (False, True)):
        rows.append({"trained": str(trained).split(".")[1], "frozen": str(frozen).split(".")[1],
                     "fused": fused, "clipped": clipped, "checkpointed": checkpointed,
                     "error": raises(trained, frozen, fused, clipped, checkpointed)})
    return rows


def clipping():
    """Clip the gradients 1, 2, 3 and one more to a norm of 1, then make a step of AdamW."""
    rows = []
    for bad in (4.0, float("inf"), float("nan")):
        weight = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        optimizer = torch.optim.AdamW([weight], lr=1e-2, weight_decay=0.0)
        weight.grad = torch.tensor([1.0, 2.0, 3.0, bad], dtype=torch.bfloat16)
        norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
        clipped = [number(value) for value in weight.grad.float()]
        optimizer.step()
        rows.append({"bad": number(bad), "norm": number(norm), "gradients": clipped,
                     "weights": [number(value) for value in weight.detach().float()]})
    return rows


def trace(finite, **settings):
    """Return the loss scale after each step; `finite` has 1 for a good step, 0 for an overflow."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", **settings)
    scales = []
    for good in finite:
        optimizer.zero_grad()
        scaler.scale((weight * (1.0 if good == "1" else float("inf"))).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(number(scaler.get_scale()))
    return scales


def scaler():
    mixed = "0011110111" + "1" * 20 + "0101" + "1" * 8
    return {"defaults": {"scale": number(torch.amp.GradScaler("cpu").get_scale()),
                         "growth": torch.amp.GradScaler("cpu").get_growth_factor(),
                         "backoff": torch.amp.GradScaler("cpu").get_backoff_factor(),
                         "interval": torch.amp.GradScaler("cpu").get_growth_interval()},
            "mixed": {"finite": mixed, "interval": 4,
                      "scales": trace(mixed, growth_interval=4)},
            "overflow": {"finite": "0" * 200, "scales": trace("0" * 200)}}


def main():
    torch.set_num_threads(1)
    print(json.dumps({"torch": torch.__version__, "adamw": adamw(), "unscale": unscale(),
                      "clipping": clipping(), "scaler": scaler()}, indent=1))


if __name__ == "__main__":
    main()
