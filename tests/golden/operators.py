#!/usr/bin/env python3
"""Make operators.json: results of operations and their gradients in PyTorch, in float64.

    python3 tests/golden/operators.py > tests/golden/operators.json

The inputs come from a formula that test_golden_operators.c also has: multiples of 1/32 of at most
7 bits, which every format represents exactly.  For each output the file has the largest magnitude,
the norm, the sum with signs from the same formula, and some elements at given positions.
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


class Case:
    """An operation with its inputs; records its outputs."""

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
                                         (17, 40, 0.5), (3, 41, 0.5)]


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
    """Return the frequencies of transformers/modeling_rope_utils.py, and their cosines and sines."""
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
        # computed in float32 there; repeat it from the float64 default
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


def sees(offsets, window, joined=()):
    """Return an (N, N) mask: whether row i attends to row j.  Sequences do not see each other.  The
    rows first .. end - 1 of a pair in joined do, whatever their order, as the rows of an image in
    Gemma 3 (create_masks_for_vision_model of transformers/models/gemma3/modeling_gemma3.py)."""
    rows = offsets[-1]
    at = torch.arange(rows)
    run = torch.bucketize(at, torch.tensor(offsets[1:]), right=True)
    near = (at[:, None] - at < window) if window else torch.ones(rows, rows, dtype=torch.bool)
    block = torch.full((rows,), -1)
    for number, (first, end) in enumerate(joined):
        block[first:end] = number
    before = (at[:, None] >= at) | ((block[:, None] == block) & (block >= 0))
    return (run[:, None] == run) & before & near


def attention(cases=None):
    for offsets, heads, kv, size, window, *joined in cases or [
            ([0, 1], 1, 1, 8, 0), ([0, 3], 2, 1, 16, 0), ([0, 17], 2, 2, 64, 0),
            ([0, 257], 4, 2, 16, 0), ([0, 257], 3, 1, 20, 0), ([0, 1, 18, 20, 257], 4, 2, 8, 0),
            ([0, 64, 128, 129], 2, 1, 80, 0), ([0, 257], 2, 1, 8, 3), ([0, 10, 257], 2, 2, 8, 40)]:
        rows = offsets[-1]
        case = Case("attention", offsets=offsets, heads=heads, kv_heads=kv, window=window,
                    **({"joined": joined[0]} if joined else {}))
        q = case.take("q", rows, heads * size)
        k, v = case.take("k", rows, kv * size), case.take("v", rows, kv * size)
        split = lambda x, n: x.view(rows, n, size).transpose(0, 1)[None]
        out = F.scaled_dot_product_attention(split(q, heads), split(k, kv), split(v, kv),
                                             attn_mask=sees(offsets, window, *joined),
                                             enable_gqa=True)
        out = out[0].transpose(0, 1).reshape(rows, -1)
        out.backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dq=q.grad, dk=k.grad, dv=v.grad)


def joined_attention():
    """An encoder, of a sound, of two images, and in windows; then images in a text."""
    attention([([0, 131], 2, 2, 64, 0, [[0, 131]]),
               ([0, 60, 140], 1, 1, 72, 0, [[0, 60], [60, 140]]),
               ([0, 16, 80, 144, 160], 2, 2, 80, 0, [[0, 16], [16, 80], [80, 144], [144, 160]]),
               ([0, 40, 200], 4, 2, 16, 0, [[5, 30], [50, 120], [120, 190]]),
               ([0, 40, 200], 4, 2, 16, 33, [[5, 30], [50, 120], [130, 190]])])


def embedding():
    for rows, vocab, cols in [(r, 11, 37) for r in ROWS] + [(257, 300, 8)]:
        case = Case("embedding")
        table = case.take("table", vocab, cols)
        tokens = torch.tensor((bits(rows, rows) % numpy.uint64(vocab)).astype(int))
        out = F.embedding(tokens, table)
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(out=out, dtable=table.grad)


def classifier():
    for rows, vocab, cols, every, smoothing, weighted in [
            (1, 5, 8, 0, 0.0, 0), (3, 50, 17, 0, 0.1, 0), (17, 300, 33, 3, 0.0, 0),
            (257, 129, 24, 2, 0.25, 0), (257, 40, 16, 0, 0.0, 0), (257, 40, 16, 5, 0.1, 1)]:
        case = Case("classifier", every=every, smoothing=smoothing, scale=0.125,
                    weighted=weighted)
        x, w = case.take("x", rows, cols, scale=0.25), case.take("w", vocab, cols, scale=0.5)
        targets = torch.tensor((bits(rows, rows) % numpy.uint64(vocab)).astype(int))
        if every:
            targets[::every] = -100
        losses = F.cross_entropy(x @ w.T, targets, ignore_index=-100, reduction="none",
                                 label_smoothing=smoothing)
        if weighted: # row i has (i mod 4) / 2
            losses = losses * (torch.arange(rows) % 4 / 2)
        (losses.sum() * 0.125).backward()
        case.keep(losses=losses, dx=x.grad, dw=w.grad)


# in the order of enum activation
ACTIVATIONS = (F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.relu)


def activation():
    for kind, act in enumerate(ACTIVATIONS):
        for rows, cols in [(1, 1), (3, 21), (17, 576)]:
            case = Case("activation", kind=kind)
            x = case.take("x", rows, cols, scale=2.0)
            out = act(x)
            out.backward(case.take("dout", rows, cols).detach())
            case.keep(out=out, dx=x.grad)


def gates():
    """SwiGLU with other gate functions."""
    for kind, act in list(enumerate(ACTIVATIONS))[1:]:
        case = Case("swiglu", kind=kind)
        gate, up = case.take("gate", 17, 37, scale=2.0), case.take("up", 17, 37)
        out = act(gate) * up
        out.backward(case.take("dout", 17, 37).detach())
        case.keep(out=out, dgate=gate.grad, dup=up.grad)


def partial_rope():
    """As in transformers/models/gpt_neox/modeling_gpt_neox.py: rotate the first columns of a head."""
    from transformers.models.llama.modeling_llama import rotate_half
    for rows, heads, size, rotary in [(17, 2, 16, 4), (257, 3, 64, 16), (3, 1, 9, 6)]:
        positions = torch.arange(rows) * 3 % 256
        cos, sin, _ = rope_table("default", 1e4, rotary, positions)
        case = Case("rope", kind="default", theta=1e4, heads=heads, rotary=rotary)
        x = case.take("x", rows, heads * size)
        turned, rest = x.view(rows, heads, size).split((rotary, size - rotary), 2)
        turned = turned * cos[:, None] + rotate_half(turned) * sin[:, None]
        out = torch.cat((turned, rest), 2)
        out.reshape(rows, -1).backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dx=x.grad)


def headnorm():
    for rows, heads, size, offset in [(1, 1, 8, 0.0), (17, 3, 64, 0.0), (257, 2, 20, 1.0),
                                      (3, 4, 256, 1.0), (3, 2, 300, 0.0)]:
        case = Case("headnorm", heads=heads, eps=1e-6, offset=offset)
        x, w = case.take("x", rows, heads * size), case.take("w", size)
        out = F.rms_norm(x.view(rows, heads, size), (size,), None, 1e-6) * (offset + w)
        out.reshape(rows, -1).backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dx=x.grad, dw=w.grad)


def gemma_norm():
    """RMSNorm whose weights are stored minus 1."""
    for rows, cols in [(17, 40), (3, 577)]:
        case = Case("rmsnorm", eps=1e-6, offset=1.0)
        x, w = case.take("x", rows, cols), case.take("w", cols)
        total = x + case.take("delta", rows, cols, scale=0.5)
        out = F.rms_norm(total, (cols,), None, 1e-6) * (1 + w)
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(sum=total, out=out, dx=x.grad, dw=w.grad)


def scaled_embedding():
    case = Case("embedding", scale=24.0)
    table = case.take("table", 11, 36)
    tokens = torch.tensor((bits(17, 17) % numpy.uint64(11)).astype(int))
    out = F.embedding(tokens, table) * 24
    out.backward(case.take("dout", 17, 36).detach())
    case.keep(out=out, dtable=table.grad)


def capped_attention():
    """As eager_attention_forward of transformers/models/gemma2/modeling_gemma2.py."""
    for offsets, heads, kv, size, window, cap in [
            ([0, 17], 2, 1, 16, 0, 5.0), ([0, 1, 130, 201], 4, 2, 32, 0, 50.0),
            ([0, 131], 1, 1, 256, 40, 2.0)]:
        rows = offsets[-1]
        case = Case("attention", offsets=offsets, heads=heads, kv_heads=kv, window=window,
                    softcap=cap)
        q = case.take("q", rows, heads * size)
        k, v = case.take("k", rows, kv * size), case.take("v", rows, kv * size)
        split = lambda x, n: x.view(rows, n, size).transpose(0, 1).repeat_interleave(heads // n, 0)
        scores = split(q, heads) @ split(k, kv).transpose(1, 2) * size ** -0.5
        scores = torch.tanh(scores / cap) * cap
        weights = scores.masked_fill(~sees(offsets, window), -torch.inf).softmax(2)
        out = (weights @ split(v, kv)).transpose(0, 1).reshape(rows, -1)
        out.backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dq=q.grad, dk=k.grad, dv=v.grad)


def capped_classifier():
    for rows, vocab, cols, smoothing, cap in [(17, 300, 33, 0.0, 1.5), (257, 129, 24, 0.25, 30.0)]:
        case = Case("classifier", every=3, smoothing=smoothing, scale=0.125, weighted=0,
                    softcap=cap)
        x, w = case.take("x", rows, cols, scale=0.25), case.take("w", vocab, cols, scale=0.5)
        targets = torch.tensor((bits(rows, rows) % numpy.uint64(vocab)).astype(int))
        targets[::3] = -100
        losses = F.cross_entropy(torch.tanh(x @ w.T / cap) * cap, targets, ignore_index=-100,
                                 reduction="none", label_smoothing=smoothing)
        (losses.sum() * 0.125).backward()
        case.keep(losses=losses, dx=x.grad, dw=w.grad)


def conv():
    """A depthwise causal convolution of each sequence, then SiLU."""
    for offsets, cols, taps in [([0, 5], 8, 4), ([0, 1, 40, 67], 20, 4), ([0, 9], 3, 2)]:
        case = Case("conv", offsets=offsets)
        x, w = case.take("x", offsets[-1], cols), case.take("w", cols, taps, scale=0.5)
        out = torch.cat([F.silu(F.conv1d(F.pad(x[a:b].T[None], (taps - 1, 0)), w[:, None],
                                         groups=cols))[0].T
                         for a, b in zip(offsets, offsets[1:])])
        out.backward(case.take("dout", offsets[-1], cols).detach())
        case.keep(out=out, dx=x.grad, dw=w.grad)


def gated_conv():
    """Lfm2ShortConv of transformers, of each sequence, without its linear layers."""
    for offsets, cols, taps in [([0, 5], 8, 3), ([0, 1, 40, 67], 20, 4), ([0, 9], 3, 2)]:
        case = Case("gated_conv", offsets=offsets)
        before, after, x = (case.take(name, offsets[-1], cols) for name in ("b", "c", "x"))
        w, bias = case.take("w", cols, taps, scale=0.5), case.take("bias", cols)
        out = torch.cat([F.conv1d(F.pad((before * x)[a:b].T[None], (taps - 1, 0)), w[:, None],
                                  bias, groups=cols)[0].T
                         for a, b in zip(offsets, offsets[1:])]) * after
        out.backward(case.take("dout", offsets[-1], cols).detach())
        case.keep(out=out, dx=x.grad, dw=w.grad, db=before.grad, dc=after.grad, dbias=bias.grad)


def decay():
    for rows, heads in [(17, 4), (67, 3)]:
        case = Case("decay")
        a, b = case.take("a", rows, heads, scale=4.0), case.take("b", rows, heads)
        rate, bias = case.take("a_log", heads), case.take("bias", heads)
        g, beta = -rate.exp() * F.softplus(a + bias), b.sigmoid()
        slopes = [case.take(name, rows, heads).detach() for name in ("ddecay", "dbeta")]
        torch.autograd.backward([g, beta], slopes)
        case.keep(decay=g, beta=beta, da=a.grad, db=b.grad, da_log=rate.grad, dbias=bias.grad)


def delta():
    """Row by row; transformers has it only in float32."""
    for offsets, heads, keys, key, value in [([0, 3], 1, 1, 4, 4), ([0, 1, 34, 67], 4, 2, 16, 8),
                                             ([0, 70], 2, 1, 20, 24)]:
        rows = offsets[-1]
        case = Case("delta", offsets=offsets, heads=heads, key_heads=keys)
        q, k = case.take("q", rows, keys * key), case.take("k", rows, keys * key)
        v = case.take("v", rows, heads * value)
        raw, share = case.take("decay", rows, heads), case.take("beta", rows, heads)
        g, beta = -(raw + 2) / 8, (share + 2) / 4
        unit = lambda x: (x.view(rows, keys, key) * torch.rsqrt(
            x.view(rows, keys, key).square().sum(2, keepdim=True) + 1e-6)
        ).repeat_interleave(heads // keys, 1)
        qs, ks, vs, out = unit(q) * key ** -0.5, unit(k), v.view(rows, heads, value), []
        for first, last in zip(offsets, offsets[1:]):
            state = torch.zeros(heads, key, value)
            for n in range(first, last):
                state = state * g[n].exp()[:, None, None]
                step = (vs[n] - (state * ks[n][:, :, None]).sum(1)) * beta[n][:, None]
                state = state + ks[n][:, :, None] * step[:, None]
                out.append((state * qs[n][:, :, None]).sum(1).reshape(-1))
        out = torch.stack(out)
        out.backward(case.take("dout", rows, heads * value).detach())
        case.keep(out=out, dq=q.grad, dk=k.grad, dv=v.grad, ddecay=-8 * raw.grad,
                  dbeta=4 * share.grad)


def scan():
    """By the torch path of transformers, which computes in float32: here in float64."""
    from transformers.models.falcon_h1.modeling_falcon_h1 import mamba2_chunk_scan

    single = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    for offsets, heads, groups, size, depth, limits in [
            ([0, 3], 1, 1, 4, 4, (0, 1e9)), ([0, 1, 34, 67], 4, 2, 16, 8, (0, 1e9)),
            ([0, 70], 2, 1, 20, 24, (0.5, 2.0))]:
        rows = offsets[-1]
        case = Case("scan", offsets=offsets, heads=heads, groups=groups, low=limits[0],
                    high=limits[1])
        x, dt = case.take("x", rows, heads * size), case.take("dt", rows, heads)
        b, c = case.take("b", rows, groups * depth), case.take("c", rows, groups * depth)
        rate, bias, skip = (case.take(name, heads) for name in ("a_log", "bias", "skip"))
        out = [mamba2_chunk_scan(
            x[None, first:last].unflatten(2, (heads, size)), dt[None, first:last], -rate.exp(),
            b[None, first:last].unflatten(2, (groups, depth)),
            c[None, first:last].unflatten(2, (groups, depth)), 16, D=skip, dt_bias=bias,
            dt_softplus=True, dt_limit=limits)[0] for first, last in zip(offsets, offsets[1:])]
        out = torch.cat(out).reshape(rows, heads * size)
        out.backward(case.take("dout", rows, heads * size).detach())
        case.keep(out=out, dx=x.grad, db=b.grad, dc=c.grad, ddt=dt.grad, da_log=rate.grad,
                  dbias=bias.grad, dskip=skip.grad)
    torch.Tensor.float = single


def quick_gelu():
    """transformers' QuickGELUActivation, alone and in a gate."""
    from transformers.activations import ACT2FN
    kind, act = 6, ACT2FN["quick_gelu"]
    for rows, cols in [(3, 21), (17, 576)]:
        case = Case("activation", kind=kind)
        x = case.take("x", rows, cols, scale=2.0)
        out = act(x)
        out.backward(case.take("dout", rows, cols).detach())
        case.keep(out=out, dx=x.grad)
    case = Case("swiglu", kind=kind)
    gate, up = case.take("gate", 17, 37, scale=2.0), case.take("up", 17, 37)
    out = act(gate) * up
    out.backward(case.take("dout", 17, 37).detach())
    case.keep(out=out, dgate=gate.grad, dup=up.grad)


def main():
    torch.set_num_threads(1)
    for make in (linear, rmsnorm, layernorm, rope, swiglu, attention, embedding, classifier,
                 activation, gates, partial_rope, headnorm, gemma_norm, scaled_embedding,
                 capped_attention, capped_classifier, conv, decay, delta, scan, gated_conv,
                 quick_gelu, joined_attention):
        make()
    text = json.dumps({"torch": torch.__version__, "cases": CASES})
    sys.stdout.write(text.replace('{"op"', '\n{"op"').replace("}, ", "},\n") + "\n")


main()
