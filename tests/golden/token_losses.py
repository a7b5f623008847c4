#!/usr/bin/env python3
"""Make token_losses.json: DFT and EAFT by LLaMA-Factory's own functions in PyTorch, in float64.

    python3 tests/golden/token_losses.py LLaMA-Factory/src > tests/golden/token_losses.json

The functions are taken from llamafactory/train/trainer_utils.py without importing the package,
which needs many others.  Inputs, outputs and their form are those of operators.py.
"""
import ast
import json
import os
import sys

import numpy
import torch

torch.set_default_dtype(torch.float64)
NAMES = {"_dft_cross_entropy", "_eaft_cross_entropy"}
KEPT = 6
CASES = []


def functions(source):
    """Execute only the definitions of these names."""
    with open(os.path.join(source, "llamafactory/train/trainer_utils.py")) as file:
        tree = ast.parse(file.read())
    tree.body = [node for node in tree.body
                 if isinstance(node, ast.FunctionDef) and node.name in NAMES]
    assert len(tree.body) == len(NAMES)
    space = {"torch": torch, "Optional": __import__("typing").Optional}
    exec(compile(tree, source, "exec"), space)
    return space


def bits(seed, count):
    """Return 32-bit hashes of index and seed."""
    x = numpy.arange(count, dtype=numpy.uint64) * 2654435761 + seed * 2246822519
    x &= 0xFFFFFFFF
    x ^= x >> numpy.uint64(16)
    x = x * numpy.uint64(0x45D9F3B) & numpy.uint64(0xFFFFFFFF)
    return x ^ x >> numpy.uint64(16)


def summary(tensor, seed):
    flat = tensor.detach().reshape(-1).numpy()
    signs = numpy.where(bits(seed, flat.size) & numpy.uint64(1), 1.0, -1.0)
    places = sorted({int(i) for i in bits(seed + 1, KEPT) % numpy.uint64(flat.size)}
                    | {0, flat.size - 1})
    short = lambda x: float(f"{x:.10g}")
    return {"most": short(abs(flat).max()), "norm": short(numpy.sqrt((flat ** 2).sum())),
            "sum": short((flat * signs).sum()), "at": places,
            "is": [short(flat[i]) for i in places]}


def take(seed, shape, scale):
    values = ((bits(seed, int(numpy.prod(shape))) % numpy.uint64(129)).astype(float) - 64) / 32
    return torch.tensor(values * scale).reshape(shape).requires_grad_()


def case(loss, kind, alpha, rows, vocab, cols, every):
    row = {"op": "classifier", "in": {}, "out": {},
           "settings": {"every": every, "smoothing": 0.0, "scale": 0.125, "weighted": 0,
                        "kind": kind, "alpha": alpha}}
    CASES.append(row)
    seed = len(CASES) * 16
    row["in"] = {"x": [seed, 0.25, rows, cols], "w": [seed + 1, 0.5, vocab, cols]}
    x, w = take(seed, (rows, cols), 0.25), take(seed + 1, (vocab, cols), 0.5)
    targets = torch.tensor((bits(rows, rows) % numpy.uint64(vocab)).astype(int))
    if every:
        targets[::every] = -100
    logits = x @ w.T
    (loss(logits, targets, 1) * 0.125).backward()  # the sum, not the mean
    with torch.no_grad():  # each row by itself
        losses = torch.stack([loss(logits[i:i + 1], targets[i:i + 1], 1) for i in range(rows)])
    for i, (name, tensor) in enumerate((("losses", losses), ("dx", x.grad), ("dw", w.grad))):
        row["out"][name] = summary(tensor, seed + i)


def main():
    torch.set_num_threads(1)
    space = functions(sys.argv[1])
    dft, eaft = space["_dft_cross_entropy"], space["_eaft_cross_entropy"]
    for rows, vocab, cols, every in [(1, 21, 8, 0), (17, 300, 33, 3), (257, 40, 16, 5)]:
        case(dft, 1, 0.0, rows, vocab, cols, every)
        for alpha in (1.0, 0.5, 2.0):
            weigh = lambda source, target, count: eaft(source, target, count, alpha)
            case(weigh, 2, alpha, rows, vocab, cols, every)
    text = json.dumps({"torch": torch.__version__, "cases": CASES})
    sys.stdout.write(text.replace('{"op"', '\n{"op"').replace("}, ", "},\n") + "\n")


main()
