#!/usr/bin/env python3
"""bench/attention_order.py - how busy attention on tensor cores keeps a card, by the order of its blocks.

Multiprocessors take blocks in the order of their numbers, each as soon as another is done.  Printed is
the work of all blocks over what the card could have done until the last is done: run after run, and by
weight, as flash_order_of in kernels/cuda/flash.cuh has it ("-" where it leaves them run after run).
Work is in steps of a tile's rows; each block takes half of one more for its beginning and its end, one
without rows a tenth.
"""

import heapq
import random

ROWS, BEGIN, EMPTY = 128, 0.5, 0.1


def tiles_of(rows):
    return (rows + ROWS - 1) // ROWS


def steps(run, tile, keys):
    """What a tile of queries sees, or is seen of one of keys: half of its own rows, all of the others."""
    end = min(run, (tile + 1) * ROWS)
    return (end - tile * ROWS) / ROWS / 2 + ((run - end) / ROWS if keys else tile)


def by_run(runs, keys):
    order = []
    for run in runs:
        order += [(run, tile) for tile in range(tiles_of(run))]
    order += [None] * (sum(runs) // ROWS + len(runs) - len(order))
    return order if keys else order[::-1]


def by_weight(runs, longest, keys, group, section):
    tiles, sections = tiles_of(min(longest, sum(runs))), -(-len(runs) // max(section, 1))
    if tiles * len(runs) > (1 + group / 2 if keys else 1.25) * (sum(runs) // ROWS + len(runs)):
        return None
    section, order = -(-len(runs) // sections), []
    for first in range(0, len(runs), section):
        for left in reversed(range(tiles)):
            for run in runs[first:first + section]:
                tile = tiles_of(run) - 1 - left if keys else left
                order.append((run, tile) if 0 <= tile < tiles_of(run) else None)
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
    """Runs as Alpaca's instructions are long: from 20 tokens on, half of them below 100."""
    draw, runs = random.Random(1), []
    while sum(runs) + longest < rows:
        runs.append(min(longest, 20 + int(draw.lognormvariate(4.2, 0.75))))
    return runs


SHAPES = [  # name, runs, no run is longer, heads, key/value heads
    ("Llama 1B, B4 T2048", [2048] * 4, 2048, 32, 8),
    ("SmolLM, B8 T2048", [2048] * 8, 2048, 9, 3),
    ("GPT-2, B16 T1024", [1024] * 16, 1024, 12, 12),
    ("Llama 1B, B16 T512", [512] * 16, 512, 32, 8),
    ("Llama 1B, one run of 4096", [4096], 4096, 32, 8),
    ("Llama 1B, Alpaca to 512, 8192 rows", packed(8192, 512), 512, 32, 8),
    ("Llama 1B, Alpaca to 1024, 8192 rows", packed(8192, 512), 1024, 32, 8),
    ("Llama 1B, 1536 rows and 32 of 200", [1536] + [200] * 32, 1536, 32, 8),
]


def main():
    print("| shape | card | kernel | places by run | by weight | busy by run | by weight |")
    print("|---|---|---|---|---|---|---|")
    for name, runs, longest, heads, kv_heads in SHAPES:
        for card, multiprocessors in [("H200", 132), ("A100", 108)]:
            for kernel, keys in [("dk, dv", True), ("dq, forward", False)]:
                count, group = (kv_heads, heads // kv_heads) if keys else (heads, 1)
                section = len(runs) if keys else multiprocessors // heads
                orders = by_run(runs, keys), by_weight(runs, longest, keys, group, section)
                shares = [f"{busy(order, count, group, keys, 2 * multiprocessors):.2f}"
                          if order else "-" for order in orders]
                print(f"| {name} | {card} | {kernel} | {len(orders[0])} | " +
                      f"{len(orders[1]) if orders[1] else '-'} | " + " | ".join(shares) + " |")


main()
