#!/usr/bin/env python3
"""bench/attention_order.py - how busy attention keeps a GPU, by the order of its blocks.

For attention on tensor cores. Multiprocessors take blocks in the order of their numbers, each as
soon as another is done. The script prints the work of all blocks, relative to what the GPU could
have done until the last block is done: with one sequence after another, and with the longest blocks
first, as in flash_order_of of kernels/cuda/flash.cuh ("-" where it keeps one sequence after
another). The unit of work is a step of a tile's rows; each block takes half a step more for its
start and its end, one without rows a tenth.
"""

import heapq
import random

ROWS, BEGIN, EMPTY = 128, 0.5, 0.1


def tiles_of(rows):
    return (rows + ROWS - 1) // ROWS


def steps(sequence, tile, keys):
    """Return the steps of a tile of queries or keys: half of its own rows, all others."""
    end = min(sequence, (tile + 1) * ROWS)
    return (end - tile * ROWS) / ROWS / 2 + ((sequence - end) / ROWS if keys else tile)


def by_sequence(sequences, keys):
    order = []
    for sequence in sequences:
        order += [(sequence, tile) for tile in range(tiles_of(sequence))]
    order += [None] * (sum(sequences) // ROWS + len(sequences) - len(order))
    return order if keys else order[::-1]


def longest_first(sequences, longest, keys, group, section):
    tiles, sections = tiles_of(min(longest, sum(sequences))), -(-len(sequences) // max(section, 1))
    by_rows = sum(sequences) // ROWS + len(sequences)
    if tiles * len(sequences) > (1 + group / 2 if keys else 1.25) * by_rows:
        return None
    section, order = -(-len(sequences) // sections), []
    for first in range(0, len(sequences), section):
        for left in reversed(range(tiles)):
            for sequence in sequences[first:first + section]:
                tile = tiles_of(sequence) - 1 - left if keys else left
                order.append((sequence, tile) if 0 <= tile < tiles_of(sequence) else None)
    return order


def busy(order, heads, group, keys, blocks):
    free = [0.0] * blocks
    done = 0
    for slot in order:
        work = EMPTY if slot is None else BEGIN + group * steps(*slot, keys)
        for _ in range(heads):
            heapq.heappush(free, heapq.heappop(free) + work)
            done += work if slot else 0
    return done / (max(free) * blocks)


def packed(rows, longest):
    """Sequences as long as Alpaca's instructions: at least 20 tokens, half of them below 100."""
    draw, sequences = random.Random(1), []
    while sum(sequences) + longest < rows:
        sequences.append(min(longest, 20 + int(draw.lognormvariate(4.2, 0.75))))
    return sequences


SHAPES = [  # name, sequences, longest sequence, heads, key/value heads
    ("Llama 1B, B4 T2048", [2048] * 4, 2048, 32, 8),
    ("SmolLM, B8 T2048", [2048] * 8, 2048, 9, 3),
    ("GPT-2, B16 T1024", [1024] * 16, 1024, 12, 12),
    ("Llama 1B, B16 T512", [512] * 16, 512, 32, 8),
    ("Llama 1B, one sequence of 4096", [4096], 4096, 32, 8),
    ("Llama 1B, Alpaca to 512, 8192 rows", packed(8192, 512), 512, 32, 8),
    ("Llama 1B, Alpaca to 1024, 8192 rows", packed(8192, 512), 1024, 32, 8),
    ("Llama 1B, 1536 rows and 32 of 200", [1536] + [200] * 32, 1536, 32, 8),
]


def main():
    print("| shape | GPU | kernel | positions by sequence | longest first "
          "| busy by sequence | longest first |")
    print("|---|---|---|---|---|---|---|")
    for name, sequences, longest, heads, kv_heads in SHAPES:
        for card, multiprocessors in [("H200", 132), ("A100", 108)]:
            for kernel, keys in [("dk, dv", True), ("dq, forward", False)]:
                count, group = (kv_heads, heads // kv_heads) if keys else (heads, 1)
                section = len(sequences) if keys else multiprocessors // heads
                orders = (by_sequence(sequences, keys),
                          longest_first(sequences, longest, keys, group, section))
                shares = [f"{busy(order, count, group, keys, 2 * multiprocessors):.2f}"
                          if order else "-" for order in orders]
                print(f"| {name} | {card} | {kernel} | {len(orders[0])} | " +
                      f"{len(orders[1]) if orders[1] else '-'} | " + " | ".join(shares) + " |")


main()
