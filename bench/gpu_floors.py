#!/usr/bin/env python3
"""bench/gpu_floors.py - the minimum time of each GPU kernel: the table in docs/performance.md.

The bytes and operations of a kernel are those in the header comment of its file in kernels/cuda/.
Its minimum time on a card is the larger of bytes / copy rate and operations / matmul rate.
"""

N, C, I, V = 8192, 2048, 8192, 128256  # rows, width, inner width, vocabulary: Llama 3.2 1B
H, K, D = 32, 8, 64  # query heads, key/value heads, head size
T = 2048  # rows of a sequence: the N rows are N / T sequences, causal
B = 2  # bytes of the compute format: bf16, or fp16 on the T4
W = 10**9  # weights

# name, copy rate in bytes/s, 16-bit matmul rate in FLOP/s
CARDS = [("H100", 2.605e12, 737e12), ("A100", 1.6e12, 312e12), ("T4", 0.26e12, 65e12)]

HEADS = N * H * D  # elements of q, out and their gradients
GROUPS = N * K * D  # of k, v and theirs

# kernel, unit, bytes per unit, operations per unit, number of units, other costs
KERNELS = [
    ("embedding", "element", 4 + B, 0, N * C, ""),
    ("embedding_backward, all tokens differ", "element", 4 + 8, 0, N * C, "sorts N positions"),
    ("rmsnorm with its sum", "element", 4 + 4 + 4 + B, 0, N * C, ""),
    ("rmsnorm_backward with dcopy", "element", B + 4 + 8 + B, 0, N * C, ""),
    ("layernorm with its sum", "element", 4 + 4 + 4 + B, 0, N * C, ""),
    ("layernorm_backward with dcopy", "element", B + 4 + 8 + B, 0, N * C, ""),
    ("headnorm, q", "element", 2 * B, 0, HEADS, ""),
    ("headnorm_backward, q", "element", 3 * B, 0, HEADS, ""),
    ("rope, q", "element", 2 * B, 0, HEADS, ""),
    ("rope, k", "element", 2 * B, 0, GROUPS, ""),
    ("swiglu", "element", 3 * B, 0, N * I, "20 instructions"),
    ("swiglu_backward", "element", 5 * B, 0, N * I, "20 instructions"),
    ("swiglu_backward with its output", "element", 6 * B, 0, N * I, "30 instructions"),
    ("activation: gelu", "element", 2 * B, 0, N * I, "35 instructions"),
    ("activation_backward: gelu", "element", 3 * B, 0, N * I, "40 instructions"),
    ("activation_backward: gelu, with its output", "element", 4 * B, 0, N * I, "45 instructions"),
    ("add", "element", 3 * B, 0, N * C, ""),
    ("convert, fp32 to 16 bits", "element", 4 + B, 0, N * C, ""),
    ("dropout", "element", 2 * B, 0, N * C, "15 instructions"),
    ("sum_rows", "element", B, 0, N * C, ""),
    ("add_bias", "element", 2 * B, 0, N * C, ""),
    ("attention", "row", (2 * H + 2 * K) * D * B + 4 * H, 2 * T * H * D, N,
     "T / 2 exponentials per head; dropout: 6 T instructions"),
    ("attention_backward, as counted", "row", (4 * H + 4 * K) * D * B + 8 * H, 5 * T * H * D, N,
     "T exponentials per head"),
    ("attention_backward, as executed", "row", (4 * H + 4 * K) * D * B + 8 * H, 7 * T * H * D, N,
     "dropout: 16 T instructions per head"),
    ("classifier: its three matmuls", "logit", 4 + B + B, 6 * C, N * V,
     "12 V C bytes per chunk"),
    ("classifier: loss, from cache", "logit", 4 + B, 0, N * V, "2 exponentials"),
    ("classifier: loss, from memory", "logit", 8 + B, 0, N * V, ""),
    ("classifier: gather or scatter", "element", 2 * B, 0, N * C, ""),
    ("quantize", "element", 2 * B + 1, 0, N * C, "15 instructions"),
    ("quantize, with its transpose", "element", 2 * B + 2, 0, N * C, "15 instructions"),
    ("quantize, with its transpose, maximum known", "element", B + 2, 0, N * C,
     "15 instructions"),
    ("square_sum", "weight", 4, 0, W, ""),
    ("adamw, fp32 and a 16-bit copy", "weight", 30, 0, W, "30 instructions"),
    ("adamw, 16 bits, stochastic", "weight", 16, 0, W, "55 instructions"),
    ("sgd, fp32 and a 16-bit copy", "weight", 14, 0, W, ""),
    ("matmul C to I", "row", (C + I) * B, 2 * C * I, N, "B C I bytes of weights"),
]

# microseconds of a call on an H100, from the profile in bench/results/gpu-h100.md (Llama 1B, full);
# rmsnorm: the mean of calls with and without a sum
MEASURED = {
    "embedding": 87.6,
    "embedding_backward, all tokens differ": 133.8,
    "rmsnorm with its sum": 80.9,
    "rmsnorm_backward with dcopy": 138.8,
    "swiglu": 164.5,
    "swiglu_backward": 265.0,
}


def floor(bytes_moved, operations, card):
    return max(bytes_moved / card[1], operations / card[2]) * 1e6


def format_us(microseconds):
    return f"{microseconds:.0f}" if microseconds >= 10 else f"{microseconds:.1f}"


def main():
    names = [card[0] for card in CARDS]
    print("| kernel | unit | bytes per unit | operations per unit | units | "
          + ", us | ".join(names) + ", us | measured, us | other costs |")
    print("|---" * (7 + len(names)) + "|")
    for name, unit, moved, operations, units, other in KERNELS:
        floors = [format_us(floor(moved * units, operations * units, card)) for card in CARDS]
        print(f"| {name} | {unit} | {moved} | {operations or ''} | {units} | " +
              " | ".join(floors) + f" | {MEASURED.get(name, '')} | {other} |")


main()
