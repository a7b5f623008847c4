#!/usr/bin/env python3
"""Make nf4.json: matrices in 4 bits by bitsandbytes, for test_nf4 and test_cpu_dequantize.

    python3 tests/golden/nf4.py > tests/golden/nf4.json

The elements come from a formula that the test also has.  The file has the SHA-256 of the exact bytes
that bitsandbytes produces: codes and absmax of the blocks; with double quantization the 8-bit codes,
the absmax of the groups and the mean; and the dequantized matrix.  The bytes come from the default
implementation in bitsandbytes, for devices without a library (same arithmetic as on a GPU), because
its CPU library looks them up in a table of 65536 steps.
"""
import hashlib
import json
import os
import struct
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy
import torch
from bitsandbytes import functional
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CASES = [(64, 64, "fp32", 1.0), (300, 70, "fp32", 0.02), (7, 9, "bf16", 1.0), (1, 5, "fp32", 1.0),
         (7, 64, "fp16", 0.5), (8, 64, "fp32", 1e-20), (173, 65, "fp16", 0.1),
         (192, 576, "bf16", 0.03), (3, 64, "fp32", 0.0), (512, 520, "fp32", 0.03),
         (1, 5, "fp32", 0.0)]


def bits(seed, count):
    """Return 32-bit hashes of index and seed."""
    x = numpy.arange(count, dtype=numpy.uint64) * 2654435761 + seed * 2246822519
    x &= 0xFFFFFFFF
    x ^= x >> numpy.uint64(16)
    x = x * numpy.uint64(0x45D9F3B) & numpy.uint64(0xFFFFFFFF)
    return x ^ x >> numpy.uint64(16)


def elements(seed, rows, cols, dtype, scale):
    """Return cubes of uniform values: many small and a few large ones."""
    whole = (bits(seed, rows * cols) % numpy.uint64(2049)).astype(numpy.float64) - 1024
    cubes = (whole * whole * whole / 2**30 * scale).astype(numpy.float32)
    return torch.from_numpy(cubes).reshape(rows, cols).to(DTYPES[dtype])


def digest(x):
    if x.dtype == torch.bfloat16:
        x = x.view(torch.int16)
    return hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest()


def dequantized(state, codes, absmax, shape, dtype):
    return digest(_dequantize_4bit_compute(codes.reshape(-1), absmax, state.code, 64, shape, dtype))


def case(seed, rows, cols, dtype, scale):
    x = elements(seed, rows, cols, dtype, scale)
    codes, state = functional.quantize_4bit(x, quant_type="nf4", compress_statistics=False)
    absmax, mean = state.absmax, state.absmax.mean()
    dynamic = functional.create_dynamic_map()
    small, groups = torch.ops.bitsandbytes.quantize_blockwise.default(
        (absmax - mean).double(), dynamic, 256)
    nested = functional.dequantize_blockwise(small, absmax=groups, code=dynamic, blocksize=256)
    nested += mean
    return {
        "rows": rows, "cols": cols, "dtype": dtype, "scale": scale, "codes": digest(codes),
        "absmax": digest(absmax), "bytes": digest(small), "groups": digest(groups),
        "mean": struct.pack(">f", mean.item()).hex(),
        "plain": {name: dequantized(state, codes, absmax, (rows, cols), to)
                  for name, to in DTYPES.items()},
        "double": {name: dequantized(state, codes, nested, (rows, cols), to)
                   for name, to in DTYPES.items()},
    }


def main():
    torch.set_num_threads(1)
    json.dump({"map": digest(functional.create_dynamic_map()),
               "cases": [case(seed, *row) for seed, row in enumerate(CASES)]},
              sys.stdout, indent=1)
    print()


main()
