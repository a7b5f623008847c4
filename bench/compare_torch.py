#!/usr/bin/env python3
"""Alternate training steps of trainspool and of PyTorch, on one core and on all; print the speedup.

    bench/compare_torch.py BENCH_TRAIN [compiled] [MODEL full|lora fp32|bf16]...

Each row runs bench_train, then peer_torch.py (`compiled`: also the compiled step, minutes per row),
then bench_train again, pinned to the same cores and, where allowed, by `chrt -f 1`, so that other
load affects all or none. Ours is the slower of the two runs, PyTorch's the fastest of its variants.
Without PyTorch it prints a message and exits with status 0.
"""
import importlib.util
import os
import subprocess
import sys

# goals: speedup over the fastest PyTorch on all cores
GOALS = {
    ("GPT-2", "full", "fp32"): 2.5, ("GPT-2", "full", "bf16"): 3,
    ("GPT-2", "lora", "fp32"): 2.5, ("GPT-2", "lora", "bf16"): 2,
    ("stories15M", "full", "fp32"): 2.5, ("stories15M", "lora", "fp32"): 2.5,
    ("SmolLM2-135M", "full", "fp32"): 2.5, ("SmolLM2-135M", "full", "bf16"): 3,
    ("SmolLM2-135M", "lora", "fp32"): 2.5, ("SmolLM2-135M", "lora", "bf16"): 2,
}
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_torch.py")


def priority():
    """The highest priority, if allowed."""
    command = ["chrt", "-f", "1"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return command if allowed.returncode == 0 else []


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def step(command, cores):
    """Return (ms per step, peak in MiB) of the only row of the table that it prints."""
    said = subprocess.run(["taskset", "-c", ",".join(map(str, cores)), *priority(), *command],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    names, _, values = [cells_of(line) for line in said.splitlines() if line.startswith("|")]
    table = dict(zip(names, values))
    return float(table["ms per step"]), float(table["peak MiB"])


def compare(bench, row, cores, compiled):
    ours = [step([bench, *row], cores)]
    theirs = [step([sys.executable, PEER, *word, *row], cores)
              for word in ([], ["compiled"])[:1 + compiled]]
    ours.append(step([bench, *row], cores))
    best, least = min(ms for ms, _ in theirs), min(mib for _, mib in theirs)
    cells = [*row, len(cores), " ".join(f"{ms:.0f}" for ms, _ in ours),
             " ".join(f"{ms:.0f}" for ms, _ in theirs), f"{best / max(ours)[0]:.1f}",
             GOALS.get(row, "") if len(cores) > 1 else "", f"{ours[0][1]:.0f}", f"{least:.0f}"]
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def main():
    bench, *words = sys.argv[1:]
    compiled = words[:1] == ["compiled"]
    words = words[compiled:]
    rows = list(zip(words[0::3], words[1::3], words[2::3])) or list(GOALS)
    cores = sorted(os.sched_getaffinity(0))
    if not importlib.util.find_spec("torch"):
        print("beside_torch: PyTorch is not installed, nothing to compare with")
        return
    print("| model | method | format | cores | ours, ms per step, twice | PyTorch"
          + (", eager and compiled" if compiled else "")
          + " | speedup | goal | ours, MiB | PyTorch, MiB |\n" + "|---" * 10 + "|", flush=True)
    for row in rows:
        for count in sorted({1, len(cores)}, reverse=True):
            compare(bench, row, cores[:count], compiled)


main()
