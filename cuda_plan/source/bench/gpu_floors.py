#!/usr/bin/env python3
"""bench/gpu_floors.py - the least time each kernel can take: the table in docs/performance-gpu.md.

A kernel's bytes and operations are those at the head of its file in kernels/cuda/; its floor on
a card is the longer of bytes / copy rate and operations / product rate.
"""

N, C, I, V = 8192, 2048, 8192, 128256  # rows, width, inner width, vocabulary: Llama 3.2 1B
H, K, D = 32, 8, 64  # query heads, key/value heads, head size
T = 2048  # rows of a run: the N rows are N / T of them, causal
B = 2  # bytes of the compute format: bf16, or fp16 on the T4
W = 10**9  # weights

# name, copy rate in bytes a second, products in 16 bits a second
CARDS = [("H200", 4.0e12, 790e12), ("A100", 1.6e12, 312e12), ("T4", 0.26e12, 65e12)]

HEADS = N * H * D  # numbers of q, out and their gradients
GROUPS = N * K * D  # of k, v and theirs

# what, per what, bytes (low, high) a unit, operations a unit, units, what else it costs
KERNELS = [
    ("embedding", "number", 4 + B, 0, N * C, ""),
    ("embedding_backward, all tokens differ", "number", 4 + 8, 0, N * C, "sorts N places"),
    ("rmsnorm with its sum", "number", 4 + B + 4 + B, 0, N * C, ""),
    ("rmsnorm_backward with dcopy", "number", B + 4 + 8 + B, 0, N * C, ""),
    ("layernorm with its sum", "number", 4 + B + 4 + B, 0, N * C, ""),
    ("layernorm_backward with dcopy", "number", B + 4 + 8 + B, 0, N * C, ""),
    ("headnorm, q", "number", 2 * B, 0, HEADS, ""),
    ("headnorm_backward, q", "number", 3 * B, 0, HEADS, ""),
    ("rope, q", "number", 2 * B, 0, HEADS, ""),
    ("rope, k", "number", 2 * B, 0, GROUPS, ""),
    ("swiglu", "number", 3 * B, 0, N * I, "20 instructions"),
    ("swiglu_backward", "number", 5 * B, 0, N * I, "20 instructions"),
    ("activation: gelu", "number", 2 * B, 0, N * I, "35 instructions"),
    ("activation_backward: gelu", "number", 3 * B, 0, N * I, "40 instructions"),
    ("add", "number", 3 * B, 0, N * C, ""),
    ("convert, fp32 to 16 bits", "number", 4 + B, 0, N * C, ""),
    ("dropout", "number", 2 * B, 0, N * C, "15 instructions"),
    ("sum_rows", "number", B, 0, N * C, ""),
    ("add_bias", "number", 2 * B, 0, N * C, ""),
    ("attention", "row", (2 * H + 2 * K) * D * B + 4 * H, 2 * T * H * D, N,
     "T / 2 exponentials a head; dropout: 6 T instructions"),
    ("attention_backward, as counted", "row", (4 * H + 4 * K) * D * B + 8 * H, 5 * T * H * D, N,
     "T exponentials a head"),
    ("attention_backward, as made", "row", (4 * H + 4 * K) * D * B + 8 * H, 7 * T * H * D, N,
     "dropout: 16 T instructions a head"),
    ("classifier: its three products", "logit", 4 + B + B, 6 * C, N * V,
     "12 V C bytes a chunk"),
    ("classifier: loss, from caches", "logit", 4 + B, 0, N * V, "2 exponentials"),
    ("classifier: loss, from memory", "logit", 8 + B, 0, N * V, ""),
    ("classifier: gather or scatter", "number", 2 * B, 0, N * C, ""),
    ("quantize", "number", 2 * B + 1, 0, N * C, "15 instructions"),
    ("square_sum", "weight", 4, 0, W, ""),
    ("adamw, fp32 and a 16-bit copy", "weight", 30, 0, W, "30 instructions"),
    ("adamw, 16 bits, stochastic", "weight", 16, 0, W, "55 instructions"),
    ("sgd, fp32 and a 16-bit copy", "weight", 14, 0, W, ""),
    ("product C to I", "row", (C + I) * B, 2 * C * I, N, "B C I bytes of weights"),
]


def floor(bytes_moved, operations, card):
    return max(bytes_moved / card[1], operations / card[2]) * 1e6


def number(microseconds):
    return f"{microseconds:.0f}" if microseconds >= 10 else f"{microseconds:.1f}"


def main():
    names = [card[0] for card in CARDS]
    print("| kernel | a unit is a | bytes | operations | units | " + ", us | ".join(names) +
          ", us | measured, us | besides |")
    print("|---" * (7 + len(names)) + "|")
    for name, unit, moved, operations, units, besides in KERNELS:
        floors = [number(floor(moved * units, operations * units, card)) for card in CARDS]
        print(f"| {name} | {unit} | {moved} | {operations or ''} | {units} | " +
              " | ".join(floors) + f" | | {besides} |")


main()
