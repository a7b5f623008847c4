#!/usr/bin/env python3
"""Make optimizers.json: steps of real optimizers, for test_cpu_optimizers.

    python3 tests/golden/optimizers.py > tests/golden/optimizers.json
    python3 tests/golden/optimizers.py CASE...          # only these cases, on standard output

Weights and gradients come from a formula that the test also has: cubes of uniform values, many small
and a few large.  Moments in 8 bits are written as the hexadecimal text of their codes, and those of
bitsandbytes are found by its default implementation, as on a GPU: its CPU library looks them up in a
table of 65536 steps.

Requires torch, transformers, bitsandbytes, lion_pytorch, adam_mini, galore_torch, apollo_torch
and schedulefree.
"""
import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy
import torch

STEPS = 6
RATES = [0.01, 0.02, 0.02, 0.005, 0.01, 0.001]


def bits(seed, count):
    """Return 32-bit hashes of index and seed."""
    x = numpy.arange(count, dtype=numpy.uint64) * 2654435761 + seed * 2246822519
    x &= 0xFFFFFFFF
    x ^= x >> numpy.uint64(16)
    x = x * numpy.uint64(0x45D9F3B) & numpy.uint64(0xFFFFFFFF)
    return x ^ x >> numpy.uint64(16)


def elements(seed, rows, cols, scale):
    whole = (bits(seed, rows * cols) % numpy.uint64(2049)).astype(numpy.float64) - 1024
    cubes = (whole * whole * whole / 2**30 * scale).astype(numpy.float32)
    return torch.from_numpy(cubes).reshape(rows, cols)


def steps(make, rows, cols, scale=1.0):
    """Return the parameter and its optimizer after STEPS steps."""
    parameter = torch.nn.Parameter(elements(100, rows, cols, 1.0))
    optimizer = make([parameter])
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATES[step]
        parameter.grad = elements(step + 1, rows, cols, scale)
        optimizer.step()
    return parameter, optimizer


def reals(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().reshape(-1).tolist()]


def use_exact_codes():
    from bitsandbytes.backends.cpu import ops

    def exact(values, code, absmax, out, blocksize):
        flat = values.reshape(-1)
        count = -(-flat.numel() // blocksize)
        padded = torch.zeros(count * blocksize)
        padded[:flat.numel()] = flat
        most = padded.reshape(count, blocksize).abs().max(dim=1)[0]
        scaled = flat / most.repeat_interleave(blocksize)[:flat.numel()].clamp(min=1e-38)
        out.copy_(torch.bucketize(scaled, (code[:-1] + code[1:]) / 2).reshape(out.shape))
        absmax.copy_(most)

    ops._quant_blockwise_fp32_direct = exact


def codes(parameter, optimizer, moments):
    state = optimizer.state[parameter]
    out = {"w": reals(parameter)[::7]}
    for i in range(1, moments + 1):
        out[f"state{i}"] = bytes(state[f"state{i}"].reshape(-1).tolist()).hex()
        out[f"absmax{i}"] = reals(state[f"absmax{i}"])
    return out


def adamw_8bit():
    import bitsandbytes

    use_exact_codes()
    made = steps(lambda p: bitsandbytes.optim.AdamW8bit(
        p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1), 50, 100)
    return codes(*made, 2)


def lion_8bit():
    import bitsandbytes

    use_exact_codes()
    made = steps(lambda p: bitsandbytes.optim.Lion8bit(
        p, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1), 50, 100)
    return codes(*made, 1)


def lion():
    from lion_pytorch import Lion

    parameter, optimizer = steps(
        lambda p: Lion(p, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1), 20, 15)
    return {"w": reals(parameter), "exp_avg": reals(optimizer.state[parameter]["exp_avg"])}


def adafactor():
    """A matrix and a vector, as transformers' Trainer makes the optimizer."""
    from transformers.optimization import Adafactor

    made = {}
    for name, rows, cols in (("matrix", 70, 90), ("vector", 1, 90)):
        start = elements(100, rows, cols, 1.0)
        parameter = torch.nn.Parameter(start if rows > 1 else start.reshape(-1))
        optimizer = Adafactor([parameter], lr=0.01, weight_decay=0.1, scale_parameter=False,
                              relative_step=False)
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = RATES[step]
            parameter.grad = elements(step + 1, rows, cols, 1.0).reshape(parameter.shape)
            optimizer.step()
        state = optimizer.state[parameter]
        made[name] = {"w": reals(parameter)[::7]}
        made[name].update({key: reals(state[key]) for key in state if key.startswith("exp")})
    return made


def muon():
    """LLaMA-Factory's Muon in float32 instead of bfloat16; LLAMAFACTORY names its source."""
    sys.path.insert(0, os.path.join(os.environ["LLAMAFACTORY"], "src/llamafactory/third_party"))
    from muon.muon import Muon

    torch.Tensor.bfloat16 = torch.Tensor.float
    made = {}
    for name, rows, cols in (("wide", 24, 40), ("tall", 40, 24)):
        parameter, optimizer = steps(lambda p: Muon(lr=0.01, wd=0.1, muon_params=p), rows, cols)
        made[name] = {"w": reals(parameter)[::7],
                      "momentum": reals(optimizer.state[parameter]["momentum_buffer"])[::7]}
    return made


def muon_rest():
    """Its AdamW, with an epsilon that counts."""
    sys.path.insert(0, os.path.join(os.environ["LLAMAFACTORY"], "src/llamafactory/third_party"))
    from muon.muon import Muon

    parameter, _ = steps(lambda p: Muon(lr=0.01, wd=0.1, muon_params=[], adamw_params=p,
                                        adamw_betas=(0.9, 0.99), adamw_eps=0.1), 1, 960)
    return {"w": reals(parameter)[::7]}


def adam_mini():
    """A head of queries has 64 elements, a row of the MLP 16."""
    from adam_mini import Adam_mini

    sizes = {"q_proj.weight": (24, 16), "mlp.up_proj.weight": (24, 16), "norm.weight": (1, 384),
             "q_proj.bias": (1, 384)}
    made = {}
    for name, (rows, cols) in sizes.items():
        start = elements(100, rows, cols, 1.0)
        parameter = torch.nn.Parameter(start if rows > 1 else start.reshape(-1))
        optimizer = Adam_mini(named_parameters=[(name, parameter)], lr=0.01, betas=(0.9, 0.99),
                              eps=1e-8, weight_decay=0.1, dim=16, n_heads=4, verbose=False)
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = RATES[step]
            parameter.grad = elements(step + 1, rows, cols, 1.0).reshape(parameter.shape)
            optimizer.step()
        state = optimizer.state[parameter]
        made[name] = {"w": reals(parameter)[::7],
                      "v": reals(state["v"] if "bias" in name else state["vmean"])}
    return made


RANK, INTERVAL = 4, 3


def projected(make, proj_types):
    """Steps with projections from elements(200 + step, ...), of each type and shape."""
    made = {}
    for proj_type in proj_types:
        for name, rows, cols in (("wide", 24, 40), ("tall", 40, 24)):
            parameter, optimizer = steps(lambda p: make(p, proj_type), rows, cols)
            state = optimizer.state[parameter]
            made[f"{name} {proj_type}"] = {
                "w": reals(parameter)[::7], "m": reals(state["exp_avg"])[::3],
                "v": reals(state["exp_avg_sq"])[::3]}
    return made


def given_matrix(made, rows, cols, type):
    """One matrix, or those of both sides, which are in the same order in the test."""
    if type == "full":
        whole = elements(made, 1, (rows + cols) * RANK, 0.5).reshape(-1)
        return [whole[:rows * RANK].reshape(rows, RANK), whole[rows * RANK:].reshape(RANK, cols)]
    shape = (rows, RANK) if type == "left" else (RANK, cols)
    return elements(made, *shape, 0.5)


def galore():
    """Projections that follow from no gradient, so that their signs are the same here."""
    from galore_torch.adamw import AdamW
    from galore_torch.galore_projector import GaLoreProjector

    counts = {}

    def given(self, weights, rank, type):
        counts[self] = counts.get(self, 199) + 1
        return given_matrix(counts[self], *weights.shape, type)

    GaLoreProjector.get_orthogonal_matrix = given
    return projected(lambda p, proj_type: AdamW(
        [dict(params=p, rank=RANK, update_proj_gap=INTERVAL, scale=2.0, proj_type=proj_type)],
        lr=0.01, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.1, no_deprecation_warning=True),
        ("std", "reverse_std", "full"))


def apollo():
    from apollo_torch.apollo import AdamW
    from apollo_torch.random_projector import GradientProjector

    counts = {}

    def given(self, weights, rank, type, seed):
        counts[self] = counts.get(self, 199) + 1
        return given_matrix(counts[self], *weights.shape, type)

    GradientProjector.get_orthogonal_matrix = given
    made = {}
    for scale_type in ("channel", "tensor"):
        part = projected(lambda p, proj_type: AdamW(
            [dict(params=p, rank=RANK, update_proj_gap=INTERVAL, scale=32.0, proj="random",
                  proj_type=proj_type, scale_type=scale_type)],
            lr=0.01, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.1,
            scale_front=scale_type == "tensor"), ("std",))
        made.update({f"{name} {scale_type}": part[name] for name in part})
    return made


def galore_rest():
    """Its AdamW of other parameters, with an epsilon that counts."""
    from galore_torch.adamw import AdamW

    parameter, _ = steps(lambda p: AdamW(p, lr=0.01, betas=(0.9, 0.99), eps=0.1, weight_decay=0.1,
                                         no_deprecation_warning=True), 1, 960)
    return {"w": reals(parameter)[::7]}


def schedule_free():
    """Steps with a warm-up: learning rates, shares of the steps in the average, and results."""
    from schedulefree import AdamWScheduleFree

    rates, shares = [], []

    def make(parameters):
        optimizer = AdamWScheduleFree(parameters, lr=0.01, betas=(0.9, 0.99), eps=1e-3,
                                      weight_decay=0.1, warmup_steps=3)
        optimizer.train()
        step = optimizer.step

        def noted():
            step()
            group = optimizer.param_groups[0]
            rates.append(group["scheduled_lr"])
            shares.append(group["lr_max"]**2 / group["weight_sum"])

        optimizer.step = noted
        return optimizer

    parameter, optimizer = steps(make, 20, 15)
    state = optimizer.state[parameter]
    made = {"rates": rates, "shares": shares, "y": reals(parameter), "z": reals(state["z"]),
            "v": reals(state["exp_avg_sq"])}
    optimizer.eval()
    made["x"] = reals(parameter)
    return made


def maps():
    """The maps of codes, with and without signs, as float32."""
    from bitsandbytes import functional

    return {name: [x.hex() for x in functional.create_dynamic_map(signed=signed).tolist()]
            for name, signed in (("signed", True), ("unsigned", False))}


CASES = [maps, adamw_8bit, lion_8bit, lion, adafactor, muon, muon_rest, adam_mini, galore,
         apollo, galore_rest, schedule_free]


def main():
    chosen = sys.argv[1:]
    made = {case.__name__: case() for case in CASES if not chosen or case.__name__ in chosen}
    lines = [f"{json.dumps(name)}: {json.dumps(made[name])}" for name in made]
    print("{\n" + ",\n".join(lines) + "\n}")


main()
