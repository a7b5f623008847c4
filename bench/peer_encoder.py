#!/usr/bin/env python3
"""Measure PyTorch's scaled_dot_product_attention in the shapes of bench_encoder.c.

    bench/peer_encoder.py [cpu|cuda [THREADS]]

The rows of a sequence see each other.  Windows are a batch.  The best of five calls after the first,
by processor time with 1 thread; the backward pass is that of out, without the forward pass.
"""
import sys
import time

import torch
import torch.nn.functional as F

SHAPES = [("Whisper large, 30 s", 1500, 1, 20, 64), ("SigLIP So400m, 896 x 896", 4096, 1, 16, 72),
          ("Qwen2.5-VL, windows of 8 x 8", 64, 64, 16, 80)]
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else torch.get_num_threads()


def best_of(call):
    now = time.process_time if DEVICE == "cpu" and THREADS == 1 else time.perf_counter
    best = float("inf")
    for i in range(6):
        begin = now()
        call()
        if DEVICE != "cpu":
            torch.cuda.synchronize()
        if i:
            best = min(best, now() - begin)
    return best


def main():
    torch.set_num_threads(THREADS)
    print(f"PyTorch {torch.__version__}, {DEVICE}, {THREADS} threads\n\n"
          "| shape | format | pass | ms | GFLOP/s |\n|---|---|---|---|---|")
    for name, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for shape, positions, sequences, heads, size in SHAPES:
            # as a model has them: heads side by side in a row, transposed
            q, k, v = (torch.randn(sequences, positions, heads, size, device=DEVICE, dtype=kind)
                       .transpose(1, 2).requires_grad_() for _ in "qkv")
            flops = 2 * size * sequences * heads * positions ** 2

            def forward():
                return F.scaled_dot_product_attention(q, k, v)

            out = forward()
            dout = torch.randn_like(out)
            with torch.no_grad():
                seconds = best_of(forward)
            print(f"| {shape} | {name} | forward | {seconds * 1e3:.2f} | "
                  f"{2 * flops / seconds / 1e9:.1f} |", flush=True)
            seconds = best_of(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
            print(f"| {shape} | {name} | backward | {seconds * 1e3:.2f} | "
                  f"{5 * flops / seconds / 1e9:.1f} |", flush=True)


main()
