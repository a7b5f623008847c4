#!/usr/bin/env python3
"""Make resample.json: sounds whose rate torchaudio.functional.resample changed, as LLaMA-Factory calls it,
for tests/unit/test_resample.c.

    python3 tests/golden/resample.py >tests/golden/resample.json       (on a CPU)
"""
import json
import sys

import numpy as np
import torch
import torchaudio

CASES = [(1000, 16000), (8000, 16000), (11025, 16000), (12000, 16000), (22050, 16000), (24000, 16000),
         (32000, 16000), (44100, 16000), (48000, 16000), (88200, 16000), (96000, 16000), (176400, 16000),
         (192000, 16000), (384000, 16000), (16001, 16000), (44101, 16000), (16000, 8000), (16000, 24000),
         (16000, 16000)]
STORED = 40


def noise(count):
    """The high bits of a linear congruential generator, which the test repeats."""
    state, out = 1, np.empty(count)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2 ** 32
        out[i] = state - 2 ** 32 if state >= 2 ** 31 else state
    return (out / 2 ** 31).astype(np.float32)


def case(rate, to, count):
    out = torchaudio.functional.resample(torch.from_numpy(noise(count))[None], rate, to)[0].numpy()
    at = sorted({int(i) for i in np.linspace(0, len(out) - 1, STORED)} | {0, 1, 2, len(out) - 1} & set(range(len(out))))
    return {"from": rate, "to": to, "count": count, "made": len(out), "at": at,
            "samples": [float(f"{out[i]:.8g}") for i in at]}


def main():
    torch.set_num_threads(1)
    cases = [case(rate, to, rate // 10 + 7) for rate, to in CASES]
    cases += [case(44100, 16000, count) for count in (1, 2, 3, 30)] + [case(1000, 384000, 2), case(384000, 1000, 5)]
    text = json.dumps({"made_with": f"torchaudio {torchaudio.__version__.split('+')[0]}, torch "
                                    f"{torch.__version__.split('+')[0]}", "cases": cases}, separators=(",", ":"))
    sys.stdout.write(text.replace('{"from"', '\n{"from"') + "\n")


main()
