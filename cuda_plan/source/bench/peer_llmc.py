#!/usr/bin/env python3
"""The training step of llm.c's CPU trainer on the shape of bench_train.c's GPT-2.

Writes what train_gpt2.c reads into a checkout of llm.c (random weights of GPT-2 124M, random
tokens), builds it with clang or gcc as its Makefile does, runs a few steps of B4 T64 in fp32 on
all cores, and tells their median.

    bench/peer_llmc.py LLM_C_FOLDER
"""
import array
import os
import random
import re
import statistics
import struct
import subprocess
import sys

STEPS = 6
V, PADDED, C, LAYERS, HEADS, PLACES = 50257, 50304, 768, 12, 12, 1024


def header(*numbers):
    return struct.pack("<256i", *numbers, *[0] * (256 - len(numbers)))


def write_model(path):
    """Its order: wte wpe, then each kind of tensor for all layers."""
    noise = random.Random(1)
    block = array.array("f", (noise.gauss(0, 0.02) for _ in range(1 << 20)))
    ones = {2, 8, 14}  # ln1w, ln2w, lnfw
    sizes = [PADDED * C, PLACES * C, LAYERS * C, LAYERS * C, LAYERS * 3 * C * C, LAYERS * 3 * C,
             LAYERS * C * C, LAYERS * C, LAYERS * C, LAYERS * C, LAYERS * 4 * C * C,
             LAYERS * 4 * C, LAYERS * 4 * C * C, LAYERS * C, C, C]
    with open(path, "wb") as file:
        file.write(header(20240326, 3, PLACES, V, LAYERS, HEADS, C, PADDED))
        for index, size in enumerate(sizes):
            while size > 0:
                part = min(size, len(block))
                values = array.array("f", [1.0]) * part if index in ones else block[:part]
                values.tofile(file)
                size -= part


def write_tokens(path, count):
    noise = random.Random(2)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(header(20240520, 1, count))
        array.array("H", (noise.randrange(V) for _ in range(count))).tofile(file)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.chdir(sys.argv[1])
    write_model("gpt2_124M.bin")
    for kind in ("train", "val"):
        write_tokens(f"dev/data/tinyshakespeare/tiny_shakespeare_{kind}.bin", 65536)
    subprocess.run(["make", "-s", "train_gpt2"], check=True, stdout=subprocess.DEVNULL)
    took = []
    with subprocess.Popen(["./train_gpt2"], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            found = re.match(r"step (\d+): .*took ([0-9.]+) ms", line)
            if found and int(found[1]) > 0:
                took.append(float(found[2]))
            if len(took) == STEPS:
                run.kill()
    print(f"| GPT-2, B4 T64 | full | fp32 | {statistics.median(took):.1f} | llm.c |")


main()
