#!/usr/bin/env python3
"""Alternate the layer of bench_experts.c and that of transformers; print the speedup.

    bench/peer_experts.py BENCH_EXPERTS [SHAPE fp32|bf16]...

The peer is Qwen3MoeSparseMoeBlock with each implementation of its experts that the installed
transformers has (a loop over the experts, grouped_mm, batched_mm), forward and backward with the
gradients of all weights, in the same format; the fastest counts. In bf16 its gradients are bf16,
ours fp32. Each row runs ours, the peer, and ours again; ours is the slower of the two. One thread is
timed by processor time. Without PyTorch or transformers it prints a message and exits with status 0.
"""
import importlib.util
import os
import subprocess
import sys
import time

# as in bench_experts.c: rows, width, inner, experts, chosen
SHAPES = {"few": (512, 1024, 1792, 8, 2), "many": (1024, 1024, 384, 64, 8),
          "sparse": (128, 1024, 384, 64, 8)}
REPEATS = 3


def ours(bench, shape, kind, threads):
    """Return the seconds of forward and backward."""
    said = subprocess.run([bench, shape, kind, str(threads)], stdout=subprocess.PIPE, text=True, check=True).stdout
    cells = [cell.strip() for cell in said.splitlines()[-1].strip("|").split("|")]
    return float(cells[2]) / 1e3, float(cells[3]) / 1e3


def layer_of(shape, dtype, implementation):
    import torch
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock
    rows, width, inner, experts, chosen = SHAPES[shape]
    config = Qwen3MoeConfig(hidden_size=width, moe_intermediate_size=inner, num_experts=experts,
                            num_experts_per_tok=chosen, norm_topk_prob=True)
    config._experts_implementation = implementation
    torch.manual_seed(1)
    layer = Qwen3MoeSparseMoeBlock(config)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.3 if weight.shape == (experts, width) else 0.02)
    return layer.to(dtype), torch.randn(1, rows, width, dtype=dtype)


def theirs(shape, kind, implementation):
    """Return the least seconds of forward and backward."""
    import torch
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    layer, x = layer_of(shape, {"fp32": torch.float32, "bf16": torch.bfloat16}[kind],
                        implementation)
    best = [1e9, 1e9]
    for _ in range(REPEATS):
        given = x.clone().requires_grad_()
        start = clock()
        out = layer(given)
        out = out[0] if isinstance(out, tuple) else out
        middle = clock()
        out.backward(torch.ones_like(out))
        end = clock()
        best = [min(best[0], middle - start), min(best[1], end - middle)]
    return best


def attempt(shape, kind, implementation):
    try:
        return theirs(shape, kind, implementation)
    except (RuntimeError, NotImplementedError, ImportError, KeyError) as problem:
        print(f"peer_experts: {implementation}: {problem}", file=sys.stderr)
        return None


def milliseconds(pair):
    return f"{pair[0] * 1e3:.0f} + {pair[1] * 1e3:.0f}"


def compare(bench, shape, kind, threads):
    first = ours(bench, shape, kind, threads)
    peers = {name: attempt(shape, kind, name) for name in ("eager", "grouped_mm", "batched_mm")
             if name != "batched_mm" or shape == "sparse"}
    worst = max(first, ours(bench, shape, kind, threads), key=sum)
    peers = {name: pair for name, pair in peers.items() if pair}
    name = min(peers, key=lambda each: sum(peers[each]))
    grouped = f"{sum(peers['grouped_mm']) / sum(worst):.1f}" if "grouped_mm" in peers else ""
    print("|", " | ".join([shape, kind, str(threads), milliseconds(worst)]
                          + [f"{name} {milliseconds(peers[name])}",
                             f"{sum(peers[name]) / sum(worst):.1f}", grouped]), "|", flush=True)


def main():
    bench, *words = sys.argv[1:]
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        print("peer_experts: no PyTorch and transformers, nothing to compare with")
        return
    import torch
    print("| shape | format | threads | ours, forward + backward, ms | fastest of transformers | speedup "
          "| over grouped_mm |\n" + "|---" * 7 + "|", flush=True)
    rows = list(zip(words[0::2], words[1::2]))
    for shape, kind in rows or [(shape, kind) for shape in SHAPES for kind in ("fp32", "bf16")]:
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            torch.set_num_threads(threads)
            compare(bench, shape, kind, threads)


main()
