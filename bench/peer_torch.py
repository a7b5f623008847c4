#!/usr/bin/env python3
"""The training steps of bench_train.c in PyTorch, to stand beside them.

A Llama written out by hand with the same shapes, random weights and tokens, AdamW and
clipping; LoRA of rank 16 on every linear layer of the blocks.  fp32, and bf16 by autocast.
The better of plain attention and of scaled_dot_product_attention is told.

    bench/peer_torch.py [MODEL full|lora fp32|bf16]

Without PyTorch it says so and leaves with status 0.
"""
import math
import os
import resource
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("peer_torch: PyTorch is not installed, nothing to compare with")
    sys.exit(0)

MODELS = {
    "stories15M": dict(layers=6, width=288, heads=6, kv=6, inner=768, vocab=32000, B=8, T=256),
    "SmolLM2-135M": dict(layers=30, width=576, heads=9, kv=3, inner=1536, vocab=49152, B=2, T=256),
}
RANK = 16


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs, lora):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, inputs) * 0.02,
                                         requires_grad=not lora)
        self.lora = lora
        if lora:
            self.a = torch.nn.Parameter(torch.randn(RANK, inputs) * 0.02)
            self.b = torch.nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, x):
        y = F.linear(x, self.weight)
        return y + 2 * F.linear(F.linear(x, self.a), self.b) if self.lora else y


class Norm(torch.nn.Module):
    def __init__(self, width, lora):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width), requires_grad=not lora)

    def forward(self, x):
        x32 = x.float()
        return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5)) * self.weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


class Block(torch.nn.Module):
    def __init__(self, m, lora, fused):
        super().__init__()
        self.heads, self.kv, self.fused = m["heads"], m["kv"], fused
        self.size = m["width"] // m["heads"]
        wide = self.kv * self.size
        self.norm1, self.norm2 = Norm(m["width"], lora), Norm(m["width"], lora)
        self.q = Linear(m["width"], m["width"], lora)
        self.k = Linear(m["width"], wide, lora)
        self.v = Linear(m["width"], wide, lora)
        self.o = Linear(m["width"], m["width"], lora)
        self.gate = Linear(m["width"], m["inner"], lora)
        self.up = Linear(m["width"], m["inner"], lora)
        self.down = Linear(m["inner"], m["width"], lora)

    def attend(self, q, k, v, mask):
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.size) + mask
        return torch.softmax(scores.float(), -1).to(v.dtype) @ v

    def forward(self, x, cos, sin, mask):
        rows, length, width = x.shape
        h = self.norm1(x)
        q = self.q(h).view(rows, length, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(rows, length, self.kv, self.size).transpose(1, 2)
        v = self.v(h).view(rows, length, self.kv, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        if self.kv != self.heads:
            k = k.repeat_interleave(self.heads // self.kv, 1)
            v = v.repeat_interleave(self.heads // self.kv, 1)
        a = self.attend(q, k, v, mask).transpose(1, 2).reshape(rows, length, width)
        x = x + self.o(a)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(torch.nn.Module):
    def __init__(self, m, lora, fused):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(m["vocab"], m["width"]) * 0.02,
                                        requires_grad=not lora)
        self.blocks = torch.nn.ModuleList(Block(m, lora, fused) for _ in range(m["layers"]))
        self.norm = Norm(m["width"], lora)
        size = m["width"] // m["heads"]
        turn = 1e4 ** (-torch.arange(0, size, 2) / size)
        angle = torch.outer(torch.arange(m["T"]), torch.cat((turn, turn)))
        self.cos, self.sin = angle.cos(), angle.sin()
        self.mask = torch.full((m["T"], m["T"]), float("-inf")).triu(1)

    def forward(self, ids, targets):
        x = F.embedding(ids, self.table)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        logits = F.linear(self.norm(x), self.table)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def seconds_of_step(m, lora, bf16, fused):
    torch.manual_seed(1)
    model = Llama(m, lora, fused)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01)
    ids = torch.randint(m["vocab"], (m["B"], m["T"]))
    targets = torch.randint(m["vocab"], (m["B"], m["T"]))
    taken = []
    while len(taken) < 4 or (sum(taken) < 6 and len(taken) < 15):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = model(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        taken.append(time.perf_counter() - start)
    return sorted(taken[1:])[len(taken[1:]) // 2]


def run(name, method, dtype):
    m = MODELS[name]
    best = min(seconds_of_step(m, method == "lora", dtype == "bf16", fused)
               for fused in ((False, True) if hasattr(F, "scaled_dot_product_attention")
                             else (False,)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"| {name}, B{m['B']} T{m['T']} | {method} | {dtype} | {1e3 * best:.0f} "
          f"| {m['B'] * m['T'] / best:.0f} | {peak} |", flush=True)


def main():
    rows = [(n, m, d) for n in MODELS for m in ("full", "lora") for d in ("fp32", "bf16")]
    if len(sys.argv) == 4:
        rows = [tuple(sys.argv[1:])]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| model | method | format | ms a step | tokens/s | peak MiB |\n|---|---|---|---|---|---|",
          flush=True)
    for row in rows:
        pid = os.fork()  # each row's peak of memory is its own
        if pid == 0:
            run(*row)
            os._exit(0)
        os.waitpid(pid, 0)


main()
