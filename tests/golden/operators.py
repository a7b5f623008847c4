#!/usr/bin/env python3
"""Make operators.json: what PyTorch has, in float64, for operations and their gradients.

    python3 tests/golden/operators.py > tests/golden/operators.json

Inputs are made by a formula that test_golden_operators.c has too: multiples of 1/32 of at
most 7 bits, which every format holds.  Of an output are kept its largest number, its norm, its
sum with signs by the same formula, and some numbers by their places.
"""
import json
import sys

import numpy
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
ROWS = (1, 3, 17, 257)
KEPT = 6
CASES = []


def bits(seed, count):
    """A hash of place and seed, 32 bits."""
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


class Case:
    """An operation with its inputs; keeps what comes out."""

    def __init__(self, operation, **settings):
        self.row = {"op": operation, "settings": settings, "in": {}, "out": {}}
        CASES.append(self.row)

    def take(self, name, *shape, scale=1.0):
        seed = len(CASES) * 16 + len(self.row["in"])
        self.row["in"][name] = [seed, scale, *shape]
        count = int(numpy.prod(shape))
        values = ((bits(seed, count) % numpy.uint64(129)).astype(float) - 64) / 32 * scale
        return torch.tensor(values).reshape(shape).requires_grad_()

    def keep(self, **outputs):
        for name, tensor in outputs.items():
            self.row["out"][name] = summary(tensor, len(CASES) * 16 + len(self.row["out"]))


def linear():
    for rows, ins, outs in [(r, 33, 20) for r in ROWS] + [(17, 64, 48), (257, 1, 3)]:
        case = Case("linear")
        x, w, b = case.take("x", rows, ins), case.take("w", outs, ins), case.take("b", outs)
        y = F.linear(x, w, b)
        y.backward(case.take("dy", rows, outs).detach())
        case.keep(y=y, dx=x.grad, dw=w.grad, db=b.grad)


NORMS = [(r, 40, 1e-5) for r in ROWS] + [(3, 3, 1e-6), (17, 577, 1e-5), (2, 8200, 1e-5),
                                         (17, 40, 0.5)]


def rmsnorm():
    for rows, cols, eps in NORMS:
        case = Case("rmsnorm", eps=eps)
        x, w = case.take("x", rows, cols), case.take("w", cols)
        delta = case.take("delta", rows, cols, scale=0.5)
        total = x + delta
        out = F.rms_norm(total, (cols,), w, eps)
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(sum=total, out=out, dx=x.grad, dw=w.grad)


def layernorm():
    for rows, cols, eps in NORMS:
        case = Case("layernorm", eps=eps)
        x, w, b = case.take("x", rows, cols), case.take("w", cols), case.take("b", cols)
        delta = case.take("delta", rows, cols, scale=0.5)
        total = x + delta
        out = F.layer_norm(total, (cols,), w, b, eps)
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(sum=total, out=out, dx=x.grad, dw=w.grad, db=b.grad)


def rope_table(kind, theta, size, positions):
    """transformers/modeling_rope_utils.py's frequencies, and its cosines and sines."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    parameters = {"default": {}, "linear": {"factor": 4.0},
                  "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 64}}[kind]
    config = LlamaConfig(hidden_size=size, num_attention_heads=1, head_dim=size,
                         max_position_embeddings=512, rope_theta=theta,
                         rope_parameters={"rope_type": kind, "rope_theta": theta, **parameters})
    if kind == "default":
        f = 1.0 / theta ** (torch.arange(0, size, 2) / size)
    else:
        # made in float32 there: once more from the float64 of the default
        import transformers.modeling_rope_utils as utils
        single = ROPE_INIT_FUNCTIONS[kind](config, "cpu")[0]
        f = 1.0 / theta ** (torch.arange(0, size, 2) / size)
        f = f / 4.0 if kind == "linear" else llama3(f, parameters)
        assert torch.allclose(f, single.double(), rtol=1e-6), utils.__file__
    angles = positions.double()[:, None] * torch.cat((f, f))
    return angles.cos(), angles.sin(), parameters


def llama3(f, p):
    old = p["original_max_position_embeddings"]
    smooth = ((old / (2 * torch.pi / f)) - p["low_freq_factor"]) / (
        p["high_freq_factor"] - p["low_freq_factor"])
    wave = 2 * torch.pi / f
    mixed = (1 - smooth) * f / p["factor"] + smooth * f
    return torch.where(wave > old / p["low_freq_factor"], f / p["factor"],
                       torch.where(wave < old / p["high_freq_factor"], f, mixed))


def rope():
    from transformers.models.llama.modeling_llama import rotate_half
    for kind, rows, heads, size, theta in [
            ("default", 1, 1, 2, 1e4), ("default", 3, 2, 8, 1e4), ("default", 17, 3, 10, 1e4),
            ("default", 257, 2, 64, 1e6), ("linear", 257, 3, 16, 1e4),
            ("llama3", 257, 2, 64, 5e5), ("llama3", 17, 1, 128, 5e5)]:
        positions = torch.arange(rows) * 3 % 256
        cos, sin, parameters = rope_table(kind, theta, size, positions)
        case = Case("rope", kind=kind, theta=theta, heads=heads, **parameters)
        x = case.take("x", rows, heads * size)
        each = x.view(rows, heads, size)
        out = each * cos[:, None] + rotate_half(each) * sin[:, None]
        out.reshape(rows, -1).backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dx=x.grad)


def swiglu():
    for rows, cols in [(r, 21) for r in ROWS] + [(17, 576)]:
        case = Case("swiglu")
        gate, up = case.take("gate", rows, cols, scale=2.0), case.take("up", rows, cols)
        out = F.silu(gate) * up
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(out=out, dgate=gate.grad, dup=up.grad)


def sees(offsets, window):
    """(N, N): may row i see row j?  Runs are apart."""
    rows = offsets[-1]
    at = torch.arange(rows)
    run = torch.bucketize(at, torch.tensor(offsets[1:]), right=True)
    near = (at[:, None] - at < window) if window else torch.ones(rows, rows, dtype=torch.bool)
    return (run[:, None] == run) & (at[:, None] >= at) & near


def attention():
    for offsets, heads, kv, size, window in [
            ([0, 1], 1, 1, 8, 0), ([0, 3], 2, 1, 16, 0), ([0, 17], 2, 2, 64, 0),
            ([0, 257], 4, 2, 16, 0), ([0, 257], 3, 1, 20, 0), ([0, 1, 18, 20, 257], 4, 2, 8, 0),
            ([0, 64, 128, 129], 2, 1, 80, 0), ([0, 257], 2, 1, 8, 3), ([0, 10, 257], 2, 2, 8, 40)]:
        rows = offsets[-1]
        case = Case("attention", offsets=offsets, heads=heads, kv_heads=kv, window=window)
        q = case.take("q", rows, heads * size)
        k, v = case.take("k", rows, kv * size), case.take("v", rows, kv * size)
        split = lambda x, n: x.view(rows, n, size).transpose(0, 1)[None]
        out = F.scaled_dot_product_attention(split(q, heads), split(k, kv), split(v, kv),
                                             attn_mask=sees(offsets, window), enable_gqa=True)
        out = out[0].transpose(0, 1).reshape(rows, -1)
        out.backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dq=q.grad, dk=k.grad, dv=v.grad)


def embedding():
    for rows, words, cols in [(r, 11, 37) for r in ROWS] + [(257, 300, 8)]:
        case = Case("embedding")
        table = case.take("table", words, cols)
        tokens = torch.tensor((bits(rows, rows) % numpy.uint64(words)).astype(int))
        out = F.embedding(tokens, table)
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(out=out, dtable=table.grad)


def classifier():
    for rows, words, cols, every, smoothing, weighted in [
            (1, 5, 8, 0, 0.0, 0), (3, 50, 17, 0, 0.1, 0), (17, 300, 33, 3, 0.0, 0),
            (257, 129, 24, 2, 0.25, 0), (257, 40, 16, 0, 0.0, 0), (257, 40, 16, 5, 0.1, 1)]:
        case = Case("classifier", every=every, smoothing=smoothing, scale=0.125,
                    weighted=weighted)
        x, w = case.take("x", rows, cols, scale=0.25), case.take("w", words, cols, scale=0.5)
        targets = torch.tensor((bits(rows, rows) % numpy.uint64(words)).astype(int))
        if every:
            targets[::every] = -100
        losses = F.cross_entropy(x @ w.T, targets, ignore_index=-100, reduction="none",
                                 label_smoothing=smoothing)
        if weighted: # row i has (i mod 4) / 2
            losses = losses * (torch.arange(rows) % 4 / 2)
        (losses.sum() * 0.125).backward()
        case.keep(losses=losses, dx=x.grad, dw=w.grad)


def main():
    torch.set_num_threads(1)
    for make in (linear, rmsnorm, layernorm, rope, swiglu, attention, embedding, classifier):
        make()
    text = json.dumps({"torch": torch.__version__, "cases": CASES})
    sys.stdout.write(text.replace('{"op"', '\n{"op"').replace("}, ", "},\n") + "\n")


main()
