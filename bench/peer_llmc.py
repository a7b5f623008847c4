#!/usr/bin/env python3
"""Measure the training step of llm.c's trainers on the shape of bench_train.c's GPT-2.

Writes their inputs (random weights of GPT-2 124M, random tokens), builds a trainer, runs a few
steps and prints their median in the format of bench/peer_torch.py.

    bench/peer_llmc.py LLM_C_FOLDER
    bench/peer_llmc.py LLM_C_FOLDER cuda [FOLDER]

The first is train_gpt2.c as its Makefile builds it, with clang or gcc, in the checkout: B4 T64 in
fp32 on all cores.  The second is train_gpt2.cu on a GPU: B16 T1024 in bf16 with weights and
moments in fp32, without cuDNN and NCCL, otherwise as llm.c's Makefile builds it and its
scripts/run_gpt2_124M.sh runs it (without recomputation); its output is in FOLDER, by default the
checkout. NVCC, CXX, GPU_ARCH, CUDA_INCLUDES and LIBRARY are the variables of tests/gpu/gpu.sh.
"""
import array
import os
import random
import re
import shlex
import statistics
import struct
import subprocess
import sys

V, PADDED, C, LAYERS, HEADS, POSITIONS = 50257, 50304, 768, 12, 12, 1024
FP32, BF16 = 3, 5  # versions of the weights file
CPU_STEPS, GPU_STEPS = 6, 20

# CUDA 13 takes a location instead of a device number. llm.c only calls this if the memory of the
# card is too small, which it is not at these sizes.
MEM_ADVISE = """#include <cuda_runtime.h>
#if CUDART_VERSION >= 13000
static inline cudaError_t cudaMemAdvise(const void *at, size_t bytes, cudaMemoryAdvise advice,
                                        int device)
{
    cudaMemLocation location = {};

    location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    location.id = device < 0 ? 0 : device;
    return cudaMemAdvise(at, bytes, advice, location);
}
#endif
"""


def header(*numbers):
    return struct.pack("<256i", *numbers, *[0] * (256 - len(numbers)))


def rounded(values):
    """Return the upper 16 bits of floats: bf16."""
    words = array.array("H", values.tobytes())
    return words[sys.byteorder == "little"::2]


def write_model(path, version):
    """Write wte, wpe, then each kind of tensor for all layers."""
    noise = random.Random(1)
    block = array.array("f", (noise.gauss(0, 0.02) for _ in range(1 << 20)))
    one = array.array("f", [1.0]) * len(block)
    if version == BF16:
        block, one = rounded(block), rounded(one)
    ones = {2, 8, 14}  # ln1w, ln2w, lnfw
    sizes = [PADDED * C, POSITIONS * C, LAYERS * C, LAYERS * C, LAYERS * 3 * C * C, LAYERS * 3 * C,
             LAYERS * C * C, LAYERS * C, LAYERS * C, LAYERS * C, LAYERS * 4 * C * C,
             LAYERS * 4 * C, LAYERS * 4 * C * C, LAYERS * C, C, C]
    with open(path, "wb") as file:
        file.write(header(20240326, version, POSITIONS, V, LAYERS, HEADS, C, PADDED))
        for index, size in enumerate(sizes):
            while size > 0:
                part = min(size, len(block))
                (one if index in ones else block)[:part].tofile(file)
                size -= part


def write_tokens(path, count):
    noise = random.Random(2)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(header(20240520, 1, count))
        array.array("H", (noise.randrange(V) for _ in range(count))).tofile(file)


def write_all(model, version):
    write_model(model, version)
    for kind in ("train", "val"):
        write_tokens(f"dev/data/tinyshakespeare/tiny_shakespeare_{kind}.bin", 65536)


def on_cpu(checkout):
    os.chdir(checkout)
    write_all("gpt2_124M.bin", FP32)
    subprocess.run(["make", "-s", "train_gpt2"], check=True, stdout=subprocess.DEVNULL)
    took = []
    with subprocess.Popen(["./train_gpt2"], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            found = re.match(r"step (\d+): .*took ([0-9.]+) ms", line)
            if found and int(found[1]) > 0:
                took.append(float(found[2]))
            if len(took) == CPU_STEPS:
                run.kill()
    print(f"| GPT-2, B4 T64 | full | fp32 | {statistics.median(took):.1f} | llm.c |")


def build_on_gpu(source):
    with open("mem_advise.h", "w", encoding="ascii") as file:
        file.write(MEM_ADVISE)
    arch = os.environ.get("GPU_ARCH")
    library = os.environ.get("LIBRARY")
    words = [os.environ.get("NVCC") or "nvcc", "-ccbin", os.environ.get("CXX") or "g++", "-O3",
             "--use_fast_math", "-std=c++17", "-DENABLE_BF16", "-include", "mem_advise.h",
             f"-gencode=arch=compute_{arch},code=[compute_{arch},sm_{arch}]" if arch
             else "-arch=native", *shlex.split(os.environ.get("CUDA_INCLUDES", "")), source]
    links = ["-lcublas", "-lcublasLt"]
    read = subprocess.run([*words, "-M"], check=True, stdout=subprocess.PIPE, text=True).stdout
    if "nvml.h" in read:  # it uses NVML if available
        links.append("-lnvidia-ml")
    if library:
        links += [f"-L{library}", f"-L{library}/stubs", "-Xlinker", f"-rpath={library}"]
    subprocess.run([*words, "-o", "train_gpt2cu", *links], check=True)


def on_gpu(checkout, folder):
    source = os.path.abspath(os.path.join(checkout, "train_gpt2.cu"))
    if not os.path.exists(source):
        sys.exit(f"error: {checkout} is not a checkout of llm.c: it has no train_gpt2.cu")
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "--short", "HEAD"], check=False,
                            capture_output=True, text=True).stdout.strip()
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    build_on_gpu(source)
    write_all("gpt2_124M_bf16.bin", BF16)
    # one batch of validation before and after, no generated text, no checkpoints
    words = f"./train_gpt2cu -b 16 -t 1024 -r 0 -x {GPU_STEPS} -m 1 -s 0 -c 0.01 -l 0.0001"
    run = subprocess.run(words.split(), check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace")
    took = re.findall(r"^step +\d+/\d+ \|.*\| ([0-9.]+) ms \|", run.stdout, re.MULTILINE)
    taken = re.findall(r"^allocat(?:ed|ing) (\d+) MiB", run.stdout, re.MULTILINE)
    if run.returncode != 0 or len(took) < GPU_STEPS:
        print(run.stdout[-2000:])
        sys.exit(f"error: llm.c made {len(took)} of {GPU_STEPS} steps, status {run.returncode}")
    milliseconds = statistics.median(float(ms) for ms in took[1:])
    print(f"| GPT-2, B16 T1024 | full | bf16 | {milliseconds:.1f} "
          f"| {16 * 1024 / milliseconds * 1e3:.0f} | {sum(map(int, taken))} "
          f"| {f'llm.c {commit}'.strip()} without cuDNN |")


def main():
    words = sys.argv[1:]
    if len(words) == 1:
        on_cpu(words[0])
    elif len(words) in (2, 3) and words[1] == "cuda":
        on_gpu(words[0], words[-1] if len(words) == 3 else words[0])
    else:
        sys.exit(__doc__)


try:
    main()
except subprocess.CalledProcessError as failure:
    sys.exit(f"error: {shlex.join(failure.cmd)[:60]}...: status {failure.returncode}")
